//! The client of the status page, on which the preload library in a process publishes its counters and takes
//! requests.
//!
//! A page belongs to the process whose id and start time it names. Every look compares both, so that a page that an
//! ended process left behind is never taken for that of its successor.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use coldstream_control::{
    Outcome, PageError, PageView, PidNamespace, Request, Snapshot, directory_path, page_path,
    pid_of_file_name,
};
use coldstream_io::shared::{SharedPage, SharedPageError};
use coldstream_io::sys::process::{futex_wait_shared, futex_wake_shared};
use thiserror::Error;

use crate::{process, user_name};

/// Why a status page, or the directory of all pages, cannot be used.
#[derive(Debug, Error)]
pub enum StatusPageError {
    /// Another user made the directory that has this user's name. The library makes no page in it.
    #[error(
        "{} belongs to user {}, not to user {}: somebody else made it; remove it as root, and \
         start the processes again",
        directory.display(),
        user_name::shown(*owner),
        user_name::shown(*user)
    )]
    ForeignDirectory {
        /// The directory.
        directory: PathBuf,
        /// The user that it is named for.
        user: u32,
        /// Its owner.
        owner: u32,
    },
    /// The directory cannot be listed.
    #[error("cannot list {}: {error}", directory.display())]
    List {
        /// The directory.
        directory: PathBuf,
        /// What the kernel answered.
        error: io::Error,
    },
    /// There is no page of this process.
    #[error("{}: no such status page", path.display())]
    Absent {
        /// Where it would be.
        path: PathBuf,
    },
    /// The file is no page that this user may trust.
    #[error("{}: {error}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: SharedPageError,
    },
    /// The words are no page of this process.
    #[error("{}: {error}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: PageError,
    },
    /// A stale page cannot be removed.
    #[error("{}: {error}", path.display())]
    Remove {
        /// The file.
        path: PathBuf,
        /// What the kernel answered.
        error: io::Error,
    },
}

/// The result of a look at a status page.
#[derive(Debug)]
pub enum Status {
    /// The process is alive, and these are its counters.
    Running(Box<Snapshot>),
    /// There is no page: the process does not run under Coldstream, or has not opened an SSTable yet.
    Absent,
    /// A process that has ended left the page behind. The page is removed now.
    Removed {
        /// The process that the page is about.
        pid: u32,
        /// What ended is the process that had attached to it.
        was_attached: bool,
    },
    /// The page cannot be read.
    Unreadable(StatusPageError),
}

/// A mapped status page. It stays mapped until the calling process ends.
#[derive(Clone, Debug)]
pub struct StatusPage {
    pid: u32,
    path: PathBuf,
    words: &'static [AtomicU64],
    view: PageView<'static>,
}

impl StatusPage {
    /// Maps the page of `pid`, a process of the calling user, for reading.
    ///
    /// # Errors
    /// There is no page, or none that this user may trust.
    pub fn open(pid: u32) -> Result<Self, StatusPageError> {
        Self::open_at(page_of(pid), pid, SharedPage::open)
    }

    /// As [`StatusPage::open`], for requests too.
    ///
    /// # Errors
    /// As there.
    pub fn open_for_requests(pid: u32) -> Result<Self, StatusPageError> {
        Self::open_at(page_of(pid), pid, SharedPage::open_shared)
    }

    fn open_at(
        path: PathBuf,
        pid: u32,
        map: impl FnOnce(&std::ffi::CStr) -> Result<SharedPage, SharedPageError>,
    ) -> Result<Self, StatusPageError> {
        let Ok(c_path) = CString::new(path.as_os_str().as_bytes()) else {
            return Err(StatusPageError::Absent { path });
        };
        let page = match map(&c_path) {
            Ok(page) => page,
            Err(error) if is_absent(&error) => return Err(StatusPageError::Absent { path }),
            Err(error) => return Err(StatusPageError::Open { path, error }),
        };
        let words = page.words();
        match PageView::new(words) {
            Ok(view) => Ok(Self {
                pid,
                path,
                words,
                view,
            }),
            Err(error) => Err(StatusPageError::Content { path, error }),
        }
    }

