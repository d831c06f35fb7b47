//! What the note of a cached foreground read costs, in nanoseconds. The library is built before.

use coldstream_testkit::cargo_build::built_before;
use std::path::Path;
use std::process::Command;

fn main() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("scratch directory");
    let (program, file) = (
        directory.path().join("note"),
        directory.path().join("000001.sst"),
    );
    std::fs::write(&file, vec![7; 1 << 20]).expect("write");
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let compiled = Command::new("cc")
        .args(["-O2", "-I"])
        .arg(package.join("include"))
        .arg(package.join("tests/c/note.c"))
        .arg("-o")
        .arg(&program)
        .arg(built_before("libcoldstream_io.a"))
        .args(["-lpthread", "-ldl", "-lm"])
        .status();
    assert!(compiled.expect("a C compiler").success());
    let run = Command::new(&program).arg(&file).status();
    assert!(run.expect("the program").success());
}
