//! One process and Coldstream: whether the library is in it, its counters, and the SSTables whose reads the library
//! cannot see.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use coldstream_control::{Counter, Mechanism, Snapshot, Switches};
use coldstream_host::cgroup::{self, MemoryLimit};
use coldstream_host::mounts;
use coldstream_host::process::{self, Mappings, Thread};
use coldstream_host::status_page;
use coldstream_host::survey::Surveyed;
use coldstream_host::user_name;
use coldstream_policy::{AvoidedCalls, Profile, Role, descriptors};
use serde::Serialize;

use super::cassandra;
use super::environment::{Environment, Settings};
use super::loaded;
use super::loading::how_to_load;
use super::log;
use super::mapped;
use super::paths;
use crate::ctl::values::count;
use crate::exit::{self, Exit, failure};
use crate::library;
use crate::processes::{self, NothingToFollow, Status};
use crate::{run, title};

/// The target of the descriptor of an io_uring.
const IO_URING: &str = "anon_inode:[io_uring]";

/// Names of unknown threads that are printed.
const UNKNOWN_THREADS_MAX: usize = 8;

/// The report about a process.
#[derive(Serialize)]
pub struct Process {
    /// Whether its status page is mapped in it.
    #[serde(skip)]
    pub has_page_mapped: bool,
    /// The process.
    pub pid: u32,
    /// Its command line.
    pub command: String,
    /// What it is, in one line of a screen.
    #[serde(skip)]
    pub title: String,
    /// The library that is loaded.
    #[serde(serialize_with = "paths::maybe")]
    pub library: Option<PathBuf>,
    /// Whether `coldstream attach` works for it.
    pub is_attached: bool,
    /// The process of `coldstream attach`, and how many files that may open.
    #[serde(skip)]
    pub keeper: Option<(u32, u64)>,
    /// Whether it has no dynamic loader: no library can be preloaded.
    pub is_static: bool,
    /// Whether it is written in Go: no library sees what Go itself reads and writes.
    pub is_go: bool,
    /// Whether the library's file was deleted, renamed or replaced since: the process runs an older one.
    pub library_is_replaced: bool,
    /// Where `LD_PRELOAD` names the library, if another file or none is there.
    #[serde(skip)]
    pub library_named_elsewhere: Option<PathBuf>,
    /// Whether a restart finds a file where `LD_PRELOAD` names the library.
    #[serde(skip)]
    pub restart_finds_library: bool,
    /// Whether `LD_PRELOAD` of its environment names the library.
    pub library_asked_for: bool,
    /// The C interface, if `LD_PRELOAD` of its environment names that.
    #[serde(skip)]
    pub c_interface_preloaded: Option<PathBuf>,
    /// Variables of its environment that look like Coldstream's but have no meaning.
    pub unknown_variables: Vec<String>,
    /// Whether its environment switches Coldstream off.
    pub switched_off: bool,
    /// Why the library refuses its settings and does nothing.
    pub settings_refused: Option<String>,
    /// The engine whose names its library knows, by its status page, or else by its environment.
    pub profile: Option<&'static str>,
    /// The engine that its threads are named for, if that is another.
    #[serde(skip)]
    pub profile_of_threads: Option<&'static str>,
    /// Its id in its container.
    pub id_in_container: Option<u32>,
    /// Whether its system calls are filtered (seccomp).
    pub is_filtered: bool,
    /// The calls of Coldstream for which the filters kill; none if that is not known.
    #[serde(skip)]
    pub killing_calls: Option<AvoidedCalls>,
    /// Whether its environment says which calls the library avoids. `coldstream run` says that.
    #[serde(skip)]
    pub was_tried_out: bool,
    /// Soft limit of open files.
    pub descriptor_limit: Option<u64>,
    /// Its status page.
    pub status: Option<Snapshot>,
    /// Mechanisms that `coldstream ctl off` has switched off.
    pub mechanisms_off: Vec<&'static str>,
    /// Why there is no status page, if that needs an explanation.
    pub status_missing: Option<String>,
    /// SSTables that it has open.
    #[serde(rename = "open_tables", serialize_with = "paths::all")]
    pub open_sstables: BTreeSet<PathBuf>,
    /// jemalloc, if it is loaded.
    #[serde(serialize_with = "paths::maybe")]
    pub allocator: Option<PathBuf>,
    /// SSTables that it has mapped. The library does not see these reads.
    #[serde(rename = "mapped_tables", serialize_with = "paths::all")]
    pub mapped_sstables: BTreeSet<PathBuf>,
    /// The engine of these.
    #[serde(skip)]
    pub mapped_by: Option<mapped::Engine>,
    /// Whether it has an io_uring. The library does not see reads through it.
    pub io_uring: bool,
    /// Number of threads in each background role, by their names.
    pub background_threads: BTreeMap<&'static str, usize>,
    /// Names of threads that look like background work and are not known. They count as foreground.
    pub unknown_threads: BTreeSet<String>,
    /// The tightest limit of its memory cgroup.
    pub memory_limit: Option<MemoryLimit>,
    /// Its configuration, if it is a Cassandra node with a readable one.
    pub cassandra: Option<cassandra::Node>,
    /// What to change.
    pub advice: Vec<String>,
    /// What to know, where nothing is to change.
    pub notes: Vec<String>,
}

