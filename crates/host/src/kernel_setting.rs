//! Kernel settings that change for the time of one run.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A file of `/proc` or `/sys` with another value. Dropping it restores the old one.
#[derive(Debug)]
pub struct KernelSetting {
    path: PathBuf,
    before: String,
}

impl KernelSetting {
    /// Writes the value.
    ///
    /// # Errors
    /// Those of reading and writing the file.
    pub fn set(path: impl AsRef<Path>, value: &str) -> io::Result<Self> {
        let path = path.as_ref();
        let before = fs::read_to_string(path)?.trim().to_owned();
        fs::write(path, value)?;
        Ok(Self {
            path: path.to_owned(),
            before,
        })
    }
}

impl Drop for KernelSetting {
    fn drop(&mut self) {
        let Self { path, before } = self;
        if let Err(error) = fs::write(&path, &before) {
            let path = path.display();
            eprintln!("coldstream: cannot set {path} back to {before}: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drop_restores_the_value() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let read = || fs::read_to_string(path).unwrap();
        fs::write(path, "128\n").unwrap();
        let outer = KernelSetting::set(path, "8").unwrap();
        let inner = KernelSetting::set(path, "0").unwrap();
        assert_eq!(read(), "0");
        drop(inner);
        assert_eq!(read(), "8");
        drop(outer);
        assert_eq!(read(), "128");
        assert!(KernelSetting::set("/nowhere", "1").is_err());
    }
}
