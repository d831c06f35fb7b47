//! Configuration: environment variables over a TOML text over the defaults. The text and the
//! environment come from the caller: the preload library must not read files by way of libc.

mod file;
mod key;
#[cfg(test)]
mod tests;

use crate::eviction::Margin;
use crate::{IoModeSetting, Priorities, PriorityMode, Profile, Readahead, Visibility, parse_bytes};
use key::Key;
use std::path::PathBuf;

/// Every environment variable that Coldstream reads. `COLDSTREAM_CONFIG` names the TOML file.
pub const VARIABLES: [&str; Key::ALL.len() + 1] = {
    let mut variables = ["COLDSTREAM_CONFIG"; Key::ALL.len() + 1];
    let mut place = 0;
    while place < Key::ALL.len() {
        variables[place] = Key::ALL[place].variable();
        place += 1;
    }
    variables
};

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
    /// IoMode of background reads.
    pub reads: IoModeSetting,
    /// Largest window in bytes: a power of two from 64 KiB to 2 MiB.
    pub window_bytes: usize,
    /// Windows read ahead of each consumer, from 1 to 4.
    pub windows_in_flight: usize,
    /// Cap of all windows and staging buffers of a process in bytes, from 1 MiB to 1 GiB.
    pub memory_bytes: usize,
    /// IoMode of background writes.
    pub writes: IoModeSetting,
    /// Whom written bytes must be visible to when `write` returns.
    pub visible: Visibility,
    /// Whether what memtable flushes write goes around the page cache as well.
    pub bypass_flush: bool,
    /// Staging buffer of a table that is written directly, in bytes: a power of two from 256 KiB
    /// to 1 MiB.
    pub staging_bytes: usize,
    /// Whose readahead tables get.
    pub readahead: Readahead,
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
            reads: IoModeSetting::Auto,
            // One large request keeps a device busy; two MiB gain nothing measurable.
            window_bytes: 1 << 20,
            windows_in_flight: 1,
            memory_bytes: 64 << 20,
            writes: IoModeSetting::Auto,
            visible: Visibility::Auto,
            // The newest data is what is read next.
            bypass_flush: false,
            staging_bytes: 1 << 20,
            readahead: Readahead::default(),
            // On a device that compactions cannot fill it costs throughput and gains nothing.
            pacing: false,
            // What Cassandra once held compactions to for good.
            pacing_floor: 16,
            // Where background reads and writes go around the page cache there is little to drop.
            eviction: false,
            eviction_margin: Margin::default(),
            handover: true,
            // What memory allows.
            handover_bytes: 1 << 40,
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
            for (name, key, value) in file::settings(text)? {
                config.set(name, key, value)?;
            }
        }
        for key in Key::ALL {
            let variable = key.variable();
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
            Key::Reads => IoModeSetting::from_name(&value).map(|reads| self.reads = reads),
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
            Key::Writes => IoModeSetting::from_name(&value).map(|writes| self.writes = writes),
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
            Key::Readahead => {
                Readahead::from_name(&value).map(|readahead| self.readahead = readahead)
            }
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
        Key::ALL.map(|key| (key.variable(), self.get(key))).into()
    }

    /// The value of a setting, as it is written.
    fn get(&self, key: Key) -> String {
        match key {
            Key::Enabled => on_or_off(self.enabled),
            Key::Profile => self.profile.name().into(),
            Key::Reads => self.reads.name().into(),
            Key::WindowBytes => self.window_bytes.to_string(),
            Key::WindowsInFlight => self.windows_in_flight.to_string(),
            Key::MemoryBytes => self.memory_bytes.to_string(),
            Key::Writes => self.writes.name().into(),
            Key::Visible => self.visible.name().into(),
            Key::Flush if self.bypass_flush => "bypass".into(),
            Key::Flush => "cached".into(),
            Key::StagingBytes => self.staging_bytes.to_string(),
            Key::Readahead => self.readahead.name().into(),
            Key::Pacing => on_or_off(self.pacing),
            Key::PacingFloor => self.pacing_floor.to_string(),
            Key::Eviction => on_or_off(self.eviction),
            Key::EvictionMargin => self.eviction_margin.name(),
            Key::Handover => on_or_off(self.handover),
            Key::HandoverBytes => self.handover_bytes.to_string(),
            Key::HandoverInFlight => self.handover_in_flight.to_string(),
            Key::HandoverMilliseconds => self.handover_milliseconds.to_string(),
            Key::HeatBytes => self.heat_bytes.to_string(),
            Key::Priority => self.priority.name().into(),
            Key::Nice => self.priorities.nice_text(),
            Key::IoPriority => self.priorities.io_text(),
            Key::Log => match &self.log {
                LogTarget::None => "none".into(),
                LogTarget::Stderr => "stderr".into(),
                LogTarget::File(path) => path.to_string_lossy().into_owned(),
            },
        }
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