impl Process {
    /// Whether the program itself has Coldstream in it, by the C interface or a plugin.
    pub fn is_linked(&self) -> bool {
        self.library.is_none() && self.status.is_some() && self.has_page_mapped && !self.is_attached
    }

    /// Whether its library works, and has not seen an SSTable yet. It makes the status page at the first one.
    pub fn waits_for_sstables(&self) -> bool {
        self.library.is_some()
            && !self.switched_off
            && self.settings_refused.is_none()
            && self.open_sstables.is_empty()
            && self.status.is_none()
    }

    /// What to say about its mapped SSTables.
    fn word_on_mapped(&self) -> Option<mapped::Word> {
        let looks = self.status.as_ref();
        let looks = looks.map_or(0, |status| status.get(Counter::MappedLooks));
        mapped::word(self.mapped_by?, looks)
    }

    /// Why `coldstream attach` has nothing to do for it.
    fn refused_by_attach(&self) -> Option<&'static str> {
        let has_named_thread = !self.background_threads.is_empty();
        let (open, mapped) = (&self.open_sstables, &self.mapped_sstables);
        let reason = NothingToFollow::of(open, mapped, has_named_thread)?;
        Some(match reason {
            NothingToFollow::Mappings => "it does not see reads through mmap",
            NothingToFollow::LevelDb => "it cannot tell LevelDB's compactions from readers",
        })
    }
}

/// Who asked for a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The user, by its id.
    ForIt,
    /// The report about its service, which says how to load the library.
    ForItsService,
}

/// Whether a path is that of a status page. A program that was replaced by `exec` leaves one behind, and maps it no more.
fn is_page(path: &Path) -> bool {
    let directory = path.parent().and_then(Path::file_name).unwrap_or_default();
    directory.as_encoded_bytes().starts_with(b"coldstream-") && path.starts_with("/dev/shm")
}

