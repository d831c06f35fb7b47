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
use super::environment::{Environment, Settings};
use super::{machine, mounts, paths};
use crate::exit::{self, Exit, failure};
use crate::library;
use crate::processes::{self, Status, proc_path};

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
    /// Variables of its environment that look like Coldstream's, and are not.
    pub unknown_variables: Vec<String>,
    /// Whether Coldstream is switched off in its environment.
    pub switched_off: bool,
    /// Why the library refuses its settings, and does nothing.
    pub settings_refused: Option<String>,
    /// Its id in the container that it is in.
    pub id_in_container: Option<u32>,
    /// Open files that it may have (soft limit).
    pub descriptor_limit: Option<u64>,
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
    let maps = fs::read(proc_path(pid, "maps")).map_err(|error| unreadable(pid, &error))?;
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
    let environment = Environment::of_process(pid);
    let library = named(&mapped, |name| name == library::FILE_NAME.as_bytes());
    // What has a status page has accepted them, whatever has become of its file since.
    let settings = match (&library, &status) {
        (Some(_), None) => environment.settings(pid),
        _ => Settings::Accepted,
    };
    let mut process = Process {
        pid,
        command: processes::command_line(pid),
        library,
        library_is_replaced: is_replaced(&maps, library::FILE_NAME),
        allocator: named(&mapped, |name| name.starts_with(b"libjemalloc.so")),
        library_asked_for: environment.asks_for_library(),
        unknown_variables: environment.unknown_variables(),
        switched_off: settings == Settings::Off,
        settings_refused: match settings {
            Settings::Refused(why) => Some(why),
            Settings::Accepted | Settings::Off => None,
        },
        id_in_container: processes::id_in_container(pid),
        descriptor_limit: descriptor_limit(pid),
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
        Some(owner) if exit::of_io(error) == Exit::Permission => {
            if processes::is_own_user(owner) {
                let message = format!(
                    "process {pid} does not let its own user look into it (it has changed its user, \
                     or its program may not be read): run `coldstream doctor {pid}` as root; \
                     `coldstream ctl status {pid}` can be asked by its user"
                );
                return failure(Exit::Permission, message);
            }
            processes::foreign(pid, owner)
        }
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
    for entry in fs::read_dir(proc_path(pid, "fd"))?.flatten() {
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

fn descriptor_limit(pid: u32) -> Option<u64> {
    soft_limit_of_files(&fs::read_to_string(proc_path(pid, "limits")).ok()?)
}

/// The soft limit of open files in `/proc/PID/limits`; none where there is none.
fn soft_limit_of_files(limits: &str) -> Option<u64> {
    let mut lines = limits.lines();
    let row = lines.find_map(|line| line.strip_prefix("Max open files"))?;
    row.split_whitespace().next()?.parse().ok()
}

fn background_threads(pid: u32) -> BTreeMap<&'static str, usize> {
    let mut threads = BTreeMap::new();
    let tasks = fs::read_dir(proc_path(pid, "task"));
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
    if let Some(limit) = process.descriptor_limit {
        let how = "`ulimit -n` before it is started (systemd: `LimitNOFILE=`)";
        advice.extend(machine::descriptor_advice(limit, "the process", how));
    }
    advice.extend(process.unknown_variables.iter().map(|name| {
        format!("its environment has {name}, which is not a variable of Coldstream: ignored")
    }));
    advice.extend(why_nothing_is_done(process));
    advice
}

/// Why the library, which is loaded, does nothing, or nobody can tell what it does.
fn why_nothing_is_done(process: &Process) -> Option<String> {
    if process.library.is_none() || process.status.is_some() {
        return None;
    }
    if let Some(why) = &process.settings_refused {
        return Some(format!(
            "the library refuses its settings, and does nothing: {why}; correct them and restart it"
        ));
    }
    if process.switched_off {
        return Some("COLDSTREAM=off in its environment: the library does nothing".to_owned());
    }
    if process.open_tables.is_empty() || process.status_missing.is_some() {
        return None;
    }
    let owner = processes::user(process.pid)?;
    if let Some(inside) = process.id_in_container {
        return Some(processes::in_container(process.pid, inside, owner));
    }
    if !processes::is_own_user(owner) {
        return Some(format!(
            "its status page is its own user's: run this as user {owner}"
        ));
    }
    Some(
        "tables are open but there is no status page: it could not be made in /dev/shm, or was \
         removed (`RemoveIPC` of logind.conf removes those of a user who logs out)"
            .to_owned(),
    )
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
    fn limits_of_open_files() {
        let limits = "Limit       Soft Limit  Hard Limit  Units\n\
            Max open files            1024                 524288               files     \n";
        assert_eq!(soft_limit_of_files(limits), Some(1024));
        let limits = "Max open files            unlimited            unlimited            files\n";
        assert_eq!(soft_limit_of_files(limits), None);
    }

    #[test]
    fn this_process_can_be_examined() {
        let process = examine(std::process::id()).unwrap();
        assert!(process.library.is_none());
        assert!(process.advice[0].contains("coldstream run"));
    }
}
