//! Programs that are linked in another way, and children of another kind.

use super::condition::{Condition, Effect, database, open_directory, set_mode};
use coldstream_testkit::library::Preload;
use coldstream_testkit::process::Program;
use coldstream_testkit::{skip, tools};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

const NOBODY: u32 = 65534;

/// The database, compiled for this row into a directory that the caller keeps. [`skip`]s where that is not
/// possible.
fn compiled(compiler: &str, directory: &Path, options: &[&str]) -> Option<PathBuf> {
    let compiler = tools::find(compiler)?;
    let output = directory.join("special");
    match tools::compile_by(&compiler, "matrix.c", &output, options) {
        Ok(program) => Some(program),
        Err(said) => {
            skip(format!("{options:?} cannot be compiled here: {said:?}"));
            None
        }
    }
}

#[test]
fn a_program_without_conditions() {
    Condition::of(database()).check();
}

fn with_allocator(file_name: &str) {
    if let Some(allocator) = tools::find_library(file_name) {
        Condition::of(database()).behind(&allocator).check();
        Condition::of(database()).in_front_of(&allocator).check();
    }
}

#[test]
fn jemalloc_in_front_and_behind() {
    with_allocator("libjemalloc.so.2");
}

#[test]
fn tcmalloc_in_front_and_behind() {
    with_allocator("libtcmalloc_minimal.so.4");
}

/// The sanitizer's runtime must be the first library. It is where it was linked into the program, or where
/// `LD_PRELOAD` names it first. Its search for leaks must not find the library's memory.
#[test]
fn an_address_sanitized_program() {
    let directory = open_directory();
    let sanitize = ["-fsanitize=address", "-fno-omit-frame-pointer"];
    let linked = [sanitize[0], sanitize[1], "-static-libasan", "-rdynamic"];
    if let Some(program) = compiled("cc", directory.path(), &linked) {
        Condition::of(program).check();
    }
    let asked = Program::new("cc")
        .argument("-print-file-name=libasan.so")
        .run();
    let runtime = std::fs::canonicalize(asked.text().trim());
    if let Some(program) = compiled("cc", directory.path(), &sanitize)
        && let Ok(runtime) = runtime
    {
        Condition::of(program).behind(&runtime).check();
    }
}

/// The program has copies of libc's variables, and libc uses them.
#[test]
fn a_program_with_copy_relocations() {
    let directory = open_directory();
    let options = ["-no-pie", "-fno-pie", "-fno-pic"];
    if let Some(program) = compiled("cc", directory.path(), &options) {
        if let Some(readelf) = tools::find("readelf") {
            let relocations = Program::new(readelf)
                .argument("-rW")
                .argument(&program)
                .run();
            assert!(relocations.text().contains("_COPY"), "{relocations:?}");
        }
        Condition::of(program).check();
    }
}

/// The loader ignores the library in it.
#[test]
fn a_set_user_id_program() {
    if !tools::is_root() {
        return skip("needs root");
    }
    let directory = open_directory();
    let program = directory.path().join("special");
    std::fs::copy(database(), &program).expect("copy");
    chown(&program, Some(NOBODY), None).expect("chown");
    set_mode(&program, 0o4755);
    Condition::of(program)
        .owner(NOBODY)
        .effect(Effect::NotLoaded)
        .check();
}

/// A child that cannot load the library: the loader says so, and starts it without.
#[test]
fn a_32_bit_child() {
    let directory = open_directory();
    let options = ["-m32", "-D_FILE_OFFSET_BITS=64"];
    if let Some(child) = compiled("cc", directory.path(), &options) {
        Condition::of(database())
            .word(format!("child={}", child.display()))
            .check();
    }
}

#[test]
fn a_static_child() {
    let directory = open_directory();
    for compiler in ["cc", "musl-gcc"] {
        if let Some(child) = compiled(compiler, directory.path(), &["-static"]) {
            Condition::of(database())
                .word(format!("child={}", child.display()))
                .check();
        }
    }
}

/// A program that is built for musl, and started with the library all the same: musl's loader does not find what
/// the library needs, and does not start it. `coldstream run` refuses it with the reason.
#[test]
fn a_musl_program() {
    let directory = open_directory();
    let Some(program) = compiled("musl-gcc", directory.path(), &[]) else {
        return;
    };
    let work = directory.path().join("work");
    std::fs::create_dir(&work).expect("directory");
    let program = Program::new(program).argument(&work);
    let ended = program.run_with(&Preload::logging());
    assert_eq!(ended.status.code(), Some(127), "{ended:?}");
    assert_eq!(std::fs::read_dir(&work).expect("directory").count(), 0);
    program.run().well();
}
