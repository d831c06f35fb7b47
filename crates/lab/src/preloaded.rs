//! A preload library as a mode: Coldstream, or another one.

use crate::io_modes::IoModes;
use anyhow::{Context, Result, bail};
use coldstream_policy::{Profile, unloadable_character};
use std::fs;
use std::path::{Path, PathBuf};

/// The library that is loaded into the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preloaded {
    /// Coldstream.
    Coldstream(IoModes),
    /// Coldstream in a plugin of the engine, which registers itself when it is loaded.
    Plugin {
        /// Coldstream's settings.
        settings: IoModes,
        /// The plugin.
        library: PathBuf,
    },
    /// Another library.
    Other(PathBuf),
}

/// The forms of [`Preloaded::from_name`] for the help. A macro, because `concat!` takes literals only.
macro_rules! preloaded_help {
    () => {
        "  coldstream               Coldstream with its defaults
  coldstream:READS         Coldstream with this I/O mode of reads; that of writes is auto
  coldstream:READS+WRITES  Coldstream with these I/O modes; auto+buffered bypasses the page cache
                           for reads only
  coldstream:…+SETTING=VALUE
                           Coldstream with this setting. handover-in-flight=16 sets the variable
                           COLDSTREAM_HANDOVER_IN_FLIGHT. Further examples:
                             coldstream:handover=off+priority=off
                             coldstream:pacing=on
                             coldstream:buffered+buffered+eviction=on
  preload:PATH             another preload library
READS and WRITES are auto, direct, dontcache, drop-behind or buffered. Settings that a mode does not \
name have their defaults: the database gets no LD_PRELOAD and no COLDSTREAM_… of the environment."
    };
}
pub(crate) use preloaded_help;

impl Preloaded {
    /// The forms of [`Preloaded::from_name`], for the message about an unknown mode.
    pub const FORMS: &str = "coldstream, coldstream:READS, coldstream:READS+WRITES (each auto, \
        direct, dontcache, drop-behind or buffered; and +handover=off, +priority=off, +pacing=on, \
        +eviction=on, +SETTING=VALUE) or preload:PATH";

    /// Parses `coldstream…` or `preload:PATH`. `None` for other kinds of mode.
    ///
    /// # Errors
    /// The name is malformed; the text says how.
    pub fn from_name(text: &str) -> Option<Result<Self, String>> {
        match text.strip_prefix("preload:") {
            Some("") => Some(Err("the path of the library is missing".to_owned())),
            Some(path) => Some(Ok(Preloaded::Other(path.into()))),
            None => IoModes::from_name(text).map(|it| it.map(Preloaded::Coldstream)),
        }
    }

    /// Whether it is Coldstream's preload library.
    pub fn is_coldstream(&self) -> bool {
        matches!(self, Preloaded::Coldstream(_))
    }

    /// Whether it is Coldstream in any form.
    pub fn has_coldstream(&self) -> bool {
        self.settings().is_some()
    }

    /// Coldstream's settings, if it is Coldstream in any form.
    fn settings(&self) -> Option<&IoModes> {
        match self {
            Preloaded::Coldstream(settings) | Preloaded::Plugin { settings, .. } => Some(settings),
            Preloaded::Other(_) => None,
        }
    }

    /// The words before the database's own command line. They set its environment.
    pub fn prefix(&self, library: &Path, profile: Profile, log: &Path) -> Vec<String> {
        let mut words = vec!["env".into(), format!("LD_PRELOAD={}", library.display())];
        if let Some(settings) = self.settings() {
            words.extend(settings.environment(profile, log));
        }
        words
    }
}

impl std::fmt::Display for Preloaded {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Preloaded::Coldstream(io_modes) => io_modes.fmt(formatter),
            Preloaded::Plugin { settings, .. } => {
                formatter.pad(&format!("plugin{}", settings.behind_name()))
            }
            Preloaded::Other(path) => formatter.pad(&format!("preload:{}", path.display())),
        }
    }
}

/// The paths of the preload libraries of all modes.
#[derive(Debug)]
pub struct Libraries {
    coldstream: Option<PathBuf>,
}

impl Libraries {
    /// Checks, before anything is measured, that the libraries of all modes exist and can be loaded.
    /// `coldstream` is the path of Coldstream's library; no other place is searched.
    pub fn find<'a>(
        modes: impl Iterator<Item = &'a Preloaded>,
        coldstream: Option<&Path>,
    ) -> Result<Self> {
        let libraries = Self {
            coldstream: coldstream.map(Path::to_path_buf),
        };
        for mode in modes {
            match mode {
                Preloaded::Plugin { library, .. } if !library.exists() => bail!(
                    "mode {mode}: {} does not exist: make it in rocksdb-plugin/, and name it with --plugin",
                    library.display()
                ),
                Preloaded::Other(path) if !path.exists() => {
                    bail!("mode {mode}: {} does not exist", path.display())
                }
                _ => {}
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

    /// The absolute path of a mode's library. The database may start in another directory.
    pub fn of<'a>(&'a self, mode: &'a Preloaded) -> Result<PathBuf> {
        let path = match mode {
            Preloaded::Coldstream(_) => (self.coldstream.as_deref())
                .context("libcoldstream.so: name it with --coldstream-library")?,
            Preloaded::Plugin { library, .. } => library,
            Preloaded::Other(path) => path,
        };
        fs::canonicalize(path).with_context(|| path.display().to_string())
    }
}
