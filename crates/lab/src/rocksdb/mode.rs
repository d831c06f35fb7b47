//! The modes: stock RocksDB, its own direct I/O, Coldstream, other preload libraries.

use crate::attached::{ATTACH, ATTACH_PRIORITY};
use crate::engine;
use crate::io_modes::IoModes;
use crate::mode_settings::{self, Settings};
use crate::own_direct::OwnDirect;
use crate::preloaded::Preloaded;
use std::fmt::Write as _;
use std::path::Path;
use std::str::FromStr;

/// The plugin that `rocksdb-plugin/` makes.
pub const PLUGIN: &str = "libcoldstream_rocksdb.so";

/// One way to run the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mode {
    /// The way to run it.
    way: Way,
    /// Options of RocksDB that differ from the other modes': name and value.
    options: Settings,
}

/// A way to run the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Way {
    /// Stock RocksDB, which uses buffered I/O.
    Buffered,
    /// The engine's own direct I/O: `use_direct_io_for_compaction_reads` and
    /// `use_direct_io_for_flush_and_compaction`.
    OwnDirect(OwnDirect),
    /// With `coldstream attach` beside it.
    Attached,
    /// With `coldstream attach --priority` beside it.
    AttachedWithPriority,
    /// With a preload library.
    Preloaded(Preloaded),
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || {
            format!(
                "\"{text}\": use buffered, direct-writes, direct-reads, direct-reads-writes, attach, attach:priority, plugin, plugin:…, {}; \
                 and any of them with @OPTION=VALUE, an option of RocksDB",
                Preloaded::FORMS
            )
        };
        let (way, options) = mode_settings::split(text).ok_or_else(unknown)?;
        let way = match (way, OwnDirect::from_name(way)) {
            ("buffered", _) => Way::Buffered,
            (ATTACH, _) => Way::Attached,
            (name, _) if name == ATTACH_PRIORITY.0 => Way::AttachedWithPriority,
            (_, Some(own)) => Way::OwnDirect(own),
            (_, None) => {
                let plugin = way.strip_prefix("plugin").and_then(plugin_from);
                let preloaded = plugin.or_else(|| Preloaded::from_name(way));
                let preloaded = preloaded.ok_or_else(unknown)?;
                Way::Preloaded(preloaded.map_err(|why| format!("\"{text}\": {why}"))?)
            }
        };
        Ok(Self { way, options })
    }
}

/// The plugin, from the text behind its word. [`Mode::set_plugin`] says where it is.
fn plugin_from(settings: &str) -> Option<Result<Preloaded, String>> {
    let settings = IoModes::after_name(settings)?;
    Some(settings.map(|settings| Preloaded::Plugin {
        settings,
        library: PLUGIN.into(),
    }))
}

impl std::fmt::Display for Mode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut name = match &self.way {
            Way::Buffered => "buffered".into(),
            Way::OwnDirect(own) => own.name().into(),
            Way::Attached => ATTACH.into(),
            Way::AttachedWithPriority => ATTACH_PRIORITY.0.into(),
            Way::Preloaded(preloaded) => preloaded.to_string(),
        };
        mode_settings::append(&mut name, &self.options);
        formatter.pad(&name)
    }
}

impl engine::Mode for Mode {
    fn preloaded(&self) -> Option<&Preloaded> {
        match &self.way {
            Way::Preloaded(preloaded) => Some(preloaded),
            Way::Buffered | Way::OwnDirect(_) | Way::Attached | Way::AttachedWithPriority => None,
        }
    }

    fn attach_options(&self) -> Option<&'static [&'static str]> {
        match self.way {
            Way::Attached => Some(&[]),
            Way::AttachedWithPriority => Some(ATTACH_PRIORITY.1),
            Way::Buffered | Way::OwnDirect(_) | Way::Preloaded(_) => None,
        }
    }
}

impl Mode {
    /// The same with direct writes only, if this is the engine's own direct I/O for both.
    pub fn without_direct_reads(&self) -> Option<Self> {
        (self.way == Way::OwnDirect(OwnDirect::ReadsWrites)).then(|| Self {
            way: Way::OwnDirect(OwnDirect::Writes),
            options: self.options.clone(),
        })
    }

    /// Says where the plugin is.
    pub fn set_plugin(&mut self, path: &Path) {
        if let Way::Preloaded(Preloaded::Plugin { library, .. }) = &mut self.way {
            *library = path.into();
        }
    }

    /// The environment that the plugin registers, where the mode has it: name and value of the option `env`.
    pub fn environment(&self) -> Option<(&'static str, &'static str)> {
        let has_plugin = matches!(self.way, Way::Preloaded(Preloaded::Plugin { .. }));
        has_plugin.then_some(("env", "coldstream://"))
    }

    /// RocksDB options of this mode, to be appended to other options. Only a process with the plugin knows
    /// [`environment`](Self::environment), so it is not among them.
    pub fn engine_options(&self) -> String {
        let mut options = String::new();
        if let Way::OwnDirect(own) = self.way {
            if own.reads() {
                options.push_str(";use_direct_io_for_compaction_reads=true");
            }
            if own.writes() {
                options.push_str(";use_direct_io_for_flush_and_compaction=true");
            }
        }
        for (name, value) in &self.options {
            let _ = write!(options, ";{name}={value}");
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
            "attach",
            "attach:priority",
            "coldstream",
            "coldstream:drop-behind",
            "coldstream:auto+buffered",
            "coldstream:direct+drop-behind",
            "coldstream:buffered+direct",
            "plugin",
            "plugin:direct+handover=off",
            "preload:/a/b.so",
            "coldstream:priority=off@use_direct_io_for_flush_and_compaction=true",
            "buffered@use_direct_reads=true@max_background_jobs=8",
        ] {
            assert_eq!(name.parse::<Mode>().unwrap().to_string(), name);
        }
        for wrong in [
            "",
            "direct",
            "coldstream:",
            "coldstream:fast",
            "preload:",
            "plugins",
            "plugin:fast",
            "buffered@",
            "buffered@use_direct_reads",
            "buffered@a;b=c",
        ] {
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
        let options = |name: &str| name.parse::<Mode>().unwrap().engine_options();
        assert_eq!(options("buffered"), "");
        assert_eq!(
            options("coldstream@max_background_jobs=8@use_direct_reads=true"),
            ";max_background_jobs=8;use_direct_reads=true"
        );
    }
}
