//! Up to three lines of log. A process without background work on SSTables logs nothing at all.

use crate::core::text::Text;
use crate::settings::Settings;
use coldstream_control::PageView;
use coldstream_io::sys::thread::without_broken_pipes;
use coldstream_io::sys::{file, process};
use coldstream_policy::{DisplayBytes, IoMode, LogTarget};
use std::io::Write;

/// Says what is in force, once a process.
pub(crate) fn log_in_force(settings: &Settings, io_mode: IoMode) {
    let config = &settings.config;
    let mut line = start_line();
    let _ = write!(
        line,
        "background reads of {} tables: {}",
        config.profile.name(),
        io_mode.name()
    );
    if io_mode != IoMode::Buffered {
        let _ = write!(
            line,
            " (window {}, {} in flight, at most {})",
            DisplayBytes(config.window_bytes as u64),
            config.windows_in_flight,
            DisplayBytes(config.memory_bytes as u64)
        );
    }
    finish_line(settings, line);
}

/// Says how tables are written, once a process.
pub(crate) fn log_writes(settings: &Settings, io_mode: IoMode) {
    let mut line = start_line();
    let _ = write!(
        line,
        "background writes of {} tables: {}",
        settings.config.profile.name(),
        io_mode.name()
    );
    finish_line(settings, line);
}

/// Says what was done, at the end.
pub(crate) fn log_summary(settings: &Settings, page: &PageView<'_>) {
    let mut line = start_line();
    if let Ok(snapshot) = page.snapshot() {
        let _ = write!(line, "{snapshot}");
        finish_line(settings, line);
    }
}

/// Says why nothing is done, with a configuration that is not understood. Only for the
/// constructor: the application has not opened anything yet.
pub(crate) fn log_refusal(why: &str) {
    let mut line = start_line();
    let _ = writeln!(line, "off: {why}");
    say(libc::STDERR_FILENO, &line);
}

fn start_line() -> Text<1024> {
    let mut line = Text::new();
    let _ = write!(line, "coldstream[{}]: ", process::process_id());
    line
}

fn finish_line(settings: &Settings, mut line: Text<1024>) {
    line.end_line();
    if let Some(path) = &settings.log_path {
        // A pipe without a reader fails to open, and does not keep the database waiting for one.
        let flags = libc::O_WRONLY
            | libc::O_CREAT
            | libc::O_APPEND
            | libc::O_NOCTTY
            | libc::O_NONBLOCK
            | libc::O_CLOEXEC;
        if let Ok(descriptor) = file::open(path, flags, 0o644) {
            say(descriptor, &line);
            let _ = file::close(descriptor);
        }
        return;
    }
    // Standard error may have been closed and its number given to a file of the database:
    // written to only while it is the very file that it was at the start.
    if settings.config.log == LogTarget::Stderr
        && let Some(then) = settings.stderr
        && file::is_still(libc::STDERR_FILENO, &then)
    {
        say(libc::STDERR_FILENO, &line);
    }
}

/// Writes a line, unless that would wait for whoever reads it, or end the process because nobody does.
fn say(descriptor: i32, line: &Text<1024>) {
    if file::takes_bytes_now(descriptor) {
        without_broken_pipes(|| {
            let _ = file::write(descriptor, line.as_bytes());
        });
    }
}
