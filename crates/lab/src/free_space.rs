//! Whether a filesystem has room for a measurement. It is checked before anything is written.

use anyhow::{Context, Result, bail};
use std::path::Path;

/// Checks that the filesystem of a directory has `needed_bytes` free, for a data set with these values.
///
/// # Errors
/// It has less.
pub fn check_space(directory: &Path, values_bytes: u64, needed_bytes: u64) -> Result<()> {
    let filesystem = rustix::fs::statvfs(directory)
        .with_context(|| format!("the free space of {}", directory.display()))?;
    let free_bytes = filesystem.f_bavail * filesystem.f_frsize;
    if free_bytes >= needed_bytes {
        return Ok(());
    }
    bail!(
        "{} has {:.1} GiB free; {:.1} GiB of values need {:.1} GiB: name another --work-dir, fewer --keys, \
         or with a recipe less --memory-mib",
        directory.display(),
        gib(free_bytes),
        gib(values_bytes),
        gib(needed_bytes),
    )
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_space_is_said() {
        let directory = tempfile::tempdir().unwrap();
        check_space(directory.path(), 4096, 4096).unwrap();
        let error = check_space(directory.path(), 1 << 60, 3 << 59).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("GiB free") && text.contains("--work-dir"),
            "{text}"
        );
    }
}
