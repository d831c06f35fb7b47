//! Configuration: environment variables over a TOML text over the defaults. The text and the
//! environment come from the caller: the preload library must not read files by way of libc.

use crate::eviction::Margin;
use crate::{Priorities, PriorityMode, Profile, ReadTreatment, Visibility, parse_bytes};
use serde::Deserialize;
use std::path::PathBuf;

/// Every environment variable that Coldstream reads. `COLDSTREAM_CONFIG` names the TOML file.
pub const VARIABLES: [&str; 25] = [
    "COLDSTREAM",
    "COLDSTREAM_CONFIG",
    "COLDSTREAM_PROFILE",
    "COLDSTREAM_READS",
    "COLDSTREAM_WINDOW_BYTES",
    "COLDSTREAM_WINDOWS_IN_FLIGHT",
    "COLDSTREAM_MEMORY_BYTES",
    "COLDSTREAM_WRITES",
    "COLDSTREAM_VISIBLE",
    "COLDSTREAM_FLUSH",
    "COLDSTREAM_STAGING_BYTES",
    "COLDSTREAM_READAHEAD",
    "COLDSTREAM_PACING",
    "COLDSTREAM_PACING_FLOOR",
    "COLDSTREAM_EVICTION",
    "COLDSTREAM_EVICTION_MARGIN",
    "COLDSTREAM_HANDOVER",
    "COLDSTREAM_HANDOVER_BYTES",
    "COLDSTREAM_HANDOVER_IN_FLIGHT",
    "COLDSTREAM_HANDOVER_MILLISECONDS",
    "COLDSTREAM_HEAT_BYTES",
    "COLDSTREAM_PRIORITY",
    "COLDSTREAM_NICE",
    "COLDSTREAM_IO_PRIORITY",
    "COLDSTREAM_LOG",
];

/// Where the library writes what is in force and what it did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LogTarget {
    /// Nowhere.
    None,
    /// Standard error, as long as it is what it was at the start.
    #[default]
    Stderr,
    /// Appended to this file, by its absolute path.
    File(PathBuf),
}

/// What the library shall do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Master switch.
    pub enabled: bool,
    /// Whose names are meant.
    pub profile: Profile,
    /// Where to log.
    pub log: LogTarget,
    /// Treatment of background reads.
    pub reads: ReadTreatment,
    /// Largest window in bytes: a power of two from 64 KiB to 2 MiB.
    pub window_bytes: usize,
    /// Windows read ahead of each consumer, from 1 to 4.
    pub windows_in_flight: usize,
    /// Cap of all windows and staging buffers of a process in bytes, from 1 MiB to 1 GiB.
    pub memory_bytes: usize,
    /// Treatment of background writes.
    pub writes: ReadTreatment,
    /// Whom written bytes must be visible to when `write` returns.
    pub visible: Visibility,
    /// Whether what memtable flushes write goes around the page cache as well.
    pub bypass_flush: bool,
    /// Staging buffer of a table that is written directly, in bytes: a power of two from 256 KiB
    /// to 1 MiB.
    pub staging_bytes: usize,
    /// Whether tables get no readahead but ahead of scans; else it is the kernel's.
    pub readahead: bool,
    /// Whether background I/O slows down while it makes the foreground's device reads slower.
    pub pacing: bool,
    /// What it may always do, in MiB per second, from 1 to 65,536.
    pub pacing_floor: u32,
    /// Whether cold pages of tables are dropped before memory runs out.
    pub eviction: bool,
    /// The room that is then kept free.
    pub eviction_margin: Margin,
    /// Whether what is hot in a compaction's inputs is made warm in its outputs.
    pub handover: bool,
    /// The most that is warmed of an output, or of a part of one that is published, in bytes, from
    /// 0 to 1 TiB; never more than an eighth of the memory that the process may have.
    pub handover_bytes: u64,
    /// Reads on their way while pages are warmed, from 1 to 64.
    pub handover_in_flight: usize,
    /// How long the handover may hold up the publication of a table, in milliseconds, from 1 to
    /// 60,000.
    pub handover_milliseconds: u32,
    /// The most memory that heat is kept in, in bytes, from 64 KiB to 1 GiB; a 128th of the memory
    /// that the process may have is enough in any case.
    pub heat_bytes: usize,
    /// When background threads get a priority of their own.
    pub priority: PriorityMode,
    /// Which one.
    pub priorities: Priorities,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            enabled: true,
            profile: Profile::Auto,
            log: LogTarget::Stderr,
            reads: ReadTreatment::Auto,
            // One large request keeps a device busy; two MiB gain nothing measurable.
            window_bytes: 1 << 20,
            windows_in_flight: 1,
            memory_bytes: 64 << 20,
            writes: ReadTreatment::Auto,
            visible: Visibility::Auto,
            // The newest data is what is read next.
            bypass_flush: false,
            staging_bytes: 1 << 20,
            readahead: true,
            // Until it has been measured on devices that saturate.
            pacing: false,
            // What Cassandra once held compactions to for good.
            pacing_floor: 16,
            // Where background reads and writes go around the page cache there is little to drop.
            eviction: false,
            eviction_margin: Margin::default(),
            handover: true,
            handover_bytes: 1 << 30,
            // More of them are sooner done, and in the way of other readers meanwhile.
            handover_in_flight: 4,
            handover_milliseconds: 2000,
            // Of 224 GiB of tables, and used only as far as they are read.
            heat_bytes: 64 << 20,
            priority: PriorityMode::Auto,
            priorities: Priorities::default(),
        }
    }
}

