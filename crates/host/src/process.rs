//! One process, as `/proc` shows it.
//!
//! `procfs` parses `status` and `limits`. Command lines, environments and mappings are read by hand: `procfs` (0.18)
//! requires UTF-8 in two of them, and keeps the last of two equal variables where `getenv` finds the first.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use coldstream_control::{start_time_ticks, stat_field};
use coldstream_policy::mapped_file;
use procfs::process::{LimitValue, Process, Status};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Ticks of `/proc/PID/stat` are 10 ms on every architecture that Linux supports here (`USER_HZ`).
const TICK_NS: u64 = 10_000_000;

/// What the kernel appends to the path of a mapped file that was deleted (proc_pid_maps(5)).
const DELETED: &[u8] = b" (deleted)";

/// A file of the process in `/proc`.
#[must_use]
pub fn proc_path(pid: u32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{name}"))
}

/// Start of the process in clock ticks since boot; `None` if it has ended.
#[must_use]
pub fn started(pid: u32) -> Option<u64> {
    start_time_ticks(&stat_of_living(pid)?)
}

/// Whether the process is gone, or waits for its parent only.
#[must_use]
pub fn has_ended(pid: u32) -> bool {
    stat_of_living(pid).is_none()
}

/// A process by a descriptor. It tells the end also where `/proc` hides the process, or no further descriptor can be
/// had, and its number may be given out again.
#[derive(Debug)]
pub struct ProcessHandle(OwnedFd);

impl ProcessHandle {
    /// Needs no right.
    ///
    /// # Errors
    /// The kernel's; `NotFound` if there is no such process.
    pub fn open(pid: u32) -> io::Result<Self> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or(io::ErrorKind::NotFound)?;
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => Ok(Self(handle)),
            Err(Errno::SRCH) => Err(io::ErrorKind::NotFound.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the process has ended, with all its threads.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec::default())).is_ok_and(|count| count > 0)
    }
}

/// Whether a signal or a debugger has stopped it; false if it has ended.
#[must_use]
pub fn is_stopped(pid: u32) -> bool {
    status(pid).is_some_and(|it| it.state.to_ascii_lowercase().starts_with('t'))
}

/// The line `/proc/PID/stat` of a process that has not ended.
fn stat_of_living(pid: u32) -> Option<Vec<u8>> {
    let stat = fs::read(proc_path(pid, "stat")).ok()?;
    // The name in parentheses may hold any bytes, parentheses too.
    let state = stat.rsplit(|&byte| byte == b')').next()?;
    let is_dead = matches!(state.trim_ascii_start().first(), None | Some(b'Z' | b'X'));
    // The state is that of the first thread: it may end before the others (`pthread_exit` in `main`).
    let threads = stat_field(&stat, 20).unwrap_or(0);
    (!is_dead || threads > 1).then_some(stat)
}

/// The effective user.
#[must_use]
pub fn user(pid: u32) -> Option<u32> {
    // The owner of the directory would be root for a process that is not dumpable.
    Some(status(pid)?.euid)
}

/// The process that started it, or took it over; `None` if it has ended.
#[must_use]
pub fn parent(pid: u32) -> Option<u32> {
    u32::try_from(status(pid)?.ppid).ok()
}

/// The parent of a process that has ended, and that this parent has not collected yet (a zombie).
#[must_use]
pub fn parent_of_zombie(pid: u32) -> Option<u32> {
    let parent = parent(pid)?;
    // 0: a process in another namespace of process ids.
    (has_ended(pid) && parent != 0).then_some(parent)
}

/// The effective group.
#[must_use]
pub fn group(pid: u32) -> Option<u32> {
    Some(status(pid)?.egid)
}

/// The supplementary groups.
#[must_use]
pub fn supplementary_groups(pid: u32) -> Vec<u32> {
    status(pid).map(|it| it.groups).unwrap_or_default()
}

/// Whether that is the caller's user.
#[must_use]
pub fn is_own_user(user: u32) -> bool {
    user == rustix::process::geteuid().as_raw()
}

/// The process's id in its container: a pid namespace below the caller's. `None` outside containers.
#[must_use]
pub fn id_in_container(pid: u32) -> Option<u32> {
    innermost(&status(pid)?)
}

