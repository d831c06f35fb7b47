//! What `/proc` says about a process. Processes end at any moment: nothing here
//! assumes that two reads see the same one.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use coldstream_control::{
    PageError, PageView, PidNamespace, Snapshot, page_path, pid_of_file_name, start_time_ticks,
};
use coldstream_io::Errno;
use coldstream_io::shared::{SharedPage, SharedPageError};

use crate::exit::{Exit, failure};

/// A file of a process in `/proc`.
pub fn proc_path(pid: u32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{name}"))
}

/// Start of the process in clock ticks since boot; `None` if there is no such process.
pub fn started(pid: u32) -> Option<u64> {
    start_time_ticks(&fs::read(proc_path(pid, "stat")).ok()?)
}

/// The user that the process runs as.
pub fn user(pid: u32) -> Option<u32> {
    // The owner of the directory would be root for a process that is not dumpable.
    let status = fs::read_to_string(proc_path(pid, "status")).ok()?;
    numbers(&status, "Uid:").nth(1)
}

/// Whether that is the caller's user.
pub fn is_own_user(user: u32) -> bool {
    user == rustix::process::geteuid().as_raw()
}

/// Its id in a container (a pid namespace below the caller's), if it is in one.
pub fn id_in_container(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(proc_path(pid, "status")).ok()?;
    numbers(&status, "NSpid:").skip(1).last()
}

/// The numbers of a line of `/proc/PID/status`.
fn numbers<'a>(status: &'a str, name: &str) -> impl Iterator<Item = u32> + use<'a> {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let words = line.unwrap_or_default().split_whitespace();
    words.filter_map(|word| word.parse().ok())
}

/// The command line, or the short name in brackets where there is none.
pub fn command_line(pid: u32) -> String {
    let arguments = fs::read(proc_path(pid, "cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&arguments).replace('\0', " ");
    if text.trim().is_empty() {
        let name = fs::read_to_string(proc_path(pid, "comm")).unwrap_or_default();
        return format!("[{}]", name.trim());
    }
    text.trim().to_owned()
}

/// The error for a process that is not there.
pub fn no_such_process(pid: u32) -> anyhow::Error {
    failure(Exit::NotFound, format!("there is no process {pid}"))
}

/// The error for a process of somebody else.
pub fn foreign(pid: u32, owner: u32) -> anyhow::Error {
    failure(
        Exit::Permission,
        format!(
            "process {pid} belongs to user {owner}: only that user can look into it; use \
             `sudo -u '#{owner}' coldstream …`"
        ),
    )
}

/// What to do about a process whose page is in a container.
pub fn in_container(pid: u32, inside: u32, owner: u32) -> String {
    format!(
        "process {pid} is in a container, and so is its status page: run `coldstream ctl status \
         {inside}` inside it, as user {owner}"
    )
}

/// What became of the look at a status page.
pub enum Status {
    /// The process lives and this is what it says.
    Running(Box<Snapshot>),
    /// There is no page: the process does not run under Coldstream, or has not
    /// opened a table yet.
    Absent,
    /// The page was left by a process that has ended, and is removed now.
    Removed {
        /// That process.
        pid: u32,
    },
    /// The page cannot be read.
    Unreadable(String),
}

/// What the process `pid`, of this user, says about itself.
///
/// # Errors
/// Why there is nothing to be had: one line, with a code of its own.
pub fn running(pid: u32) -> anyhow::Result<Box<Snapshot>> {
    own_directory().map_err(|reason| failure(Exit::Permission, reason))?;
    match status_at(&page_of(pid), pid) {
        Status::Running(snapshot) => Ok(snapshot),
        Status::Removed { pid: left_by } => Err(failure(
            Exit::NotFound,
            format!(
                "the status page was left behind by process {left_by}, which has ended; it is \
                 removed"
            ),
        )),
        Status::Unreadable(reason) => Err(failure(Exit::Failure, reason)),
        Status::Absent => Err(absent(pid)),
    }
}

fn absent(pid: u32) -> anyhow::Error {
    let Some(owner) = user(pid) else {
        return no_such_process(pid);
    };
    if let Some(inside) = id_in_container(pid) {
        let code = if is_own_user(owner) {
            Exit::NotFound
        } else {
            Exit::Permission
        };
        return failure(code, in_container(pid, inside, owner));
    }
    if !is_own_user(owner) {
        return foreign(pid, owner);
    }
    failure(
        Exit::NotFound,
        format!(
            "process {pid} has no status page: it does not run under Coldstream, or has not \
             opened a table yet; see `coldstream doctor {pid}`"
        ),
    )
}

/// Reads the status page of `pid`, a process of this user.
pub fn status(pid: u32) -> Status {
    match own_directory() {
        Ok(_) => status_at(&page_of(pid), pid),
        Err(reason) => Status::Unreadable(reason),
    }
}

/// The directory of this user's status pages, there or not; or why nothing in it is to be believed: it is another
/// user's, in which the library makes no page.
fn own_directory() -> Result<PathBuf, String> {
    let user = rustix::process::geteuid().as_raw();
    let directory = coldstream_control::directory_path(user);
    match fs::symlink_metadata(&directory).map(|found| found.uid()) {
        Ok(owner) if owner != user => Err(format!(
            "{} belongs to user {owner}, not to you: somebody else made it; remove it as root, and \
             start the processes again",
            directory.display()
        )),
        _ => Ok(directory),
    }
}

/// Where the status page of `pid`, a process of this user, is.
pub fn page_of(pid: u32) -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    page_path(user, pid, PidNamespace::own())
}

fn status_at(path: &Path, pid: u32) -> Status {
    let Ok(c_path) = CString::new(path.as_os_str().as_bytes()) else {
        return Status::Absent;
    };
    let page = match SharedPage::open(&c_path) {
        Ok(page) => page,
        Err(SharedPageError::Call { errno, .. }) if is_not_found(errno) => return Status::Absent,
        Err(error) => return Status::Unreadable(format!("{}: {error}", path.display())),
    };
    let snapshot = PageView::new(page.words()).and_then(|view| match started(pid) {
        Some(started) => view.snapshot_of(pid, started),
        None => Err(PageError::Stale { pid }),
    });
    match snapshot {
        Ok(snapshot) => Status::Running(Box::new(snapshot)),
        // The directory is this user's alone, and so is what lies in it.
        Err(PageError::Stale { pid }) => match fs::remove_file(path) {
            Ok(()) => Status::Removed { pid },
            Err(error) => Status::Unreadable(format!("{}: {error}", path.display())),
        },
        Err(error) => Status::Unreadable(format!("{}: {error}", path.display())),
    }
}

fn is_not_found(errno: Errno) -> bool {
    io::Error::from(errno).kind() == io::ErrorKind::NotFound
}

/// Processes of this user that have a status page, by process id.
pub fn with_pages() -> anyhow::Result<Vec<u32>> {
    let directory = own_directory().map_err(|reason| failure(Exit::Permission, reason))?;
    let unlisted = |error: io::Error| {
        let message = format!("cannot list {}: {error}", directory.display());
        failure(crate::exit::of_io(&error), message)
    };
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unlisted(error)),
    };
    let namespace = PidNamespace::own();
    let mut pids: Vec<u32> = entries
        .flatten()
        .filter_map(|entry| pid_of_file_name(&entry.file_name(), namespace))
        .collect();
    pids.sort_unstable();
    Ok(pids)
}

