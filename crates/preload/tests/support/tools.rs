//! Programs of the system that some tests need, and small ones in C that they bring along.

use super::process::Program;
use std::path::{Path, PathBuf};

/// The program of that name in `PATH`; where it is missing, says so and what is not tested.
pub fn find(name: &str) -> Option<PathBuf> {
    let found = std::env::split_paths(&std::env::var_os("PATH")?)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|directory| directory.join(name))
        .find(|path| is_executable(path));
    if found.is_none() {
        super::skip(format!("{name} is not installed"));
    }
    found
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path)
        .is_ok_and(|status| status.is_file() && status.permissions().mode() & 0o111 != 0)
}

/// A shared library of that file name where the loader of this system looks.
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
        super::skip(format!("{file_name} is not installed"));
    }
    found
}

/// Compiles `programs/<source>` into `directory`; `options` come behind the source.
pub fn compile(source: &str, directory: &Path, name: &str, options: &[&str]) -> PathBuf {
    let output = directory.join(name);
    Program::new("cc")
        .arguments(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE"])
        .argument("-o")
        .argument(&output)
        .argument(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tests/programs")
                .join(source),
        )
        .arguments(options)
        .argument("-pthread")
        .run()
        .well();
    output
}

/// Whether this process is root.
pub fn root() -> bool {
    // SAFETY: takes no argument and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// A tracer that can trace here, if there is one.
pub fn tracer() -> Option<String> {
    let strace = find("strace")?;
    let tried = Program::new(&strace)
        .arguments(["-f", "-qq", "-o", "/dev/null", "/bin/true"])
        .run();
    if !tried.status.success() {
        super::skip(format!("strace may not trace here: {tried:?}"));
        return None;
    }
    Some(strace.to_str()?.to_owned())
}
