//! The destination of the log.

use std::path::PathBuf;

/// Where the library writes its log lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LogTarget {
    /// Nowhere.
    None,
    /// Standard error, as long as it is the file that it was at the start.
    #[default]
    Stderr,
    /// Appended to this file, by its absolute path.
    File(PathBuf),
}
