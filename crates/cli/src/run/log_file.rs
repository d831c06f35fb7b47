//! The library fails open: a log that it cannot write would be lost silently.
//! So `run` writes the first line itself, before the program starts.

use std::fs::File;
use std::io::{self, Write};

use coldstream_policy::LogTarget;

use crate::exit::{self, Exit, failure};

/// Appends the line that says what is in force, if the log is a file.
pub fn begin(log: &LogTarget, in_force: &str) -> anyhow::Result<()> {
    let LogTarget::File(path) = log else {
        return Ok(());
    };
    append(path, in_force).map_err(|error| {
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

fn append(path: &std::path::Path, in_force: &str) -> io::Result<()> {
    let mut file = File::options().append(true).create(true).open(path)?;
    let line = format!("coldstream[{}]: {in_force}\n", std::process::id());
    file.write_all(line.as_bytes())
}