/// What a page begins with, for tests.
#[cfg(test)]
pub fn header(pid: u32, start_time_ticks: u64) -> coldstream_control::Header {
    coldstream_control::Header {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn c_string(path: &Path) -> CString {
        CString::new(path.as_os_str().as_bytes()).unwrap()
    }

    fn page_of(path: &Path, pid: u32, start_time_ticks: u64) {
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
        assert!(matches!(status_at(&path, pid), Status::Absent));
        page_of(&path, pid, started(pid).unwrap());
        assert!(matches!(status_at(&path, pid), Status::Running(_)));
        page_of(&path, pid, 1);
        assert!(matches!(status_at(&path, pid), Status::Removed { .. }));
        assert!(!path.exists());
        page_of(&path, pid, 1);
        fs::write(&path, vec![7; 4096]).unwrap();
        assert!(matches!(status_at(&path, pid), Status::Unreadable(_)));
        fs::write(&path, "short").unwrap();
        assert!(matches!(status_at(&path, pid), Status::Unreadable(_)));
    }

    #[test]
    fn this_process_is_known() {
        let pid = std::process::id();
        assert!(started(pid).is_some());
        assert_eq!(user(pid), Some(rustix::process::geteuid().as_raw()));
        assert!(!command_line(pid).is_empty());
        assert_eq!(started(u32::MAX), None);
        assert_eq!(id_in_container(pid), None);
    }

    #[test]
    fn lines_of_numbers() {
        let status = "Name:\tjava\nUid:\t0\t999\t0\t0\nNSpid:\t4711\t18\t1\n";
        assert_eq!(numbers(status, "Uid:").nth(1), Some(999));
        assert_eq!(numbers(status, "NSpid:").skip(1).last(), Some(1));
        assert_eq!(numbers("NSpid:\t4711\n", "NSpid:").skip(1).last(), None);
        assert_eq!(numbers(status, "Gid:").next(), None);
    }
}
