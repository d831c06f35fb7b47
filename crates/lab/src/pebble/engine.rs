//! Pebble as an engine of the laboratory.

use super::arguments::{DRIVER, PebbleArgs};
use super::mode::Mode;
use super::options;
use crate::driven::engine::Kind;
use coldstream_policy::Profile;

/// What distinguishes Pebble.
#[derive(Debug)]
pub struct PebbleKind;

impl Kind for PebbleKind {
    type Arguments = PebbleArgs;
    type Mode = Mode;

    const NAME: &'static str = "pebble";
    const DRIVER: &'static str = DRIVER;
    const EXTENSION: &'static str = "sst";
    /// No mode has a preload library.
    const PROFILE: Profile = Profile::Auto;
    const READER_THREADS: &'static [&'static str] = &[];
    /// Goroutines change threads, so the kernel's counters of a thread tell nothing.
    const LIMITATION: Option<&'static str> = Some(
        "device reads and processor time of the foreground are missing, not 0: \
         goroutines have no threads of their own",
    );

    fn options(further: &str) -> String {
        options::of_every_mode(further)
    }

    fn title(_: &str) -> String {
        format!("Pebble {PEBBLE_VERSION}")
    }
}

/// The version that the driver is built with (`pebble-driver/go.mod`).
const PEBBLE_VERSION: &str = "2.1.7";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_names_the_version_that_is_built() {
        let modules = include_str!("../../pebble-driver/go.mod");
        let line = format!("github.com/cockroachdb/pebble/v2 v{PEBBLE_VERSION}");
        assert!(modules.contains(&line), "{line}");
    }
}
