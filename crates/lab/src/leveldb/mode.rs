//! The modes: stock LevelDB, Coldstream, other preload libraries.

use crate::driven::engine::DrivenMode;
use crate::engine;
use crate::mode_settings::{self, Settings};
use crate::preloaded::Preloaded;
use std::fmt::Write as _;
use std::str::FromStr;

/// One way to run LevelDB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mode {
    /// `None`: stock LevelDB.
    preloaded: Option<Preloaded>,
    /// Options of LevelDB that differ from the other modes': name and value.
    options: Settings,
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || {
            format!(
                "\"{text}\": use buffered, {}; and any of them with @OPTION=VALUE, an option of LevelDB",
                Preloaded::FORMS
            )
        };
        let (way, options) = mode_settings::split(text).ok_or_else(unknown)?;
        let preloaded = match way {
            "buffered" => None,
            _ => {
                let preloaded = Preloaded::from_name(way).ok_or_else(unknown)?;
                Some(preloaded.map_err(|why| format!("\"{text}\": {why}"))?)
            }
        };
        Ok(Self { preloaded, options })
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let way = self.preloaded.as_ref().map(ToString::to_string);
        let mut name = way.unwrap_or_else(|| "buffered".to_owned());
        mode_settings::append(&mut name, &self.options);
        formatter.pad(&name)
    }
}

impl engine::Mode for Mode {
    fn preloaded(&self) -> Option<&Preloaded> {
        self.preloaded.as_ref()
    }
}

impl DrivenMode for Mode {
    fn options(&self) -> String {
        self.options
            .iter()
            .fold(String::new(), |mut options, (name, value)| {
                let _ = write!(options, ";{name}={value}");
                options
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for name in [
            "buffered",
            "buffered@bloom_bits=0@block_size=16384",
            "coldstream",
            "coldstream:handover=off+readahead=scans-and-mapped",
            "preload:/a/b.so@max_file_size=67108864",
        ] {
            let mode = name.parse::<Mode>().map(|mode| mode.to_string());
            assert_eq!(mode.as_deref(), Ok(name));
        }
        for wrong in [
            "",
            "direct-writes",
            "attach",
            "coldstream:",
            "buffered@bloom_bits",
        ] {
            assert!(wrong.parse::<Mode>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn options_are_appended() {
        let mode: Mode = "buffered@bloom_bits=0@block_size=16384".parse().unwrap();
        assert_eq!(mode.options(), ";bloom_bits=0;block_size=16384");
    }
}