fn innermost(status: &Status) -> Option<u32> {
    let (_, inner) = status.nspid.as_ref()?.split_first()?;
    u32::try_from(*inner.last()?).ok()
}

/// Whether system calls of the process are filtered (seccomp); false if it has ended.
#[must_use]
pub fn is_filtered(pid: u32) -> bool {
    const FILTER: u32 = 2;
    status(pid).and_then(|status| status.seccomp) == Some(FILTER)
}

/// Number of filters of its system calls; `None` if it has ended, or before Linux 5.9.
#[must_use]
pub fn filters(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(proc_path(pid, "status")).ok()?;
    let mut lines = status.lines();
    let number = lines.find_map(|line| line.strip_prefix("Seccomp_filters:"))?;
    number.trim().parse().ok()
}

/// Whether the root directory of the process is the caller's; false if the caller may not know.
#[must_use]
pub fn has_own_root(pid: u32) -> bool {
    let identity = |path: PathBuf| {
        let found = fs::metadata(path).ok()?;
        Some((found.dev(), found.ino()))
    };
    let root = identity(proc_path(pid, "root"));
    root.is_some() && root == identity(PathBuf::from("/"))
}

fn status(pid: u32) -> Option<Status> {
    process(pid)?.status().ok()
}

fn process(pid: u32) -> Option<Process> {
    Process::new(i32::try_from(pid).ok()?).ok()
}

/// The command line, or the short name in brackets where there is none.
#[must_use]
pub fn command_line(pid: u32) -> String {
    let arguments = fs::read(proc_path(pid, "cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&arguments).replace('\0', " ");
    if text.trim().is_empty() {
        let name = fs::read_to_string(proc_path(pid, "comm")).unwrap_or_default();
        return format!("[{}]", name.trim());
    }
    text.trim().to_owned()
}

/// The short name (`comm`) without control characters; empty if the process has ended.
#[must_use]
pub fn short_name(pid: u32) -> String {
    let name = fs::read(proc_path(pid, "comm")).unwrap_or_default();
    let name = String::from_utf8_lossy(&name);
    name.trim_end_matches('\n').replace(char::is_control, "?")
}

/// The arguments, the program first; `None` if they cannot be read.
#[must_use]
pub fn arguments(pid: u32) -> Option<Vec<OsString>> {
    let line = fs::read(proc_path(pid, "cmdline")).ok()?;
    let line = line.strip_suffix(b"\0").unwrap_or(&line);
    let arguments = line.split(|&byte| byte == 0);
    Some(arguments.map(owned).collect())
}

/// The environment that the process was started with, in its order. Empty if it cannot be read.
#[must_use]
pub fn environment(pid: u32) -> Vec<(OsString, OsString)> {
    parse_environment(&fs::read(proc_path(pid, "environ")).unwrap_or_default())
}

/// The text of `environ` as names and values.
#[must_use]
pub fn parse_environment(environ: &[u8]) -> Vec<(OsString, OsString)> {
    let variables = environ.split(|&byte| byte == 0).filter_map(|variable| {
        let equals = variable.iter().position(|&byte| byte == b'=')?;
        let (name, value) = variable.split_at(equals);
        Some((owned(name), owned(value.get(1..)?)))
    });
    variables.collect()
}

fn owned(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_owned())
}

/// One thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its id.
    pub id: i32,
    /// Its name, without the newline. 15 bytes at most.
    pub name: Vec<u8>,
}

/// All threads; empty if the process has ended.
#[must_use]
pub fn threads(pid: u32) -> Vec<Thread> {
    let ids = thread_ids(pid).into_iter();
    let threads = ids.filter_map(|id| {
        let name = thread_name(pid, id)?;
        Some(Thread { id, name })
    });
    threads.collect()
}

/// The ids of all threads; empty if the process has ended.
#[must_use]
pub fn thread_ids(pid: u32) -> Vec<i32> {
    let tasks = fs::read_dir(proc_path(pid, "task"));
    let ids = tasks.into_iter().flatten().flatten();
    ids.filter_map(|task| task.file_name().to_str()?.parse().ok())
        .collect()
}

/// The name of a thread, without the newline; `None` if it has ended.
#[must_use]
pub fn thread_name(pid: u32, thread: i32) -> Option<Vec<u8>> {
    // Shorter than this. `fs::read` would ask for the size first, and read twice.
    let mut name = [0; 64];
    let mut file = fs::File::open(proc_path(pid, &format!("task/{thread}/comm"))).ok()?;
    let length = file.read(&mut name).ok()?;
    let name = name.get(..length)?;
    Some(name.strip_suffix(b"\n").unwrap_or(name).to_owned())
}