/// Examines a process of this user, or any process as root.
pub fn examine(pid: u32, asked: Asked) -> anyhow::Result<Process> {
    if processes::started(pid).is_none() {
        return Err(processes::no_such_process(pid));
    }
    let mappings = Mappings::of(pid).map_err(|error| unreadable(pid, &error))?;
    let mapped = mappings.files();
    let open = process::open_files(pid).map_err(|error| unreadable(pid, &error))?;
    let io_uring = open.iter().any(|path| path == Path::new(IO_URING));
    // To root, other users' pages are known by the survey.
    let is_foreign = processes::user(pid).is_some_and(|owner| !processes::is_own_user(owner));
    let surveyed = is_foreign.then(|| surveyed(pid)).flatten();
    let (status, status_missing) = match &surveyed {
        Some(found) => (Some(found.snapshot.clone()), None),
        None if is_foreign => (None, why_no_page_of_other(pid)),
        None => own_status(pid),
    };
    let keeper = match &surveyed {
        Some(found) => found.keeper,
        None => status.as_ref().and_then(|_| status_page::keeper(pid)),
    };
    let environment = Environment::of_process(pid);
    let has_page_mapped = mapped.iter().any(|path| is_page(path));
    let loaded = loaded::of(pid, &mappings, &environment, has_page_mapped);
    let settings = settings(pid, &environment, loaded.is_some(), status.is_some());
    let profile = match (&loaded, &status) {
        (_, Some(status)) => Some(status.header.profile),
        (Some(_), None) => environment.profile(pid),
        (None, None) => None,
    };
    let mapped_sstables = processes::sstables(mapped.iter().cloned());
    let mut process = Process {
        profile: profile.map(Profile::name),
        profile_of_threads: profile
            .and_then(|profile| profile_of_threads(profile, &process::threads(pid)))
            .map(Profile::name),
        has_page_mapped,
        pid,
        command: processes::command_line(pid),
        title: title::of(pid),
        library_is_replaced: loaded.as_ref().is_some_and(|it| it.is_replaced),
        library_named_elsewhere: loaded.as_ref().and_then(|it| it.named_elsewhere.clone()),
        restart_finds_library: loaded.as_ref().is_some_and(|it| it.restart_finds_it),
        library: loaded.map(|it| it.path),
        is_attached: keeper.is_some(),
        keeper: keeper.and_then(|pid| Some((pid, process::descriptor_limit(pid)?))),
        // A kernel thread has no mapping at all.
        is_static: !mapped.is_empty() && named(&mapped, |name| name.starts_with(b"ld-")).is_none(),
        is_go: run::is_go(Path::new(&format!("/proc/{pid}/exe"))),
        allocator: named(&mapped, |name| name.starts_with(b"libjemalloc.so")),
        library_asked_for: environment.asks_for_library(),
        c_interface_preloaded: environment.c_interface_preloaded(),
        unknown_variables: environment.unknown_variables(),
        switched_off: settings == Settings::Off,
        settings_refused: match settings {
            Settings::Refused(why) => Some(why),
            Settings::Accepted | Settings::Off => None,
        },
        id_in_container: processes::id_in_container(pid),
        is_filtered: process::is_filtered(pid),
        killing_calls: None,
        was_tried_out: environment.has("COLDSTREAM_AVOID"),
        descriptor_limit: process::descriptor_limit(pid),
        mechanisms_off: status.iter().flat_map(mechanisms_off).collect(),
        status,
        status_missing,
        open_sstables: processes::sstables(open),
        mapped_by: mapped::engine(&mapped_sstables, &mapped, |path| mapped::open_of(pid, path)),
        mapped_sstables,
        io_uring,
        background_threads: background_threads(pid),
        unknown_threads: unknown_threads(pid),
        memory_limit: cgroup::memory_limit(pid, &mounts::read()),
        cassandra: None,
        advice: Vec::new(),
        notes: Vec::new(),
    };
    process.notes = notes(&process);
    let unread = match cassandra::of_process(pid) {
        Some(Ok(node)) => {
            process.cassandra = Some(node);
            None
        }
        Some(Err(error)) => Some(format!("{error:#}")),
        None => None,
    };
    if process.is_filtered && process.library.is_some() && !process.was_tried_out {
        process.killing_calls = run::killing_calls_of(pid);
        process.advice.extend(filter_advice(&process));
    }
    process.advice.extend(advice(&process, asked));
    process.advice.extend(unread);
    let log = environment
        .log_file(pid)
        .filter(|_| process.library.is_some());
    process
        .advice
        .extend(log.and_then(|file| log::advice(pid, &file)));
    Ok(process)
}

