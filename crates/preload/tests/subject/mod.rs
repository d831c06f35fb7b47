//! The program that runs with and without the library. It is the test's own executable, started again with
//! the test `subject_entry` alone. Its environment says what to do.
#![allow(
    dead_code,
    reason = "every suite is a crate of its own and uses a part"
)]

pub mod calls;
pub mod execute;
pub mod generate;
pub mod journal;
pub mod machine;
pub mod operations;
pub mod raw;

use coldstream_testkit::process::Program;
use journal::Journal;
use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Names the variable that makes the executable a subject.
const ROLE: &str = "SUBJECT_ROLE";
const DIRECTORY: &str = "SUBJECT_DIRECTORY";
const JOURNAL: &str = "SUBJECT_JOURNAL";
const SEED: &str = "SUBJECT_SEED";
const COUNT: &str = "SUBJECT_COUNT";
/// Path of a file with the numbers of operations to keep. Without the variable, all are kept.
const KEEP: &str = "SUBJECT_KEEP";

/// The role of this process, if it is a subject.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Names the calling thread, like an engine.
pub fn name_thread(name: &CStr) {
    // SAFETY: a NUL-terminated text.
    unsafe { calls::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Waits until the parent of this subject has made a file with this name.
pub fn wait_for(name: &str) {
    while !Path::new(name).exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The journal of this subject.
pub fn own_journal() -> Journal {
    Journal::create(Path::new(&std::env::var_os(JOURNAL).expect("a journal")))
}

/// A subject with this role, which works in `directory`.
pub fn program(role: &str, directory: &Path, journal: &Path) -> Program {
    Program::new(std::env::current_exe().expect("own path"))
        .arguments([
            "--exact",
            "subject_entry",
            "--ignored",
            "--test-threads=1",
            "--nocapture",
        ])
        .with_variable(ROLE, role)
        .with_variable(DIRECTORY, directory.display())
        .with_variable(JOURNAL, journal.display())
        .within(directory)
}

/// A random program or a part of one.
#[derive(Clone, Debug)]
pub struct Script {
    pub seed: u64,
    pub count: usize,
    pub keep: Option<Vec<usize>>,
}

impl Script {
    /// Operations with their numbers.
    pub fn operations(&self) -> Vec<(usize, operations::Operation)> {
        let all = generate::program(self.seed, self.count)
            .into_iter()
            .enumerate();
        match &self.keep {
            Some(keep) => all
                .filter(|(number, _)| keep.binary_search(number).is_ok())
                .collect(),
            None => all.collect(),
        }
    }

    /// The subject that runs it in the directory, which is emptied before.
    pub fn subject(&self, directory: &Path, journal: &Path) -> Program {
        empty(directory);
        let program = program("script", directory, journal)
            .with_variable(SEED, self.seed)
            .with_variable(COUNT, self.count);
        match &self.keep {
            None => program,
            Some(keep) => {
                let path = journal.with_extension("keep");
                let text: Vec<String> = keep.iter().map(usize::to_string).collect();
                std::fs::write(&path, text.join(" ")).unwrap();
                program.with_variable(KEEP, path.display())
            }
        }
    }

    fn from_environment() -> Self {
        let number = |name| std::env::var(name).unwrap().parse::<u64>().unwrap();
        Self {
            seed: number(SEED),
            count: number(COUNT) as usize,
            keep: std::env::var_os(KEEP).map(|path| {
                let text = std::fs::read_to_string(PathBuf::from(path)).unwrap();
                text.split_whitespace()
                    .map(|number| number.parse().unwrap())
                    .collect()
            }),
        }
    }
}

/// Runs a script, in a subject.
pub fn run_script() {
    let script = Script::from_environment();
    let journal = own_journal();
    machine::set_limits();
    machine::prepare_files();
    machine::run(&script.operations(), journal);
}

fn empty(directory: &Path) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        if entry.file_name() == "lost+found" {
            continue;
        }
        let path = entry.path();
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        } else {
            std::fs::remove_file(path).unwrap();
        }
    }
}
