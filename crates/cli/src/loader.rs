//! What the dynamic loader fills in in `LD_PRELOAD` (ld.so(8), dynamic string tokens).
//!
//! `$ORIGIN` is the directory of the program, `$LIB` that of libraries on this system, `$PLATFORM` the processor's name.
//! The loader was built with some of these, and finds others out at the start. So nobody fills them in here: a path
//! that is known is compared with what was written.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The names, which may be in braces.
const TOKENS: [&[u8]; 3] = [b"ORIGIN", b"LIB", b"PLATFORM"];
/// The one that is the same for all programs of a system.
pub const DIRECTORY_OF_LIBRARIES: &[u8] = b"LIB";

/// Whether the loader fills something in.
pub fn has_token(path: &Path) -> bool {
    parts(path.as_os_str().as_bytes(), &TOKENS).len() > 1
}

/// Whether the loader may find `path` where `entry` names something.
pub fn may_mean(entry: &Path, path: &Path) -> bool {
    let parts = parts(entry.as_os_str().as_bytes(), &TOKENS);
    let [first, middle @ .., last] = parts.as_slice() else {
        return entry == path;
    };
    let bytes = path.as_os_str().as_bytes();
    let rest = bytes.strip_prefix(*first);
    let Some(mut rest) = rest.and_then(|rest| rest.strip_suffix(*last)) else {
        return false;
    };
    for part in middle.iter().filter(|part| !part.is_empty()) {
        let Some(at) = rest.windows(part.len()).position(|found| found == *part) else {
            return false;
        };
        rest = rest.get(at + part.len()..).unwrap_or_default();
    }
    true
}

/// Where `entry` names a file, as far as the path of one that it named at the start tells. `None` if that does not tell
/// what the loader fills in.
pub fn resolved(entry: &Path, known: &Path) -> Option<PathBuf> {
    if !has_token(entry) {
        return Some(entry.to_owned());
    }
    if may_mean(entry, known) {
        return Some(known.to_owned());
    }
    // Renamed since.
    let (directory, of_known) = (entry.parent()?, known.parent()?);
    let name = Path::new(entry.file_name()?);
    let is_beside = !has_token(name) && may_mean(directory, of_known);
    is_beside.then(|| of_known.join(name))
}

/// A path with one token filled in.
pub fn filled_in(path: &Path, token: &'static [u8], text: &str) -> PathBuf {
    let parts = parts(path.as_os_str().as_bytes(), &[token]);
    PathBuf::from(std::ffi::OsStr::from_bytes(&parts.join(text.as_bytes())))
}

/// What is between tokens. One part: there is no token.
fn parts<'a>(text: &'a [u8], tokens: &[&[u8]]) -> Vec<&'a [u8]> {
    let mut parts = Vec::new();
    let mut rest = text;
    let mut at = 0;
    while let Some(behind) = rest.get(at..).filter(|behind| !behind.is_empty()) {
        match token_length(behind, tokens) {
            Some(length) => {
                parts.push(&rest[..at]);
                rest = &behind[length..];
                at = 0;
            }
            None => at += 1,
        }
    }
    parts.push(rest);
    parts
}

/// The length of the token at the beginning of a text, with its braces.
fn token_length(text: &[u8], tokens: &[&[u8]]) -> Option<usize> {
    let behind = text.strip_prefix(b"$")?;
    tokens.iter().find_map(|name| {
        let braced = behind.strip_prefix(b"{");
        let is_braced = braced
            .and_then(|it| it.strip_prefix(*name))
            .is_some_and(|it| it.starts_with(b"}"));
        // `$LIBRARY` is not `$LIB`.
        let goes_on = |next: &u8| next.is_ascii_alphanumeric() || *next == b'_';
        let is_bare = behind
            .strip_prefix(*name)
            .is_some_and(|it| !it.first().is_some_and(goes_on));
        match (is_braced, is_bare) {
            (true, _) => Some(name.len() + "${}".len()),
            (_, true) => Some(name.len() + "$".len()),
            (false, false) => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_loader_fills_in_may_be_any_text() {
        let mapped = Path::new("/usr/lib/x86_64-linux-gnu/coldstream/libcoldstream.so");
        for (entry, may_be) in [
            (
                "/usr/lib/x86_64-linux-gnu/coldstream/libcoldstream.so",
                true,
            ),
            ("/usr/$LIB/coldstream/libcoldstream.so", true),
            ("/usr/${LIB}/coldstream/libcoldstream.so", true),
            ("$ORIGIN/../libcoldstream.so", false),
            ("$ORIGIN/libcoldstream.so", true),
            (
                "/usr/lib/${PLATFORM}-linux-gnu/coldstream/libcoldstream.so",
                true,
            ),
            ("/$LIB$PLATFORM/coldstream/libcoldstream.so", true),
            ("$ORIGIN/x86_64/${LIB}/libcoldstream.so", false),
            ("/usr/$LIBRARY/coldstream/libcoldstream.so", false),
            ("/usr/${LIB/coldstream/libcoldstream.so", false),
            ("/opt/$LIB/libcoldstream.so", false),
        ] {
            assert_eq!(may_mean(Path::new(entry), mapped), may_be, "{entry}");
        }
    }

    #[test]
    fn a_path_is_known_by_the_one_that_was_loaded() {
        let known = "/opt/lib64/libcoldstream.so.old";
        for (entry, path) in [
            ("/opt/libcoldstream.so", Some("/opt/libcoldstream.so")),
            ("/opt/$LIB/libcoldstream.so.old", Some(known)),
            (
                "/opt/$LIB/libcoldstream.so",
                Some("/opt/lib64/libcoldstream.so"),
            ),
            ("/srv/$LIB/libcoldstream.so", None),
        ] {
            let found = resolved(Path::new(entry), Path::new(known));
            assert_eq!(found.as_deref(), path.map(Path::new), "{entry}");
        }
    }

    #[test]
    fn one_token_is_filled_in() {
        let path = Path::new("/usr/${LIB}/$LIB/$ORIGIN/a.so");
        let filled = filled_in(path, DIRECTORY_OF_LIBRARIES, "lib64");
        assert_eq!(filled, Path::new("/usr/lib64/lib64/$ORIGIN/a.so"));
        assert!(has_token(&filled));
        assert!(!has_token(Path::new("/usr/$LIBRARY/a.so")));
    }
}
