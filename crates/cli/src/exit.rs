//! The exit codes. Scripts rely on them: a code never changes its meaning. Codes from 126 on are
//! those of the shells.

use std::io;
use std::process::ExitCode;

/// How the command ends. After `coldstream run` has started a program, the code is the program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Success.
    Ok = 0,
    /// A failure without a code of its own.
    Failure = 1,
    /// Wrong option or argument. clap uses the same code.
    Usage = 2,
    /// Wrong configuration file or environment variable.
    Configuration = 3,
    /// The program cannot take a preload library.
    CannotPreload = 4,
    /// This user has no access to a path or process.
    Permission = 5,
    /// Disk full.
    DiskFull = 6,
    /// No such path or process, or the library is not in the process.
    NotFound = 7,
    /// The laboratory's database gave a value that was never written.
    WrongValue = 8,
    /// A running process did not answer in time.
    NoAnswer = 9,
    /// A guard ended a trial.
    Guarded = 10,
    /// There are no exact events of page-cache reads: by the kernel, for the filesystem, or in the container.
    NoEvents = 11,
    /// A trial found no clear difference.
    NoClearDifference = 12,
    /// `doctor` has advice.
    SomethingToChange = 13,
    /// The program exists but cannot be executed.
    NotExecutable = 126,
    /// The program does not exist.
    NoSuchCommand = 127,
    /// Ended by Ctrl-C, after the clean-up.
    Interrupted = 130,
}

/// The codes, for `--help`.
pub const HELP: &str = "\
Exit codes:
  0    success
  1    failure without a code of its own
  2    wrong option or argument
  3    wrong configuration file or COLDSTREAM_… variable
  4    the program cannot take a preload library (static, setuid, setgid, file capabilities,
       another architecture or C library, neither ELF nor a script)
  5    no permission for a path or a process
  6    disk full
  7    no such path or process, or a process without the library
  8    a database under the laboratory gave a wrong value: data is being lost or misread
  9    a running process did not answer in time
  10   `coldstream ctl trial`: its guard ended it; the switches are as before
  11   `coldstream attach`: no exact events of page-cache reads, by this kernel, on this
       filesystem, or in this container; the message says which
  12   `coldstream ctl trial`: no clear difference
  13   `coldstream doctor`: something is to change; each line `change:` says what
  126  the program cannot be executed
  127  the program does not exist
  130  interrupted; everything was cleaned up
  When `coldstream run` started the program, the exit code is the program's own, or 128 plus
  the signal that ended it.";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// An error with an exit code.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct Failure {
    exit: Exit,
    message: String,
}

/// An error with this exit code. `message` is one line: what is wrong, where, what to do.
pub fn failure(exit: Exit, message: impl Into<String>) -> anyhow::Error {
    let message = message.into();
    Failure { exit, message }.into()
}

/// The exit code for an error of the operating system.
pub fn of_io(error: &io::Error) -> Exit {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Exit::Permission,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Exit::DiskFull,
        io::ErrorKind::NotFound => Exit::NotFound,
        _ => Exit::Failure,
    }
}

/// The exit code for any error.
pub fn of(error: &anyhow::Error) -> Exit {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return failure.exit;
    }
    error.downcast_ref().map_or(Exit::Failure, of_io)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_in_the_help() {
        for exit in [
            Exit::Ok,
            Exit::Failure,
            Exit::Usage,
            Exit::Configuration,
            Exit::CannotPreload,
            Exit::Permission,
            Exit::DiskFull,
            Exit::NotFound,
            Exit::NotExecutable,
            Exit::NoSuchCommand,
            Exit::WrongValue,
            Exit::NoAnswer,
            Exit::Guarded,
            Exit::NoEvents,
            Exit::NoClearDifference,
            Exit::SomethingToChange,
            Exit::Interrupted,
        ] {
            let line = format!("\n  {:<4} ", exit as u8);
            assert!(HELP.contains(&line), "{exit:?}");
        }
    }

    #[test]
    fn the_code_of_an_error() {
        let error = failure(Exit::CannotPreload, "static").context("while starting");
        assert_eq!(of(&error), Exit::CannotPreload);
        let full = anyhow::Error::from(io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!(of(&full), Exit::DiskFull);
        assert_eq!(of(&anyhow::anyhow!("else")), Exit::Failure);
    }
}
