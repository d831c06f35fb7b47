//! Options over environment over file over defaults, each error with its source.

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser};
use coldstream_policy::{Config, ConfigError, VARIABLES};

use crate::exit::{Exit, failure};
use crate::{library, output};

/// The values of an I/O mode. `window` was the name of `drop-behind`; it is accepted for one version.
fn io_modes() -> PossibleValuesParser {
    PossibleValuesParser::new([
        PossibleValue::new("auto"),
        PossibleValue::new("direct"),
        PossibleValue::new("dontcache"),
        PossibleValue::new("drop-behind").alias("window"),
        PossibleValue::new("buffered"),
    ])
}

/// The settings as options.
#[derive(clap::Args)]
pub struct SettingsArguments {
    /// Engine whose threads and files are recognised [default: auto]
    #[arg(long, value_parser = ["auto", "rocksdb", "leveldb", "cassandra"])]
    profile: Option<String>,
    /// I/O mode of background reads [default: auto]
    #[arg(long, value_parser = io_modes())]
    reads: Option<String>,
    /// Size of one window, a power of two from 64KiB to 2MiB [default: 1MiB]
    #[arg(long, value_name = "SIZE")]
    window: Option<String>,
    /// Windows read ahead of each consumer, 1 to 4 [default: 1]
    #[arg(long, value_name = "N")]
    windows_in_flight: Option<String>,
    /// Cap for all windows and staging buffers of the program, 1MiB to 1GiB [default: 64MiB]
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// I/O mode of background writes [default: auto]
    #[arg(long, value_parser = io_modes())]
    writes: Option<String>,
    /// Whom written bytes must be visible to when write returns: every process (everywhere), or
    /// the program's own threads at once and others a little later (process) [default: auto, which
    /// is process for Cassandra's tables and everywhere for others]
    #[arg(long, value_parser = ["auto", "everywhere", "process"])]
    visible: Option<String>,
    /// What memtable flushes write: left in the page cache, or treated like compaction's output
    /// [default: cached]
    #[arg(long, value_parser = ["cached", "bypass"])]
    flush: Option<String>,
    /// Staging buffer of a table that is written directly, a power of two from 256KiB to 1MiB
    /// [default: 1MiB]
    #[arg(long, value_name = "SIZE")]
    staging: Option<String>,
    /// Readahead of tables: none but ahead of range scans; the same, and none of mapped tables; or
    /// left to the kernel [default: scans]
    #[arg(long, value_parser = ["scans", "scans-and-mapped", "kernel"])]
    readahead: Option<String>,
    /// Background I/O slows down while it makes the foreground's device reads slower [default: off]
    #[arg(long, value_parser = ["on", "off"])]
    pacing: Option<String>,
    /// What background I/O may always do, all threads together, 1 to 65536 [default: 16]
    #[arg(long, value_name = "MIB_PER_SECOND")]
    pacing_floor: Option<String>,
    /// Drop cold pages of tables before memory runs out, for background I/O that goes through the
    /// page cache (--reads buffered, --writes buffered); needs Linux 6.5 [default: off]
    #[arg(long, value_parser = ["on", "off"])]
    eviction: Option<String>,
    /// The room that is then kept free below the limit of the cgroup and the kernel's watermarks:
    /// 1% to 25% (4MiB to 256MiB), or a size from 1MiB to 64GiB; never more than an eighth of the
    /// limit [default: 3%]
    #[arg(long, value_name = "PERCENT|SIZE")]
    eviction_margin: Option<String>,
    /// What is hot in a compaction's inputs is made warm in its outputs [default: on]
    #[arg(long, value_parser = ["on", "off"])]
    handover: Option<String>,
    /// The most that is warmed of a table before it is published, 0 to 1TiB; never more than an
    /// eighth of the memory [default: 1TiB]
    #[arg(long, value_name = "SIZE")]
    handover_size: Option<String>,
    /// Reads on their way while pages are warmed, 1 to 64 [default: 4]
    #[arg(long, value_name = "N")]
    handover_in_flight: Option<String>,
    /// How long the publication of a table may be held up for it, 1 to 60000 [default: 2000]
    #[arg(long, value_name = "MS")]
    handover_milliseconds: Option<String>,
    /// The most memory in which is kept which pages are hot, 64KiB to 1GiB [default: 64MiB]
    #[arg(long, value_name = "SIZE")]
    heat: Option<String>,
    /// When background threads get a nice value and an I/O priority: where the nice value can be
    /// taken back (CAP_SYS_NICE or RLIMIT_NICE), always, or never [default: auto]
    #[arg(long, value_parser = ["auto", "always", "off"])]
    priority: Option<String>,
    /// Their nice value, 0 to 19 or none; by role as in compaction:10,streaming:none
    /// [default: 10, flush:none]
    #[arg(long, value_name = "NICE")]
    nice: Option<String>,
    /// Their I/O priority, a level of the best-effort class from 0 to 7, idle or none; by role too
    /// [default: 7, flush:none]
    #[arg(long, value_name = "LEVEL")]
    io_priority: Option<String>,
    /// Where the library's lines go: none, stderr or a file [default: stderr]
    #[arg(long, value_name = "none|stderr|PATH")]
    log: Option<String>,
    /// TOML file with the same settings; COLDSTREAM_… variables and options win over it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// An option, the variable of the same setting, and what was given.
type Row = (&'static str, &'static str, Option<String>);

impl SettingsArguments {
    /// Every setting.
    fn rows(&self) -> anyhow::Result<[Row; 23]> {
        let log = self.log.as_deref().map(absolute_log).transpose()?;
        Ok([
            ("--profile", "COLDSTREAM_PROFILE", self.profile.clone()),
            ("--reads", "COLDSTREAM_READS", self.reads.clone()),
            ("--window", "COLDSTREAM_WINDOW_BYTES", self.window.clone()),
            (
                "--windows-in-flight",
                "COLDSTREAM_WINDOWS_IN_FLIGHT",
                self.windows_in_flight.clone(),
            ),
            ("--memory", "COLDSTREAM_MEMORY_BYTES", self.memory.clone()),
            ("--writes", "COLDSTREAM_WRITES", self.writes.clone()),
            ("--visible", "COLDSTREAM_VISIBLE", self.visible.clone()),
            ("--flush", "COLDSTREAM_FLUSH", self.flush.clone()),
            (
                "--staging",
                "COLDSTREAM_STAGING_BYTES",
                self.staging.clone(),
            ),
            (
                "--readahead",
                "COLDSTREAM_READAHEAD",
                self.readahead.clone(),
            ),
            ("--pacing", "COLDSTREAM_PACING", self.pacing.clone()),
            (
                "--pacing-floor",
                "COLDSTREAM_PACING_FLOOR",
                self.pacing_floor.clone(),
            ),
            ("--eviction", "COLDSTREAM_EVICTION", self.eviction.clone()),
            (
                "--eviction-margin",
                "COLDSTREAM_EVICTION_MARGIN",
                self.eviction_margin.clone(),
            ),
            ("--handover", "COLDSTREAM_HANDOVER", self.handover.clone()),
            (
                "--handover-size",
                "COLDSTREAM_HANDOVER_BYTES",
                self.handover_size.clone(),
            ),
            (
                "--handover-in-flight",
                "COLDSTREAM_HANDOVER_IN_FLIGHT",
                self.handover_in_flight.clone(),
            ),
            (
                "--handover-milliseconds",
                "COLDSTREAM_HANDOVER_MILLISECONDS",
                self.handover_milliseconds.clone(),
            ),
            ("--heat", "COLDSTREAM_HEAT_BYTES", self.heat.clone()),
            ("--priority", "COLDSTREAM_PRIORITY", self.priority.clone()),
            ("--nice", "COLDSTREAM_NICE", self.nice.clone()),
            (
                "--io-priority",
                "COLDSTREAM_IO_PRIORITY",
                self.io_priority.clone(),
            ),
            ("--log", "COLDSTREAM_LOG", log),
        ])
    }
}

/// The program may change its directory; the file stays where the user meant it.
fn absolute_log(log: &str) -> anyhow::Result<String> {
    if matches!(log, "" | "none" | "stderr") {
        return Ok(log.to_owned());
    }
    let path = std::path::absolute(log)?;
    path.into_os_string()
        .into_string()
        .map_err(|_| failure(Exit::Usage, format!("--log {log}: the path must be UTF-8")))
}

/// The configuration that options, environment and file make together.
pub fn effective(arguments: &SettingsArguments) -> anyhow::Result<Config> {
    let rows = arguments.rows()?;
    let is_empty = |value: &Option<String>| value.as_ref().is_some_and(String::is_empty);
    if let Some((option, ..)) = rows.iter().find(|(.., value)| is_empty(value)) {
        let message = format!("{option}: its value is empty: give one, or leave it out");
        return Err(failure(Exit::Usage, message));
    }
    let given = |name: &str| {
        let (.., value) = rows.iter().find(|(_, variable, _)| *variable == name)?;
        value.clone()
    };
    // Each source is checked alone first, so that the error can name it.
    Config::from_sources(None, given).map_err(|error| option_error(&error, &rows))?;
    Config::from_sources(None, from_environment)
        .map_err(|error| failure(Exit::Configuration, format!("environment: {error}")))?;
    warn_of_unknown_variables();

    let file = arguments
        .config
        .clone()
        .or_else(|| from_environment("COLDSTREAM_CONFIG").map(PathBuf::from))
        .filter(|path| !path.as_os_str().is_empty());
    let text = file.as_deref().map(read_file).transpose()?;
    if let (Some(path), Some(text)) = (&file, &text) {
        Config::from_sources(Some(text), |_| None).map_err(|error| {
            let message = format!("configuration file {}: {error}", path.display());
            failure(Exit::Configuration, message)
        })?;
    }
    let merged = |name: &str| given(name).or_else(|| from_environment(name));
    Config::from_sources(text.as_deref(), merged)
        .map_err(|error| failure(Exit::Configuration, error.to_string()))
}

/// What the environment's `COLDSTREAM` says by itself, which is the way out whatever is wrong with other
/// settings; none if it is wrong, too.
pub fn switch_alone() -> Option<Config> {
    let alone = |name: &str| from_environment(name).filter(|_| name == "COLDSTREAM");
    Config::from_sources(None, alone).ok()
}

fn from_environment(name: &str) -> Option<String> {
    let value = std::env::var_os(name)?;
    Some(value.to_string_lossy().into_owned())
}

/// A misspelt variable would otherwise be silently without effect.
fn warn_of_unknown_variables() {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if is_unknown_variable(&name) {
            output::say(&format!("{name} is not a variable of Coldstream: ignored"));
        }
    }
}

