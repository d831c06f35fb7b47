//! Apache Cassandra as an engine of the laboratory: a real node a run.

use super::arguments::{CassandraArgs, Distribution, HotTable, Sizes};
use super::backlog::BacklogSampler;
use super::chooser::Chooser;
use super::client::CqlClient;
use super::load::{Load, RequestPlan};
use super::mode::{Mode, Way};
use super::phase_sequence::PhaseSequence;
use super::recipe::Recipe;
use super::run_state::RunState;
use super::schema::{ADDRESS, BESIDE, COMPACTED, KEYSPACE, table_directory, tables};
use super::sstables::{DATA_SUFFIX, SsTables};
use super::template::{Template, settings};
use super::workload::Workload;
use crate::compaction_files::CompactionFiles;
use crate::engine::{Case, Description, Engine, Plan, Run};
use crate::free_space::check_space;
use crate::linked::LinkedCopy;
use crate::measurement::Measurement;
use crate::option_name::option_name;
use crate::pauses::Pauses;
use crate::phase::{Event, FirstPass};
use crate::report::CaseDescription;
use crate::testbed::Testbed;
use anyhow::Result;
use coldstream_nodes::{Distribution as Release, Launch, Node, Settings, Version};
use coldstream_policy::Profile;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;

/// Cassandra, driven over CQL.
#[derive(Debug)]
pub struct Cassandra {
    arguments: CassandraArgs,
}

/// A release, and its node directory with the data set.
#[derive(Debug)]
pub struct PreparedRelease {
    release: Release,
    template: Template,
}

impl Engine for Cassandra {
    type Arguments = CassandraArgs;
    type Mode = Mode;
    /// There is one case.
    type Condition = ();
    type Dataset = BTreeMap<Version, PreparedRelease>;

    const PROFILE: Profile = Profile::Cassandra;
    /// The read stage, and the threads that take requests. The latter read themselves while the
    /// stage has room (`concurrent/SEPExecutor.java: maybeExecuteImmediately`). In 6.0-alpha2 both
    /// keep the name of their common pool.
    const READER_THREADS: &'static [&'static str] =
        &["ReadStage", "Native-Transpor", "SharedPool-Work"];

    fn find(mut arguments: CassandraArgs) -> Result<Self> {
        arguments.modes = arguments.modes();
        Ok(Self { arguments })
    }

    fn plan(&self) -> Plan<'_, Self> {
        let arguments = &self.arguments;
        let Sizes {
            memory_bytes,
            heap_mib,
            ..
        } = arguments.sizes();
        let java_arguments = arguments.java_argument.iter();
        let java_arguments: String = java_arguments.map(|it| format!(", {it}")).collect();
        let description = CaseDescription {
            title: "major compaction".into(),
            text: format!(
                "limit {} MiB, heap {} MiB, cold start{java_arguments}",
                memory_bytes >> 20,
                heap_mib,
            ),
            parameters: json!({
                "limit_bytes": memory_bytes,
                "heap_mib": heap_mib,
                "java_arguments": arguments.java_argument,
            }),
            published: arguments.recipe.map(Recipe::published),
        };
        Plan {
            modes: &arguments.modes,
            turns: arguments.runs,
            cases: vec![Case {
                description,
                limit_bytes: memory_bytes,
                condition: (),
            }],
            work_dir: &arguments.work_dir,
        }
    }

    fn prepare(&self, testbed: &mut Testbed) -> Result<Self::Dataset> {
        prepare(&self.arguments, testbed)
    }

    fn copy_dataset(
        &self,
        dataset: &Self::Dataset,
        mode: &Mode,
        directory: &Path,
    ) -> Result<LinkedCopy> {
        dataset[&mode.version].template.copy(directory)
    }

    fn run(
        &self,
        testbed: &mut Testbed,
        dataset: &Self::Dataset,
        run: &mut Run<'_, Self>,
    ) -> Result<Measurement> {
        let _no_readahead = match run.mode.way {
            Way::NoReadahead => testbed.set_read_ahead(0),
            _ => None,
        };
        let launch = Launch {
            cgroup_processes: run.limits.processes_files(),
            java_arguments: self.arguments.java_argument.clone(),
            prefix: run.command_prefix.iter().map(Into::into).collect(),
        };
        let mut node = Node::start(
            &dataset[&run.mode.version].release,
            &settings_of(&self.arguments, run.mode),
            run.copy.path(),
            ADDRESS,
            ADDRESS,
            &launch,
        )?;
        let client = CqlClient::connect(&node.cql())?;
        let before = client.compacted_bytes()?;
        let mut measurement = Measurement::new(0).with_read_times();
        self.under_load(testbed, run, &mut node, &client, &mut measurement)?;
        let after = client.compacted_bytes()?;
        measurement.take(Event::Compacted {
            read_bytes: after.0.saturating_sub(before.0),
            written_bytes: after.1.saturating_sub(before.1),
        });
        drop(client);
        measurement.set_pauses(Pauses::new(node.pauses()?));
        node.stop()?;
        Ok(measurement)
    }

    fn describe(&self) -> Description {
        let arguments = &self.arguments;
        Description {
            engine: "Apache Cassandra".into(),
            load: load_in_words(arguments),
            parameters: json!({
                "recipe": arguments.recipe,
                "sizes": arguments.sizes(),
                "value_bytes": arguments.value_bytes,
                "chunk_kib": arguments.chunk_kib,
                "format": arguments.format,
                "hot": arguments.hot_table,
                "workload": arguments.workload(),
                "distribution": arguments.distribution,
                "requests_per_second": arguments.sizes().requests_per_second,
                "first_reads_per_second": arguments.first_reads_per_second,
                "compaction_seconds": arguments.compaction_seconds,
                "compaction_mib_per_second": arguments.compaction_mib_per_second(),
            }),
        }
    }
}

