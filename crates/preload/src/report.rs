//! What the library says: the status page that other processes of the user read, and up to
//! three lines of log. A process without background work on tables says nothing at all.

use crate::settings::Settings;
use coldstream_control::{Header, PageName, PageView, PidNamespace, start_time_ticks};
use coldstream_io::shared::SharedPage;
use coldstream_io::sys::thread::without_broken_pipes;
use coldstream_io::sys::{file, process};
use coldstream_policy::{DisplayBytes, IoMode, LogTarget};
use std::ffi::CStr;
use std::io::Write;

/// A line or a path, built without allocating; what does not fit is cut off.
pub(crate) struct Text<const BYTES: usize> {
    bytes: [u8; BYTES],
    length: usize,
}

impl<const BYTES: usize> Text<BYTES> {
    pub(crate) fn new() -> Self {
        Self {
            bytes: [0; BYTES],
            length: 0,
        }
    }

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    pub(crate) fn as_c_str(&self) -> Option<&CStr> {
        CStr::from_bytes_until_nul(&self.bytes).ok()
    }
}

impl<const BYTES: usize> Write for Text<BYTES> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let room = self.bytes.get_mut(self.length..).unwrap_or_default();
        let count = bytes.len().min(room.len());
        for (place, byte) in room.iter_mut().zip(bytes) {
            *place = *byte;
        }
        self.length += count;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Longest path of a status page.
type PagePath = Text<64>;

/// As `coldstream_control::page_path`, without allocating.
fn page_path(user: u32, process_id: i32, namespace: PidNamespace) -> (PagePath, PagePath) {
    let mut directory = PagePath::new();
    let mut path = PagePath::new();
    let _ = write!(directory, "/dev/shm/coldstream-{user}\0");
    let name = PageName {
        pid: process_id as u32,
        namespace,
    };
    let _ = write!(path, "/dev/shm/coldstream-{user}/{name}\0");
    (directory, path)
}

/// As `PidNamespace::own`, without allocating.
pub(crate) fn own_namespace() -> PidNamespace {
    let Ok(descriptor) = file::open(c"/proc/self/ns/pid", libc::O_RDONLY, 0) else {
        return PidNamespace::INITIAL;
    };
    let stamp = file::stamp(descriptor);
    let _ = file::close(descriptor);
    stamp.map_or(PidNamespace::INITIAL, |stamp| PidNamespace(stamp.inode))
}

/// Makes this process's status page; a private one if it cannot be shared.
pub(crate) fn create_page(
    settings: &Settings,
    namespace: PidNamespace,
) -> Option<PageView<'static>> {
    let process_id = process::process_id();
    let (directory, path) = page_path(process::effective_user(), process_id, namespace);
    let page = match (directory.as_c_str(), path.as_c_str()) {
        (Some(directory), Some(path)) => SharedPage::create(directory, path).ok(),
        _ => None,
    };
    let page = page.or_else(|| SharedPage::anonymous().ok())?;
    let view = PageView::new(page.words()).ok()?;
    let config = &settings.config;
    view.initialise(&Header {
        pid: process_id as u32,
        start_time_ticks: own_start_time().unwrap_or(0),
        profile: config.profile,
        configured: config.reads,
        in_force: None,
        window_bytes: config.window_bytes as u64,
        windows_in_flight: config.windows_in_flight as u64,
        memory_bytes: config.memory_bytes as u64,
    });
    Some(view)
}

/// Removes this process's status page.
pub(crate) fn remove_page(namespace: PidNamespace) {
    let (user, process_id) = (process::effective_user(), process::process_id());
    let (_, path) = page_path(user, process_id, namespace);
    if let Some(path) = path.as_c_str() {
        let _ = file::unlink(path);
    }
}

fn own_start_time() -> Option<u64> {
    let descriptor = file::open(c"/proc/self/stat", libc::O_RDONLY, 0).ok()?;
    let mut bytes = [0_u8; 1024];
    // SAFETY: the array is writable for its length.
    let read = unsafe { file::pread(descriptor, bytes.as_mut_ptr(), bytes.len(), 0) };
    let _ = file::close(descriptor);
    start_time_ticks(bytes.get(..read.ok()?)?)
}

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
    line.length = line.length.min(line.bytes.len() - 1);
    let _ = writeln!(line);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_where_the_command_looks_for_it() {
        let text = |path: &PagePath| path.as_c_str().unwrap().to_str().unwrap().to_owned();
        let namespaces = [
            PidNamespace::INITIAL,
            PidNamespace(4_026_532_001),
            PidNamespace::own(),
        ];
        for namespace in namespaces {
            let (directory, path) = page_path(u32::MAX, i32::MAX, namespace);
            let expected = coldstream_control::page_path(u32::MAX, i32::MAX as u32, namespace);
            assert_eq!(text(&path), expected.to_str().unwrap());
            assert_eq!(
                text(&directory),
                coldstream_control::directory_path(u32::MAX)
                    .to_str()
                    .unwrap()
            );
        }
        assert_eq!(own_namespace(), PidNamespace::own());
    }

    #[test]
    fn a_text_is_cut_not_overrun() {
        let mut text = Text::<8>::new();
        let _ = write!(text, "0123456789");
        assert_eq!(text.as_bytes(), b"01234567");
    }
}