/// Whether a variable looks like one of Coldstream's, and is none.
pub fn is_unknown_variable(name: &str) -> bool {
    let is_known = VARIABLES.contains(&name) || name == library::VARIABLE;
    name.starts_with("COLDSTREAM_") && !is_known
}

fn read_file(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).map_err(|error| {
        let message = format!("cannot read configuration file {}: {error}", path.display());
        failure(Exit::Configuration, message)
    })
}

fn option_error(error: &ConfigError, rows: &[Row]) -> anyhow::Error {
    let message = error.to_string();
    // The user wrote an option, not the variable that stands for it here.
    let option = rows.iter().find_map(|(option, variable, _)| {
        // One variable's name may be the beginning of another's.
        let rest = message.strip_prefix(variable)?;
        rest.starts_with(' ').then_some((option, rest))
    });
    let message = match option {
        Some((option, rest)) => format!("{option}{rest}"),
        None => message,
    };
    failure(Exit::Usage, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, Command, FromArgMatches};

    #[test]
    fn every_option_sets_what_it_is_called() {
        let command = SettingsArguments::augment_args(Command::new("run"));
        let names = command.get_arguments().filter_map(|it| it.get_long());
        let mut variables = Vec::new();
        for name in names.filter(|name| *name != "config") {
            let option = format!("--{name}");
            let value = ["auto", "on", "scans", "cached"]
                .into_iter()
                .find_map(|value| {
                    let command = command.clone();
                    command.try_get_matches_from(["run", &option, value]).ok()
                });
            let arguments = SettingsArguments::from_arg_matches(&value.unwrap()).unwrap();
            let rows = arguments.rows().unwrap();
            let given: Vec<_> = rows.iter().filter(|(.., value)| value.is_some()).collect();
            let [(called, variable, _)] = given[..] else {
                panic!("{option} sets {given:?}");
            };
            assert_eq!(*called, option);
            // What is a size there is told in bytes here.
            let named = name
                .trim_end_matches("size")
                .to_uppercase()
                .replace('-', "_");
            assert!(
                variable.starts_with(&format!("COLDSTREAM_{named}")),
                "{variable}"
            );
            assert!(VARIABLES.contains(variable));
            variables.push(*variable);
        }
        assert_eq!(variables.len(), 23);
    }
}
