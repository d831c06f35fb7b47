//! Files of `/proc` and `/sys` that hold one value.

use std::fs;
use std::path::Path;

/// The text of the file, without spaces and newlines around it.
#[must_use]
pub fn text(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

/// The decimal number in the file.
#[must_use]
pub fn number(path: impl AsRef<Path>) -> Option<u64> {
    text(path)?.parse().ok()
}
