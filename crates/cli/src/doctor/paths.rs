//! Paths in JSON. A path may be any bytes, and JSON is text: bytes that are not UTF-8 are replaced.

use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

/// A path.
pub fn one<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    path.to_string_lossy().serialize(serializer)
}

/// A path or none.
pub fn maybe<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    let text = path.as_ref().map(|path| path.to_string_lossy());
    text.serialize(serializer)
}

/// Several paths.
pub fn all<'a, S, P>(paths: &'a P, serializer: S) -> Result<S::Ok, S::Error>
where
    S: Serializer,
    &'a P: IntoIterator<Item = &'a PathBuf>,
{
    serializer.collect_seq(paths.into_iter().map(|path| path.to_string_lossy()))
}
