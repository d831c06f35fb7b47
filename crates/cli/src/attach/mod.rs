//! `coldstream attach`: follows running processes that cannot be preloaded.
//!
//! Privileges are used at the start only: then it becomes the user of the processes, without any capability.

mod event;
pub mod priorities;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use coldstream_attach::session::{self, Ended};
use coldstream_attach::tracer::{TARGETS_MAX, Tracer, TracerError};
use coldstream_attach::{Attached, Recognition, privileges};
use coldstream_control::Mechanism;
use coldstream_host::process::Mappings;
use coldstream_host::{process, status_page, user_name};
use coldstream_policy::{Profile, Role};

use crate::exit::{self, Exit, failure};
use crate::output::{self, Format, FormatArguments};
use crate::processes::{self, NothingToFollow, Status};
use event::Event;
use priorities::{KEEPER, Keeper};

const EXAMPLES: &str = "\
Examples:
  sudo coldstream attach 4711                 # until Ctrl-C, or until the process ends
  sudo coldstream attach --unit cockroach     # all processes of a unit that have SSTables open
  coldstream ctl status 4711                  # from another terminal, as the process's user
  coldstream ctl off 4711                     # stops the work; `ctl on 4711` resumes it
  sudo coldstream attach --priority 4711      # compactions also yield the processors to reads
  sudo coldstream attach --json 4711          # one JSON object a line

For static binaries, Go programs, set-uid servers, and processes that must not be restarted. All \
others: `coldstream run` and `attach-config` do more. Needs CAP_BPF and CAP_PERFMON, and for \
another user's process CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_SETUID and CAP_SETGID. It gives all \
of them away after the start. The processes themselves are not changed, except by --priority: this \
needs CAP_SYS_NICE, too, and gives all priorities back at the end, even at the end by `kill -9`.
Exit codes: 0 ended, 1 another failure, 2 wrong arguments or processes of several users, 5 no \
permission, 7 no such process, or no SSTable open in it that is not mapped, 11 no exact events: by this kernel, filesystem or container.";

/// Longest time between a signal and the end.
const END_MAX: Duration = Duration::from_secs(2);

/// The status pages that it has made.
static PAGES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
/// Locked while it goes on.
static ENDING: Mutex<Ending> = Mutex::new(Ending {
    keeper: None,
    has_begun: false,
});
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// What must be done before the end, by whichever thread comes to it first.
struct Ending {
    keeper: Option<Keeper>,
    has_begun: bool,
}

impl Ending {
    /// Returns whether every priority is given back. Waits for that.
    fn begin(&mut self) -> bool {
        self.has_begun = true;
        self.keeper.take().is_none_or(Keeper::finish)
    }
}

fn ending() -> MutexGuard<'static, Ending> {
    ENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Follow running processes that cannot be preloaded: drop what compactions bring into the page cache
#[derive(clap::Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub struct AttachArguments {
    /// Process ids, of one user
    #[arg(value_parser = processes::parse_ids, required_unless_present_any = ["unit", "cgroup"])]
    pids: Vec<processes::Ids>,
    /// All processes of a systemd unit that have SSTables open
    #[arg(long, value_name = "NAME", conflicts_with = "pids")]
    unit: Option<String>,
    /// All processes of a cgroup, and of those below it, that have SSTables open: the directory with `cgroup.procs`
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["pids", "unit"])]
    cgroup: Option<PathBuf>,
    /// Lower the nice value and the I/O priority of background threads, where threads have names
    ///
    /// As the library's `--priority auto` does: 10, and the last level of the best-effort class. While these threads
    /// wait for processors for long, they have their former priorities.
    #[arg(long)]
    priority: bool,
    #[command(flatten)]
    output: FormatArguments,
}

