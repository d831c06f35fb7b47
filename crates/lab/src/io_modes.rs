//! Coldstream as a mode: its I/O modes, and further settings that differ from the defaults.

use coldstream_policy::{Config, ConfigError, LogTarget, Profile, VARIABLES};
use std::path::Path;

/// The variables of the I/O modes. A mode's name has their values without a setting's name.
const IO_MODE_VARIABLES: [&str; 2] = ["COLDSTREAM_READS", "COLDSTREAM_WRITES"];
/// Settings that the laboratory chooses itself.
const CHOSEN_BY_THE_LAB: [&str; 3] = ["config", "profile", "log"];

/// I/O modes and settings of Coldstream in a mode.
///
/// The name is `coldstream`, or `coldstream:` and parts with `+` between them. The first part without
/// a `=` is the I/O mode of reads, the second that of writes. Other parts are settings by the names of
/// their variables, such as `handover=off` or `handover-in-flight=16`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoModes {
    config: Config,
    /// Variables of the settings in the name, without those of the I/O modes.
    named: Vec<&'static str>,
}

impl IoModes {
    /// Parses a mode's name. `None` if it does not begin with `coldstream`.
    ///
    /// # Errors
    /// The name is malformed; the text says how.
    pub fn from_name(text: &str) -> Option<Result<Self, String>> {
        Self::after_name(text.strip_prefix("coldstream")?)
    }

    /// As [`from_name`](Self::from_name), but for the text behind another word.
    pub fn after_name(text: &str) -> Option<Result<Self, String>> {
        match text {
            "" => Some(Self::from_parts(&[])),
            rest => {
                let parts: Vec<&str> = rest.strip_prefix(':')?.split('+').collect();
                Some(Self::from_parts(&parts))
            }
        }
    }

    /// The text that [`after_name`](Self::after_name) reads.
    pub fn behind_name(&self) -> String {
        let default = Config::default();
        let mut parts = Vec::new();
        let (reads, writes) = (self.config.reads, self.config.writes);
        if (reads, writes) != (default.reads, default.writes) {
            parts.push(reads.name().to_owned());
        }
        if writes != default.writes {
            parts.push(writes.name().to_owned());
        }
        let settings = self.config.to_environment().into_iter();
        let named = settings.filter(|(variable, _)| self.named.contains(variable));
        parts.extend(named.filter_map(|(variable, value)| {
            let name = name(variable)?;
            Some(format!("{name}={value}"))
        }));
        if parts.is_empty() {
            String::new()
        } else {
            format!(":{}", parts.join("+"))
        }
    }

    fn from_parts(parts: &[&str]) -> Result<Self, String> {
        let mut given: Vec<(&'static str, &str)> = Vec::new();
        let mut io_modes = IO_MODE_VARIABLES.into_iter();
        for part in parts {
            let (variable, value) = match part.split_once('=') {
                Some((name, value)) => {
                    let variable = variable(name);
                    (
                        variable.ok_or_else(|| format!("a mode has no setting \"{name}\""))?,
                        value,
                    )
                }
                None => {
                    let variable = io_modes.next();
                    let third = || format!("\"{part}\": only reads and writes have an I/O mode");
                    (variable.ok_or_else(third)?, *part)
                }
            };
            if value.is_empty() {
                return Err("an I/O mode or a value is empty".to_owned());
            }
            if given.iter().any(|(it, _)| *it == variable) {
                return Err(format!("\"{part}\": this setting is given twice"));
            }
            given.push((variable, value));
        }
        let environment = |name: &str| {
            let found = given.iter().find(|(variable, _)| *variable == name)?;
            Some(found.1.to_owned())
        };
        let config = Config::from_sources(None, environment).map_err(|error| message(&error))?;
        let variables = given.into_iter().map(|(variable, _)| variable);
        let named = variables
            .filter(|it| !IO_MODE_VARIABLES.contains(it))
            .collect();
        Ok(Self { config, named })
    }

    /// The variables of the database's environment, as `NAME=VALUE`. Settings that are not in the mode's
    /// name have their defaults: the database inherits none.
    pub fn environment(&self, profile: Profile, log: &Path) -> Vec<String> {
        let config = Config {
            profile,
            log: LogTarget::File(log.into()),
            ..self.config.clone()
        };
        let ours = ["COLDSTREAM_PROFILE", "COLDSTREAM_LOG"];
        let is_set = |variable: &str| {
            let mut set = IO_MODE_VARIABLES.iter().chain(&ours).chain(&self.named);
            set.any(|it| *it == variable)
        };
        let settings = config.to_environment().into_iter();
        settings
            .filter(|(variable, _)| is_set(variable))
            .map(|(variable, value)| format!("{variable}={value}"))
            .collect()
    }
}

/// The message about a wrong setting. It has the setting's name in a mode.
fn message(error: &ConfigError) -> String {
    match error {
        ConfigError::Value {
            key,
            value,
            allowed,
        } if IO_MODE_VARIABLES.contains(key) => format!("\"{value}\": {allowed}, or SETTING=VALUE"),
        ConfigError::Value {
            key,
            value,
            allowed,
        } => {
            let name = name(key).unwrap_or_default();
            format!("\"{name}={value}\": {allowed}")
        }
        ConfigError::Toml { .. } => error.to_string(),
    }
}

/// The name of a variable's setting in a mode.
fn name(variable: &str) -> Option<String> {
    let name = variable.strip_prefix("COLDSTREAM_")?;
    Some(name.to_lowercase().replace('_', "-"))
}

/// The variable of a setting by its name in a mode.
fn variable(setting: &str) -> Option<&'static str> {
    let mut settings = VARIABLES
        .into_iter()
        .filter(|it| !IO_MODE_VARIABLES.contains(it));
    let variable = settings.find(|variable| name(variable).is_some_and(|name| name == setting))?;
    (!CHOSEN_BY_THE_LAB.contains(&setting)).then_some(variable)
}

