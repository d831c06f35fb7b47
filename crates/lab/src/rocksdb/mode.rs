//! The modes: stock RocksDB, its own direct I/O, Coldstream, other preload libraries.

use crate::engine;
use crate::own_direct::OwnDirect;
use crate::preloaded::Preloaded;
use std::str::FromStr;

/// One way to run the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Stock RocksDB, which uses buffered I/O.
    Buffered,
    /// The engine's own direct I/O: `use_direct_io_for_compaction_reads` and
    /// `use_direct_io_for_flush_and_compaction`.
    OwnDirect(OwnDirect),
    /// With a preload library.
    Preloaded(Preloaded),
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || {
            format!(
                "\"{text}\": use buffered, direct-writes, direct-reads, direct-reads-writes, {}",
                Preloaded::FORMS
            )
        };
        if text == "buffered" {
            return Ok(Mode::Buffered);
        }
        if let Some(own) = OwnDirect::from_name(text) {
            return Ok(Mode::OwnDirect(own));
        }
        let preloaded = Preloaded::from_name(text).ok_or_else(unknown)?;
        preloaded
            .map(Mode::Preloaded)
            .map_err(|why| format!("\"{text}\": {why}"))
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Mode::Buffered => formatter.pad("buffered"),
            Mode::OwnDirect(own) => formatter.pad(own.name()),
            Mode::Preloaded(preloaded) => preloaded.fmt(formatter),
        }
    }
}

impl engine::Mode for Mode {
    fn preloaded(&self) -> Option<&Preloaded> {
        match self {
            Mode::Preloaded(preloaded) => Some(preloaded),
            Mode::Buffered | Mode::OwnDirect(_) => None,
        }
    }
}

impl Mode {
    /// RocksDB options of this mode, to be appended to other options.
    pub fn engine_options(&self) -> String {
        let Mode::OwnDirect(own) = self else {
            return String::new();
        };
        let mut options = String::new();
        if own.reads() {
            options.push_str(";use_direct_io_for_compaction_reads=true");
        }
        if own.writes() {
            options.push_str(";use_direct_io_for_flush_and_compaction=true");
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for name in [
            "buffered",
            "direct-writes",
            "direct-reads",
            "direct-reads-writes",
            "coldstream",
            "coldstream:drop-behind",
            "coldstream:auto+buffered",
            "coldstream:direct+drop-behind",
            "coldstream:buffered+direct",
            "preload:/a/b.so",
        ] {
            assert_eq!(name.parse::<Mode>().unwrap().to_string(), name);
        }
        for wrong in ["", "direct", "coldstream:", "coldstream:fast", "preload:"] {
            assert!(wrong.parse::<Mode>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn own_direct_modes_set_the_engines_switches() {
        let options = "direct-reads-writes"
            .parse::<Mode>()
            .unwrap()
            .engine_options();
        assert!(options.contains("compaction_reads=true") && options.contains("flush_and"));
        assert_eq!(Mode::Buffered.engine_options(), "");
    }
}
