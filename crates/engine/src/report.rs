//! Up to three log lines. A process without background I/O on SSTables logs nothing.
//!
//! A line has at most two sentences. `key=value` pairs follow, for log shippers; `event` names the
//! line. Nothing here allocates.

use crate::core::status_page::StatusPage;
use crate::core::text::Text;
use crate::settings::Settings;
use coldstream_control::PageView;
use coldstream_io::named_file;
use coldstream_io::sys::thread::without_signals_of_writes;
use coldstream_io::sys::{file, process};
use coldstream_policy::{DisplayBytes, IoMode, LogTarget};
use std::fmt::Display;
use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};

/// Logs the I/O mode of background reads, each mode once a process. A probe that could not tell may be corrected by a
/// later one, and filesystems differ.
pub fn log_reads(settings: &Settings, io_mode: IoMode, status: &StatusPage) {
    static LOGGED: AtomicU32 = AtomicU32::new(0);
    if !is_first(&LOGGED, io_mode) {
        return;
    }
    let config = &settings.config;
    let mut line = start_line();
    let _ = write!(
        line,
        "background reads {}.{} event=reads io_mode={} setting={} profile={}",
        effect(io_mode),
        lack_of_page(status),
        io_mode.name(),
        config.reads.name(),
        config.profile.name(),
    );
    if io_mode != IoMode::Buffered {
        let _ = write!(
            line,
            " window={:#} in_flight={} memory_max={:#}",
            DisplayBytes(config.window_bytes as u64),
            config.windows_in_flight,
            DisplayBytes(config.memory_bytes as u64)
        );
    }
    finish_line(settings, line);
}

/// Logs the I/O mode of background writes, each mode once a process.
pub fn log_writes(settings: &Settings, io_mode: IoMode, status: &StatusPage) {
    static LOGGED: AtomicU32 = AtomicU32::new(0);
    if !is_first(&LOGGED, io_mode) {
        return;
    }
    let config = &settings.config;
    let mut line = start_line();
    let _ = write!(
        line,
        "background writes {}.{} event=writes io_mode={} setting={} profile={}",
        effect(io_mode),
        lack_of_page(status),
        io_mode.name(),
        config.writes.name(),
        config.profile.name(),
    );
    finish_line(settings, line);
}

/// Whether nobody asked for this mode before. `asked` has a bit for each mode, and lies outside the wiped region: a forked
/// child logs none again.
fn is_first(asked: &AtomicU32, io_mode: IoMode) -> bool {
    let bit = 1 << io_mode as u32;
    asked.load(Ordering::Relaxed) & bit == 0 && asked.fetch_or(bit, Ordering::Relaxed) & bit == 0
}

/// A second sentence where `coldstream ctl` does not find this process. It has no line of its own: what opens the first
/// SSTable may be the foreground, and that never waits for a log.
fn lack_of_page(status: &StatusPage) -> &'static str {
    match status.has_no_file() {
        true => " No status page: /dev/shm cannot be written (docs/limits.md).",
        false => "",
    }
}

/// What an I/O mode does to the page cache.
const fn effect(io_mode: IoMode) -> &'static str {
    match io_mode {
        IoMode::Direct => "bypass the page cache",
        IoMode::DontCache => "leave no pages in the page cache",
        IoMode::DropBehind => "drop their pages from the page cache",
        IoMode::Buffered => "use the page cache",
    }
}

/// Logs the sums of the counters when the process ends.
pub fn log_summary(settings: &Settings, page: &PageView<'_>) {
    let mut line = start_line();
    if let Ok(snapshot) = page.snapshot() {
        let (headline, totals) = (snapshot.headline(), snapshot.totals());
        let _ = write!(line, "the process ends: {headline}. event=exit{totals}");
        finish_line(settings, line);
    }
}

/// Logs why the library does nothing: its configuration is wrong. Only for the constructor, which
/// runs before the application has opened a file.
pub fn log_refusal(why: impl Display) {
    let mut line = start_line();
    let _ = writeln!(line, "off: {why}. event=off");
    write_now(libc::STDERR_FILENO, &line);
}

fn start_line() -> Text<1024> {
    let mut line = Text::new();
    let _ = write!(line, "coldstream[{}]: ", process::process_id());
    line
}

fn finish_line(settings: &Settings, mut line: Text<1024>) {
    line.end_line();
    if let Some(path) = &settings.log_path {
        if let Ok(descriptor) = named_file::open_to_append(path) {
            write_now(descriptor, &line);
            let _ = file::close(descriptor);
        }
        return;
    }
    // The application may have closed standard error and opened a file of the database under its
    // number. Write only while it is the same file as at the start.
    if settings.config.log == LogTarget::Stderr
        && let Some(then) = settings.stderr
        && file::is_same_inode(libc::STDERR_FILENO, &then)
    {
        write_now(libc::STDERR_FILENO, &line);
    }
}

/// Writes a line unless the reader is slow (the write would block) or gone (SIGPIPE), or the file
/// may not grow (SIGXFSZ).
fn write_now(descriptor: i32, line: &Text<1024>) {
    if file::takes_bytes_now(descriptor) {
        without_signals_of_writes(|| {
            let _ = file::write(descriptor, line.as_bytes());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_is_logged_once() {
        let asked = AtomicU32::new(0);
        assert!(is_first(&asked, IoMode::Direct));
        assert!(!is_first(&asked, IoMode::Direct));
        assert!(is_first(&asked, IoMode::DropBehind));
        assert!(!is_first(&asked, IoMode::Direct) && !is_first(&asked, IoMode::DropBehind));
    }
}
