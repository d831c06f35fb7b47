//! Finds the preload library, and makes the value of `LD_PRELOAD`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use coldstream_policy::{separates_libraries, unloadable_character};

use crate::exit::{self, Exit, failure};

/// File name of the library.
pub const FILE_NAME: &str = "libcoldstream.so";
/// The variable that names the library if it is not in a usual directory.
pub const VARIABLE: &str = "COLDSTREAM_LIBRARY";
/// The loader's variable.
pub const PRELOAD: &str = "LD_PRELOAD";

/// Finds the library. The order: the path of the option (`asked`, named `option` in messages), the
/// variable, beside this program (a build directory), `../lib/coldstream` (an installation).
pub fn find(asked: Option<&Path>, option: &str) -> anyhow::Result<PathBuf> {
    let variable = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
    let by_variable = || Some((Path::new(variable.as_ref()?), VARIABLE));
    if let Some((path, named_by)) = asked.map(|path| (path, option)).or_else(by_variable) {
        if let Some(path) = absolute(path)
            && is_there(&path)?
        {
            return Ok(path);
        }
        let message = format!(
            "no library at {}, which {named_by} names: correct the path, build the library with `make build`, or \
             reinstall the package",
            path.display()
        );
        return Err(failure(Exit::NotFound, message));
    }
    let candidates = candidates(FILE_NAME);
    for path in &candidates {
        if is_there(path)? {
            return Ok(path.clone());
        }
    }
    let searched: Vec<_> = candidates
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    Err(failure(
        Exit::NotFound,
        format!(
            "{FILE_NAME} is neither at {}: build it with `make build`, reinstall the package, or name it with \
             {option} or {VARIABLE}",
            searched.join(" nor at ")
        ),
    ))
}

/// Whether a file is there, which this user can read.
///
/// # Errors
/// This user may not read it, or not look.
pub fn is_there(path: &Path) -> anyhow::Result<bool> {
    let found = path.metadata().and_then(|found| {
        // Opening a pipe would wait for a writer.
        let is_file = found.is_file();
        if is_file {
            File::open(path)?;
        }
        Ok(is_file)
    });
    match found {
        Err(error) if exit::of_io(&error) == Exit::Permission => Err(failure(
            Exit::Permission,
            format!(
                "cannot read the library at {}: {error}: let this user read it and enter the directories above it, or \
                 name a readable copy with --library",
                path.display()
            ),
        )),
        found => Ok(found.unwrap_or(false)),
    }
}

fn absolute(path: &Path) -> Option<PathBuf> {
    // The loader searches for a name without a slash: the path must be absolute.
    std::path::absolute(path).ok()
}

/// A file of this program, in the directories where [`find`] looks for the library.
pub fn companion(file_name: &str) -> Option<PathBuf> {
    let candidates = candidates(file_name);
    candidates.into_iter().find(|path| path.is_file())
}

fn candidates(file_name: &str) -> Vec<PathBuf> {
    let Ok(program) = std::env::current_exe() else {
        return Vec::new();
    };
    let directory = program.parent().unwrap_or(Path::new("/"));
    let mut candidates = vec![directory.join(file_name)];
    if let Some(prefix) = directory.parent() {
        candidates.push(prefix.join("lib/coldstream").join(file_name));
    }
    candidates
}

/// Refuses a library that the database's own user cannot read.
///
/// # Errors
/// It, or a directory above it, is closed to other users.
pub fn check_readable_by_all(path: &Path) -> anyhow::Result<()> {
    match closed_to_others(path) {
        None => Ok(()),
        Some(part) => {
            let message = format!(
                "the database's user cannot read {}, because {} is closed to others: install the package, or name \
                 a readable copy with --library",
                path.display(),
                part.display()
            );
            Err(failure(Exit::Permission, message))
        }
    }
}

/// What keeps other users from reading a file: itself, or a directory above it.
pub fn closed_to_others(path: &Path) -> Option<&Path> {
    let mut parts = path.ancestors().enumerate();
    let is_closed = |(place, part): &(usize, &Path)| {
        let needed = if *place == 0 { 0o004 } else { 0o001 };
        part.metadata()
            .is_ok_and(|metadata| metadata.mode() & needed == 0)
    };
    parts.find(is_closed).map(|(_, part)| part)
}

