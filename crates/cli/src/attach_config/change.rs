//! The change of one file: written whole or not at all, with a copy of what was there.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use coldstream_host::user_name;
use serde::Serialize;

use crate::exit::{self, Exit, failure};
use crate::trust::{self, Changeable};
use crate::unit::Root;

/// The end of a copy's name. systemd does not read it.
const BACKUP: &str = ".coldstream-backup";
/// Copies that are kept.
const BACKUPS_MAX: usize = 100;

/// What happens to the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Deed {
    /// It is made.
    Make,
    /// Its content changes.
    Change,
    /// It is deleted.
    Delete,
    /// It stays.
    None,
}

/// A file before and after.
#[derive(Debug)]
pub struct Change {
    path: PathBuf,
    /// The path before links were followed.
    named: PathBuf,
    before: Option<String>,
    after: Option<String>,
    /// The content without anything of `coldstream attach-config`. A copy of it is kept while there is something.
    original: Option<String>,
}

impl Change {
    /// A change of the file at `path` in `root`, links followed.
    ///
    /// # Errors
    /// A link leads out of the root.
    pub fn new(
        root: &Root,
        path: &Path,
        before: Option<String>,
        after: Option<String>,
        original: Option<String>,
    ) -> anyhow::Result<Self> {
        let named = root.at(path);
        if !root.holds(path) {
            let message = format!(
                "{} leads out of {} by a link: name the file itself",
                named.display(),
                root.at("/").display()
            );
            return Err(failure(Exit::Failure, message));
        }
        Ok(Self {
            path: fs::canonicalize(&named).unwrap_or_else(|_| named.clone()),
            named,
            before,
            after,
            original,
        })
    }

    /// The file that changes, or the link that goes.
    pub fn path(&self) -> &Path {
        match self.deed() {
            Deed::Delete => &self.named,
            _ => &self.path,
        }
    }

    /// What happens to it.
    pub fn deed(&self) -> Deed {
        match (&self.before, &self.after) {
            (before, after) if before == after => Deed::None,
            (None, Some(_)) => Deed::Make,
            (_, None) => Deed::Delete,
            _ => Deed::Change,
        }
    }

    /// Root writes nothing where somebody else may change what a path means: it could be any file of root's.
    fn check_trust(&self) -> anyhow::Result<()> {
        if self.deed() == Deed::None || !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        // The file itself is replaced, and only read.
        let directory = self.path().parent().unwrap_or(Path::new("/"));
        let named = self.named.parent().unwrap_or(Path::new("/"));
        let Some(Changeable { part, owner }) = [named, directory]
            .into_iter()
            .find_map(trust::changeable_by_others)
        else {
            return Ok(());
        };
        let advice = if owner == 0 {
            "close it to writing by others first".to_owned()
        } else {
            format!(
                "run this as that user, with `setpriv --reuid={owner} --regid={owner} --init-groups coldstream …`"
            )
        };
        let message = format!(
            "{} may be changed by user {}, who could make root write elsewhere: {advice}",
            part.display(),
            user_name::shown(owner)
        );
        Err(failure(Exit::Permission, message))
    }

    /// Makes the change. Returns the copy of the original that it made.
    pub fn write(&self) -> anyhow::Result<Option<PathBuf>> {
        let error = |what: &str, error: &io::Error| {
            let advice = match error.kind() {
                io::ErrorKind::PermissionDenied if !rustix::process::geteuid().is_root() => {
                    ": run it as root"
                }
                _ => "",
            };
            let message = format!("cannot {what} {}: {error}{advice}", self.path.display());
            failure(exit::of_io(error), message)
        };
        self.check_trust()?;
        let mut made = None;
        match (self.deed(), &self.after) {
            (Deed::None, _) | (_, None) => {}
            (_, Some(after)) => {
                made = self.back_up().map_err(|it| error("copy", &it))?;
                self.replace(after).map_err(|it| error("write", &it))?;
            }
        }
        if self.deed() == Deed::Delete {
            // A link goes, and not what it names.
            fs::remove_file(&self.named).map_err(|it| error("delete", &it))?;
            // Only an empty directory goes.
            let _ = self.named.parent().map(fs::remove_dir);
        }
        if self.after == self.original {
            self.forget_backups()
                .map_err(|it| error("delete the copy of", &it))?;
        }
        Ok(made)
    }

    /// Copies the original beside the file, unless there is such a copy.
    fn back_up(&self) -> io::Result<Option<PathBuf>> {
        let Some(original) = self
            .original
            .as_ref()
            .filter(|it| Some(*it) != self.after.as_ref())
        else {
            return Ok(None);
        };
        for path in self.backups() {
            match fs::read_to_string(&path) {
                Ok(copy) if copy == *original => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    put(&path, original, &self.path)?;
                    return Ok(Some(path));
                }
                _ => {}
            }
        }
        Err(io::Error::other(format!(
            "there are {BACKUPS_MAX} copies already"
        )))
    }

    fn forget_backups(&self) -> io::Result<()> {
        for path in self.backups() {
            match fs::read_to_string(&path) {
                Ok(copy) if Some(&copy) == self.original.as_ref() => fs::remove_file(&path)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                _ => {}
            }
        }
        Ok(())
    }

    fn backups(&self) -> impl Iterator<Item = PathBuf> {
        let path = self.path.clone();
        (1..=BACKUPS_MAX).map(move |number| {
            let mut name = path.clone().into_os_string();
            name.push(BACKUP);
            if number > 1 {
                name.push(format!(".{number}"));
            }
            name.into()
        })
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        fs::create_dir_all(self.path.parent().unwrap_or(Path::new("/")))?;
        put(&self.path, text, &self.path)
    }
}

/// Writes a file whole or not at all, with owner and permissions of `model` if that exists.
fn put(path: &Path, text: &str, model: &Path) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let mut file = tempfile::Builder::new()
        .prefix(".coldstream")
        .tempfile_in(directory)?;
    file.write_all(text.as_bytes())?;
    let mode = match fs::metadata(model) {
        Ok(metadata) => {
            std::os::unix::fs::fchown(file.as_file(), Some(metadata.uid()), Some(metadata.gid()))?;
            metadata.permissions()
        }
        Err(_) => std::os::unix::fs::PermissionsExt::from_mode(0o644),
    };
    file.as_file().set_permissions(mode)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|it| it.error)?;
    Ok(())
}
