//! RocksDB's Java package: the only one of current releases that needs no build.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

const ARTIFACT: &str = "org.rocksdb:rocksdbjni:11.8.1";

/// The package's archive, fetched into a folder of `directory`. Give `CARGO_TARGET_TMPDIR`: then it is fetched once.
/// Tests run in parallel: only one of them fetches.
///
/// # Errors
/// Why it cannot be had here.
pub fn archive(directory: &Path) -> Result<PathBuf, String> {
    static ARCHIVE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    ARCHIVE.get_or_init(|| fetch(directory)).clone()
}

/// Copies the archive from Maven's cache, which fetches it once.
fn fetch(directory: &Path) -> Result<PathBuf, String> {
    let directory = directory.join("rocksdb-java");
    if let Some(archive) = archive_in(&directory) {
        return Ok(archive);
    }
    let fetched = Command::new("mvn")
        .args(["-q", "-B", "dependency:copy"])
        .arg(format!("-Dartifact={ARTIFACT}"))
        .arg(format!("-DoutputDirectory={}", directory.display()))
        .stdout(Stdio::null())
        .status()
        .map_err(|error| format!("mvn: {error}"))?;
    match archive_in(&directory) {
        Some(archive) if fetched.success() => Ok(archive),
        _ => Err(format!("Maven cannot fetch {ARTIFACT}")),
    }
}

fn archive_in(directory: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?;
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.find(|path| path.extension().is_some_and(|found| found == "jar"))
}
