//! The modes: stock releases of Cassandra, 6.0's own direct I/O, Coldstream, other preload libraries.

use crate::engine;
use crate::mode_settings::{self, Settings};
use crate::own_direct::OwnDirect;
use crate::preloaded::Preloaded;
use coldstream_nodes::Version;
use std::str::FromStr;

/// One way to run a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mode {
    /// The release.
    pub version: Version,
    /// The way to run it.
    pub way: Way,
    /// Settings of `cassandra.yaml` that differ from the other modes': name and value.
    pub yaml: Settings,
}

/// A way to run a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// Without a change.
    Stock,
    /// Stock, with the device's readahead switched off.
    NoReadahead,
    /// With its own direct I/O, from 6.0 on: `compaction_read_disk_access_mode` and
    /// `background_write_disk_access_mode`.
    OwnDirect(OwnDirect),
    /// With a preload library.
    Preloaded(Preloaded),
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || {
            format!(
                "\"{text}\": use VERSION/WAY or VERSION/WAY@KEY=VALUE with a setting of \
                 cassandra.yaml, where WAY is stock, no-readahead, direct-reads, \
                 direct-writes or direct-reads-writes (6.0), {}",
                Preloaded::FORMS
            )
        };
        let (version, way) = text.split_once('/').ok_or_else(unknown)?;
        let version = version.parse()?;
        let (way, yaml) = mode_settings::split(way).ok_or_else(unknown)?;
        let way = match way {
            "stock" => Way::Stock,
            "no-readahead" => Way::NoReadahead,
            _ => match OwnDirect::from_name(way) {
                Some(own) => Way::OwnDirect(own),
                None => {
                    let preloaded = Preloaded::from_name(way).ok_or_else(unknown)?;
                    Way::Preloaded(preloaded.map_err(|why| format!("\"{text}\": {why}"))?)
                }
            },
        };
        if matches!(way, Way::OwnDirect(_)) && version < Version::V6_0 {
            return Err(format!(
                "\"{text}\": Cassandra {version} has no direct I/O of its own; 6.0-alpha2 has"
            ));
        }
        Ok(Self { version, way, yaml })
    }
}

impl engine::Mode for Mode {
    fn preloaded(&self) -> Option<&Preloaded> {
        match &self.way {
            Way::Preloaded(preloaded) => Some(preloaded),
            Way::Stock | Way::NoReadahead | Way::OwnDirect(_) => None,
        }
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let way = match &self.way {
            Way::Stock => "stock".into(),
            Way::NoReadahead => "no-readahead".into(),
            Way::OwnDirect(own) => own.name().into(),
            Way::Preloaded(preloaded) => preloaded.to_string(),
        };
        let mut name = format!("{}/{way}", self.version);
        mode_settings::append(&mut name, &self.yaml);
        formatter.pad(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for name in [
            "4.1.10/stock",
            "5.0.9/no-readahead",
            "5.0.9/coldstream",
            "5.0.9/coldstream:auto+buffered",
            "6.0-alpha2/direct-reads-writes",
            "6.0-alpha2/direct-writes",
            "5.0.9/preload:/a/b.so",
            "5.0.9/coldstream:pacing=on@sstable_preemptive_open_interval=null",
            "5.0.9/stock@disk_access_mode=mmap@concurrent_reads=8",
        ] {
            assert_eq!(name.parse::<Mode>().unwrap().to_string(), name);
        }
        assert_eq!(
            "5.0/stock".parse::<Mode>().unwrap().to_string(),
            "5.0.9/stock"
        );
        for wrong in [
            "",
            "stock",
            "3.11/stock",
            "5.0.9/",
            "5.0.9/direct-reads",
            "5.0.9/coldstream:fast",
            "5.0.9/preload:",
            "5.0.9/stock@",
            "5.0.9/stock@mmap",
            "5.0.9/stock@disk_access_mode=",
            "5.0.9/stock@a: b=c",
        ] {
            assert!(wrong.parse::<Mode>().is_err(), "{wrong}");
        }
    }
}
