//! The plan and its execution: the modes in turn, run by run.

use super::arguments::{CassandraArgs, Distribution, HotTable, Workload};
use super::chooser::Chooser;
use super::conductor::Conductor;
use super::dataset::{
    ADDRESS, BESIDE, COMPACTED, KEYSPACE, Sstables, Template, settings, table_directory,
};
use super::load::{Baton, Load, Plan};
use super::mode::{Mode, Way};
use super::tables::Tables;
use crate::cgroup::Cgroup;
use crate::error::LabError;
use crate::interrupt;
use crate::linked::LinkedCopy;
use crate::measurement::Measurement;
use crate::option_name::option_name;
use crate::pauses::Pauses;
use crate::phase::Event;
use crate::preloaded::{Libraries, library_log};
use crate::report::{CaseDescription, Report};
use crate::run_report::RunReport;
use crate::testbed::Testbed;
use crate::throttle::Throttle;
use anyhow::{Result, bail};
use coldstream_nodes::{Distribution as Release, Launch, Node, Settings, Version};
use coldstream_policy::Profile;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;

/// How the names of the node's threads begin that read for its clients: the stage, and those that
/// take the requests, which read themselves while the stage has room
/// (`concurrent/SEPExecutor.java: maybeExecuteImmediately`). Those of 6.0-alpha2 keep the name of
/// the pool that both belong to.
const READERS: [&str; 3] = ["ReadStage", "Native-Transpor", "SharedPool-Work"];

/// Measures, prints and writes the report.
///
/// # Errors
/// See [`LabError`].
pub fn run(arguments: &CassandraArgs) -> Result<(), LabError> {
    interrupt::watch();
    Ok(measure(arguments)?)
}

/// A release and its node directory with the data set.
struct Prepared {
    release: Release,
    template: Template,
}

fn measure(arguments: &CassandraArgs) -> Result<()> {
    if arguments.modes.is_empty() {
        bail!("nothing to measure: give at least one of --modes");
    }
    let preloaded = arguments.modes.iter().filter_map(Mode::preloaded);
    let libraries = Libraries::find(preloaded, arguments.work_dir.coldstream_library.as_deref())?;
    let mut testbed = Testbed::open(&arguments.work_dir)?;
    let prepared = prepare(arguments, &mut testbed)?;
    let sizes = arguments.sizes();
    let mib = |bytes: u64| bytes >> 20;
    let load = format!(
        "{} keys of {} bytes, chunks of {} KiB, {} {}/s of {} keys {} the compacted \
         table; {} at {}",
        sizes.keys,
        arguments.value_bytes,
        arguments.chunk_kib,
        arguments.requests_per_second,
        match (arguments.workload, arguments.distribution) {
            (Workload::Reads, Distribution::Uniform) => "reads",
            (Workload::Reads, Distribution::Zipfian) => "zipfian reads",
            (Workload::YcsbA, Distribution::Uniform) => "reads and updates",
            (Workload::YcsbA, Distribution::Zipfian) => "zipfian reads and updates",
        },
        sizes.hot_keys,
        option_name(arguments.hot_table),
        match arguments.workload {
            Workload::Reads => "one major compaction",
            Workload::YcsbA => "major compactions one after the other",
        },
        match arguments.compaction_mib_per_second {
            0 => "full speed".to_owned(),
            rate => format!("{rate} MiB/s"),
        }
    );
    let java_arguments: String = arguments
        .java_argument
        .iter()
        .map(|argument| format!(", {argument}"))
        .collect();
    let case = CaseDescription {
        title: "major compaction".into(),
        text: format!(
            "limit {} MiB, heap {} MiB, cold start{}",
            mib(sizes.memory_bytes),
            arguments.heap_mib,
            java_arguments,
        ),
        parameters: json!({
            "limit_bytes": sizes.memory_bytes,
            "heap_mib": arguments.heap_mib,
            "java_arguments": arguments.java_argument,
        }),
    };
    let case = testbed.case(
        case,
        &arguments.modes,
        arguments.runs,
        |testbed, title, mode, turn| {
            let prepared = &prepared[&mode.version];
            one_run(arguments, testbed, prepared, &libraries, title, mode, turn)
        },
    );
    let report = Report {
        version: env!("CARGO_PKG_VERSION").into(),
        engine: "Apache Cassandra".into(),
        load,
        parameters: json!({
            "sizes": sizes,
            "value_bytes": arguments.value_bytes,
            "chunk_kib": arguments.chunk_kib,
            "format": arguments.format,
            "hot": arguments.hot_table,
            "workload": arguments.workload,
            "distribution": arguments.distribution,
            "requests_per_second": arguments.requests_per_second,
            "first_reads_per_second": arguments.first_reads_per_second,
            "compaction_seconds": arguments.compaction_seconds,
            "compaction_mib_per_second": arguments.compaction_mib_per_second,
            "device_rate": testbed.device_rate,
        }),
        modes: arguments.modes.iter().map(Mode::to_string).collect(),
        runs: arguments.runs,
        limitations: std::mem::take(&mut testbed.limitations),
        machine: testbed.machine.clone(),
        cases: case.into_iter().collect(),
    };
    testbed.publish(&report, &arguments.work_dir.output)
}

