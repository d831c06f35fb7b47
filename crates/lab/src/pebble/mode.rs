//! The modes: stock Pebble, `coldstream attach` beside it, and a peer that drops pages blindly.

use super::options;
use crate::attached::ATTACH;
use crate::driven::engine::DrivenMode;
use crate::engine;
use crate::mode_settings::{self, Settings};
use crate::preloaded::Preloaded;
use std::str::FromStr;

/// One way to run Pebble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mode {
    way: Way,
    /// Options of Pebble that differ from the other modes': name and value.
    options: Settings,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Stock Pebble.
    Buffered,
    /// With `coldstream attach` beside it.
    Attached,
    /// A filesystem around it that drops all pages behind a compaction.
    DropAll,
}

impl Way {
    const ALL: [Way; 3] = [Way::Buffered, Way::Attached, Way::DropAll];

    const fn name(self) -> &'static str {
        match self {
            Way::Buffered => "buffered",
            Way::Attached => ATTACH,
            Way::DropAll => "drop-all",
        }
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = |name| Way::ALL.into_iter().find(|way| way.name() == name);
        mode_settings::split(text)
            .and_then(|(name, options)| Some((named(name)?, options)))
            .map(|(way, options)| Self { way, options })
            .ok_or_else(|| {
                format!(
                    "\"{text}\": use buffered, attach or drop-all; and any of them with \
                     @OPTION=VALUE, an option of Pebble"
                )
            })
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut name = self.way.name().to_owned();
        mode_settings::append(&mut name, &self.options);
        formatter.pad(&name)
    }
}

impl engine::Mode for Mode {
    fn preloaded(&self) -> Option<&Preloaded> {
        None
    }

    fn attach_options(&self) -> Option<&'static [&'static str]> {
        (self.way == Way::Attached).then_some(&[])
    }
}

impl DrivenMode for Mode {
    fn options(&self) -> String {
        let own = self.options.iter().map(|(key, value)| (&**key, &**value));
        let drop_all = (self.way == Way::DropAll).then_some(("drop_all", "true"));
        options::section("Options", own) + &options::section("Driver", drop_all.into_iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for name in [
            "buffered",
            "attach",
            "drop-all",
            "buffered@cache_size=67108864",
        ] {
            assert_eq!(name.parse::<Mode>().unwrap().to_string(), name);
        }
        for wrong in ["", "coldstream", "direct-writes", "buffered@cache_size"] {
            assert!(wrong.parse::<Mode>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn options_are_sections_of_pebbles_file() {
        let options = |name: &str| name.parse::<Mode>().unwrap().options();
        assert_eq!(
            options("drop-all@cache_size=1"),
            "[Options]\ncache_size=1\n[Driver]\ndrop_all=true\n"
        );
        assert_eq!(options("attach"), "[Options]\n[Driver]\n");
    }
}
