//! Files that belong to this program.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Finds `name` beside this executable, or a directory above it.
pub fn beside_us(name: &str) -> Option<PathBuf> {
    let executable = std::env::current_exe().ok()?;
    executable
        .ancestors()
        .skip(1)
        .take(2)
        .map(|directory| directory.join(name))
        .find(|path| path.exists())
}

/// The path as a preload line needs it, whatever directory the database starts in.
pub fn canonical(path: &Path) -> Result<PathBuf> {
    fs::canonicalize(path).with_context(|| path.display().to_string())
}