/// A setting that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A value is not allowed for its key.
    #[error("{key} = \"{value}\": {allowed}")]
    Value {
        /// The environment variable or TOML key.
        key: &'static str,
        /// What was given.
        value: String,
        /// What may be given.
        allowed: &'static str,
    },
    /// The text is not TOML, or has a key that does not exist.
    #[error("{0}")]
    Toml(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    enabled: Option<bool>,
    profile: Option<String>,
    log: Option<String>,
    readahead: Option<String>,
    #[serde(default)]
    reads: ReadsText,
    #[serde(default)]
    writes: WritesText,
    #[serde(default)]
    eviction: EvictionText,
    #[serde(default)]
    handover: HandoverText,
    #[serde(default)]
    priority: PriorityText,
    #[serde(default)]
    pacing: PacingText,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadsText {
    treatment: Option<String>,
    window_bytes: Option<Number>,
    windows_in_flight: Option<Number>,
    memory_bytes: Option<Number>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WritesText {
    treatment: Option<String>,
    visible: Option<String>,
    flush: Option<String>,
    staging_bytes: Option<Number>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct EvictionText {
    enabled: Option<bool>,
    margin: Option<Number>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct HandoverText {
    enabled: Option<bool>,
    bytes: Option<Number>,
    in_flight: Option<Number>,
    milliseconds: Option<Number>,
    heat_bytes: Option<Number>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriorityText {
    apply: Option<String>,
    nice: Option<Number>,
    io: Option<Number>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PacingText {
    enabled: Option<bool>,
    floor: Option<Number>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Integer(u64),
    Text(String),
}

impl std::fmt::Display for Number {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Number::Integer(number) => number.fmt(formatter),
            Number::Text(text) => text.fmt(formatter),
        }
    }
}

impl Config {
    /// What background I/O may always do, in bytes per second.
    pub fn pacing_floor_bytes(&self) -> u64 {
        u64::from(self.pacing_floor) << 20
    }

    /// What the threads of each role get.
    pub fn priorities_in_force(&self) -> Priorities {
        match self.priority {
            PriorityMode::Off => Priorities::none(),
            PriorityMode::Auto | PriorityMode::Always => self.priorities,
        }
    }

    /// The configuration that a TOML text and the environment make together; the environment
    /// wins. `COLDSTREAM_CONFIG` itself is the caller's to follow.
    pub fn from_sources(
        toml_text: Option<&str>,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Config, ConfigError> {
        let mut config = Config::default();
        if let Some(text) = toml_text {
            let file: FileText = toml::from_str(text)
                .map_err(|error| ConfigError::Toml(error.to_string().trim().replace('\n', " ")))?;
            config.enabled = file.enabled.unwrap_or(config.enabled);
            config.eviction = file.eviction.enabled.unwrap_or(config.eviction);
            config.handover = file.handover.enabled.unwrap_or(config.handover);
            config.pacing = file.pacing.enabled.unwrap_or(config.pacing);
            let text = |number: Option<Number>| number.map(|number| number.to_string());
            let FileText {
                reads,
                writes,
                eviction,
                handover,
                priority,
                pacing,
                ..
            } = file;
            for (name, key, value) in [
                ("profile", Key::Profile, file.profile),
                ("log", Key::Log, file.log),
                ("readahead", Key::Readahead, file.readahead),
                ("pacing.floor", Key::PacingFloor, text(pacing.floor)),
                ("reads.treatment", Key::Reads, reads.treatment),
                (
                    "reads.window_bytes",
                    Key::WindowBytes,
                    text(reads.window_bytes),
                ),
                (
                    "reads.windows_in_flight",
                    Key::WindowsInFlight,
                    text(reads.windows_in_flight),
                ),
                (
                    "reads.memory_bytes",
                    Key::MemoryBytes,
                    text(reads.memory_bytes),
                ),
                ("writes.treatment", Key::Writes, writes.treatment),
                ("writes.visible", Key::Visible, writes.visible),
                ("writes.flush", Key::Flush, writes.flush),
                (
                    "writes.staging_bytes",
                    Key::StagingBytes,
                    text(writes.staging_bytes),
                ),
                (
                    "eviction.margin",
                    Key::EvictionMargin,
                    text(eviction.margin),
                ),
                ("handover.bytes", Key::HandoverBytes, text(handover.bytes)),
                (
                    "handover.in_flight",
                    Key::HandoverInFlight,
                    text(handover.in_flight),
                ),
                (
                    "handover.milliseconds",
                    Key::HandoverMilliseconds,
                    text(handover.milliseconds),
                ),
                (
                    "handover.heat_bytes",
                    Key::HeatBytes,
                    text(handover.heat_bytes),
                ),
                ("priority.apply", Key::Priority, priority.apply),
                ("priority.nice", Key::Nice, text(priority.nice)),
                ("priority.io", Key::IoPriority, text(priority.io)),
            ] {
                config.set(name, key, value)?;
            }
        }
        for (variable, key) in [
            ("COLDSTREAM", Key::Enabled),
            ("COLDSTREAM_PROFILE", Key::Profile),
            ("COLDSTREAM_READS", Key::Reads),
            ("COLDSTREAM_WINDOW_BYTES", Key::WindowBytes),
            ("COLDSTREAM_WINDOWS_IN_FLIGHT", Key::WindowsInFlight),
            ("COLDSTREAM_MEMORY_BYTES", Key::MemoryBytes),
            ("COLDSTREAM_WRITES", Key::Writes),
            ("COLDSTREAM_VISIBLE", Key::Visible),
            ("COLDSTREAM_FLUSH", Key::Flush),
            ("COLDSTREAM_STAGING_BYTES", Key::StagingBytes),
            ("COLDSTREAM_READAHEAD", Key::Readahead),
            ("COLDSTREAM_PACING", Key::Pacing),
            ("COLDSTREAM_PACING_FLOOR", Key::PacingFloor),
            ("COLDSTREAM_EVICTION", Key::Eviction),
            ("COLDSTREAM_EVICTION_MARGIN", Key::EvictionMargin),
            ("COLDSTREAM_HANDOVER", Key::Handover),
            ("COLDSTREAM_HANDOVER_BYTES", Key::HandoverBytes),
            ("COLDSTREAM_HANDOVER_IN_FLIGHT", Key::HandoverInFlight),
            (
                "COLDSTREAM_HANDOVER_MILLISECONDS",
                Key::HandoverMilliseconds,
            ),
            ("COLDSTREAM_HEAT_BYTES", Key::HeatBytes),
            ("COLDSTREAM_PRIORITY", Key::Priority),
            ("COLDSTREAM_NICE", Key::Nice),
            ("COLDSTREAM_IO_PRIORITY", Key::IoPriority),
            ("COLDSTREAM_LOG", Key::Log),
        ] {
            let value = environment(variable).filter(|value| !value.is_empty());
            config.set(variable, key, value)?;
        }
        Ok(config)
    }

    fn set(
        &mut self,
        name: &'static str,
        key: Key,
        value: Option<String>,
    ) -> Result<(), ConfigError> {
        let Some(value) = value else {
            return Ok(());
        };
        let accepted = match key {
            Key::Enabled => switch(&value).map(|enabled| self.enabled = enabled),
            Key::Profile => Profile::from_name(&value).map(|profile| self.profile = profile),
            Key::Reads => ReadTreatment::from_name(&value).map(|reads| self.reads = reads),
            Key::WindowBytes => parse_bytes(&value)
                .filter(|bytes| bytes.is_power_of_two() && (1 << 16..=1 << 21).contains(bytes))
                .map(|bytes| self.window_bytes = bytes as usize),
            Key::WindowsInFlight => value
                .parse()
                .ok()
                .filter(|number| (1..=4).contains(number))
                .map(|number| self.windows_in_flight = number),
            Key::MemoryBytes => parse_bytes(&value)
                .filter(|bytes| (1 << 20..=1 << 30).contains(bytes))
                .map(|bytes| self.memory_bytes = bytes as usize),
            Key::Writes => ReadTreatment::from_name(&value).map(|writes| self.writes = writes),
            Key::Visible => Visibility::from_name(&value).map(|visible| self.visible = visible),
            Key::Flush => match value.as_str() {
                "cached" => Some(false),
                "bypass" => Some(true),
                _ => None,
            }
            .map(|bypass| self.bypass_flush = bypass),
            Key::StagingBytes => parse_bytes(&value)
                .filter(|bytes| bytes.is_power_of_two() && (1 << 18..=1 << 20).contains(bytes))
                .map(|bytes| self.staging_bytes = bytes as usize),
            Key::Readahead => match value.as_str() {
                "scans" => Some(true),
                "kernel" => Some(false),
                _ => None,
            }
            .map(|readahead| self.readahead = readahead),
            Key::Pacing => switch(&value).map(|pacing| self.pacing = pacing),
            Key::PacingFloor => value
                .parse()
                .ok()
                .filter(|floor| (1..=65_536).contains(floor))
                .map(|floor| self.pacing_floor = floor),
            Key::Eviction => switch(&value).map(|eviction| self.eviction = eviction),
            Key::EvictionMargin => {
                Margin::from_name(&value).map(|margin| self.eviction_margin = margin)
            }
            Key::Handover => switch(&value).map(|handover| self.handover = handover),
            Key::HandoverBytes => parse_bytes(&value)
                .filter(|bytes| *bytes <= 1 << 40)
                .map(|bytes| self.handover_bytes = bytes),
            Key::HandoverInFlight => value
                .parse()
                .ok()
                .filter(|number| (1..=64).contains(number))
                .map(|number| self.handover_in_flight = number),
            Key::HandoverMilliseconds => value
                .parse()
                .ok()
                .filter(|number| (1..=60_000).contains(number))
                .map(|number| self.handover_milliseconds = number),
            Key::HeatBytes => parse_bytes(&value)
                .filter(|bytes| (1 << 16..=1 << 30).contains(bytes))
                .map(|bytes| self.heat_bytes = bytes as usize),
            Key::Priority => PriorityMode::from_name(&value).map(|mode| self.priority = mode),
            Key::Nice => self
                .priorities
                .with_nice(&value)
                .map(|priorities| self.priorities = priorities),
            Key::IoPriority => self
                .priorities
                .with_io(&value)
                .map(|priorities| self.priorities = priorities),
            Key::Log => match value.as_str() {
                "none" => Some(LogTarget::None),
                "stderr" => Some(LogTarget::Stderr),
                path if path.starts_with('/') => Some(LogTarget::File(path.into())),
                _ => None,
            }
            .map(|log| self.log = log),
        };
        accepted.ok_or(ConfigError::Value {
            key: name,
            value,
            allowed: key.allowed(),
        })
    }

    /// The environment variables that make this configuration, whatever a TOML file says.
    pub fn to_environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("COLDSTREAM", on_or_off(self.enabled)),
            ("COLDSTREAM_PROFILE", self.profile.name().into()),
            ("COLDSTREAM_READS", self.reads.name().into()),
            ("COLDSTREAM_WINDOW_BYTES", self.window_bytes.to_string()),
            (
                "COLDSTREAM_WINDOWS_IN_FLIGHT",
                self.windows_in_flight.to_string(),
            ),
            ("COLDSTREAM_MEMORY_BYTES", self.memory_bytes.to_string()),
            ("COLDSTREAM_WRITES", self.writes.name().into()),
            ("COLDSTREAM_VISIBLE", self.visible.name().into()),
            (
                "COLDSTREAM_FLUSH",
                if self.bypass_flush {
                    "bypass"
                } else {
                    "cached"
                }
                .into(),
            ),
            ("COLDSTREAM_STAGING_BYTES", self.staging_bytes.to_string()),
            (
                "COLDSTREAM_READAHEAD",
                if self.readahead { "scans" } else { "kernel" }.into(),
            ),
            ("COLDSTREAM_PACING", on_or_off(self.pacing)),
            ("COLDSTREAM_PACING_FLOOR", self.pacing_floor.to_string()),
            ("COLDSTREAM_EVICTION", on_or_off(self.eviction)),
            ("COLDSTREAM_EVICTION_MARGIN", self.eviction_margin.name()),
            ("COLDSTREAM_HANDOVER", on_or_off(self.handover)),
            ("COLDSTREAM_HANDOVER_BYTES", self.handover_bytes.to_string()),
            (
                "COLDSTREAM_HANDOVER_IN_FLIGHT",
                self.handover_in_flight.to_string(),
            ),
            (
                "COLDSTREAM_HANDOVER_MILLISECONDS",
                self.handover_milliseconds.to_string(),
            ),
            ("COLDSTREAM_HEAT_BYTES", self.heat_bytes.to_string()),
            ("COLDSTREAM_PRIORITY", self.priority.name().into()),
            ("COLDSTREAM_NICE", self.priorities.nice_text()),
            ("COLDSTREAM_IO_PRIORITY", self.priorities.io_text()),
            (
                "COLDSTREAM_LOG",
                match &self.log {
                    LogTarget::None => "none".into(),
                    LogTarget::Stderr => "stderr".into(),
                    LogTarget::File(path) => path.to_string_lossy().into_owned(),
                },
            ),
        ]
    }
}

fn switch(value: &str) -> Option<bool> {
    match value {
        "on" | "1" => Some(true),
        "off" | "0" => Some(false),
        _ => None,
    }
}

fn on_or_off(is_on: bool) -> String {
    if is_on { "on" } else { "off" }.into()
}

#[derive(Clone, Copy)]
enum Key {
    Enabled,
    Profile,
    Log,
    Reads,
    WindowBytes,
    WindowsInFlight,
    MemoryBytes,
    Writes,
    Visible,
    Flush,
    StagingBytes,
    Readahead,
    Pacing,
    PacingFloor,
    Eviction,
    EvictionMargin,
    Handover,
    HandoverBytes,
    HandoverInFlight,
    HandoverMilliseconds,
    HeatBytes,
    Priority,
    Nice,
    IoPriority,
}

impl Key {
    fn allowed(self) -> &'static str {
        match self {
            Key::Enabled | Key::Handover | Key::Pacing | Key::Eviction => "use on or off",
            Key::Profile => "use auto, rocksdb, leveldb or cassandra",
            Key::Log => "use none, stderr or an absolute path",
            Key::Reads | Key::Writes => "use auto, direct, dontcache, window or buffered",
            Key::WindowBytes => "use a power of two from 64KiB to 2MiB",
            Key::WindowsInFlight => "use a number from 1 to 4",
            Key::MemoryBytes => "use a size from 1MiB to 1GiB",
            Key::Visible => "use auto, everywhere or process",
            Key::Flush => "use cached or bypass",
            Key::StagingBytes => "use a power of two from 256KiB to 1MiB",
            Key::Readahead => "use scans or kernel",
            Key::PacingFloor => "use a number of MiB per second from 1 to 65536",
            Key::EvictionMargin => "use 1% to 25%, or a size from 1MiB to 64GiB",
            Key::HandoverBytes => "use a size from 0 to 1TiB",
            Key::HandoverInFlight => "use a number from 1 to 64",
            Key::HandoverMilliseconds => "use a number from 1 to 60000",
            Key::HeatBytes => "use a size from 64KiB to 1GiB",
            Key::Priority => "use auto, always or off",
            Key::Nice => {
                "use none or 0 to 19, or such values for compaction, flush, validation and streaming \
                 as in compaction:10,streaming:none"
            }
            Key::IoPriority => {
                "use none, 0 to 7 or idle, or such values for compaction, flush, validation and \
                 streaming as in compaction:7,streaming:idle"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Treatment;
    use proptest::prelude::*;

    fn none(_: &str) -> Option<String> {
        None
    }

    #[test]
    fn the_environment_wins_over_the_file_over_the_defaults() {
        let text = "profile = \"rocksdb\"\nlog = \"none\"\n[reads]\ntreatment = \"window\"\nwindow_bytes = \"2MiB\"\nmemory_bytes = 8388608\n";
        let config = Config::from_sources(Some(text), |name| {
            (name == "COLDSTREAM_READS").then(|| "direct".into())
        })
        .unwrap();
        assert_eq!(config.profile, Profile::RocksDb);
        assert_eq!(config.log, LogTarget::None);
        assert_eq!(config.reads, ReadTreatment::Fixed(Treatment::Direct));
        assert_eq!(config.window_bytes, 2 << 20);
        assert_eq!(config.memory_bytes, 8 << 20);
        assert_eq!(config.windows_in_flight, 1);
    }

    #[test]
    fn an_unknown_key_is_named() {
        let error = Config::from_sources(Some("profil = \"auto\""), none).unwrap_err();
        assert!(error.to_string().contains("profil"), "{error}");
        assert!(!error.to_string().contains('\n'));
        assert!(Config::from_sources(Some("[reads]\nspeed = 1"), none).is_err());
        assert!(Config::from_sources(Some("= nonsense"), none).is_err());
    }

    #[test]
    fn a_bad_value_says_what_is_allowed() {
        for (key, value) in [
            ("COLDSTREAM", "maybe"),
            ("COLDSTREAM_PROFILE", "RocksDB"),
            ("COLDSTREAM_READS", "fast"),
            ("COLDSTREAM_WINDOW_BYTES", "100KiB"),
            ("COLDSTREAM_WINDOW_BYTES", "4MiB"),
            ("COLDSTREAM_WINDOWS_IN_FLIGHT", "0"),
            ("COLDSTREAM_MEMORY_BYTES", "1"),
            ("COLDSTREAM_WRITES", "fast"),
            ("COLDSTREAM_VISIBLE", "nowhere"),
            ("COLDSTREAM_FLUSH", "on"),
            ("COLDSTREAM_STAGING_BYTES", "2MiB"),
            ("COLDSTREAM_READAHEAD", "off"),
            ("COLDSTREAM_PACING", "maybe"),
            ("COLDSTREAM_PACING_FLOOR", "0"),
            ("COLDSTREAM_PACING_FLOOR", "16MiB"),
            ("COLDSTREAM_EVICTION", "maybe"),
            ("COLDSTREAM_EVICTION_MARGIN", "30%"),
            ("COLDSTREAM_HANDOVER", "maybe"),
            ("COLDSTREAM_HANDOVER_BYTES", "2TiB"),
            ("COLDSTREAM_HANDOVER_IN_FLIGHT", "0"),
            ("COLDSTREAM_HANDOVER_MILLISECONDS", "0"),
            ("COLDSTREAM_HEAT_BYTES", "1"),
            ("COLDSTREAM_PRIORITY", "high"),
            ("COLDSTREAM_NICE", "20"),
            ("COLDSTREAM_IO_PRIORITY", "compaction:8"),
            ("COLDSTREAM_LOG", "relative/path"),
        ] {
            let error = Config::from_sources(None, |name| (name == key).then(|| value.into()))
                .unwrap_err()
                .to_string();
            assert!(
                error.contains(key) && error.contains(value) && error.contains("use "),
                "{error}"
            );
        }
    }

    proptest! {
        #[test]
        fn the_environment_carries_a_whole_configuration(
            enabled in any::<bool>(), profile in 0_u8..4, treatment in 0_u8..5,
            window in 16_u32..=21, in_flight in 1_usize..=4, memory in 1_usize << 20..=1 << 30,
            log in 0_u8..3, writes in 0_u8..5, visible in 0_usize..3, bypass_flush in any::<bool>(),
            staging in 18_u32..=20, readahead in any::<bool>(), handover in any::<bool>(), handover_bytes in 0_u64..=1 << 40,
            handover_in_flight in 1_usize..=64, handover_milliseconds in 1_u32..=60_000, heat_bytes in 1_usize << 16..=1 << 30,
            eviction in any::<bool>(), margin in proptest::option::of(1_u8..=25), margin_bytes in 1_u64 << 20..=1 << 36,
            mode in 0_usize..3, nice in 0_u8..=19, level in 0_u8..=7,
            pacing in any::<bool>(), pacing_floor in 1_u32..=65_536,
        ) {
            let config = Config {
                enabled,
                profile: Profile::from_u8(profile),
                log: match log {
                    0 => LogTarget::None,
                    1 => LogTarget::Stderr,
                    _ => LogTarget::File("/var/log/coldstream.log".into()),
                },
                reads: Treatment::from_u8(treatment)
                    .map_or(ReadTreatment::Auto, ReadTreatment::Fixed),
                window_bytes: 1 << window,
                windows_in_flight: in_flight,
                memory_bytes: memory,
                writes: Treatment::from_u8(writes)
                    .map_or(ReadTreatment::Auto, ReadTreatment::Fixed),
                visible: Visibility::ALL[visible],
                bypass_flush,
                staging_bytes: 1 << staging,
                readahead,
                pacing,
                pacing_floor,
                eviction,
                eviction_margin: margin.map_or(Margin::Bytes(margin_bytes), Margin::Percent),
                handover,
                handover_bytes,
                handover_in_flight,
                handover_milliseconds,
                heat_bytes,
                priority: PriorityMode::ALL[mode],
                priorities: Priorities::default()
                    .with_nice(&format!("flush:{nice}"))
                    .and_then(|some| some.with_io(&format!("{level},validation:idle")))
                    .unwrap(),
            };
            let environment = config.to_environment();
            prop_assert_eq!(environment.len() + 1, VARIABLES.len());
            let read = Config::from_sources(None, |name| {
                environment.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone())
            });
            prop_assert_eq!(read, Ok(config));
        }
    }
}
