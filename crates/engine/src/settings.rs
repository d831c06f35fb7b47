//! The configuration, read once in the constructor, from the environment and a TOML file.
//!
//! Here alone Rust's own allocation is used, which ends the process if it gets no memory. So there is a reserve
//! behind it.
#![expect(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    reason = "the constructor has a reserve"
)]

use coldstream_io::named_file::open_regular;
use coldstream_io::sys::{Errno, avoid, file};
use coldstream_policy::{Config, LogTarget};
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

/// The configuration and what is derived from it.
pub struct Settings {
    /// The configuration.
    pub config: Config,
    /// The log file's path, ready for a system call.
    pub log_path: Option<CString>,
    /// The file that standard error was at the start: later it may be another one.
    pub stderr: Option<file::FileStamp>,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// The settings; `None` before the constructor, or if Coldstream is off.
#[inline]
pub fn get() -> Option<&'static Settings> {
    SETTINGS.get()
}

/// Whether the program has privileges that its user does not have: set-uid, set-gid, or file capabilities
/// (`AT_SECURE` of `getauxval(3)`). That user chose the environment.
pub fn is_privileged() -> bool {
    // SAFETY: reads what the loader stored; takes no lock.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Reads the configuration. Off means that nothing is ever tracked.
///
/// In a privileged program nothing is read, and Coldstream is off. Then it does not log either.
///
/// # Errors
/// What is wrong with it, for the log. Nothing is ever tracked then.
pub fn load() -> Result<(), String> {
    if is_privileged() {
        return Ok(());
    }
    load_from(variable)
}

/// As [`load`], but `variable` tells the values of environment variables. A second call changes nothing.
///
/// # Errors
/// What is wrong with the configuration.
pub fn load_from(variable: impl Fn(&str) -> Option<String>) -> Result<(), String> {
    let text = match variable("COLDSTREAM_CONFIG").filter(|path| !path.is_empty()) {
        Some(path) => {
            Some(read_file(&path).map_err(|why| format!("COLDSTREAM_CONFIG = {path}: {why}"))?)
        }
        None => None,
    };
    let config =
        Config::from_sources(text.as_deref(), &variable).map_err(|error| error.to_string())?;
    if !config.enabled {
        return Ok(());
    }
    avoid::avoid(config.avoid.bits());
    let log_path = match &config.log {
        LogTarget::File(path) => CString::new(path.as_os_str().as_bytes()).ok(),
        LogTarget::None | LogTarget::Stderr => None,
    };
    let settings = Settings {
        config,
        log_path,
        stderr: file::stamp(libc::STDERR_FILENO).ok(),
    };
    // The first one counts.
    let _ = SETTINGS.set(settings);
    Ok(())
}

/// The value of an environment variable.
pub fn variable(name: &str) -> Option<String> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name is NUL-terminated; nobody changes the environment before main.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: getenv returns a NUL-terminated string.
    let value = unsafe { CStr::from_ptr(value) };
    Some(
        OsStr::from_bytes(value.to_bytes())
            .to_string_lossy()
            .into_owned(),
    )
}

/// A larger configuration is refused.
const FILE_BYTES_MAX: usize = 64 * 1024;
/// The most memory that [`load`] takes, with what is left over when lists grow. Two bytes of a file may name a table,
/// which takes more than 1 KiB.
pub const MEMORY_BYTES: usize = 64 << 20;

fn read_file(path: &str) -> Result<String, String> {
    let path = CString::new(path).map_err(|_| "a NUL in the path".to_string())?;
    let descriptor = open_regular(&path).map_err(|error| error.to_string())?;
    let mut bytes = vec![0; FILE_BYTES_MAX];
    let mut length = 0;
    let read = loop {
        // SAFETY: the rest of the vector is writable.
        let read = unsafe {
            file::pread(
                descriptor,
                bytes.as_mut_ptr().wrapping_add(length),
                bytes.len() - length,
                length as u64,
            )
        };
        match read {
            Ok(0) => break Ok(()),
            Ok(count) => length += count,
            Err(Errno(libc::EINTR)) => {}
            Err(errno) => break Err(errno.to_string()),
        }
    };
    let _ = file::close(descriptor);
    read?;
    if length == FILE_BYTES_MAX {
        return Err("larger than 64 KiB".into());
    }
    bytes.truncate(length);
    String::from_utf8(bytes).map_err(|_| "not UTF-8".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::heap;

    /// `piece`, as often as it fits in a file.
    fn filled(before: &str, piece: &str) -> String {
        let times = (FILE_BYTES_MAX - before.len() - 1) / piece.len();
        format!("{before}{}", piece.repeat(times))
    }

    fn numbered(line: impl Fn(usize) -> String) -> String {
        let mut text = String::new();
        for number in 0.. {
            let line = line(number);
            if text.len() + line.len() >= FILE_BYTES_MAX {
                break;
            }
            text.push_str(&line);
        }
        text
    }

    /// Otherwise the process ends where it has no heap.
    #[test]
    fn the_reserve_is_enough_for_any_file() {
        let files = [
            filled("", "[[a]]\n"),
            filled("a=[", "0,") + "]",
            filled("a=[", "[],") + "]",
            filled("a=[", "{},") + "]",
            filled("a=[", "{a=0},") + "]",
            filled("a=[", "'',") + "]",
            filled("a=", "["),
            filled("a=", "{a="),
            filled("a", ".a") + "=1",
            filled("[a", ".a") + "]",
            filled("a=\"", "\\n") + "\"",
            filled("a=", "1"),
            filled("", "\n"),
            filled("", "#"),
            filled("", "="),
            numbered(|number| format!("{number:x}=0\n")),
            numbered(|number| format!("{number:x}=[]\n")),
            numbered(|number| format!("[{number:x}]\n")),
            numbered(|number| format!("[{number:x}.a.a.a]\n")),
            numbered(|number| format!("{number:x}.a.a.a=0\n")),
            numbered(|number| format!("reads.{number:x}=0\n")),
            numbered(|number| format!("{number:x}{}=0\n", ".a".repeat(75))),
            numbered(|number| format!("[{number:x}{}]\n", ".a".repeat(75))),
            filled("a=[", &format!("{{a{}=0}},", ".a".repeat(70))) + "]",
        ];
        for (number, text) in files.iter().enumerate() {
            println!("file {number}");
            let is_read = heap::without_heap(MEMORY_BYTES, || {
                let _ =
                    Config::from_sources(Some(text), |_| None).map_err(|error| error.to_string());
            });
            assert!(is_read);
        }
    }

    #[test]
    fn the_calls_that_can_be_avoided_have_one_order() {
        assert!(avoid::names().eq(coldstream_policy::AVOIDABLE_CALLS));
    }
}
