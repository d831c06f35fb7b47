//! The first line of a log file.
//!
//! The library ignores a log that it cannot write. So `run` writes the first line before the program starts, and
//! reports an error.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;

use coldstream_policy::LogTarget;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::exit::{self, Exit, failure};

/// Appends the first line, if the log is a file.
pub fn begin(log: &LogTarget, start_line: &str) -> anyhow::Result<()> {
    let LogTarget::File(path) = log else {
        return Ok(());
    };
    append(path, start_line).map_err(|error| {
        let advice = match exit::of_io(&error) {
            Exit::DiskFull => "free some space or name another file with --log",
            Exit::Permission => "change its permissions or name another file with --log",
            Exit::NotFound => "create the directory or name another file with --log",
            _ => "name another file with --log",
        };
        failure(
            match exit::of_io(&error) {
                Exit::NotFound => Exit::Failure,
                code => code,
            },
            format!("cannot write log {}: {error}: {advice}", path.display()),
        )
    })
}

/// Appends the line. Does not wait for the reader of a pipe: without one, or with a slow one, the line is lost.
fn append(path: &std::path::Path, start_line: &str) -> io::Result<()> {
    let opened = File::options()
        .append(true)
        .create(true)
        .custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed())
        .open(path);
    let line = format!("coldstream[{}]: {start_line}\n", std::process::id());
    match opened.and_then(|mut file| file.write_all(line.as_bytes())) {
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        written => written,
    }
}