    /// The words of the page.
    #[must_use]
    pub fn words(&self) -> &'static [AtomicU64] {
        self.words
    }

    /// The words as a page. Their content is not checked.
    #[must_use]
    pub fn view(&self) -> PageView<'static> {
        self.view
    }

    /// Header and counters now.
    ///
    /// # Errors
    /// [`PageError::Stale`] if the process has ended or the page is another one's, else what is wrong with the words.
    pub fn snapshot(&self) -> Result<Snapshot, PageError> {
        match process::started(self.pid) {
            Some(started) if is_kept(&self.view) => self.view.snapshot_of(self.pid, started),
            _ => Err(PageError::Stale { pid: self.pid }),
        }
    }

    /// Writes a request and wakes the control thread of the process. Only one caller at a time may ask a process:
    /// `coldstream ctl` locks the file of the page. Returns the request's number.
    #[must_use]
    pub fn send_request(&self, off_bits: u64, priorities_bits: u64) -> u32 {
        let number = self.view.request().number.wrapping_add(1);
        self.view.ask(&Request {
            number,
            off_bits,
            priorities_bits,
        });
        if let Some(bell) = self.view.bell() {
            futex_wake_shared(bell);
        }
        number
    }

    /// The answer to the request `number`, waiting up to `timeout` for it. `None` while there is none. May return
    /// early: callers repeat it until their patience ends.
    #[must_use]
    pub fn wait_for_answer(&self, number: u32, timeout: Duration) -> Option<Outcome> {
        let answer = self.view.answer();
        if answer.number == number {
            return Some(answer.outcome);
        }
        let milliseconds = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        if let Some(answered) = self.view.answered() {
            futex_wait_shared(answered, answer.number, Some(milliseconds));
        }
        let answer = self.view.answer();
        (answer.number == number).then_some(answer.outcome)
    }
}

/// The status of `pid`, a process of the calling user. Removes the page of a process that has ended.
#[must_use]
pub fn status(pid: u32) -> Status {
    match own_directory() {
        Ok(_) => status_at(page_of(pid), pid),
        Err(error) => Status::Unreadable(error),
    }
}

/// The process of `coldstream attach` that keeps the page of `pid`, a process of the calling user.
#[must_use]
pub fn keeper(pid: u32) -> Option<u32> {
    let page = StatusPage::open(pid).ok()?;
    let (keeper, _) = page.view().keeper()?;
    is_kept(&page.view()).then_some(keeper)
}

/// Whether `coldstream attach` keeps the page of `pid`, a process of the calling user.
#[must_use]
pub fn is_attached(pid: u32) -> bool {
    keeper(pid).is_some()
}

/// Whether the process that keeps a page is alive: the page's own, or the one of `coldstream attach`.
pub(crate) fn is_kept(page: &PageView<'_>) -> bool {
    page.keeper()
        .is_none_or(|(pid, started)| process::started(pid) == Some(started))
}

/// Ids of the processes of the calling user that have a status page, in ascending order.
///
/// # Errors
/// The directory of the pages cannot be listed, or belongs to another user.
pub fn with_pages() -> Result<Vec<u32>, StatusPageError> {
    let directory = own_directory()?;
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StatusPageError::List { directory, error }),
    };
    let namespace = PidNamespace::own();
    let mut pids: Vec<u32> = entries
        .flatten()
        .filter_map(|entry| pid_of_file_name(&entry.file_name(), namespace))
        .collect();
    pids.sort_unstable();
    Ok(pids)
}

/// The file of the status page of `pid`, a process of the calling user.
#[must_use]
pub fn page_of(pid: u32) -> PathBuf {
    page_path(own_user(), pid, PidNamespace::own())
}

/// Whether `pid`, a process of `user`, has a page in the caller's `/dev/shm`. False if the caller may not look.
#[must_use]
pub fn is_here(user: u32, pid: u32) -> bool {
    page_path(user, pid, PidNamespace::own()).exists()
}

/// Whether `pid`, a process of `user`, has its page in another `/dev/shm` than the caller's: in a container
/// that shares its process ids with the caller.
#[must_use]
pub fn is_elsewhere(user: u32, pid: u32) -> bool {
    let path = page_path(user, pid, PidNamespace::own());
    let own_root = path.strip_prefix("/").unwrap_or(&path);
    !path.exists() && process::proc_path(pid, "root").join(own_root).exists()
}

/// The directory of the calling user's status pages, whether it exists or not.
///
/// # Errors
/// As [`directory_of`].
pub fn own_directory() -> Result<PathBuf, StatusPageError> {
    directory_of(own_user())
}