/// What to know, where nothing is to change.
fn notes(process: &Process) -> Vec<String> {
    let from_outside = process
        .is_attached
        .then(|| format!("`coldstream attach` works for it from outside: {LESS_FROM_OUTSIDE}"));
    // What is said of a Go program covers it.
    let on_mapped = match process.word_on_mapped() {
        Some(mapped::Word::Note(text)) if !process.is_go => Some(text.to_owned()),
        _ => None,
    };
    from_outside.into_iter().chain(on_mapped).collect()
}

/// The library's verdict on its settings. A process with a status page has accepted them, even if the file has changed since.
fn settings(pid: u32, environment: &Environment, is_loaded: bool, has_page: bool) -> Settings {
    if has_page {
        return Settings::Accepted;
    }
    match environment.settings(pid) {
        // Without the library nobody refuses them. Where they switch it off, `coldstream run` has not loaded it.
        Settings::Refused(_) if !is_loaded => Settings::Accepted,
        settings => settings,
    }
}

fn surveyed(pid: u32) -> Option<Surveyed> {
    let survey = processes::survey().ok()?;
    survey.processes.into_iter().find(|found| found.pid == pid)
}

/// The status page of a process of this user, or why there is none.
fn own_status(pid: u32) -> (Option<Snapshot>, Option<String>) {
    match processes::status(pid) {
        Status::Running(snapshot) => (Some(*snapshot), None),
        Status::Absent => (None, None),
        Status::Removed { pid, was_attached } => {
            let ended = match was_attached {
                true => "an ended `coldstream attach`".to_owned(),
                false => format!("ended process {pid}"),
            };
            let removed = format!("removed the page that {ended} left behind");
            (None, Some(removed))
        }
        Status::Unreadable(error) => (None, Some(error.to_string())),
    }
}

/// Why another user's process can have no status page, as that user is told. In a container users have other numbers.
fn why_no_page_of_other(pid: u32) -> Option<String> {
    if processes::id_in_container(pid).is_some() {
        return None;
    }
    let directory = status_page::directory_of(processes::user(pid)?);
    directory.err().map(|error| error.to_string())
}

fn mechanisms_off(snapshot: &Snapshot) -> impl Iterator<Item = &'static str> + use<> {
    snapshot.switches.off.iter().map(Mechanism::name)
}

fn unreadable(pid: u32, error: &std::io::Error) -> anyhow::Error {
    match processes::user(pid) {
        None => processes::no_such_process(pid),
        Some(owner) if exit::of_io(error) == Exit::Permission => {
            let message = match (
                processes::is_own_user(owner),
                processes::is_own_user(processes::ROOT),
            ) {
                (true, true) => format!(
                    "the kernel does not let this root look into process {pid}, which has a capability that this \
                     root lacks (as a container's root does): run `coldstream doctor` from the host, as root"
                ),
                (true, false) => format!(
                    "the kernel lets only root look into process {pid} (it has changed its user, or \
                     its program is not readable): run `coldstream doctor {pid}` as root; \
                     `coldstream ctl status {pid}` works for its user"
                ),
                (false, true) => return processes::foreign(pid, owner),
                (false, false) => format!(
                    "process {pid} belongs to user {}: run `coldstream doctor {pid}` as root, or as that user",
                    user_name::shown(owner)
                ),
            };
            failure(Exit::Permission, message)
        }
        Some(_) => failure(
            exit::of_io(error),
            format!("cannot examine process {pid}: {error}"),
        ),
    }
}

/// The first file whose name fulfils a condition.
fn named(files: &BTreeSet<PathBuf>, condition: impl Fn(&[u8]) -> bool) -> Option<PathBuf> {
    let fulfils = |path: &&PathBuf| {
        path.file_name()
            .is_some_and(|name| condition(name.as_bytes()))
    };
    files.iter().find(fulfils).cloned()
}