/// The value of `LD_PRELOAD` with `library` in it, once. It comes first, so that it passes calls on to
/// the others. It replaces another copy of the same file name. If it is in the list already, the
/// list stays as it is.
pub fn preload_value(library: &Path, existing: Option<&OsStr>) -> anyhow::Result<OsString> {
    let bytes = library.as_os_str().as_bytes();
    if let Some(character) = unloadable_character(library) {
        return Err(failure(
            Exit::Failure,
            format!(
                "the dynamic loader cannot preload {}: its path has a {character:?}; make a link to \
                 it elsewhere, and name the link with --library",
                library.display()
            ),
        ));
    }
    let entries: Vec<&[u8]> = existing
        .map(OsStrExt::as_bytes)
        .unwrap_or_default()
        .split(|&byte| separates_libraries(byte))
        .filter(|entry| !entry.is_empty())
        .collect();
    if entries.contains(&bytes) {
        return Ok(OsString::from_vec(entries.join(&b':')));
    }
    let others = entries
        .into_iter()
        .filter(|entry| Path::new(OsStr::from_bytes(entry)).file_name() != library.file_name());
    let all: Vec<&[u8]> = std::iter::once(bytes).chain(others).collect();
    Ok(OsString::from_vec(all.join(&b':')))
}

/// The library's path in a list of the loader. What that fills in, such as `$LIB`, is left in it.
pub fn listed_in(list: &str) -> Option<PathBuf> {
    path_in(list.split(is_separator), |name| name == FILE_NAME)
}

/// The path of the C interface in a list of the loader, which somebody took for the library.
pub fn c_interface_in(list: &str) -> Option<PathBuf> {
    let is_wanted = |name: &str| name.starts_with("libcoldstream_io.so");
    path_in(list.split(is_separator), is_wanted)
}

/// The library's path in the text of a script.
pub fn named_in(text: &str) -> Option<PathBuf> {
    let is_end = |it: char| is_separator(it) || "\n\"'=${}".contains(it);
    path_in(text.split(is_end), |name| name == FILE_NAME)
}

fn is_separator(character: char) -> bool {
    u8::try_from(character).is_ok_and(separates_libraries)
}

fn path_in<'a>(
    words: impl Iterator<Item = &'a str>,
    is_wanted: impl Fn(&str) -> bool,
) -> Option<PathBuf> {
    words
        .map(Path::new)
        .find(|path| {
            path.file_name()
                .and_then(OsStr::to_str)
                .is_some_and(&is_wanted)
        })
        .map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(library: &str, existing: Option<&str>) -> String {
        let existing = existing.map(OsStr::new);
        let value = preload_value(Path::new(library), existing).unwrap();
        value.into_string().unwrap()
    }

    #[test]
    fn ours_goes_first_and_others_stay() {
        let library = "/opt/libcoldstream.so";
        assert_eq!(value(library, None), library);
        assert_eq!(value(library, Some("")), library);
        assert_eq!(
            value(library, Some("/a/libjemalloc.so.2 libx.so")),
            "/opt/libcoldstream.so:/a/libjemalloc.so.2:libx.so"
        );
    }

    #[test]
    fn ours_is_there_once() {
        let library = "/opt/libcoldstream.so";
        assert_eq!(
            value(library, Some("/a.so:/opt/libcoldstream.so")),
            "/a.so:/opt/libcoldstream.so"
        );
        assert_eq!(
            value(library, Some("/old/libcoldstream.so:/a.so")),
            "/opt/libcoldstream.so:/a.so"
        );
    }

    #[test]
    fn a_path_that_the_loader_would_split_is_refused() {
        for path in ["/a b/libcoldstream.so", "/a:b/l.so", "/$ORIGIN/l.so"] {
            let error = preload_value(Path::new(path), None).unwrap_err();
            assert!(error.to_string().contains("--library"), "{error}");
        }
    }
}
