//! What one process does with Coldstream: whether the library is in it, what it
//! says, and which of its tables the library cannot see being read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use coldstream_control::{Counter, Snapshot};
use coldstream_policy::{Profile, Role, mapped_file};
use serde::Serialize;

use super::cassandra;
use super::cgroup::{self, MemoryLimit};
use super::{mounts, paths};
use crate::exit::{self, Exit, failure};
use crate::library;
use crate::processes::{self, Status};

/// The report about a process.
#[derive(Serialize)]
pub struct Process {
    /// The process.
    pub pid: u32,
    /// Its command line.
    pub command: String,
    /// The library that is loaded into it.
    #[serde(serialize_with = "paths::maybe")]
    pub library: Option<PathBuf>,
    /// Whether its file was replaced or removed since: the process has an older one.
    pub library_is_replaced: bool,
    /// Whether its environment asked for the library.
    pub library_asked_for: bool,
    /// What it says about itself.
    pub status: Option<Snapshot>,
    /// Why there is no status, where that needs a word.
    pub status_missing: Option<String>,
    /// Tables that it has open.
    #[serde(serialize_with = "paths::all")]
    pub open_tables: BTreeSet<PathBuf>,
    /// jemalloc, if that is loaded into it.
    #[serde(serialize_with = "paths::maybe")]
    pub allocator: Option<PathBuf>,
    /// Tables that it has mapped: such reads are not seen.
    #[serde(serialize_with = "paths::all")]
    pub mapped_tables: BTreeSet<PathBuf>,
    /// Whether it has an io_uring: such reads are not seen.
    pub io_uring: bool,
    /// Threads whose names prove a background role, by role.
    pub background_threads: BTreeMap<&'static str, usize>,
    /// The tightest limit of its memory cgroup.
    pub memory_limit: Option<MemoryLimit>,
    /// Its configuration, if it is a Cassandra node and that can be read.
    pub cassandra: Option<cassandra::Node>,
    /// What to change.
    pub advice: Vec<String>,
}

/// Examines a process of this user, or any as root.
pub fn examine(pid: u32) -> anyhow::Result<Process> {
    if processes::started(pid).is_none() {
        return Err(processes::no_such_process(pid));
    }
    let maps =
        fs::read(processes::proc_path(pid, "maps")).map_err(|error| unreadable(pid, &error))?;
    let mapped = mapped_files(&maps);
    let (open_tables, io_uring) = open_files(pid).map_err(|error| unreadable(pid, &error))?;
    let (status, status_missing) = match processes::status(pid) {
        Status::Running(snapshot) => (Some(*snapshot), None),
        Status::Absent => (None, None),
        Status::Removed { pid } => {
            let text = format!("removed the page that ended process {pid} left behind");
            (None, Some(text))
        }
        Status::Unreadable(reason) => (None, Some(reason)),
    };
    let mut process = Process {
        pid,
        command: processes::command_line(pid),
        library: named(&mapped, |name| name == library::FILE_NAME.as_bytes()),
        library_is_replaced: is_replaced(&maps, library::FILE_NAME),
        allocator: named(&mapped, |name| name.starts_with(b"libjemalloc.so")),
        library_asked_for: library_asked_for(pid),
        status,
        status_missing,
        open_tables,
        mapped_tables: mapped.into_iter().filter(|path| is_table(path)).collect(),
        io_uring,
        background_threads: background_threads(pid),
        memory_limit: cgroup::memory_limit(&pid.to_string(), &mounts::read()),
        cassandra: None,
        advice: Vec::new(),
    };
    let unread = match cassandra::of_process(pid) {
        Some(Ok(node)) => {
            process.cassandra = Some(node);
            None
        }
        Some(Err(error)) => Some(format!("{error:#}")),
        None => None,
    };
    process.advice = advice(&process);
    process.advice.extend(unread);
    Ok(process)
}

fn unreadable(pid: u32, error: &std::io::Error) -> anyhow::Error {
    match processes::user(pid) {
        None => processes::no_such_process(pid),
        Some(owner) if exit::of_io(error) == Exit::Permission => processes::foreign(pid, owner),
        Some(_) => failure(
            exit::of_io(error),
            format!("cannot examine process {pid}: {error}"),
        ),
    }
}

/// What the kernel puts behind the name of a file that was replaced or removed since
/// (`proc_pid_maps(5)`).
const DELETED: &[u8] = b" (deleted)";

/// The files of `/proc/PID/maps`.
fn mapped_files(maps: &[u8]) -> BTreeSet<PathBuf> {
    maps.split(|&byte| byte == b'\n')
        .filter_map(mapped_file)
        .map(|file| PathBuf::from(std::ffi::OsStr::from_bytes(file.path)))
        .collect()
}

/// Whether a file of that name is mapped which has it no more.
fn is_replaced(maps: &[u8], name: &str) -> bool {
    let end = [b"/", name.as_bytes(), DELETED].concat();
    maps.split(|&byte| byte == b'\n')
        .any(|line| line.ends_with(&end))
}

/// The first file with such a name.
fn named(files: &BTreeSet<PathBuf>, is_such: impl Fn(&[u8]) -> bool) -> Option<PathBuf> {
    let has_such_a_name = |path: &&PathBuf| {
        path.file_name()
            .is_some_and(|name| is_such(name.as_bytes()))
    };
    files.iter().find(has_such_a_name).cloned()
}

fn is_table(path: &Path) -> bool {
    Profile::Auto
        .kind_of_file(path.as_os_str().as_bytes())
        .is_table()
}

