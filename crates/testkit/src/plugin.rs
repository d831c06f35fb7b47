//! The RocksDB plugin, made for Debian's RocksDB by `rocksdb-plugin/Makefile`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use crate::cargo_build::{built, temporary_directory};
use crate::skip;

/// One of what the Makefile makes, such as `libcoldstream_rocksdb.so`. Where RocksDB's headers are missing, [`skip`]s.
///
/// # Panics
/// It does not compile.
#[must_use]
pub fn made(name: &str) -> Option<PathBuf> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    if !Path::new("/usr/include/rocksdb/db.h").exists() {
        skip("the RocksDB plugin needs librocksdb-dev");
        return None;
    }
    let _guard = ONE_AT_A_TIME.lock();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let profile = built(&root.join("crates/capi/Cargo.toml"), &["--lib"]);
    let target = temporary_directory().with_file_name("rocksdb-plugin");
    let made = profile.join("rocksdb-plugin").join(name);
    let is = |variable: &str, path: &Path| format!("{variable}={}", path.display());
    let ended = Command::new("make")
        .args(["--silent", "--no-print-directory", "-C"])
        .arg(root.join("rocksdb-plugin"))
        .arg(is("BUILD", made.parent().expect("a parent")))
        // `make test-plugin` shares the objects.
        .arg(is("OBJECT_DIR", &target))
        .arg(is(
            "COLDSTREAM_IO_LIBRARY",
            &profile.join("libcoldstream_io.a"),
        ))
        .arg("CXXFLAGS=-O1")
        .arg(&made)
        // Those of a make that runs the tests.
        .env_remove("MAKEFLAGS")
        .env_remove("MAKELEVEL")
        .output()
        .expect("make");
    let text = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{name}: {text}");
    Some(made)
}