/// The engine that the background threads are named for, if `profile` knows none of them.
fn profile_of_threads(profile: Profile, threads: &[Thread]) -> Option<Profile> {
    let knows = |profile: &Profile| {
        let mut roles = threads
            .iter()
            .map(|thread| profile.role_of_thread(&thread.name));
        roles.any(|role| role != Role::Foreground)
    };
    if knows(&profile) {
        return None;
    }
    // LevelDB's threads have no names.
    [Profile::RocksDb, Profile::Cassandra]
        .into_iter()
        .find(knows)
}

fn background_threads(pid: u32) -> BTreeMap<&'static str, usize> {
    let mut threads = BTreeMap::new();
    for thread in process::threads(pid) {
        let role = Profile::Auto.role_of_thread(&thread.name);
        if role != Role::Foreground {
            *threads.entry(role.name()).or_default() += 1;
        }
    }
    threads
}

/// The beginning of the names of Coldstream's own threads.
const OWN_THREADS: &[u8] = b"coldstream";

/// Names that resemble those of background threads. Control characters are replaced: the program chose them.
fn unknown_threads(pid: u32) -> BTreeSet<String> {
    let names = process::threads(pid).into_iter().map(|thread| thread.name);
    names
        .filter(|name| !name.starts_with(OWN_THREADS))
        .filter(|name| Profile::Auto.looks_like_background(name))
        .map(|name| String::from_utf8_lossy(&name).replace(char::is_control, "?"))
        .collect()
}

/// What `coldstream attach` lacks, compared with the library.
const LESS_FROM_OUTSIDE: &str = "no pacing, priorities only by --priority, and outputs may be published before they are \
                                 warm";

/// What can be done without a restart: `coldstream attach` follows SSTables that are open and not all mapped.
fn or_from_outside(process: &Process) -> String {
    if process.open_sstables.is_empty() || process.refused_by_attach().is_some() {
        return String::new();
    }
    format!(
        ". Or, without a restart: `sudo coldstream attach {}`, which does less: {LESS_FROM_OUTSIDE}",
        process.pid
    )
}

/// What to do about a process that no library helps.
fn advice_without_library(process: &Process) -> Option<String> {
    match (process.is_go, process.is_static) {
        (true, _) => Some(unseen(process)),
        (false, true) => Some(match process.refused_by_attach() {
            Some(reason) => format!(
                "nothing helps here: the program is static, so no library can be preloaded. `coldstream attach` is of no \
                 use: {reason}"
            ),
            None => format!(
                "the program is static, so no library can be preloaded: {}. Whoever builds it on RocksDB can link the \
                 plugin instead",
                from_outside(process)
            ),
        }),
        (false, false) => None,
    }
}

fn from_outside(process: &Process) -> String {
    let pid = process.pid;
    format!("`sudo coldstream attach {pid}` works from outside, without pacing")
}

/// What to do about a Go program, with the library or without.
fn unseen(process: &Process) -> String {
    if let Some(reason) = process.refused_by_attach() {
        return format!(
            "nothing helps here: the program is written in Go, and no library sees what Go reads and writes. \
             `coldstream attach` is of no use: {reason}"
        );
    }
    format!(
        "the program is written in Go, and no library sees what Go reads and writes: {}. Beside Pebble it costs more \
         than it gives so far",
        from_outside(process)
    )
}

