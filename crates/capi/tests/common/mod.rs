//! C programs, compiled with the library.
#![allow(
    dead_code,
    reason = "every suite is a crate of its own and uses a part"
)]

use coldstream_testkit::cargo_build::built;
use coldstream_testkit::process::Program;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command};
use std::sync::OnceLock;

/// How a program is linked.
#[derive(Clone, Copy)]
pub enum Linked {
    /// With `libcoldstream_io.a`.
    Archive,
    /// With `libcoldstream_io.so`.
    Shared,
    /// With `libcoldstream_io.a` and RocksDB.
    WithRocksDb,
    /// With `libcoldstream_io.a` and a libc that is an archive too.
    Static,
    /// With both as musl's archives.
    Musl,
}

/// musl's name as a target.
const MUSL: &str = "x86_64-unknown-linux-musl";

/// The directory of both libraries.
fn libraries() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        built(&manifest, &["--lib"])
    })
}

/// `libcoldstream_io.so`.
pub fn shared_library() -> PathBuf {
    libraries().join("libcoldstream_io.so")
}

/// The library for musl, and the directory of the unwinder that Rust brings for it.
fn for_musl() -> (PathBuf, PathBuf) {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let own = built(&manifest, &["--lib", "--target", MUSL]);
    let (target, profile) = (own.parent().unwrap(), own.file_name().unwrap());
    let output = Command::new("rustc").args(["--print", "sysroot"]).output();
    let sysroot = String::from_utf8(output.unwrap().stdout).unwrap();
    (
        target.join(MUSL).join(profile).join("libcoldstream_io.a"),
        format!("{}/lib/rustlib/{MUSL}/lib/self-contained", sysroot.trim()).into(),
    )
}

/// The program of a C file, in a directory.
pub fn compiled(source: &Path, directory: &Path, linked: Linked) -> PathBuf {
    let program = directory.join("program");
    let archive = libraries().join("libcoldstream_io.a");
    let mut compiler = Command::new(match linked {
        Linked::Musl => "musl-gcc",
        _ => "cc",
    });
    compiler
        .args([
            "-std=gnu99",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-unused-result",
            "-I",
        ])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include"))
        .arg(source)
        .arg("-o")
        .arg(&program);
    match linked {
        Linked::Archive => compiler.arg(archive),
        Linked::WithRocksDb => compiler.arg(archive).arg("-lrocksdb"),
        Linked::Static => compiler.arg(archive).arg("-static"),
        Linked::Musl => {
            let (archive, unwinder) = for_musl();
            // The compiler's own unwinder is for glibc.
            compiler.args(["-static", "-nodefaultlibs"]).arg(archive);
            compiler.arg("-L").arg(unwinder);
            compiler.args(["-lunwind", "-lc", "-lgcc"])
        }
        Linked::Shared => {
            let library = libraries().join("libcoldstream_io.so");
            // The name that the loader looks for.
            std::os::unix::fs::symlink(&library, directory.join("libcoldstream_io.so.1")).unwrap();
            compiler
                .arg(library)
                .arg(format!("-Wl,-rpath,{}", directory.display()))
        }
    };
    let output = compiler
        .args(["-lpthread", "-ldl", "-lm"])
        .output()
        .expect("a C compiler");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    program
}

/// A program that was compiled.
pub fn program(path: &Path) -> Program {
    Program::new(path)
}

/// A talk with a program that answers each line.
pub struct Talk {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Talk {
    pub fn with(child: &mut Child) -> Self {
        Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
        }
    }

    /// Asks it to read its file, and waits for the answer.
    pub fn read_all(&mut self) {
        self.input.write_all(b"\n").unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        assert_eq!(answer.trim(), "8388608");
    }
}
