//! One row of the matrix: a program in a condition, plain and under the library.

use coldstream_testkit::exit_log::ExitLog;
use coldstream_testkit::files::Hash;
use coldstream_testkit::library::Preload;
use coldstream_testkit::process::{Ended, Program};
use coldstream_testkit::{directories, skip, tools};
use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The database in small, compiled once.
pub fn database() -> &'static Path {
    static PROGRAM: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, program) = PROGRAM.get_or_init(|| {
        let directory = open_directory();
        let program = tools::compile("matrix.c", directory.path(), "matrix", &[]);
        (directory, program)
    });
    program
}

/// A directory that every user may use.
pub fn open_directory() -> tempfile::TempDir {
    let directory = directories::on_disk();
    set_mode(directory.path(), 0o777);
    directory
}

pub fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("chmod");
}

/// Whether the library must have had an effect, so that the row says anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It reads and writes SSTables.
    Works,
    /// It may have had to leave all calls plain.
    Any,
    /// The loader does not load it.
    NotLoaded,
}

/// A condition. The program gets the path of an empty directory as its first argument.
#[derive(Clone, Debug)]
pub struct Condition {
    program: Program,
    words: Vec<String>,
    launcher: Vec<String>,
    before: Vec<PathBuf>,
    after: Vec<PathBuf>,
    variables: Vec<(&'static str, String)>,
    owner: Option<u32>,
    effect: Effect,
}

impl Condition {
    pub fn of(program: impl AsRef<std::ffi::OsStr>) -> Self {
        Self {
            program: Program::new(program),
            words: Vec::new(),
            launcher: Vec::new(),
            before: Vec::new(),
            after: Vec::new(),
            variables: Vec::new(),
            owner: None,
            effect: Effect::Works,
        }
    }

    /// With these words before the directory.
    pub fn arguments<W: AsRef<std::ffi::OsStr>>(
        mut self,
        words: impl IntoIterator<Item = W>,
    ) -> Self {
        self.program = self.program.arguments(words);
        self
    }

    /// With another word behind the directory.
    pub fn word(mut self, word: impl Into<String>) -> Self {
        self.words.push(word.into());
        self
    }

    /// Started by this program, which runs without the library. `{}` stands for the program's directory.
    pub fn under<W: Into<String>>(mut self, launcher: impl IntoIterator<Item = W>) -> Self {
        self.launcher.extend(launcher.into_iter().map(Into::into));
        self
    }

    /// With another preload library in front, plain too.
    pub fn behind(mut self, other: &Path) -> Self {
        self.before.push(other.into());
        self
    }

    /// With another preload library behind, plain too.
    pub fn in_front_of(mut self, other: &Path) -> Self {
        self.after.push(other.into());
        self
    }

    pub fn variable(mut self, name: &'static str, value: impl ToString) -> Self {
        self.variables.push((name, value.to_string()));
        self
    }

    /// In a directory of this user.
    pub fn owner(mut self, user: u32) -> Self {
        self.owner = Some(user);
        self
    }

    pub fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// Fails if the program ends otherwise under the library than plain: with its defaults, and with all that it
    /// can do.
    #[track_caller]
    pub fn check(&self) {
        let Some(plain) = self.run(None) else {
            return;
        };
        for (name, settings) in [("defaults", defaults()), ("everything", everything())] {
            let with = self.run(Some(&settings)).expect("it ran before");
            if let Some(difference) = plain.difference(&with) {
                panic!(
                    "{name}: {difference}\n{:?}\nplain: {:?}\nwith: {:?}\nlog: {}",
                    self.launcher, plain.ended, with.ended, with.log.text
                );
            }
            self.check_effect(&plain, &with.log, name);
        }
    }

    #[track_caller]
    fn check_effect(&self, plain: &Run, log: &ExitLog, name: &str) {
        let around = log.direct_bytes + log.drop_behind_bytes + log.dontcache_bytes;
        // Java cannot drop what it has written from the page cache. Windows are taken from there.
        let read = around + log.cache_bytes;
        match self.effect {
            Effect::Works => {
                assert!(plain.ended.status.success(), "{:?}", plain.ended);
                assert!(read > 0, "{name}: nothing was read: {}", log.text);
                if name == "everything" {
                    assert!(log.staged_writes > 0, "nothing was staged: {}", log.text);
                }
            }
            Effect::Any => {}
            Effect::NotLoaded => assert_eq!(log.text, "", "{name}"),
        }
    }

