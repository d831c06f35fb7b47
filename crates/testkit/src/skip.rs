//! The reason why a test does not run.

use std::fmt::Display;
use std::io::Write;

/// Writes the reason to standard error. The harness captures the output of macros and shows it for failed tests only.
/// It does not capture what is written to the stream itself.
pub fn skip(reason: impl Display) {
    let line = format!("skipped: {reason}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
