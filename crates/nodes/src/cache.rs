//! The directory of what was fetched.

use std::path::PathBuf;

/// `coldstream` in the user's cache directory.
pub fn directory() -> PathBuf {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(home)
        .unwrap_or_else(std::env::temp_dir)
        .join("coldstream")
}
