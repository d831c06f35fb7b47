//! LevelDB as an engine of the laboratory.

use super::arguments::{DRIVER, LevelDbArgs};
use super::mode::Mode;
use crate::driven::engine::Kind;
use coldstream_policy::Profile;

/// What distinguishes LevelDB.
#[derive(Debug)]
pub struct LevelDbKind;

impl Kind for LevelDbKind {
    type Arguments = LevelDbArgs;
    type Mode = Mode;

    const NAME: &'static str = "leveldb";
    const DRIVER: &'static str = DRIVER;
    const EXTENSION: &'static str = "ldb";
    const PROFILE: Profile = Profile::LevelDb;
    /// The driver gives its readers this name (`load_threads.cc`).
    const READER_THREADS: &'static [&'static str] = &["reader"];
    const LIMITATION: Option<&'static str> = Some(
        "compaction's bytes are LevelDB's own sums, in whole MiB of each level; stalls are puts of 1 ms and more",
    );

    /// Incompressible values and filters. The rest is LevelDB's default: SSTables of 2 MiB, a block cache
    /// of 8 MiB.
    fn options(further: &str) -> String {
        format!("compression=0;bloom_bits=10;{}", further.trim_matches(';'))
    }

    fn title(told: &str) -> String {
        format!("LevelDB {told}")
    }
}