/// Follows the processes until they end, or until it is interrupted.
pub fn run(arguments: &AttachArguments) -> anyhow::Result<()> {
    privileges::raise_limits();
    let (pids, are_named) = wanted(arguments)?;
    let mut attached = Vec::new();
    for pid in pids {
        if are_named && process::user(pid).is_none() {
            return Err(processes::no_such_process(pid));
        }
        if let Some(reason) = nothing_to_do(pid) {
            // Nothing can be done for it, though its status would say that all is on.
            if are_named {
                let message = format!("process {pid} {reason}: see `coldstream doctor {pid}`");
                return Err(failure(Exit::NotFound, message));
            }
            continue;
        }
        match Attached::new(pid) {
            Ok(process) => attached.push(process),
            // A unit has helpers too, perhaps of other users.
            Err(error) if !are_named && error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(not_followed(pid, &error)),
        }
    }
    if attached.is_empty() {
        let message = "none of these processes has an SSTable open";
        return Err(failure(Exit::NotFound, message));
    }
    let user = common_user(&attached)?;
    let recognition = recognition(&attached);
    if arguments.priority && recognition != Recognition::Names {
        let message =
            "--priority: no thread of these processes has the name of a background thread";
        return Err(failure(Exit::Usage, message));
    }
    let pids = attached.iter().map(Attached::pid);
    if arguments.priority {
        ending().keeper = Some(Keeper::start(pids)?);
    }
    let mut tracer = Tracer::start(recognition).map_err(|error| not_started(&error))?;
    for process in &attached {
        tracer.follow(process.pid())?;
    }
    privileges::become_user_of(attached[0].pid(), user, 0).map_err(|errno| {
        let message = format!("cannot become user {}: {errno}", user_name::shown(user));
        failure(Exit::Permission, message)
    })?;
    let format = arguments.output.format();
    end_when_interrupted(format)?;
    for process in &mut attached {
        process.recognise(recognition);
        if arguments.priority {
            process.announce_priorities();
        }
        introduce(process, recognition, format)?;
        let mut pages = PAGES.lock().unwrap_or_else(PoisonError::into_inner);
        pages.extend(process.page().map(Path::to_owned));
    }
    if let Some(keeper) = &mut ending().keeper {
        keeper.begin()?;
    }
    let has_no_keeper = || (ending().keeper.as_mut()).is_some_and(Keeper::has_ended);
    let is_over = || INTERRUPTED.load(Ordering::Relaxed) || has_no_keeper();
    let tell = |news| Event::from(news).tell(format);
    let ended = session::run(&mut tracer, attached, is_over, tell);
    let is_given_back = ending().begin();
    match ended {
        Ended::Processes => Ok(()),
        Ended::Asked => detached(is_given_back, format),
    }
}

fn detached(is_given_back: bool, format: Format) -> anyhow::Result<()> {
    if !is_given_back {
        let message = format!(
            "detached, but `coldstream {KEEPER}` was killed, or could not do its work: background threads may keep nice \
             value 10 and the last level of I/O priority. `renice -n 0 -p THREAD` and `ionice -c 0 -p THREAD` set them \
             right; so does a restart of the process"
        );
        return Err(failure(Exit::Failure, message));
    }
    Event::Detached.tell(format);
    Ok(())
}

/// Ends the work at a signal. It runs when a processor is idle, and may wait for the device: nothing of it has to be
/// finished, so it gets [`END_MAX`]. Priorities are given back before the end, however long that takes. This starts a
/// thread, which has no privileges any more either.
fn end_when_interrupted(format: Format) -> anyhow::Result<()> {
    ctrlc::set_handler(move || {
        INTERRUPTED.store(true, Ordering::Relaxed);
        thread::sleep(END_MAX);
        let pages = PAGES.lock().unwrap_or_else(PoisonError::into_inner);
        for page in pages.iter() {
            // An error: it has gone already.
            let _ = status_page::remove(page);
        }
        let mut ending = ending();
        if ending.has_begun {
            // The other thread does the rest.
            return;
        }
        let exit = match detached(ending.begin(), format) {
            Ok(()) => Exit::Ok,
            Err(error) => {
                output::error(&error);
                exit::of(&error)
            }
        };
        std::process::exit(exit as i32);
    })?;
    Ok(())
}

/// The processes, and whether each was named.
fn wanted(arguments: &AttachArguments) -> anyhow::Result<(BTreeSet<u32>, bool)> {
    let directory = match (&arguments.unit, &arguments.cgroup) {
        (Some(unit), _) => cgroup_of_unit(unit)?,
        (None, Some(directory)) => directory.clone(),
        (None, None) => {
            let named = processes::Ids::of_all(&arguments.pids);
            return Ok((named.into_iter().collect(), true));
        }
    };
    let mut pids = BTreeSet::new();
    add_processes_of(&directory, &mut pids).map_err(|error| {
        let message = format!("{}: {error}", directory.display());
        failure(exit::of_io(&error), message)
    })?;
    if pids.is_empty() {
        let message = format!("{}: no process", directory.display());
        return Err(failure(Exit::NotFound, message));
    }
    Ok((pids, false))
}

/// Adds the processes of a cgroup, and of those below it.
fn add_processes_of(cgroup: &Path, pids: &mut BTreeSet<u32>) -> io::Result<()> {
    let text = fs::read_to_string(cgroup.join("cgroup.procs"))?;
    pids.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
    for entry in fs::read_dir(cgroup)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            // An error: it has gone meanwhile.
            let _ = add_processes_of(&entry.path(), pids);
        }
    }
    Ok(())
}