fn advice(process: &Process, asked: Asked) -> Vec<String> {
    let mut advice = Vec::new();
    let replaced = process.cassandra.as_ref().and(process.allocator.as_ref());
    match (&process.library, process.library_asked_for) {
        (Some(library), _) if process.library_is_replaced => {
            advice.push(replaced_library(process, library));
        }
        (Some(_), _) if process.is_go && process.status.is_none() => advice.push(unseen(process)),
        (Some(_), _) => {}
        (None, _) if process.is_linked() || process.is_attached => {}
        (None, _) if advice_without_library(process).is_some() => {
            advice.extend(advice_without_library(process));
        }
        // `why_idle` says it.
        (None, false) if process.switched_off => {}
        (None, false) if process.c_interface_preloaded.is_some() => advice.extend(
            process.c_interface_preloaded.as_ref().map(|interface| {
                format!(
                    "LD_PRELOAD names {}, which is the C interface that programs link, and does nothing by itself: name \
                     {}, the preload library",
                    interface.display(),
                    library::FILE_NAME
                )
            }),
        ),
        (None, true) => advice.push(
            "LD_PRELOAD names the library, but the loader did not load it: the program is static, \
             setuid or built for another C library, or no file is there. See the program's first \
             lines on standard error"
                .to_owned(),
        ),
        (None, false) if asked == Asked::ForItsService => {}
        (None, false) => advice.push(match replaced {
            // `bin/cassandra`: `export LD_PRELOAD=$CASSANDRA_LIBJEMALLOC`.
            Some(allocator) => format!(
                "the library is not loaded: Cassandra's start script replaces LD_PRELOAD with \
                 jemalloc. Set CASSANDRA_LIBJEMALLOC=/…/{}:{} for it",
                library::FILE_NAME,
                allocator.display()
            ),
            None => format!("the library is not loaded: {}", how_to_load(process.pid)),
        } + &or_from_outside(process)),
    }
    // The advice about the node's configuration covers mmap.
    let covers_mmap = |node: &cassandra::Node| node.data_reads == "mmap";
    // What is said of a Go program covers it, too.
    if !process.is_go
        && !process.cassandra.as_ref().is_some_and(covers_mmap)
        && let Some(mapped::Word::Advice(text)) = process.word_on_mapped()
    {
        advice.push(text.to_owned());
    }
    if !process.unknown_threads.is_empty() && process.library.is_some() {
        let names: Vec<&str> = process
            .unknown_threads
            .iter()
            .take(UNKNOWN_THREADS_MAX)
            .map(String::as_str)
            .collect();
        let more = match process.unknown_threads.len().saturating_sub(names.len()) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        advice.push(format!(
            "these names of threads look like background work, but Coldstream does not know them: \
             {}{more}. They count as foreground; report them if they read or write whole SSTables",
            names.join(", ")
        ));
    }
    if let (Some(its), Some(of_threads)) = (process.profile, process.profile_of_threads) {
        advice.push(format!(
            "its threads have the names of profile {of_threads}, and the profile is {its}, which does not know them: set \
             COLDSTREAM_PROFILE={of_threads} (--profile {of_threads}) and restart the process"
        ));
    }
    let refused = |status: &Snapshot| status.nice_refused_threads() > 0;
    if process.status.as_ref().is_some_and(refused) {
        advice.push(
            "Coldstream does not change nice values of background threads, because the process \
             could not restore them: give it CAP_SYS_NICE or an RLIMIT_NICE of 20 (systemd: \
             `LimitNICE=+0`, which has no effect in a container without CAP_SYS_RESOURCE), or start it \
             with --priority always"
                .to_owned(),
        );
    }
    let refused = process.status.as_ref();
    let refused = refused.map_or(0, |status| status.get(Counter::FallbackDescriptorLimit));
    advice.extend(match (process.keeper, process.descriptor_limit) {
        // It opens the SSTables itself.
        (Some((keeper, limit)), _) => {
            keepers_descriptor_advice(process.pid, keeper, limit, refused)
        }
        (None, Some(limit)) if !process.is_attached => {
            descriptor_advice(limit, process.open_sstables.len(), refused)
        }
        (None, _) => None,
    });
    advice.extend(process.unknown_variables.iter().map(|name| {
        format!(
            "{name} in its environment is ignored: it is not a variable of Coldstream{}",
            run::did_you_mean(name)
        )
    }));
    advice.extend(why_idle(process));
    advice
}

