//! What an engine provides so that the laboratory can measure it.
//!
//! An engine is one folder, such as `rocksdb/` or `cassandra/`, with an implementation of [`Engine`],
//! and one line in `engines.rs`. `experiment.rs` does the rest, alike for every engine:
//!
//! - the order of cases, turns and modes
//! - the limits of memory and device
//! - the preload library
//! - the samples of the kernel's counters
//! - the report

use crate::attached::Attached;
use crate::linked::LinkedCopy;
use crate::measurement::Measurement;
use crate::phase::Event;
use crate::preloaded::Preloaded;
use crate::recording::Recording;
use crate::report::CaseDescription;
use crate::testbed::{Limits, Testbed, WorkDirArgs};
use anyhow::Result;
use coldstream_policy::Profile;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::Receiver;

/// An engine that the laboratory can measure.
///
/// The experiment calls `find`, `plan` and `prepare` once and in this order. Then it calls
/// `copy_dataset` and `run` for each run, and `describe` at the end.
pub trait Engine: Sized {
    /// The engine's options on the command line.
    type Arguments: EngineArguments;
    /// One way to run the engine.
    type Mode: Mode;
    /// What distinguishes the runs of one case from those of another.
    type Condition;
    /// The data that every run starts from. Dropped after the last run.
    type Dataset;

    /// Coldstream's profile for this engine.
    const PROFILE: Profile;
    /// Beginnings of the names of the engine's threads that serve reads. The laboratory counts the
    /// device reads of these threads as the foreground's.
    const READER_THREADS: &'static [&'static str];

    /// Looks for what the engine needs, and changes nothing on the machine.
    ///
    /// # Errors
    /// Something is missing. The message says how to get it.
    fn find(arguments: Self::Arguments) -> Result<Self>;

    /// What is measured, and where.
    fn plan(&self) -> Plan<'_, Self>;

    /// Takes the data set from the work directory, or makes it there.
    fn prepare(&self, testbed: &mut Testbed) -> Result<Self::Dataset>;

    /// Makes a run's own copy of the data set in `directory`.
    fn copy_dataset(
        &self,
        dataset: &Self::Dataset,
        mode: &Self::Mode,
        directory: &Path,
    ) -> Result<LinkedCopy>;

    /// Starts the engine within the run's limits, leads it through all phases, and stops it.
    fn run(
        &self,
        testbed: &mut Testbed,
        dataset: &Self::Dataset,
        run: &mut Run<'_, Self>,
    ) -> Result<Measurement>;

    /// The report's words about engine and load. Called after all runs: some engines tell their
    /// version only when they run.
    fn describe(&self) -> Description;
}

/// One way to run an engine. Its text is its name on the command line and in the report.
pub trait Mode: Display {
    /// The preload library of this mode, if it has one.
    fn preloaded(&self) -> Option<&Preloaded>;

    /// The options of the `coldstream attach` that runs beside the engine; `None` if none does.
    fn attach_options(&self) -> Option<&'static [&'static str]> {
        None
    }
}

/// What the command needs of an engine's options before the laboratory starts.
pub trait EngineArguments {
    /// Directory, device and report.
    fn work_dir_mut(&mut self) -> &mut WorkDirArgs;

    /// Whether a mode needs Coldstream's library.
    fn loads_coldstream(&self) -> bool;

    /// Programs of this project that the engine needs: file name, and the option that names its
    /// path. The command fills in those that the user did not name.
    fn companions(&mut self) -> Vec<(&'static str, &mut Option<PathBuf>)> {
        Vec::new()
    }
}

/// What is measured, and where.
pub struct Plan<'a, E: Engine> {
    /// Each turn runs every mode once, the first turn in this order. The report compares the others to the first mode.
    pub modes: &'a [E::Mode],
    /// Turns of each case.
    pub turns: u32,
    /// The cases, in the order in which they are measured.
    pub cases: Vec<Case<E::Condition>>,
    /// Directory, device and report.
    pub work_dir: &'a WorkDirArgs,
}

/// One case: all modes are measured under its condition.
pub struct Case<C> {
    /// The report's words about it.
    pub description: CaseDescription,
    /// Memory limit of the engine's cgroup, page cache included.
    pub limit_bytes: u64,
    /// The engine's own part.
    pub condition: C,
}

/// The report's words about an engine and its load.
pub struct Description {
    /// The engine, with its version.
    pub engine: String,
    /// Data and load, in one sentence.
    pub load: String,
    /// The options, by their names on the command line.
    pub parameters: serde_json::Value,
}

/// One run, prepared by the experiment.
pub struct Run<'a, E: Engine> {
    /// Case, turn and mode, for messages.
    pub title: &'a str,
    /// The mode.
    pub mode: &'a E::Mode,
    /// The case's condition.
    pub condition: &'a E::Condition,
    /// Number of the turn, from 1. Seeds the order of reads.
    pub turn: u32,
    /// The run's own copy of the data set.
    pub copy: LinkedCopy,
    /// Memory and device limits.
    pub limits: Limits,
    /// Words before the engine's own command line. They set the preload library and its
    /// environment; empty in modes without one.
    pub command_prefix: Vec<String>,
    /// The process of `coldstream attach`, once it runs in the run's cgroups.
    pub attached_process: Option<u32>,
}

impl<E: Engine> Run<'_, E> {
    /// Starts `coldstream attach` beside the engine's process, if the mode has it. `command` enters its cgroups.
    pub fn attach(&mut self, process: u32, command: Command) -> Result<Option<Attached>> {
        let attach = |options| Attached::start(process, options, command);
        let attached = self.mode.attach_options().map(attach).transpose()?;
        self.attached_process = attached.as_ref().map(Attached::id);
        Ok(attached)
    }

    /// Records events until the last sender is gone, and samples the kernel's counters meanwhile.
    ///
    /// `cached_bytes` is called with each sample. It returns the bytes of the compaction's inputs
    /// and outputs in the page cache.
    ///
    /// # Errors
    /// The first error among the events, or an interrupt.
    pub fn record(
        &mut self,
        testbed: &mut Testbed,
        measurement: &mut Measurement,
        events: &Receiver<Result<Event>>,
        mut cached_bytes: impl FnMut() -> (u64, u64),
    ) -> Result<()> {
        let recording = Recording {
            title: self.title,
            cgroup: self.limits.cgroup(),
            reader_threads: E::READER_THREADS,
            attached_process: self.attached_process,
        };
        let copy = &mut self.copy;
        recording.run(testbed, measurement, events, || {
            copy.drop_deleted();
            cached_bytes()
        })
    }
}