    /// Runs it. `None`: the launcher cannot do its work here.
    #[track_caller]
    fn run(&self, settings: Option<&Preload>) -> Option<Run> {
        let directory = open_directory();
        let work = directory.path().join("work");
        std::fs::create_dir(&work).expect("directory");
        set_mode(&work, 0o777);
        if let Some(owner) = self.owner {
            chown(&work, Some(owner), Some(owner)).expect("chown");
        }
        let path = work.to_str().expect("UTF-8 path");
        let launcher: Vec<String> = self
            .launcher
            .iter()
            .map(|word| word.replace("{}", path))
            .collect();
        if settings.is_none()
            && !launcher.is_empty()
            && let Err(tried) = Program::try_launcher(&launcher)
        {
            skip(format!("{launcher:?} cannot be done here: {tried:?}"));
            return None;
        }
        let mut program = self.program.clone().argument(&work).arguments(&self.words);
        for (name, value) in &self.variables {
            program.variable(name, value);
        }
        let log = directory.path().join("log");
        let preload = settings.map(|settings| {
            let logging = settings.clone().with("COLDSTREAM_LOG", log.display());
            let behind = self
                .before
                .iter()
                .fold(logging, |all, other| all.behind(other));
            let after = |all: Preload, other: &PathBuf| all.in_front_of(other);
            self.after.iter().fold(behind, after)
        });
        if preload.is_none() && !(self.before.is_empty() && self.after.is_empty()) {
            let others = self.before.iter().chain(&self.after);
            let others: Vec<_> = others.map(|path| path.display().to_string()).collect();
            program.variable("LD_PRELOAD", &others.join(":"));
        }
        let ended = match launcher.is_empty() {
            true => program.run_either(preload.as_ref()),
            false => program.run_under(&launcher, preload.as_ref()),
        };
        let files = files_below(&work);
        Some(Run {
            ended,
            files,
            log: ExitLog::read(&log),
        })
    }
}

fn defaults() -> Preload {
    Preload::logging()
}

/// Every background byte goes around the page cache, and waits in memory before.
fn everything() -> Preload {
    Preload::writing(("direct", "process"))
        .with("COLDSTREAM_READS", "direct")
        .with("COLDSTREAM_FLUSH", "bypass")
        .with("COLDSTREAM_PACING", "on")
        .with("COLDSTREAM_EVICTION", "on")
}

/// How a program ended, and what it left.
struct Run {
    ended: Ended,
    /// Size and checksum of each file.
    files: BTreeMap<PathBuf, (u64, Hash)>,
    log: ExitLog,
}

impl Run {
    fn difference(&self, with: &Self) -> Option<String> {
        if self.ended.status != with.ended.status {
            return Some(format!(
                "{} became {}",
                self.ended.status, with.ended.status
            ));
        }
        let (plain, text) = (self.ended.text(), with.ended.text());
        if plain != text {
            let mut lines = plain.lines().zip(text.lines()).enumerate();
            let line = lines.find(|(_, (plain, with))| plain != with);
            return Some(format!("another output: {line:?}"));
        }
        let names = self.files.keys().chain(with.files.keys());
        let differs = |name: &&PathBuf| self.files.get(*name) != with.files.get(*name);
        let name = names.into_iter().find(differs)?;
        let (plain, with) = (self.files.get(name), with.files.get(name));
        Some(format!("{}: {plain:?} became {with:?}", name.display()))
    }
}

fn files_below(directory: &Path) -> BTreeMap<PathBuf, (u64, Hash)> {
    let mut files = BTreeMap::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        for entry in std::fs::read_dir(next).expect("directory") {
            let path = entry.expect("entry").path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let content = std::fs::read(&path).expect("file");
            let name = path.strip_prefix(directory).expect("below it").to_owned();
            files.insert(name, (content.len() as u64, Hash::of(&content)));
        }
    }
    files
}
