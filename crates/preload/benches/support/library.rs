//! The library that is measured.

use std::path::PathBuf;

/// Beside this executable's folder: `target/release/libcoldstream.so`.
pub fn path() -> PathBuf {
    let executable = std::env::current_exe().expect("own path");
    let library = executable
        .ancestors()
        .nth(2)
        .expect("target directory")
        .join("libcoldstream.so");
    assert!(library.exists(), "{} is not built", library.display());
    library
}
