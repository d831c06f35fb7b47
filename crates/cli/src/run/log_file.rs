//! The first line of a log file.
//!
//! The library ignores a log that it cannot write. So `run` writes the first line before the program starts, and
//! reports an error.

use std::ffi::CString;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use coldstream_io::named_file::append_to;
use coldstream_policy::LogTarget;
use rustix::io::Errno;

use crate::exit::{self, Exit, failure};

/// Appends the first line, if the log is a file.
pub fn begin(log: &LogTarget, start_line: &str) -> anyhow::Result<()> {
    let LogTarget::File(path) = log else {
        return Ok(());
    };
    append(path, start_line).map_err(|error| not_written(path, &error))
}

/// The error for a log that cannot be written.
pub fn not_written(path: &Path, error: &io::Error) -> anyhow::Error {
    let advice = match exit::of_io(error) {
        Exit::DiskFull => "free some space or name another file with --log",
        Exit::Permission => "change its permissions or name another file with --log",
        Exit::NotFound => "create the directory or name another file with --log",
        _ => "name another file with --log",
    };
    failure(
        exit::of_io(error),
        format!("cannot write log {}: {error}: {advice}", path.display()),
    )
}

/// Appends the line. Does not wait for the reader of a pipe: without one, or with a slow one, the line is lost.
fn append(path: &Path, start_line: &str) -> io::Result<()> {
    let opened = append_to(&CString::new(path.as_os_str().as_bytes())?);
    let line = format!("coldstream[{}]: {start_line}\n", std::process::id());
    let written = opened
        .map_err(io::Error::from)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    match written {
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        written => written,
    }
}
