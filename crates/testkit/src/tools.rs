//! Programs of the system that some tests need, and the small C programs of the preload library's tests.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::process::{Ended, Program};
use crate::skip;

/// The program with this name in `PATH`. Where it is missing, [`skip`]s with the reason.
#[must_use]
pub fn find(name: &str) -> Option<PathBuf> {
    let found = std::env::split_paths(&std::env::var_os("PATH")?)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|directory| directory.join(name))
        .find(|path| is_executable(path));
    if found.is_none() {
        skip(format!("{name} is not installed"));
    }
    found
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|status| status.is_file() && status.permissions().mode() & 0o111 != 0)
}

/// A shared library with this file name, where the loader of this system finds it.
#[must_use]
pub fn find_library(file_name: &str) -> Option<PathBuf> {
    let architecture = std::env::consts::ARCH;
    let found = [
        format!("/usr/lib/{architecture}-linux-gnu"),
        "/usr/lib64".into(),
        "/usr/lib".into(),
        "/usr/local/lib".into(),
    ]
    .iter()
    .map(|directory| Path::new(directory).join(file_name))
    .find(|path| path.exists());
    if found.is_none() {
        skip(format!("{file_name} is not installed"));
    }
    found
}

/// The folder of the preload library's test programs.
#[must_use]
pub fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../preload/tests/programs")
}

/// Compiles `crates/preload/tests/programs/SOURCE` into `directory`. `options` come after the source.
///
/// # Panics
/// It does not compile.
#[must_use]
pub fn compile(source: &str, directory: &Path, name: &str, options: &[&str]) -> PathBuf {
    compile_by(Path::new("cc"), source, &directory.join(name), options)
        .unwrap_or_else(|ended| panic!("{ended:?}"))
}

/// As [`compile`], by another compiler, or with options that not every machine can have.
///
/// # Errors
/// What the compiler said.
pub fn compile_by(
    compiler: &Path,
    source: &str,
    output: &Path,
    options: &[&str],
) -> Result<PathBuf, Ended> {
    let ended = Program::new(compiler)
        .arguments(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE"])
        .argument("-o")
        .argument(output)
        .argument(programs().join(source))
        .arguments(options)
        .argument("-pthread")
        .run();
    match ended.status.success() {
        true => Ok(output.to_owned()),
        false => Err(ended),
    }
}

/// Whether this process is root.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// strace, if it may trace here.
#[must_use]
pub fn tracer() -> Option<String> {
    let strace = find("strace")?;
    let tried = Program::new(&strace)
        .arguments(["-f", "-qq", "-o", "/dev/null", "/bin/true"])
        .run();
    if !tried.status.success() {
        skip(format!("strace may not trace here: {tried:?}"));
        return None;
    }
    Some(strace.to_str()?.to_owned())
}