/// What each open descriptor refers to.
///
/// # Errors
/// The caller may not look into the process, or it has ended.
pub fn open_files(pid: u32) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(proc_path(pid, "fd"))?.flatten();
    let targets = entries.filter_map(|entry| match fs::read_link(entry.path()) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Some(Err(error)),
        // A descriptor that was closed meanwhile is no error.
        target => target.ok().map(Ok),
    });
    targets.collect()
}

/// Number of open descriptors; 0 if the caller may not look into the process.
#[must_use]
pub fn descriptors(pid: u32) -> usize {
    fs::read_dir(proc_path(pid, "fd")).map_or(0, Iterator::count)
}

/// Soft limit of open descriptors; `None` if there is no limit.
#[must_use]
pub fn descriptor_limit(pid: u32) -> Option<u64> {
    match process(pid)?.limits().ok()?.max_open_files.soft_limit {
        LimitValue::Value(limit) => Some(limit),
        LimitValue::Unlimited => None,
    }
}

/// The files that a process has mapped.
#[derive(Clone, Debug)]
pub struct Mappings {
    maps: Vec<u8>,
}

impl Mappings {
    /// Those of a process.
    ///
    /// # Errors
    /// The caller may not look into the process, or it has ended.
    pub fn of(pid: u32) -> io::Result<Self> {
        Ok(Self::parse(fs::read(proc_path(pid, "maps"))?))
    }

    /// Those in the text of `maps`.
    #[must_use]
    pub fn parse(maps: Vec<u8>) -> Self {
        Self { maps }
    }

    /// Their paths. A file that was deleted has the path that it had.
    #[must_use]
    pub fn files(&self) -> BTreeSet<PathBuf> {
        self.lines()
            .filter_map(mapped_file)
            .map(|file| PathBuf::from(OsStr::from_bytes(file.path)))
            .collect()
    }

    /// Whether the mapped file of this path was deleted. Another one may be in its place.
    #[must_use]
    pub fn is_deleted(&self, path: &Path) -> bool {
        let end = [b" ", path.as_os_str().as_bytes(), DELETED].concat();
        self.lines().any(|line| line.ends_with(&end))
    }

    /// The kernel's link to a mapped file of process `pid`. It leads to one that was deleted, too. Only root may follow it.
    #[must_use]
    pub fn link_to(&self, pid: u32, path: &Path) -> Option<PathBuf> {
        let mut files = self.lines().filter_map(mapped_file);
        let file = files.find(|file| file.path == path.as_os_str().as_bytes())?;
        let end = file.address.checked_add(file.length_bytes)?;
        let name = format!("map_files/{:x}-{end:x}", file.address);
        Some(proc_path(pid, &name))
    }

    fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.maps.split(|&byte| byte == b'\n')
    }
}

/// Memory and threads of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Resident memory that belongs to no file: heaps, stacks, buffers.
    pub anonymous_bytes: u64,
    /// Resident memory, mapped files included.
    pub resident_bytes: u64,
    /// Number of threads.
    pub threads: u64,
}

/// Memory and threads of a process; `None` if it has ended.
#[must_use]
pub fn usage(pid: u32) -> Option<Usage> {
    let status = status(pid)?;
    Some(Usage {
        anonymous_bytes: status.rssanon.unwrap_or(0) << 10,
        resident_bytes: status.vmrss.unwrap_or(0) << 10,
        threads: status.threads,
    })
}