/// What to do about a library whose file is not the one that was loaded.
fn replaced_library(process: &Process, library: &Path) -> String {
    let library = library.display();
    let install = "Install the library before the next restart: it would start without Coldstream";
    let named = process.library_named_elsewhere.as_ref();
    match (named, process.restart_finds_library) {
        (Some(named), true) => format!(
            "the process runs {library}, and {}, which LD_PRELOAD names, is not that file: the library was renamed or \
             replaced after the start. Restart the process to use the new one",
            named.display()
        ),
        (Some(named), false) => format!(
            "the process runs {library}, and no file is at {}, which LD_PRELOAD names. {install}",
            named.display()
        ),
        (None, true) => format!(
            "{library} was replaced after the process started, so the process runs the older one: restart it to use \
             the new one"
        ),
        (None, false) => {
            format!("{library} was deleted, and LD_PRELOAD names no file. {install}")
        }
    }
}

/// What to do about a limit of open files under which Coldstream lacked descriptors, or may lack them.
fn descriptor_advice(limit: u64, open_sstables: usize, refused: u64) -> Option<String> {
    // Two while a background thread reads it.
    let needed = 2 * open_sstables as u64;
    let share = descriptors::share_of(limit);
    if share == descriptors::MAX || needed <= share && refused == 0 {
        return None;
    }
    let why = match refused {
        0 => format!(
            "{open_sstables} SSTables are open, and can need {needed} descriptors while compactions read them"
        ),
        refused => format!(
            "{} without a descriptor",
            count(
                refused,
                "read, write or handover was",
                "reads, writes or handovers were"
            )
        ),
    };
    Some(format!(
        "{why}: Coldstream takes {share} of the {limit} files that the process may open. Raise the limit with \
         `ulimit -n` before you start it (systemd: `LimitNOFILE=`), to 16 for each SSTable or to 65,536"
    ))
}

/// What to do where `coldstream attach`, process `keeper`, lacked descriptors. At its start it raises its limit as far as
/// it may.
fn keepers_descriptor_advice(pid: u32, keeper: u32, limit: u64, refused: u64) -> Option<String> {
    (refused > 0).then(|| {
        format!(
            "`coldstream attach`, process {keeper}, may open {limit} files, and lacked one {}: start it with more, as by \
             `sudo sh -c 'ulimit -n 65536 && exec coldstream attach {pid}'`",
            count(refused, "time", "times")
        )
    })
}

/// What to do about a filter of system calls that nobody has tried out for it.
fn filter_advice(process: &Process) -> Option<String> {
    match process.killing_calls {
        Some(killing) if killing.is_empty() => None,
        Some(killing) => Some(format!(
            "the filter of system calls kills it for {killing}: set COLDSTREAM_AVOID={killing} in its environment, or \
             start it with `coldstream run`"
        )),
        None => Some(
            "its system calls are filtered, and it was not started by `coldstream run`, which finds out whether the \
             filter kills for a call that Coldstream makes: see filters of system calls in docs/limits.md"
                .to_owned(),
        ),
    }
}