fn prepare(
    arguments: &CassandraArgs,
    testbed: &mut Testbed,
) -> Result<BTreeMap<Version, Prepared>> {
    let cache = arguments
        .releases
        .clone()
        .unwrap_or_else(Release::default_cache);
    // What 4.1 writes, every later release can import.
    let mut versions: Vec<Version> = arguments.modes.iter().map(|mode| mode.version).collect();
    versions.push(Version::V4_1);
    versions.sort_unstable();
    versions.dedup();
    let mut releases = BTreeMap::new();
    for version in versions {
        let obtained = Release::obtain(version, &cache, &mut |text| testbed.progress.line(text))?;
        releases.insert(version, obtained);
    }
    let work_dir = testbed.directory().to_path_buf();
    let sstables = Sstables::of(arguments, releases[&Version::V4_1].clone(), &work_dir);
    let mut prepared = BTreeMap::new();
    for (version, release) in releases {
        if !arguments.modes.iter().any(|mode| mode.version == version) {
            continue;
        }
        let template = Template::prepare(arguments, &release, &sstables, &work_dir, &mut |text| {
            testbed.progress.line(text);
        })?;
        prepared.insert(version, Prepared { release, template });
    }
    Ok(prepared)
}

/// A node's settings in a mode.
fn settings_of(arguments: &CassandraArgs, mode: &Mode) -> Settings {
    let yaml = mode.yaml.iter();
    let mut settings = Settings {
        more: yaml.map(|(key, value)| format!("{key}: {value}")).collect(),
        ..settings(arguments)
    };
    if let Way::OwnDirect(own) = mode.way {
        settings.own_direct_reads = own.reads();
        settings.own_direct_writes = own.writes();
    }
    settings
}

/// What comes before `java` on a node's command line in a mode.
fn prefix(libraries: &Libraries, mode: &Mode, log: &Path) -> Result<Vec<OsString>> {
    let Some(preloaded) = mode.preloaded() else {
        return Ok(Vec::new());
    };
    let prefix = preloaded.prefix(&libraries.of(preloaded)?, Profile::Cassandra, log);
    Ok(prefix.into_iter().map(Into::into).collect())
}