/// The directory of a user's status pages, whether it exists or not.
///
/// # Errors
/// It belongs to another user: nothing in it is to be trusted, and the library makes no page there.
pub fn directory_of(user: u32) -> Result<PathBuf, StatusPageError> {
    let directory = directory_path(user);
    match fs::symlink_metadata(&directory).map(|found| found.uid()) {
        Ok(owner) if owner != user => Err(StatusPageError::ForeignDirectory {
            directory,
            user,
            owner,
        }),
        _ => Ok(directory),
    }
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn is_absent(error: &SharedPageError) -> bool {
    let SharedPageError::Call { errno, .. } = error else {
        return false;
    };
    io::Error::from(*errno).kind() == io::ErrorKind::NotFound
}

fn status_at(path: PathBuf, pid: u32) -> Status {
    let page = match StatusPage::open_at(path, pid, SharedPage::open) {
        Ok(page) => page,
        Err(StatusPageError::Absent { .. }) => return Status::Absent,
        Err(error) => return Status::Unreadable(error),
    };
    let snapshot = page.snapshot();
    let path = page.path;
    match snapshot {
        Ok(snapshot) => Status::Running(Box::new(snapshot)),
        Err(PageError::Stale { pid }) => remove_stale(&path, pid, page.view.keeper().is_some()),
        Err(error) => Status::Unreadable(StatusPageError::Content { path, error }),
    }
}

/// Removes a page, and the directory with the user's last one.
///
/// # Errors
/// The kernel's: `NotFound` if another one has removed it.
pub fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)?;
    // Not empty, or another one removed it. Who makes a page creates the directory again.
    let _ = path.parent().map(fs::remove_dir);
    Ok(())
}

/// Removes the page of an ended process. Only the calling user can have put a file there: the directory is closed to
/// others. Another command of the user may remove it first.
fn remove_stale(path: &Path, pid: u32, was_attached: bool) -> Status {
    let removed = Status::Removed { pid, was_attached };
    match remove(path) {
        Ok(()) => removed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => removed,
        Err(error) => Status::Unreadable(StatusPageError::Remove {
            path: path.to_owned(),
            error,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldstream_control::Header;

    fn c_string(path: &Path) -> CString {
        CString::new(path.as_os_str().as_bytes()).unwrap()
    }

    fn header(pid: u32, start_time_ticks: u64) -> Header {
        Header {
            pid,
            start_time_ticks,
            profile: coldstream_policy::Profile::Auto,
            configured: coldstream_policy::IoModeSetting::Auto,
            in_force: None,
            window_bytes: 1 << 20,
            windows_in_flight: 1,
            memory_bytes: 64 << 20,
        }
    }

    fn make_page(path: &Path, pid: u32, start_time_ticks: u64) {
        let directory = path.parent().unwrap();
        let page = SharedPage::create(&c_string(directory), &c_string(path)).unwrap();
        PageView::new(page.words())
            .unwrap()
            .initialise(&header(pid, start_time_ticks));
    }

    #[test]
    fn pages_are_running_stale_absent_or_forged() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("pages/1");
        let pid = std::process::id();
        let status = || status_at(path.clone(), pid);
        assert!(matches!(status(), Status::Absent));
        make_page(&path, pid, process::started(pid).unwrap());
        assert!(matches!(status(), Status::Running(_)));
        make_page(&path, pid, 1);
        assert!(matches!(
            status(),
            Status::Removed {
                was_attached: false,
                ..
            }
        ));
        assert!(!path.parent().unwrap().exists());
        // A process that sees no `/proc` does not know when it started.
        make_page(&path, pid, 0);
        assert!(matches!(status(), Status::Running(_)));
        make_page(&path, pid, process::started(pid).unwrap());
        let page = StatusPage::open_at(path.clone(), pid, SharedPage::open_shared).unwrap();
        page.view().set_keeper(pid, process::started(pid).unwrap());
        assert!(matches!(status(), Status::Running(_)));
        page.view().set_keeper(pid, 1);
        assert!(matches!(
            status(),
            Status::Removed {
                was_attached: true,
                ..
            }
        ));
        make_page(&path, pid, 1);
        fs::write(&path, vec![7; 4096]).unwrap();
        assert!(matches!(status(), Status::Unreadable(_)));
        fs::write(&path, "short").unwrap();
        assert!(matches!(status(), Status::Unreadable(_)));
    }

    #[test]
    fn an_answer_has_the_number_of_its_request() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("pages/1");
        let pid = std::process::id();
        make_page(&path, pid, process::started(pid).unwrap());
        let page = StatusPage::open_at(path, pid, SharedPage::open_shared).unwrap();
        let number = page.send_request(0, 0);
        assert_eq!(page.view().request().number, number);
        assert_eq!(page.wait_for_answer(number, Duration::from_millis(1)), None);
        assert_eq!(page.send_request(0, 0), number.wrapping_add(1));
    }
}
