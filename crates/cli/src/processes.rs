//! Process ids on the command line, and the errors for processes that the command cannot examine.

use std::collections::BTreeSet;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use coldstream_control::{PidNamespace, Snapshot};
use coldstream_host::status_page::{self, StatusPageError};
use coldstream_host::survey::{self, Survey};
use coldstream_host::{process, user_name};
use coldstream_policy::{FileKind, Profile};

pub use coldstream_host::process::{command_line, id_in_container, is_own_user, started, user};
pub use coldstream_host::status_page::{Status, status};

use crate::exit::{self, Exit, failure};

/// The user that may look into all processes, unless it lacks capabilities.
pub const ROOT: u32 = 0;

/// No process has a larger id, whatever `kernel.pid_max` says (`PID_MAX_LIMIT`, `include/linux/threads.h`).
const ID_MAX: u32 = 1 << 22;

/// Those of some files that are SSTables.
pub fn sstables(files: impl IntoIterator<Item = PathBuf>) -> BTreeSet<PathBuf> {
    let is_sstable = |path: &PathBuf| {
        let name = path.as_os_str().as_bytes();
        Profile::Auto.kind_of_file(name).is_sstable()
    };
    files.into_iter().filter(is_sstable).collect()
}

/// Why `coldstream attach` has nothing to do for a process.
#[derive(Clone, Copy)]
pub enum NothingToFollow {
    /// It maps its SSTables, and attach follows reads by calls.
    Mappings,
    /// Its SSTables are LevelDB's. Compactions neither have a thread with a name nor give advice: nothing tells them from
    /// readers.
    LevelDb,
}

impl NothingToFollow {
    /// `None` for a process that attach can follow, by the SSTables that it has open and mapped.
    pub fn of(
        open: &BTreeSet<PathBuf>,
        mapped: &BTreeSet<PathBuf>,
        has_named_thread: bool,
    ) -> Option<Self> {
        if maps_all_sstables(open, mapped) {
            return Some(Self::Mappings);
        }
        (!has_named_thread && are_all_of_leveldb(open)).then_some(Self::LevelDb)
    }
}

/// Whether a process maps all SSTables that it has open. LevelDB closes them then, Badger does not.
fn maps_all_sstables(open: &BTreeSet<PathBuf>, mapped: &BTreeSet<PathBuf>) -> bool {
    !mapped.is_empty() && open.is_subset(mapped)
}

fn are_all_of_leveldb(open: &BTreeSet<PathBuf>) -> bool {
    !open.is_empty() && open.iter().all(|path| is_of_leveldb(path))
}

/// Whether LevelDB names its SSTables so.
pub fn is_of_leveldb(path: &Path) -> bool {
    Profile::Auto.kind_of_file(path.as_os_str().as_bytes()) == FileKind::LevelDbSsTable
}

/// The process ids of one argument: `"$(pgrep NAME)"` may hold several.
#[derive(Clone, Debug)]
pub struct Ids(Vec<u32>);

impl Ids {
    /// Those of several arguments.
    pub fn of_all(arguments: &[Self]) -> Vec<u32> {
        arguments.iter().cloned().flatten().collect()
    }
}

impl IntoIterator for Ids {
    type Item = u32;
    type IntoIter = std::vec::IntoIter<u32>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Why an argument holds no process ids.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NotIds {
    /// Nothing but blanks.
    Empty,
    /// A word that is not of digits only: it may be a path, or an action of `ctl`.
    OtherWord,
    /// A number that no process has.
    NoProcess,
}

impl fmt::Display for NotIds {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Empty => "no process id: did pgrep find nothing?",
            Self::OtherWord => "use a process id",
            Self::NoProcess => "use a process id: no process has this number",
        })
    }
}

impl std::error::Error for NotIds {}

/// The parser of process ids on the command line, where there may be several. A sign makes a word no id.
pub fn parse_ids(text: &str) -> Result<Ids, NotIds> {
    let ids: Vec<u32> = text
        .split_whitespace()
        .map(id_of)
        .collect::<Result<_, _>>()?;
    match ids.is_empty() {
        true => Err(NotIds::Empty),
        false => Ok(Ids(ids)),
    }
}

fn id_of(word: &str) -> Result<u32, NotIds> {
    if !word.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NotIds::OtherWord);
    }
    let id = word.parse().ok().filter(|id| (1..=ID_MAX).contains(id));
    id.ok_or(NotIds::NoProcess)
}

/// The parser of one process id on the command line.
pub fn parse_id(text: &str) -> Result<u32, String> {
    let ids = parse_ids(text).map_err(|error| error.to_string())?;
    match ids.0.as_slice() {
        [id] => Ok(*id),
        ids => Err(format!("{} process ids are given: name one", ids.len())),
    }
}

/// The error for a process that does not exist.
pub fn no_such_process(pid: u32) -> anyhow::Error {
    let message = match process::parent_of_zombie(pid) {
        Some(parent) => {
            format!(
                "process {pid} has ended, and its parent {parent} has not collected it (zombie)"
            )
        }
        None => {
            format!("there is no process {pid}: `coldstream ctl list` shows those under Coldstream")
        }
    };
    failure(Exit::NotFound, message)
}

