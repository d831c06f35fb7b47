//! Builds other packages, or a `cdylib`, for a test. Cargo does not build these for integration tests.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory of this test's profile: `.../TARGET/PROFILE`, for a test at `.../TARGET/PROFILE/deps/TEST`.
fn profile_directory() -> PathBuf {
    let test = std::env::current_exe().expect("own path");
    let directory = test.ancestors().nth(2).expect("profile directory");
    directory.to_owned()
}

/// The directory for temporary files of tests, in the target directory: `CARGO_TARGET_TMPDIR` of an integration test.
#[must_use]
pub fn temporary_directory() -> PathBuf {
    let directory = profile_directory()
        .parent()
        .expect("target directory")
        .join("tmp");
    std::fs::create_dir_all(&directory).expect("directory for temporary files");
    directory
}

/// A file that cargo builds beside this test's directory, which must exist.
///
/// # Panics
/// It is not built.
#[must_use]
pub fn built_before(file_name: &str) -> PathBuf {
    let file = profile_directory().join(file_name);
    assert!(file.exists(), "{} is not built", file.display());
    file
}

/// Builds what `selection` selects, in this test's profile and target directory. Returns the directory with the
/// result.
///
/// # Panics
/// It does not compile.
#[must_use]
pub fn built(manifest: &Path, selection: &[&str]) -> PathBuf {
    let profile_directory = profile_directory();
    let profile = match profile_directory.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(name) => name,
        None => panic!("{} has no name", profile_directory.display()),
    };
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--profile", profile])
        .args(selection)
        .arg("--manifest-path")
        .arg(manifest)
        .arg("--target-dir")
        .arg(profile_directory.parent().expect("target directory"))
        .output()
        .expect("cargo");
    assert!(
        built.status.success(),
        "building {selection:?}: {}",
        String::from_utf8_lossy(&built.stderr)
    );
    profile_directory
}
