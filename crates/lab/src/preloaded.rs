//! A preload library as a mode: Coldstream, or any other one.

use crate::io_modes::IoModes;
use anyhow::{Context, Result, bail};
use coldstream_policy::{Profile, unloadable_character};
use std::fs;
use std::path::{Path, PathBuf};

/// What is loaded into the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preloaded {
    /// Coldstream.
    Coldstream(IoModes),
    /// Another library.
    Other(PathBuf),
}

/// The forms of [`Preloaded::from_name`] for the help, which is one literal with the rest of it.
macro_rules! preloaded_help {
    () => {
        "  coldstream               libcoldstream.so as it is by default
  coldstream:READS         this I/O mode of reads, writes auto
  coldstream:READS+WRITES  these I/O modes; coldstream:auto+buffered takes only reads around
                           the page cache
  coldstream:…+handover=off, coldstream:…+priority=off
                           without these mechanisms: coldstream:handover=off+priority=off
  coldstream:…+pacing=on   with pacing, which is off by default
  coldstream:…+eviction=on with cold pages dropped before the cgroup's limit is reached:
                           coldstream:buffered+buffered+eviction=on
  coldstream:…+SETTING=VALUE
                           any other setting, by the name of its variable: handover-in-flight=16 is
                           COLDSTREAM_HANDOVER_IN_FLIGHT
  preload:PATH             any other preload library
READS and WRITES are auto, direct, dontcache, drop-behind or buffered. Settings that a mode does not
name are inherited from the environment."
    };
}
pub(crate) use preloaded_help;

impl Preloaded {
    /// The forms of [`Preloaded::from_name`], for a mode that has none of any kind.
    pub const FORMS: &str = "coldstream, coldstream:READS, coldstream:READS+WRITES (each auto, \
        direct, dontcache, drop-behind or buffered; and +handover=off, +priority=off, +pacing=on, \
        +eviction=on, +SETTING=VALUE) or preload:PATH";

    /// `coldstream…` or `preload:PATH`, or what is wrong with it; `None` for other kinds of mode.
    pub fn from_name(text: &str) -> Option<Result<Self, String>> {
        match text.strip_prefix("preload:") {
            Some("") => Some(Err("the path of the library is missing".to_owned())),
            Some(path) => Some(Ok(Preloaded::Other(path.into()))),
            None => IoModes::from_name(text).map(|it| it.map(Preloaded::Coldstream)),
        }
    }

    /// Whether it is Coldstream.
    pub fn is_coldstream(&self) -> bool {
        matches!(self, Preloaded::Coldstream(_))
    }

    /// The command that the database's own command line follows: it sets the environment.
    pub fn prefix(&self, library: &Path, profile: Profile, log: &Path) -> Vec<String> {
        let mut words = vec!["env".into(), format!("LD_PRELOAD={}", library.display())];
        if let Preloaded::Coldstream(io_modes) = self {
            words.extend(io_modes.environment(profile, log));
        }
        words
    }
}

impl std::fmt::Display for Preloaded {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Preloaded::Coldstream(io_modes) => io_modes.fmt(formatter),
            Preloaded::Other(path) => formatter.pad(&format!("preload:{}", path.display())),
        }
    }
}

/// What the library of a run, if there was one, has written into Coldstream's log. One that reads and writes
/// nothing in the background, of a database that maps its tables for instance, writes nothing.
///
/// # Errors
/// It is Coldstream, and has neither written anything nor been `seen`: it was not there, and what was
/// measured is the database as it is.
pub fn library_log(preloaded: Option<&Preloaded>, log: &Path, seen: bool) -> Result<Vec<String>> {
    let text = fs::read_to_string(log).unwrap_or_default();
    if let Some(mode @ Preloaded::Coldstream(_)) = preloaded
        && text.is_empty()
        && !seen
    {
        bail!(
            "mode {mode}: the library has no status page and has not written a line of log: the \
             loader did not load it, or it is switched off (COLDSTREAM=off in the environment)"
        );
    }
    Ok(text.lines().map(str::to_owned).collect())
}

/// Where the libraries of all modes are.
#[derive(Debug)]
pub struct Libraries {
    coldstream: Option<PathBuf>,
}

impl Libraries {
    /// Looks whether those of the modes are there, and can be loaded: before anything is measured.
    /// Coldstream's is the one that was named, and never another one that happens to be there.
    pub fn find<'a>(
        modes: impl Iterator<Item = &'a Preloaded>,
        coldstream: Option<&Path>,
    ) -> Result<Self> {
        let libraries = Self {
            coldstream: coldstream.map(Path::to_path_buf),
        };
        for mode in modes {
            if let Preloaded::Other(path) = mode
                && !path.exists()
            {
                bail!("mode {mode}: {} does not exist", path.display());
            }
            let path = libraries.of(mode)?;
            if let Some(character) = unloadable_character(&path) {
                bail!(
                    "mode {mode}: the dynamic loader cannot preload {}: its path has a \
                     {character:?}; copy it elsewhere",
                    path.display()
                );
            }
        }
        Ok(libraries)
    }

    /// The library of a mode, by a path that holds in whatever directory the database starts.
    pub fn of<'a>(&'a self, mode: &'a Preloaded) -> Result<PathBuf> {
        let path = match mode {
            Preloaded::Coldstream(_) => (self.coldstream.as_deref())
                .context("libcoldstream.so: name it with --coldstream-library")?,
            Preloaded::Other(path) => path,
        };
        fs::canonicalize(path).with_context(|| path.display().to_string())
    }
}
