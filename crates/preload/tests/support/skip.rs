//! Saying why a test is not made.

use std::fmt::Display;
use std::io::Write;

/// Says on standard error why a test is not made. The harness captures what the macros print, and shows it
/// of failed tests only; what is written to the stream itself it lets through.
pub fn skip(why: impl Display) {
    let line = format!("skipped: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