/// Why Coldstream does nothing in it, or why its status cannot be read.
fn why_idle(process: &Process) -> Option<String> {
    if let Some(status) = &process.status {
        let Switches {
            mechanisms, off, ..
        } = status.switches;
        let is_all_off = !off.is_empty() && mechanisms.without(off).is_empty();
        return is_all_off.then(|| {
            format!(
                "everything is switched off: `{}coldstream ctl on {}` switches it on",
                processes::sudo_for(process.pid),
                process.pid
            )
        });
    }
    if process.switched_off {
        return Some(
            "the library does nothing: COLDSTREAM=off in its environment switches it off"
                .to_owned(),
        );
    }
    process.library.as_ref()?;
    if let Some(why) = &process.settings_refused {
        return Some(format!(
            "the library refuses its settings and does nothing: {why}; correct them and restart the \
             process"
        ));
    }
    if process.open_sstables.is_empty() || process.status_missing.is_some() {
        return None;
    }
    let owner = processes::user(process.pid)?;
    if let Some(inside) = process.id_in_container {
        return Some(processes::in_container(process.pid, inside, owner));
    }
    if !processes::is_own_user(owner) && !processes::is_own_user(processes::ROOT) {
        return Some(format!(
            "only its own user, or root, can read its status page: run this as user {}",
            user_name::shown(owner)
        ));
    }
    Some(
        "SSTables are open but there is no status page: the library could not make it in /dev/shm, \
         or it was removed (`RemoveIPC` of logind.conf removes the pages of a user who logs out)"
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_can_be_examined() {
        let process = examine(std::process::id(), Asked::ForIt).unwrap();
        assert!(process.library.is_none());
        let advice = &process.advice[0];
        let ways = ["coldstream run", "coldstream attach-config"];
        assert!(ways.iter().any(|way| advice.contains(way)), "{advice}");
    }

    #[test]
    fn nothing_helps_a_program_that_neither_the_library_nor_attach_can_serve() {
        let mut process = examine(std::process::id(), Asked::ForIt).unwrap();
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect();
        for (is_go, is_static) in [(true, false), (true, true), (false, true)] {
            (process.is_go, process.is_static) = (is_go, is_static);
            for (open, mapped, helps) in [
                (&[][..], &["/d/000005.sst"][..], false),
                (&["/d/000005.sst"], &["/d/000005.sst"], false),
                (
                    &["/d/000005.sst", "/d/000006.sst"],
                    &["/d/000005.sst"],
                    true,
                ),
                (&["/d/000005.ldb", "/d/000006.ldb"], &[], false),
                (&["/d/000005.ldb", "/d/000006.sst"], &[], true),
                (&[], &[], true),
            ] {
                process.open_sstables = paths(open);
                process.mapped_sstables = paths(mapped);
                let advice = &advice(&process, Asked::ForIt)[0];
                assert_eq!(advice.contains("works from outside"), helps, "{advice}");
                assert_eq!(advice.contains("nothing helps here"), !helps, "{advice}");
            }
        }
    }

    #[test]
    fn a_profile_that_does_not_know_the_threads_is_found() {
        let threads = |names: &[&str]| {
            let names = names.iter().map(|name| name.as_bytes().to_vec());
            names.map(|name| Thread { id: 1, name }).collect::<Vec<_>>()
        };
        let rocksdb = threads(&["server", "rocksdb:low0"]);
        let cassandra = threads(&["java", "CompactionExecu"]);
        for (profile, threads, found) in [
            (Profile::LevelDb, &rocksdb, Some(Profile::RocksDb)),
            (Profile::Cassandra, &rocksdb, Some(Profile::RocksDb)),
            (Profile::RocksDb, &cassandra, Some(Profile::Cassandra)),
            (Profile::RocksDb, &rocksdb, None),
            (Profile::Auto, &rocksdb, None),
            (Profile::LevelDb, &threads(&["leveldb"]), None),
        ] {
            assert_eq!(profile_of_threads(profile, threads), found, "{profile:?}");
        }
    }

    #[test]
    fn a_limit_of_descriptors_is_advised_where_it_is_too_low() {
        let advice = |limit, open, refused| descriptor_advice(limit, open, refused);
        for (limit, open, refused) in [(1024, 0, 0), (1024, 64, 0), (255, 0, 0), (65_536, 9000, 1)]
        {
            assert_eq!(
                advice(limit, open, refused),
                None,
                "{limit} {open} {refused}"
            );
        }
        let many = advice(1024, 65, 0).unwrap();
        assert!(
            many.starts_with("65 SSTables are open, and can need 130 descriptors"),
            "{many}"
        );
        assert!(
            many.contains("Coldstream takes 128 of the 1024 files"),
            "{many}"
        );
        assert!(advice(255, 1, 0).is_some_and(|it| it.contains("takes 0 of the 255")));
        let refused = advice(20_000, 0, 1).unwrap();
        assert!(
            refused.starts_with("1 read, write or handover was without a descriptor"),
            "{refused}"
        );
    }
}