/// Processor time of all threads, user and system; 0 if the process has ended.
#[must_use]
pub fn processor_time_ns(pid: u32) -> u64 {
    let stat = fs::read(proc_path(pid, "stat")).unwrap_or_default();
    let ticks = |number| stat_field(&stat, number).unwrap_or(0);
    (ticks(14) + ticks(15)) * TICK_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_known() {
        let pid = std::process::id();
        assert!(started(pid).is_some());
        assert!(!has_ended(pid));
        assert!(!is_stopped(pid) && !is_stopped(u32::MAX));
        assert_eq!(user(pid), Some(rustix::process::geteuid().as_raw()));
        assert_eq!(parent(pid), Some(std::os::unix::process::parent_id()));
        assert!(!command_line(pid).is_empty());
        assert_eq!(arguments(pid).unwrap().len(), std::env::args_os().len());
        assert_eq!(started(u32::MAX), None);
        assert!(has_ended(u32::MAX));
        assert_eq!(id_in_container(pid), None);
        let usage = usage(pid).unwrap();
        assert!(usage.resident_bytes > usage.anonymous_bytes && usage.anonymous_bytes > 0);
        assert!(usage.threads >= 1 && !threads(pid).is_empty());
        assert!(descriptors(pid) >= 3 && !open_files(pid).unwrap().is_empty());
        assert!(descriptor_limit(pid).is_none_or(|limit| limit > 3));
        assert!(!environment(pid).is_empty());
        assert!(has_own_root(pid) && !has_own_root(u32::MAX));
        assert!(filters(pid).is_none_or(|filters| is_filtered(pid) == (filters > 0)));
    }

    #[test]
    fn a_child_that_nobody_waited_for_has_ended() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        while !has_ended(child.id()) {
            std::thread::yield_now();
        }
        assert!(proc_path(child.id(), "stat").exists());
        assert_eq!(started(child.id()), None);
        let own = std::process::id();
        assert_eq!(parent_of_zombie(child.id()), Some(own));
        child.wait().unwrap();
        assert_eq!(parent_of_zombie(child.id()), None);
        assert_eq!(parent_of_zombie(own), None);
    }

    #[test]
    fn the_innermost_of_several_ids() {
        let text = fs::read_to_string("/proc/self/status").unwrap();
        let with_ids = |ids: &str| {
            let lines = text.lines().map(|line| match line.starts_with("NSpid:") {
                true => format!("NSpid:\t{ids}\n"),
                false => format!("{line}\n"),
            });
            let text: String = lines.collect();
            use procfs::FromBufRead;
            innermost(&Status::from_buf_read(text.as_bytes()).unwrap())
        };
        assert_eq!(with_ids("4711\t18\t1"), Some(1));
        assert_eq!(with_ids("4711"), None);
    }

    #[test]
    fn variables_are_in_their_order() {
        let variables = parse_environment(b"A=1\0A=2\0nonsense\0B=\xff=\0");
        let texts: Vec<_> = variables
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
            .collect();
        let expected: [(&[u8], &[u8]); 3] = [(b"A", b"1"), (b"A", b"2"), (b"B", b"\xff=")];
        assert_eq!(texts, expected);
    }

    #[test]
    fn files_of_the_map() {
        let maps = b"7f00-7f01 r--p 00000000 08:01 42   /opt/lib coldstream/libcoldstream.so\n\
            7f02-7f03 rw-p 00000000 00:00 0\n\
            7f04-7f05 rw-p 00000000 00:00 0   [stack]\n\
            7f06-7f07 r--s 00000000 08:01 43   /d/nb-1-big-Data.db\n";
        let mappings = Mappings::parse(maps.to_vec());
        let files: Vec<_> = mappings.files().into_iter().collect();
        assert_eq!(files.len(), 2);
        assert_eq!(
            files[1],
            PathBuf::from("/opt/lib coldstream/libcoldstream.so")
        );
        assert!(!mappings.is_deleted(Path::new("/opt/libcoldstream.so")));
    }

    #[test]
    fn a_library_that_was_deleted_is_still_loaded() {
        let maps = b"7f00-7f01 r--p 00000000 08:01 42   /opt/libcoldstream.so (deleted)\n\
                     7f02-7f03 r--p 00000000 08:01 43   /new/libcoldstream.so\n";
        let mappings = Mappings::parse(maps.to_vec());
        assert!(
            mappings
                .files()
                .contains(&PathBuf::from("/opt/libcoldstream.so"))
        );
        assert!(mappings.is_deleted(Path::new("/opt/libcoldstream.so")));
        assert!(!mappings.is_deleted(Path::new("/new/libcoldstream.so")));
        let link = mappings.link_to(7, Path::new("/opt/libcoldstream.so"));
        assert_eq!(link, Some(PathBuf::from("/proc/7/map_files/7f00-7f01")));
        assert_eq!(mappings.link_to(7, Path::new("/opt/other.so")), None);
    }
}
