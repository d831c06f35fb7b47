//! How the dynamic loader reads `LD_PRELOAD` (ld.so(8)).

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Whether the loader splits the variable at this byte.
#[must_use]
pub fn separates_libraries(byte: u8) -> bool {
    byte == b' ' || byte == b':'
}

/// The first character of a path for which the loader cannot preload it. The loader splits at some
/// characters and expands `$ORIGIN` and the like. There is no way to escape either.
#[must_use]
pub fn unloadable_character(library: &Path) -> Option<char> {
    let mut bytes = library.as_os_str().as_bytes().iter().copied();
    let found = bytes.find(|byte| separates_libraries(*byte) || *byte == b'$');
    found.map(char::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_loader_would_split_or_expand_is_found() {
        for (path, character) in [
            ("/usr/lib/libcoldstream.so", None),
            ("/my work/libcoldstream.so", Some(' ')),
            ("/a:b/libcoldstream.so", Some(':')),
            ("$LIB/libcoldstream.so", Some('$')),
        ] {
            assert_eq!(unloadable_character(Path::new(path)), character);
        }
    }
}
