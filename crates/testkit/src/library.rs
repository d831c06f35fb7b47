//! The preload library under test, and its settings for one run.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::cargo_build::{self, built};

/// File name of the library.
pub const FILE_NAME: &str = "libcoldstream.so";

/// Path of the library. `COLDSTREAM_LIBRARY` names one; without that variable it is built here.
///
/// # Panics
/// It cannot be built.
#[must_use]
pub fn path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        if let Some(path) = std::env::var_os("COLDSTREAM_LIBRARY") {
            return PathBuf::from(path);
        }
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../preload/Cargo.toml");
        let path = built(&manifest, &["--lib"]).join(FILE_NAME);
        assert!(path.exists(), "{} was not built", path.display());
        path
    })
}

/// The library that cargo built before, beside this program's directory. Benches measure this one.
///
/// # Panics
/// It is not built.
#[must_use]
pub fn built_before() -> PathBuf {
    cargo_build::built_before(FILE_NAME)
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
    /// Defaults, without a log.
    #[must_use]
    pub fn quiet() -> Self {
        Self {
            variables: vec![("COLDSTREAM_LOG", "none".into())],
            before: Vec::new(),
            after: Vec::new(),
        }
    }

    /// Defaults, with the log on standard error, as users have it.
    #[must_use]
    pub fn logging() -> Self {
        Self {
            variables: Vec::new(),
            before: Vec::new(),
            after: Vec::new(),
        }
    }

    /// Defaults, with the log in a file.
    ///
    /// # Panics
    /// The path is not UTF-8.
    #[must_use]
    pub fn logging_to(path: &Path) -> Self {
        Self::logging().with("COLDSTREAM_LOG", path.to_str().expect("UTF-8 path"))
    }

    /// One of [`WRITE_WAYS`], without a log, and with small staging buffers.
    #[must_use]
    pub fn writing((writes, visible): (&str, &str)) -> Self {
        Self::quiet()
            .with("COLDSTREAM_WRITES", writes)
            .with("COLDSTREAM_VISIBLE", visible)
            .with("COLDSTREAM_STAGING_BYTES", "256KiB")
    }

    /// With this variable too. It replaces an earlier one with the same name.
    #[must_use]
    pub fn with(mut self, variable: &'static str, value: impl ToString) -> Self {
        self.variables.retain(|(name, _)| *name != variable);
        self.variables.push((variable, value.to_string()));
        self
    }

    /// With another preload library before Coldstream's.
    #[must_use]
    pub fn behind(mut self, other: &Path) -> Self {
        self.before.push(other.into());
        self
    }

    /// With another preload library after Coldstream's.
    #[must_use]
    pub fn in_front_of(mut self, other: &Path) -> Self {
        self.after.push(other.into());
        self
    }

    /// The value of `LD_PRELOAD`.
    ///
    /// # Panics
    /// A path is not UTF-8.
    #[must_use]
    pub fn ld_preload(&self) -> String {
        let mut libraries: Vec<&str> = Vec::new();
        libraries.extend(
            self.before
                .iter()
                .map(|path| path.to_str().expect("UTF-8 path")),
        );
        libraries.push(path().to_str().expect("UTF-8 path"));
        libraries.extend(
            self.after
                .iter()
                .map(|path| path.to_str().expect("UTF-8 path")),
        );
        libraries.join(":")
    }

    /// All variables of the environment, `LD_PRELOAD` last.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, String)> {
        let preload = std::iter::once(("LD_PRELOAD", self.ld_preload()));
        self.variables.clone().into_iter().chain(preload)
    }
}
