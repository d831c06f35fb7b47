//! Settings of an engine in a mode's name: `WAY@KEY=VALUE@KEY=VALUE`.

use std::fmt::Write as _;

/// Names and values, in the order of the name.
pub type Settings = Vec<(String, String)>;

/// Splits `WAY@KEY=VALUE…`. `None` if a setting is malformed.
pub fn split(text: &str) -> Option<(&str, Settings)> {
    let mut parts = text.split('@');
    let way = parts.next()?;
    let mut settings = Settings::new();
    for part in parts {
        let (key, value) = part.split_once('=')?;
        let is_key = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if key.is_empty() || !key.bytes().all(is_key) || value.is_empty() {
            return None;
        }
        settings.push((key.to_owned(), value.to_owned()));
    }
    Some((way, settings))
}

/// Adds `@KEY=VALUE…` to the name of a way.
pub fn append(name: &mut String, settings: &Settings) {
    for (key, value) in settings {
        let _ = write!(name, "@{key}={value}");
    }
}
