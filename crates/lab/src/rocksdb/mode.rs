//! What is compared: the engine as it is, its own switches, Coldstream, other preload libraries.

use crate::treatments::Treatments;
use std::path::PathBuf;
use std::str::FromStr;

/// One way to run the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The engine as it is.
    Buffered,
    /// The engine's own direct I/O.
    OwnDirect {
        /// `use_direct_io_for_compaction_reads`.
        reads: bool,
        /// `use_direct_io_for_flush_and_compaction`.
        writes: bool,
    },
    /// Coldstream.
    Coldstream(Treatments),
    /// Another preload library.
    Preload(PathBuf),
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || {
            format!(
                "\"{text}\": use buffered, direct-writes, direct-reads, direct-reads-writes, \
                 coldstream, coldstream:READS, coldstream:READS+WRITES (each auto, direct, \
                 dontcache, window or buffered) or preload:PATH"
            )
        };
        Ok(match text {
            "buffered" => Mode::Buffered,
            "direct-writes" => Mode::OwnDirect {
                reads: false,
                writes: true,
            },
            "direct-reads" => Mode::OwnDirect {
                reads: true,
                writes: false,
            },
            "direct-reads-writes" => Mode::OwnDirect {
                reads: true,
                writes: true,
            },
            _ => match text.strip_prefix("preload:") {
                Some(path) if !path.is_empty() => Mode::Preload(path.into()),
                _ => Mode::Coldstream(Treatments::from_name(text).ok_or_else(unknown)?),
            },
        })
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Mode::Buffered => formatter.pad("buffered"),
            Mode::OwnDirect { reads, writes } => formatter.pad(match (reads, writes) {
                (true, true) => "direct-reads-writes",
                (true, false) => "direct-reads",
                (false, _) => "direct-writes",
            }),
            Mode::Coldstream(treatments) => treatments.fmt(formatter),
            Mode::Preload(path) => formatter.pad(&format!("preload:{}", path.display())),
        }
    }
}

impl Mode {
    /// The engine's options that this mode sets.
    pub fn engine_options(&self) -> String {
        let Mode::OwnDirect { reads, writes } = self else {
            return String::new();
        };
        let mut options = String::new();
        if *reads {
            options.push_str(";use_direct_io_for_compaction_reads=true");
        }
        if *writes {
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
            "coldstream:window",
            "coldstream:auto+buffered",
            "coldstream:direct+window",
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
