//! Configuration: environment variables win over a TOML text, which wins over the defaults.
//!
//! All settings are one list, in `settings.rs`. The text and the environment come from the caller: the
//! preload library must not read files through libc.

mod document;
mod error;
mod file;
mod log_target;
mod setting;
mod settings;
#[cfg(test)]
mod tests;
mod values;

pub use document::{example_toml, markdown};
pub use error::ConfigError;
pub use log_target::LogTarget;
pub use setting::{Section, Setting};
pub use settings::{Config, SETTINGS};
pub use values::Allowed;

use crate::priority::{Priorities, PriorityMode};

/// Every environment variable that Coldstream reads. `COLDSTREAM_CONFIG` names the TOML file.
pub const VARIABLES: [&str; SETTINGS.len() + 1] = {
    let mut variables = ["COLDSTREAM_CONFIG"; SETTINGS.len() + 1];
    let mut index = 0;
    while index < SETTINGS.len() {
        variables[index] = SETTINGS[index].variable;
        index += 1;
    }
    variables
};

impl Config {
    /// The rate that background I/O always has, in bytes per second.
    pub fn pacing_floor_bytes(&self) -> u64 {
        u64::from(self.pacing_floor) << 20
    }

    /// The priorities that threads get, by role; none if priority is off.
    pub fn priorities_in_force(&self) -> Priorities {
        match self.priority {
            PriorityMode::Off => Priorities::none(),
            PriorityMode::Auto | PriorityMode::ReadsFirst | PriorityMode::Always => Priorities {
                nice: self.nice,
                io: self.io_priority,
            },
        }
    }

    /// The configuration of a TOML text and the environment, which wins. An empty variable counts as
    /// not set. The caller reads the file that `COLDSTREAM_CONFIG` names.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] for the first value, key or line that is wrong.
    pub fn from_sources(
        toml_text: Option<&str>,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Config, ConfigError> {
        let mut config = Config::default();
        if let Some(text) = toml_text {
            let in_file = |what| ConfigError::Toml {
                file: environment("COLDSTREAM_CONFIG").filter(|file| !file.is_empty()),
                what,
            };
            for (setting, key, value, line) in file::settings(text).map_err(in_file)? {
                config
                    .read(setting.key, &value)
                    .ok_or_else(|| in_file(file::wrong_value(setting, key, line)))?;
            }
        }
        for setting in &SETTINGS {
            let value = environment(setting.variable).filter(|value| !value.is_empty());
            if let Some(value) = value {
                config
                    .read(setting.key, &value)
                    .ok_or_else(|| ConfigError::Value {
                        key: setting.variable,
                        value,
                        allowed: format!("use {:#}", setting.allowed()),
                    })?;
            }
        }
        Ok(config)
    }

    /// The environment variables that make this configuration, whatever a TOML file says.
    pub fn to_environment(&self) -> Vec<(&'static str, String)> {
        let variables = SETTINGS
            .iter()
            .map(|setting| (setting.variable, self.write(setting.key)));
        variables.collect()
    }
}
