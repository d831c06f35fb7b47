//! Building what a test needs of other packages, or of its own `cdylib`: cargo does not do that for
//! the sake of a package's integration tests. Tests of `nodes` use it too.

use std::path::PathBuf;
use std::process::Command;

/// Builds what `selection` selects, in this test's profile and target directory, if it is not up to
/// date. The directory where it is then.
pub fn built(manifest: &str, selection: &[&str]) -> PathBuf {
    // .../<target directory>/<profile>/deps/<test>
    let test = std::env::current_exe().expect("own path");
    let profile_directory = test.ancestors().nth(2).expect("profile directory");
    let profile = match profile_directory.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(name) => name,
        None => panic!("{} has no name", profile_directory.display()),
    };
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--profile", profile])
        .args(selection)
        .args(["--manifest-path", manifest])
        .arg("--target-dir")
        .arg(profile_directory.parent().expect("target directory"))
        .output()
        .expect("cargo");
    assert!(
        built.status.success(),
        "building {selection:?}: {}",
        String::from_utf8_lossy(&built.stderr)
    );
    profile_directory.to_path_buf()
}