/// The error for another user's process.
pub fn foreign(pid: u32, owner: u32) -> anyhow::Error {
    failure(
        Exit::Permission,
        format!(
            "process {pid} belongs to user {}: only that user can look into it; use \
             `sudo -u {} coldstream …`",
            user_name::shown(owner),
            user_name::for_sudo(owner)
        ),
    )
}

/// What to put before a command that only the user of a process may give: nothing for one of this user.
pub fn sudo_for(pid: u32) -> String {
    let other = user(pid).filter(|owner| !is_own_user(*owner));
    other.map_or(String::new(), |owner| {
        format!("sudo -u {} ", user_name::for_sudo(owner))
    })
}

/// What to do if the status page is in a container.
pub fn in_container(pid: u32, inside: u32, owner: u32) -> String {
    format!(
        "process {pid} is in a container, and so is its status page: run `coldstream ctl status \
         {inside}` inside it, as user {}",
        user_name::shown(owner)
    )
}

/// The counters of `pid`, a process of this user.
///
/// # Errors
/// The reason in one line, with an exit code of its own.
pub fn running(pid: u32) -> anyhow::Result<Box<Snapshot>> {
    match status(pid) {
        Status::Running(snapshot) => Ok(snapshot),
        Status::Removed { pid, was_attached } => {
            let ended = match was_attached {
                true => format!("`coldstream attach {pid}` has ended"),
                false => format!("process {pid} has ended"),
            };
            let left = format!("{ended}; the status page that it left behind is removed");
            Err(failure(Exit::NotFound, left))
        }
        Status::Unreadable(error) => Err(unusable(&error)),
        Status::Absent => Err(absent(pid)),
    }
}

/// Ids of the processes of this user that have a status page, in ascending order.
///
/// # Errors
/// As [`running`].
pub fn with_pages() -> anyhow::Result<Vec<u32>> {
    status_page::with_pages().map_err(|error| unusable(&error))
}

/// All processes under Coldstream that this user may see.
///
/// # Errors
/// As [`running`].
pub fn survey() -> anyhow::Result<Survey> {
    survey::survey().map_err(|error| unusable(&error))
}

/// Why a survey may lack processes, in one line each.
pub fn missing(survey: &Survey) -> Vec<String> {
    let is_in_container = PidNamespace::own() != PidNamespace::INITIAL;
    if is_in_container && survey.processes.is_empty() && survey.unreadable.is_empty() {
        let line = "no process under Coldstream is seen from this container: share the database's process ids \
                    with it (in Kubernetes `shareProcessNamespace: true`), and run it as the same user";
        return vec![line.to_owned()];
    }
    survey.unreadable.clone()
}

/// The error for a status page, or their directory, that cannot be used.
pub fn unusable(error: &StatusPageError) -> anyhow::Error {
    let exit = match error {
        StatusPageError::ForeignDirectory { .. } => Exit::Permission,
        StatusPageError::List { error, .. } => exit::of_io(error),
        _ => Exit::Failure,
    };
    failure(exit, error.to_string())
}

fn absent(pid: u32) -> anyhow::Error {
    let owner = match user(pid) {
        Some(owner) if started(pid).is_some() => owner,
        _ => return no_such_process(pid),
    };
    if let Some(inside) = id_in_container(pid) {
        let code = if is_own_user(owner) {
            Exit::NotFound
        } else {
            Exit::Permission
        };
        return failure(code, in_container(pid, inside, owner));
    }
    // Root sees whether another user's process has a page.
    if !is_own_user(owner) && (!is_own_user(ROOT) || status_page::is_here(owner, pid)) {
        return foreign(pid, owner);
    }
    if status_page::is_elsewhere(owner, pid) {
        return failure(
            Exit::NotFound,
            format!(
                "process {pid} is in another container, with a /dev/shm of its own: run this inside \
                 that container, or share /dev/shm with it"
            ),
        );
    }
    failure(
        Exit::NotFound,
        format!(
            "process {pid} has no status page: it does not run under Coldstream, or has not \
             opened an SSTable yet; see `coldstream doctor {pid}`"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_holds_process_ids_of_digits_only() {
        let parsed = |text: &str| parse_ids(text).map(|ids| ids.into_iter().collect::<Vec<_>>());
        for (text, expected) in [
            ("7", Ok(vec![7])),
            ("7\n8", Ok(vec![7, 8])),
            (" 007  4194304 ", Ok(vec![7, ID_MAX])),
            ("", Err(NotIds::Empty)),
            (" \n", Err(NotIds::Empty)),
            ("0", Err(NotIds::NoProcess)),
            ("7 0", Err(NotIds::NoProcess)),
            ("4194305", Err(NotIds::NoProcess)),
            ("4294967295", Err(NotIds::NoProcess)),
            ("4294967296", Err(NotIds::NoProcess)),
            ("+7", Err(NotIds::OtherWord)),
            ("-7", Err(NotIds::OtherWord)),
            ("7,8", Err(NotIds::OtherWord)),
            ("7 off", Err(NotIds::OtherWord)),
            ("/data", Err(NotIds::OtherWord)),
        ] {
            assert_eq!(parsed(text), expected, "{text:?}");
        }
    }

    #[test]
    fn where_one_process_is_meant_several_are_an_error() {
        assert_eq!(parse_id(" 7"), Ok(7));
        let error = parse_id("7 8").unwrap_err();
        assert_eq!(error, "2 process ids are given: name one");
    }
}
