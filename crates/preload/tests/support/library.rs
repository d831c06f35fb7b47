//! The library under test, and how a program is told to load it.

use super::built::built;
use super::process::Program;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Path of `libcoldstream.so`. `COLDSTREAM_LIBRARY` names another one; otherwise it is built
/// here: cargo does not build a `cdylib` for the sake of its package's integration tests.
pub fn path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        if let Some(path) = std::env::var_os("COLDSTREAM_LIBRARY") {
            return PathBuf::from(path);
        }
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let profile_directory = built(manifest, &["--lib"]);
        let path = profile_directory.join("libcoldstream.so");
        assert!(path.exists(), "{} was not built", path.display());
        path
    })
}

/// Ways to write: I/O mode and visibility.
pub const WRITE_WAYS: [(&str, &str); 4] = [
    ("direct", "process"),
    ("direct", "everywhere"),
    ("drop-behind", "auto"),
    ("dontcache", "auto"),
];

/// Settings of the library for one run.
#[derive(Clone, Debug)]
pub struct Preload {
    variables: Vec<(&'static str, String)>,
    before: Vec<PathBuf>,
    after: Vec<PathBuf>,
}

impl Preload {
    /// Defaults, and not a word of log.
    pub fn quiet() -> Self {
        Self {
            variables: vec![("COLDSTREAM_LOG", "none".into())],
            before: Vec::new(),
            after: Vec::new(),
        }
    }

    /// Defaults, with the log on standard error as users have it.
    pub fn talking() -> Self {
        Self {
            variables: Vec::new(),
            before: Vec::new(),
            after: Vec::new(),
        }
    }

    /// Defaults, with the log in a file.
    pub fn logging_to(path: &Path) -> Self {
        Self::talking().with("COLDSTREAM_LOG", path.to_str().expect("UTF-8 path"))
    }

    /// Not a word of log, one of [`WRITE_WAYS`], and staging buffers that are soon full.
    pub fn writing((writes, visible): (&str, &str)) -> Self {
        Self::quiet()
            .with("COLDSTREAM_WRITES", writes)
            .with("COLDSTREAM_VISIBLE", visible)
            .with("COLDSTREAM_STAGING_BYTES", "256KiB")
    }

    pub fn with(mut self, variable: &'static str, value: impl ToString) -> Self {
        self.variables.retain(|(name, _)| *name != variable);
        self.variables.push((variable, value.to_string()));
        self
    }

    /// Another preload library in front of Coldstream.
    pub fn behind(mut self, other: &Path) -> Self {
        self.before.push(other.into());
        self
    }

    /// Another preload library that Coldstream is in front of.
    pub fn in_front_of(mut self, other: &Path) -> Self {
        self.after.push(other.into());
        self
    }

    /// What `LD_PRELOAD` has to say.
    pub fn ld_preload(&self) -> String {
        let mut libraries: Vec<&str> = Vec::new();
        libraries.extend(self.before.iter().map(|path| path.to_str().unwrap()));
        libraries.push(path().to_str().expect("UTF-8 path"));
        libraries.extend(self.after.iter().map(|path| path.to_str().unwrap()));
        libraries.join(":")
    }

    pub fn apply(&self, program: &mut Program) {
        for (name, value) in &self.variables {
            program.variable(name, value);
        }
        program.variable("LD_PRELOAD", &self.ld_preload());
    }
}
