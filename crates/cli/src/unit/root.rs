//! The root directory of a system's files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::exit::{self, failure};

/// The root directory that the files are in: `/`, or that of an image. Paths are written as they are inside.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Root {
    /// The root at a directory.
    pub fn new(directory: &Path) -> Self {
        Self(directory.to_owned())
    }

    /// Whether it is the machine's own.
    pub fn is_own(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// Where a path inside is.
    pub fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Whether a path inside stays inside once links are followed. Of a file that is not there its directories count.
    pub fn holds(&self, path: &Path) -> bool {
        let named = self.at(path);
        let followed = named.ancestors().find_map(|it| fs::canonicalize(it).ok());
        let root = fs::canonicalize(&self.0).ok();
        followed
            .zip(root)
            .is_some_and(|(it, root)| it.starts_with(root))
    }

    /// The text of a file inside, to look for something in it. Empty if there is none, or it cannot be read.
    pub fn glance(&self, path: &Path) -> String {
        let bytes = self.holds(path).then(|| fs::read(self.at(path)).ok());
        String::from_utf8_lossy(&bytes.flatten().unwrap_or_default()).into_owned()
    }

    /// As [`Root::text`]; a file that a link leads out to counts as none.
    pub fn text_inside(&self, path: &Path) -> anyhow::Result<Option<String>> {
        if self.holds(path) {
            self.text(path)
        } else {
            Ok(None)
        }
    }

    /// The text of a file inside; `None` if there is none.
    pub fn text(&self, path: &Path) -> anyhow::Result<Option<String>> {
        match fs::read_to_string(self.at(path)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                let message = format!("cannot read {}: {error}", self.at(path).display());
                Err(failure(exit::of_io(&error), message))
            }
        }
    }
}