fn cgroup_of_unit(unit: &str) -> anyhow::Result<PathBuf> {
    let output = Command::new("systemctl")
        .args(["show", "--property=ControlGroup", "--value", "--", unit])
        .output()
        .map_err(|error| failure(exit::of_io(&error), format!("systemctl: {error}")))?;
    let group = String::from_utf8_lossy(&output.stdout);
    let group = group.trim().trim_start_matches('/');
    if group.is_empty() {
        let message = format!("{unit}: no such unit, or it does not run");
        return Err(failure(Exit::NotFound, message));
    }
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/systemd"];
    let mut directories = roots.iter().map(|root| PathBuf::from(root).join(group));
    directories
        .find(|directory| directory.join("cgroup.procs").exists())
        .ok_or_else(|| failure(Exit::NotFound, format!("{unit}: no cgroup {group}")))
}

fn common_user(attached: &[Attached]) -> anyhow::Result<u32> {
    if attached.len() > TARGETS_MAX as usize {
        let message = format!("{} processes: {TARGETS_MAX} at most", attached.len());
        return Err(failure(Exit::Usage, message));
    }
    let mut users = BTreeSet::new();
    for pid in attached.iter().map(Attached::pid) {
        users.insert(process::user(pid).ok_or_else(|| processes::no_such_process(pid))?);
    }
    match users.first() {
        Some(user) if users.len() == 1 => Ok(*user),
        _ => Err(failure(
            Exit::Usage,
            "processes of several users: start one `coldstream attach` for each user",
        )),
    }
}

fn not_followed(pid: u32, error: &io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::NotFound => failure(
            Exit::NotFound,
            format!("process {pid} has no SSTable open: see `coldstream doctor {pid}`"),
        ),
        io::ErrorKind::PermissionDenied => failure(
            Exit::Permission,
            format!("process {pid}: {error}: run as root, or with CAP_SYS_PTRACE"),
        ),
        io::ErrorKind::Unsupported => failure(Exit::NoEvents, format!("process {pid}: {error}")),
        _ => failure(exit::of_io(error), format!("process {pid}: {error}")),
    }
}

/// Why following it would have no effect. None if its mappings and descriptors cannot be read.
fn nothing_to_do(pid: u32) -> Option<&'static str> {
    let mapped = Mappings::of(pid).map_or_else(|_| BTreeSet::new(), |it| it.files());
    let open = processes::sstables(process::open_files(pid).unwrap_or_default());
    let mapped = processes::sstables(mapped);
    let reason = NothingToFollow::of(&open, &mapped, has_named_thread(pid))?;
    Some(match reason {
        NothingToFollow::Mappings => {
            "reads its SSTables through mmap, and attach does not see such reads"
        }
        NothingToFollow::LevelDb => {
            "has SSTables of LevelDB only, and attach cannot tell its compactions from readers"
        }
    })
}

/// Whether any of its threads has the name of a background thread.
fn has_named_thread(pid: u32) -> bool {
    let mut threads = process::threads(pid).into_iter();
    threads.any(|it| Profile::Auto.role_of_thread(&it.name) != Role::Foreground)
}

/// By names, where any thread of any process has one.
fn recognition(attached: &[Attached]) -> Recognition {
    if attached.iter().any(|it| has_named_thread(it.pid())) {
        Recognition::Names
    } else {
        Recognition::Advice
    }
}

fn not_started(error: &TracerError) -> anyhow::Error {
    let exit = match error {
        TracerError::NotPermitted => Exit::Permission,
        TracerError::File(error) => exit::of_io(error),
        TracerError::Unsupported { .. }
        | TracerError::UnknownLayout
        | TracerError::SmallReadsUntold
        | TracerError::NotOnDisk
        | TracerError::Namespace => Exit::NoEvents,
    };
    failure(exit, error.to_string())
}

/// Makes the status page, and says what is in force.
fn introduce(
    process: &mut Attached,
    recognition: Recognition,
    format: Format,
) -> anyhow::Result<()> {
    let pid = process.pid();
    if let Status::Running(_) = processes::status(pid) {
        let message = format!("process {pid} is under Coldstream already: `ctl status {pid}`");
        return Err(failure(Exit::Failure, message));
    }
    if let Err(error) = process.publish() {
        let error = error.to_string();
        Event::NoStatusPage { pid, error }.tell(format);
    }
    let attached = Event::Attached {
        pid,
        sstables: process.sstable_count(),
        compactions_known_by: recognition.into(),
        mechanisms: process.mechanisms().iter().map(Mechanism::name).collect(),
    };
    attached.tell(format);
    Ok(())
}