impl std::fmt::Display for IoModes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(&format!("coldstream{}", self.behind_name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omitted_io_modes_are_auto() {
        for (name, short) in [
            ("coldstream", "coldstream"),
            ("coldstream:auto", "coldstream"),
            ("coldstream:auto+auto", "coldstream"),
            ("coldstream:direct+auto", "coldstream:direct"),
            ("coldstream:window", "coldstream:drop-behind"),
            ("coldstream:auto+buffered", "coldstream:auto+buffered"),
            (
                "coldstream:direct+drop-behind",
                "coldstream:direct+drop-behind",
            ),
            ("coldstream:handover=off", "coldstream:handover=off"),
            ("coldstream:pacing=off", "coldstream:pacing=off"),
            (
                "coldstream:pacing=on+priority=off",
                "coldstream:pacing=on+priority=off",
            ),
            (
                "coldstream:handover-in-flight=16+direct",
                "coldstream:direct+handover-in-flight=16",
            ),
            ("coldstream:eviction=off", "coldstream:eviction=off"),
            (
                "coldstream:buffered+buffered+eviction=on",
                "coldstream:buffered+buffered+eviction=on",
            ),
            (
                "coldstream:priority=off+auto+window+handover=off",
                "coldstream:auto+drop-behind+handover=off+priority=off",
            ),
        ] {
            let io_modes = IoModes::from_name(name).unwrap().unwrap();
            assert_eq!(io_modes.to_string(), short);
        }
        for other in ["", "cold", "coldstreams"] {
            assert!(IoModes::from_name(other).is_none(), "{other}");
        }
    }

    #[test]
    fn wrong_names_are_explained() {
        for (text, why) in [
            ("coldstream:", "is empty"),
            ("coldstream:fast", "\"fast\": use auto, direct, "),
            ("coldstream:direct+", "is empty"),
            ("coldstream:+direct", "is empty"),
            ("coldstream:direct+fast", "\"fast\": use auto, direct, "),
            ("coldstream:direct+direct+direct", "only reads and writes"),
            ("coldstream:handover", "or SETTING=VALUE"),
            ("coldstream:pacing=no", "\"pacing=no\": use on or off"),
            (
                "coldstream:handover-in-flight=999",
                "\"handover-in-flight=999\": use a number from 1 to 64",
            ),
            ("coldstream:handover=off+handover=on", "twice"),
            ("coldstream:handover=", "is empty"),
            ("coldstream:speed=9", "no setting \"speed\""),
            ("coldstream:profile=cassandra", "no setting \"profile\""),
            ("coldstream:config=/a.toml", "no setting \"config\""),
            ("coldstream:log=none", "no setting \"log\""),
            ("coldstream:reads=direct", "no setting \"reads\""),
            ("coldstream:HANDOVER=off", "no setting \"HANDOVER\""),
        ] {
            let wrong = IoModes::from_name(text).unwrap().unwrap_err();
            assert!(wrong.contains(why), "{text}: {wrong}");
        }
    }

    #[test]
    fn only_named_settings_are_set() {
        let io_modes = IoModes::from_name("coldstream:handover=on+buffered");
        let io_modes = io_modes.unwrap().unwrap();
        assert_eq!(
            io_modes.environment(Profile::RocksDb, Path::new("/a log")),
            [
                "COLDSTREAM_PROFILE=rocksdb",
                "COLDSTREAM_READS=buffered",
                "COLDSTREAM_WRITES=auto",
                "COLDSTREAM_HANDOVER=on",
                "COLDSTREAM_LOG=/a log",
            ]
        );
    }
}