/// Data and load in one sentence.
fn load_in_words(arguments: &CassandraArgs) -> String {
    let sizes = arguments.sizes();
    let recipe = match arguments.recipe {
        Some(recipe) => recipe.describe(sizes.memory_bytes >> 20) + ": ",
        None => String::new(),
    };
    let requests = match (
        arguments.workload().update_percent(),
        arguments.distribution,
    ) {
        (0, Distribution::Uniform) => "reads",
        (0, Distribution::Zipfian) => "zipfian reads",
        (_, Distribution::Uniform) => "reads and updates",
        (_, Distribution::Zipfian) => "zipfian reads and updates",
    };
    format!(
        "{recipe}{} keys of {} bytes, chunks of {} KiB, {} {}/s of {} keys {} the compacted \
         table; {} at {}",
        sizes.keys,
        arguments.value_bytes,
        arguments.chunk_kib,
        sizes.requests_per_second,
        requests,
        sizes.hot_keys,
        option_name(arguments.hot_table),
        match arguments.workload() {
            Workload::Reads => "one major compaction",
            _ => "major compactions one after the other",
        },
        match arguments.compaction_mib_per_second() {
            0 => "full speed".to_owned(),
            rate => format!("{rate} MiB/s"),
        }
    )
}

/// Checks that the work directory has room for the data set, a node directory for each release, and a run.
fn check_free_space(
    arguments: &CassandraArgs,
    versions: &[Version],
    work_dir: &Path,
) -> Result<()> {
    let tables = tables(arguments).len() as u64;
    let values_bytes = (arguments.sizes().keys)
        .saturating_mul(arguments.value_bytes)
        .saturating_mul(tables);
    let kept = |version: &&Version| Template::is_kept(arguments, **version, work_dir);
    let missing = versions.len() - versions.iter().filter(kept).count();
    check_space(work_dir, values_bytes, needed_bytes(values_bytes, missing))
}

/// What a measurement needs whose node directories are there, but for `missing` ones.
///
/// - A run shares the SSTables of its node directory, and writes up to as much again.
/// - Each release rewrites the SSTables for its node directory. They are written once before.
fn needed_bytes(values_bytes: u64, missing: usize) -> u64 {
    let halves = match missing as u64 {
        0 => 3,
        missing => 3 + 2 + 2 * missing,
    };
    (values_bytes / 2).saturating_mul(halves)
}

