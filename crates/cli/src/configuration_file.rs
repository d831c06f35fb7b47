//! Reads a configuration file, and refuses what the library refuses (`engine/src/settings.rs`).

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// A file of this size is refused.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// How to open the file: does not wait for the writer of a pipe.
pub const FLAGS: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY);

/// The text of the file.
///
/// # Errors
/// The kernel's, or `InvalidData` with the reason.
pub fn read(path: &Path) -> io::Result<String> {
    let flags = FLAGS.bits().cast_signed();
    read_open(File::options().read(true).custom_flags(flags).open(path)?)
}

/// As [`read`], of an open file.
///
/// # Errors
/// As there.
pub fn read_open(file: File) -> io::Result<String> {
    let refused = |why| Err(io::Error::new(io::ErrorKind::InvalidData, why));
    if !file.metadata()?.is_file() {
        return refused("not a regular file");
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    if text.len() as u64 == FILE_BYTES_MAX {
        return refused("larger than 64 KiB");
    }
    Ok(text)
}