fn one_run(
    arguments: &CassandraArgs,
    testbed: &mut Testbed,
    prepared: &Prepared,
    libraries: &Libraries,
    title: &str,
    mode: &Mode,
    turn: u32,
) -> Result<RunReport> {
    let sizes = arguments.sizes();
    let mut directory = prepared.template.copy(testbed.directory())?;
    let _no_readahead = match mode.way {
        Way::NoReadahead => testbed.set_read_ahead(0),
        _ => None,
    };
    let cgroup = testbed.cgroup(sizes.memory_bytes);
    let throttle = testbed.throttle();
    let log = testbed.log_file()?;
    let memory = cgroup.iter().map(Cgroup::processes_file);
    let launch = Launch {
        cgroup_processes: memory
            .chain(throttle.iter().map(Throttle::processes_file))
            .collect(),
        java_arguments: arguments.java_argument.clone(),
        prefix: prefix(libraries, mode, log.path())?,
    };
    let mut node = Node::start(
        &prepared.release,
        &settings_of(arguments, mode),
        directory.path(),
        ADDRESS,
        ADDRESS,
        &launch,
    )?;
    let load = Load::connect(&node.cql())?;
    let before = load.compacted_bytes()?;
    let mut measurement = Measurement::new(0).remembering_reads();
    let run = Run {
        arguments,
        title,
        turn,
        node: &mut node,
        directory: &mut directory,
        cgroup: cgroup.as_ref(),
    };
    run.under_load(testbed, &load, &mut measurement)?;
    let after = load.compacted_bytes()?;
    measurement.take(Event::Compacted {
        read_bytes: after.0.saturating_sub(before.0),
        written_bytes: after.1.saturating_sub(before.1),
    });
    drop(load);
    measurement.pauses(Pauses::new(node.pauses()?));
    node.stop()?;
    let seen = measurement.saw_library();
    measurement.report(library_log(mode.preloaded(), log.path(), seen)?)
}

/// A run whose node has started.
struct Run<'a> {
    arguments: &'a CassandraArgs,
    title: &'a str,
    turn: u32,
    node: &'a mut Node,
    directory: &'a mut LinkedCopy,
    cgroup: Option<&'a Cgroup>,
}

impl Run<'_> {
    /// Has the load and the conductor take the node through all phases, and records them.
    fn under_load(
        self,
        testbed: &mut Testbed,
        load: &Load,
        measurement: &mut Measurement,
    ) -> Result<()> {
        let (arguments, sizes) = (self.arguments, self.arguments.sizes());
        let table = match arguments.hot_table {
            HotTable::Inside => COMPACTED,
            HotTable::Beside => BESIDE,
        };
        let statements = Arc::new(load.prepare(&format!("{KEYSPACE}.{table}"))?);
        let plan = Plan {
            value_bytes: arguments.value_bytes,
            first_reads_per_second: arguments.first_reads_per_second,
            requests_per_second: arguments.requests_per_second,
            update_percent: arguments.workload.update_percent(),
        };
        let first_pass_keys =
            Chooser::first_pass_keys(sizes.hot_keys, arguments.first_reads_per_second);
        let chooser = Chooser::new(
            arguments.distribution,
            sizes.hot_keys,
            sizes.keys,
            first_pass_keys,
            self.turn,
        );
        let mut tables = Tables::watch(table_directory(self.directory.path(), COMPACTED)?);
        let baton = Arc::new(Baton::new());
        let (send, events) = channel();
        let process = self.node.process_id();
        std::thread::scope(|scope| {
            let readers = send.clone();
            scope.spawn({
                let (statements, plan, baton) = (&statements, &plan, &baton);
                move || load.run(statements, plan, chooser, baton, &readers)
            });
            let conductor = Conductor {
                arguments,
                nodetool: self.node.nodetool(),
                process,
                baton: &baton,
                first_pass_seconds: first_pass_keys / arguments.first_reads_per_second.max(1) + 1,
                events: send,
            };
            scope.spawn(move || conductor.conduct());
            let recorded = testbed.record(
                self.title,
                (self.cgroup, &READERS),
                measurement,
                &events,
                || {
                    self.directory.drop_deleted();
                    tables.cached_bytes()
                },
            );
            baton.end();
            if recorded.is_err() {
                // Whoever waits for the node gets an error instead of an answer.
                kill(process);
            }
            recorded
        })
    }
}

fn kill(process: u32) {
    if let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        let _ = kill_process(process, Signal::KILL);
    }
}