/// Gets the releases of all modes, and prepares a node directory for each.
fn prepare(
    arguments: &CassandraArgs,
    testbed: &mut Testbed,
) -> Result<BTreeMap<Version, PreparedRelease>> {
    let cache = arguments
        .releases
        .clone()
        .unwrap_or_else(Release::default_cache);
    let mut versions: Vec<Version> = arguments.modes.iter().map(|mode| mode.version).collect();
    versions.sort_unstable();
    versions.dedup();
    check_free_space(arguments, &versions, testbed.directory())?;
    // 4.1 writes the data set: every later release can import its SSTables.
    versions.push(Version::V4_1);
    versions.sort_unstable();
    versions.dedup();
    let mut releases = BTreeMap::new();
    for version in versions {
        let obtained = Release::obtain(version, &cache, &mut |text| testbed.progress.line(text))?;
        releases.insert(version, obtained);
    }
    let sizes = arguments.sizes();
    let first_pass = FirstPass {
        read_keys: Chooser::first_pass_keys(sizes.hot_keys, arguments.first_reads_per_second),
        hot_keys: sizes.hot_keys,
    };
    if let Some(note) = first_pass.note() {
        testbed.add_limitation(note);
    }
    let work_dir = testbed.directory().to_path_buf();
    let sstables = SsTables::of(arguments, releases[&Version::V4_1].clone(), &work_dir);
    let mut prepared = BTreeMap::new();
    for (version, release) in releases {
        if !arguments.modes.iter().any(|mode| mode.version == version) {
            continue;
        }
        let template = Template::prepare(arguments, &release, &sstables, &work_dir, &mut |text| {
            testbed.progress.line(text);
        })?;
        prepared.insert(version, PreparedRelease { release, template });
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

impl Cassandra {
    /// Runs the load and the phase sequence side by side, and records both.
    fn under_load(
        &self,
        testbed: &mut Testbed,
        run: &mut Run<'_, Self>,
        node: &mut Node,
        client: &CqlClient,
        measurement: &mut Measurement,
    ) -> Result<()> {
        let (arguments, sizes) = (&self.arguments, self.arguments.sizes());
        let table = match arguments.hot_table {
            HotTable::Inside => COMPACTED,
            HotTable::Beside => BESIDE,
        };
        let statements = Arc::new(client.prepare(&format!("{KEYSPACE}.{table}"))?);
        let plan = RequestPlan {
            value_bytes: arguments.value_bytes,
            first_reads_per_second: arguments.first_reads_per_second,
            requests_per_second: sizes.requests_per_second,
            update_percent: arguments.workload().update_percent(),
        };
        let first_pass_keys =
            Chooser::first_pass_keys(sizes.hot_keys, arguments.first_reads_per_second);
        let chooser = Chooser::new(
            arguments.distribution,
            sizes.hot_keys,
            sizes.keys,
            first_pass_keys,
            run.turn,
        );
        let directory = table_directory(run.copy.path(), COMPACTED)?;
        let mut files = CompactionFiles::watch(directory.clone(), DATA_SUFFIX);
        if let Err(error) = client.backlog() {
            testbed.add_limitation(format!(
                "how far compaction is behind is not known: {error:#}"
            ));
        }
        let state = Arc::new(RunState::new());
        let (events, received) = channel();
        let load = Load {
            client,
            statements: &statements,
            plan,
            state: &state,
            events: events.clone(),
        };
        let backlogs = BacklogSampler {
            client,
            directory,
            state: &state,
            events: events.clone(),
        };
        let process = node.process_id();
        let phases = PhaseSequence {
            arguments,
            nodetool: node.nodetool(),
            process,
            state: &state,
            first_pass_seconds: first_pass_keys / arguments.first_reads_per_second.max(1) + 1,
            events,
        };
        std::thread::scope(|scope| {
            scope.spawn(move || load.run(chooser));
            scope.spawn(move || backlogs.run());
            scope.spawn(move || phases.run());
            let recorded = run.record(testbed, measurement, &received, || files.cached_bytes());
            state.end();
            if recorded.is_err() {
                // Threads that wait for the node get an error instead of an answer.
                kill(process);
            }
            recorded
        })?;
        let (updates, user_bytes) = state.updates();
        measurement.take(Event::Updated {
            updates,
            // In an open loop no update waits for another.
            late_ns_max: 0,
            debt_bytes: 0,
        });
        measurement.take(Event::Written {
            user_bytes,
            // Cassandra does not delay writes.
            stall_us: 0,
        });
        Ok(())
    }
}

fn kill(process: u32) {
    if let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        let _ = kill_process(process, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_directory_that_is_missing_needs_room() {
        let values = |missing| needed_bytes(2, missing);
        assert_eq!([0, 1, 2].map(values), [3, 7, 9]);
    }
}
