//! Shared by the tests of the command. They start the real program and call none of its functions.

#![allow(dead_code, reason = "each test program uses its own part")]

pub mod database;
pub mod process;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use coldstream_testkit::process::output_within;

/// What the command knows the preload library by.
pub const LIBRARY: &str = "int coldstream_preloaded(void) { return 0; }";

/// A directory with a preload library that does nothing. Tests compile programs into it.
pub struct Scene {
    directory: tempfile::TempDir,
}

impl Scene {
    /// Makes the directory. Other users may enter it.
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("temporary directory");
        set_mode(directory.path(), 0o755);
        let scene = Self { directory };
        // Such a library is enough to test the command. Other tests load the real one.
        let library = scene.path("libcoldstream.so");
        assert!(scene.compile(LIBRARY, &library, &["-shared", "-fPIC"]));
        scene
    }

    /// A path in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file with permissions.
    pub fn file(&self, name: &str, content: &str, mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).expect("write");
        set_mode(&path, mode);
        path
    }

    /// Compiles C. False if the compiler or a library is missing.
    pub fn compile(&self, source: &str, output: &Path, options: &[&str]) -> bool {
        let input = self.file("source.c", source, 0o644);
        let compiled = Command::new("cc")
            .args(options)
            .arg("-o")
            .args([output, &input])
            .output();
        compiled.is_ok_and(|compiled| compiled.status.success())
    }

    /// A copy of the program that every user may execute.
    pub fn copy_of_coldstream(&self) -> PathBuf {
        let copy = self.path("coldstream");
        // `cp` writes it: a child of another test cannot inherit a writable descriptor (ETXTBSY).
        let mut copying = Command::new("cp");
        copying
            .arg("-p")
            .arg(env!("CARGO_BIN_EXE_coldstream"))
            .arg(&copy);
        assert!(copying.status().is_ok_and(|status| status.success()), "cp");
        copy
    }

    /// `coldstream` in a clean environment, with the library that does nothing.
    pub fn coldstream(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_coldstream"));
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("COLDSTREAM_LIBRARY", self.path("libcoldstream.so"))
            .current_dir(self.directory.path());
        command
    }
}

/// Sets permissions.
pub fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
}

/// A named pipe without a writer.
pub fn make_pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.expect("mkfifo").success());
}

/// Whether the tests run as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Standard output and error as text, and the exit code.
pub fn outcome(command: &mut Command) -> (i32, String, String) {
    let ended = output_within(Duration::from_secs(120), command);
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let code = ended.status.code().unwrap_or(-1);
    (code, text(ended.stdout), text(ended.stderr))
}

/// What `doctor` says. Its exit code must agree: 13 with something to change, and 0 without.
pub fn doctor_says(command: &mut Command) -> String {
    let (code, report, said) = outcome(command);
    assert_eq!(said, "");
    let has_advice = match serde_json::from_str(&report) {
        Ok(json) => has_advice(&json),
        Err(_) => report.contains("change: "),
    };
    assert_eq!(code, if has_advice { 13 } else { 0 }, "{report}");
    report
}

/// Whether any part of a report has advice.
fn has_advice(report: &serde_json::Value) -> bool {
    match report {
        serde_json::Value::Object(parts) => parts.iter().any(|(name, part)| {
            let advice = part.as_array().filter(|_| name == "advice");
            advice.is_some_and(|advice| !advice.is_empty()) || has_advice(part)
        }),
        serde_json::Value::Array(parts) => parts.iter().any(has_advice),
        _ => false,
    }
}

/// Asserts one error line with these words and this exit code, and no output.
pub fn assert_error(command: &mut Command, code: i32, words: &[&str]) {
    let (found, stdout, stderr) = outcome(command);
    assert_eq!(found, code, "{stderr}");
    assert_eq!(stdout, "");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.starts_with("coldstream: error: "), "{stderr}");
    for word in words {
        assert!(stderr.contains(word), "{word:?} is not in {stderr:?}");
    }
}