/// Tables among the open files, and whether one of the files is an io_uring.
fn open_files(pid: u32) -> std::io::Result<(BTreeSet<PathBuf>, bool)> {
    let mut tables = BTreeSet::new();
    let mut io_uring = false;
    for entry in fs::read_dir(processes::proc_path(pid, "fd"))?.flatten() {
        // A descriptor that was closed meanwhile is no error.
        let Ok(target) = fs::read_link(entry.path()) else {
            continue;
        };
        io_uring |= target.as_os_str() == "anon_inode:[io_uring]";
        if is_table(&target) {
            tables.insert(target);
        }
    }
    Ok((tables, io_uring))
}

fn library_asked_for(pid: u32) -> bool {
    let environment = fs::read(processes::proc_path(pid, "environ")).unwrap_or_default();
    environment
        .split(|&byte| byte == 0)
        .filter(|variable| variable.starts_with(b"LD_PRELOAD="))
        .any(|variable| String::from_utf8_lossy(variable).contains(library::FILE_NAME))
}

fn background_threads(pid: u32) -> BTreeMap<&'static str, usize> {
    let mut threads = BTreeMap::new();
    let tasks = fs::read_dir(processes::proc_path(pid, "task"));
    for task in tasks.into_iter().flatten().flatten() {
        let name = fs::read(task.path().join("comm")).unwrap_or_default();
        let name = name.strip_suffix(b"\n").unwrap_or(&name);
        let role = Profile::Auto.role_of_thread(name);
        if role != Role::Foreground {
            *threads.entry(role.name()).or_default() += 1;
        }
    }
    threads
}

fn advice(process: &Process) -> Vec<String> {
    let mut advice = Vec::new();
    let replaced = process.cassandra.as_ref().and(process.allocator.as_ref());
    match (&process.library, process.library_asked_for) {
        (Some(library), _) if process.library_is_replaced => advice.push(format!(
            "{} was replaced since the process started, which goes on with the older one: restart it \
             to use the new one",
            library.display()
        )),
        (Some(_), _) => {}
        (None, true) => advice.push(
            "LD_PRELOAD names the library, but the loader did not load it: the program is static, \
             setuid or for another C library, or the file is gone; see the program's first lines \
             on standard error"
                .to_owned(),
        ),
        (None, false) => advice.push(match replaced {
            // `bin/cassandra`: `export LD_PRELOAD=$CASSANDRA_LIBJEMALLOC`.
            Some(allocator) => format!(
                "the library is not loaded: Cassandra's start script puts jemalloc in the place of \
                 whatever LD_PRELOAD was; set CASSANDRA_LIBJEMALLOC=/…/{}:{} for it",
                library::FILE_NAME,
                allocator.display()
            ),
            None => {
                "the library is not loaded: start the program with `coldstream run -- …`".to_owned()
            }
        }),
    }
    let says_so_already = |node: &cassandra::Node| node.data_reads == "mmap";
    if !process.mapped_tables.is_empty() && !process.cassandra.as_ref().is_some_and(says_so_already)
    {
        advice.push(
            "tables are read through mmap, which no library sees: for Cassandra set \
             `disk_access_mode: mmap_index_only` (4.1) or `standard`, for RocksDB \
             `allow_mmap_reads=false`"
                .to_owned(),
        );
    }
    if process.io_uring {
        advice.push(
            "the program has an io_uring: reads through it are not seen, and stay as they are"
                .to_owned(),
        );
    }
    let refused = |status: &Snapshot| status.get(Counter::PriorityRefused) > 0;
    if process.status.as_ref().is_some_and(refused) {
        advice.push(
            "nice values of background threads are left alone, since the process could not take \
             them back: give it CAP_SYS_NICE or an RLIMIT_NICE of 20 (systemd: `LimitNICE=+0`), or \
             start it with --priority always"
                .to_owned(),
        );
    }
    if process.library.is_some() && process.status.is_none() && !process.open_tables.is_empty() {
        advice.push(
            "tables are open but there is no status page of this user: run this as the program's \
             own user, and see its log for COLDSTREAM=off or a refused configuration"
                .to_owned(),
        );
    }
    advice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_map() {
        let maps = b"7f00-7f01 r--p 00000000 08:01 42   /opt/lib coldstream/libcoldstream.so\n\
            7f02-7f03 rw-p 00000000 00:00 0\n\
            7f04-7f05 rw-p 00000000 00:00 0   [stack]\n\
            7f06-7f07 r--s 00000000 08:01 43   /d/nb-1-big-Data.db\n";
        let files: Vec<_> = mapped_files(maps).into_iter().collect();
        assert_eq!(files.len(), 2);
        assert_eq!(
            files[1],
            PathBuf::from("/opt/lib coldstream/libcoldstream.so")
        );
        assert!(is_table(&files[0]));
        assert!(!is_replaced(maps, "libcoldstream.so"));
    }

    #[test]
    fn a_library_that_was_replaced_is_still_loaded() {
        let maps = b"7f00-7f01 r--p 00000000 08:01 42   /opt/libcoldstream.so (deleted)\n";
        let files = mapped_files(maps);
        let found = named(&files, |name| name == b"libcoldstream.so");
        assert_eq!(found, Some("/opt/libcoldstream.so".into()));
        assert!(is_replaced(maps, "libcoldstream.so"));
    }

    #[test]
    fn this_process_can_be_examined() {
        let process = examine(std::process::id()).unwrap();
        assert!(process.library.is_none());
        assert!(process.advice[0].contains("coldstream run"));
    }
}
