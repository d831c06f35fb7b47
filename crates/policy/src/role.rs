//! The role of a thread, from its name.

use crate::kind::FileKind;
use crate::profile::Profile;

/// What a thread does for the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::FromRepr, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[repr(u8)]
pub enum Role {
    /// Requests, and all threads whose name is unknown. Coldstream never touches them.
    Foreground = 0,
    /// Rewrites SSTables: compaction, cleanup, scrub, upgrade.
    Compaction = 1,
    /// Writes out a memtable. Its output is the newest data, and stays in the page cache.
    Flush = 2,
    /// Reads whole SSTables to compare replicas.
    Validation = 3,
    /// Sends or receives whole SSTables.
    Streaming = 4,
}

/// Where the pages go that a memtable flush writes.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::VariantNames,
)]
#[strum(serialize_all = "kebab-case")]
pub enum FlushOutput {
    /// They stay in the page cache.
    #[default]
    Cached,
    /// They go around the page cache, like those of a compaction.
    Bypass,
}

impl Role {
    /// The name in configurations.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether its reads of SSTables are made once, and need not be in the page cache.
    pub fn is_background_reader(self) -> bool {
        match self {
            Role::Compaction | Role::Validation | Role::Streaming => true,
            Role::Foreground | Role::Flush => false,
        }
    }

    /// Whether the SSTables that it writes need not be in the page cache. `flush` decides about those
    /// of a memtable flush.
    pub fn is_background_writer(self, flush: FlushOutput) -> bool {
        match self {
            Role::Compaction | Role::Streaming => true,
            Role::Flush => flush == FlushOutput::Bypass,
            Role::Foreground | Role::Validation => false,
        }
    }

    /// The role with this number; anything unknown is foreground.
    #[inline]
    pub fn from_u8(number: u8) -> Self {
        Self::from_repr(number).unwrap_or(Role::Foreground)
    }
}

/// RocksDB names its pool threads `rocksdb:` plus the lower-case priority
/// (`util/threadpool_imp.cc`, `StartBGThreads`). `rocksdb:user` runs the application's own
/// asynchronous reads. Before 6.0 a number follows. Threads of subcompactions inherit the name of
/// the thread that made them.
const ROCKSDB: [(&[u8], Role); 3] = [
    (b"rocksdb:low", Role::Compaction),
    (b"rocksdb:bottom", Role::Compaction),
    (b"rocksdb:high", Role::Flush),
];

/// The beginnings of the names of Cassandra's executors (4.1 to 6.0). Linux keeps 15 characters of a
/// name. The JVM cuts off the end; newer JVMs cut out the middle. So both ends are compared.
const CASSANDRA: [(&[u8], Role); 7] = [
    (b"CompactionExecutor", Role::Compaction),
    (b"ValidationExecutor", Role::Validation),
    (b"PerDiskMemtableFlushWriter", Role::Flush),
    (b"MemtableFlushWriter", Role::Flush),
    (b"Stream-Deserializer", Role::Streaming),
    (b"Streaming-EventLoop", Role::Streaming),
    (b"NettyStreaming-Outbound", Role::Streaming),
];

/// Characters of a thread name that Linux keeps (`TASK_COMM_LEN` minus the NUL).
const NAME_BYTES_MAX: usize = 15;

/// The number of characters that identify an executor.
const CASSANDRA_BYTES_MIN: usize = 7;

impl Profile {
    /// The role of a thread with this name (up to the first NUL). LevelDB does not name its one
    /// background thread: see [`Profile::role_of_sstable_writer`].
    pub fn role_of_thread(self, name: &[u8]) -> Role {
        let name = name.split(|byte| *byte == 0).next().unwrap_or(name);
        if self.includes(Profile::RocksDb) {
            for (known, role) in ROCKSDB {
                let number = name.strip_prefix(known);
                if number.is_some_and(|number| number.iter().all(u8::is_ascii_digit)) {
                    return role;
                }
            }
        }
        if self.includes(Profile::Cassandra) {
            for (known, role) in CASSANDRA {
                if is_cut_of(name, known) {
                    return role;
                }
            }
        }
        Role::Foreground
    }

    /// The role of a thread while it has an SSTable of `kind` open for writing, whatever its name is.
    /// LevelDB reads the inputs of a compaction in the thread that writes the outputs.
    pub fn role_of_sstable_writer(self, kind: FileKind) -> Role {
        if self.includes(Profile::LevelDb) && kind == FileKind::LevelDbSsTable {
            Role::Compaction
        } else {
            Role::Foreground
        }
    }
}

/// Whether `name` is `executor` plus a number, cut to 15 characters. It is either the beginning, or the
/// beginning and the end with the middle cut out.
fn is_cut_of(name: &[u8], executor: &[u8]) -> bool {
    let common = name
        .iter()
        .zip(executor)
        .take_while(|(left, right)| left == right)
        .count();
    if common == executor.len().min(NAME_BYTES_MAX) {
        return true;
    }
    if common < CASSANDRA_BYTES_MIN || name.len() != NAME_BYTES_MAX {
        return false;
    }
    // `Compact..utor:12`: after the cut come the executor's end, a separator and digits.
    let rest = name.get(common..).unwrap_or_default();
    let tail = rest
        .iter()
        .position(|byte| *byte != b'.')
        .and_then(|start| rest.get(start..))
        .unwrap_or_default();
    let letters = tail.split(|byte| *byte == b':' || *byte == b'-').next();
    letters.is_some_and(|letters| !letters.is_empty() && executor.ends_with(letters))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use strum::VariantArray;

    #[test]
    fn names_as_the_engines_set_them() {
        for (name, role) in [
            ("rocksdb:low", Role::Compaction),
            ("rocksdb:bottom", Role::Compaction),
            ("rocksdb:high", Role::Flush),
            ("rocksdb:user", Role::Foreground),
            ("rocksdb:low12", Role::Compaction),
            ("rocksdb:lowly", Role::Foreground),
            ("rocksdb", Role::Foreground),
            ("CompactionExecu", Role::Compaction),
            ("Compact..utor:1", Role::Compaction),
            ("ValidationExecu", Role::Validation),
            ("PerDiskMemtable", Role::Flush),
            ("MemtableFlushWr", Role::Flush),
            ("Stream-Deserial", Role::Streaming),
            ("Streaming-Event", Role::Streaming),
            ("NettyStreaming-", Role::Streaming),
            ("ReadStage-1", Role::Foreground),
            ("SharedPool-Work", Role::Foreground),
            ("NonPeriodicTask", Role::Foreground),
            ("Compaction", Role::Foreground),
            ("java", Role::Foreground),
            ("", Role::Foreground),
        ] {
            assert_eq!(
                Profile::Auto.role_of_thread(name.as_bytes()),
                role,
                "{name}"
            );
        }
        assert_eq!(
            Profile::Cassandra.role_of_thread(b"rocksdb:low"),
            Role::Foreground
        );
        assert_eq!(
            Profile::RocksDb.role_of_thread(b"CompactionExecu"),
            Role::Foreground
        );
        assert_eq!(
            Profile::RocksDb.role_of_thread(b"rocksdb:low\0\0\0\0\0"),
            Role::Compaction
        );
    }

    #[test]
    fn a_leveldb_thread_is_known_by_what_it_writes() {
        assert_eq!(
            Profile::Auto.role_of_sstable_writer(FileKind::LevelDbSsTable),
            Role::Compaction
        );
        assert_eq!(
            Profile::Auto.role_of_sstable_writer(FileKind::RocksDbSsTable),
            Role::Foreground
        );
    }

    proptest! {
        #[test]
        fn no_name_panics(name in proptest::collection::vec(any::<u8>(), 0..40)) {
            for profile in Profile::VARIANTS {
                profile.role_of_thread(&name);
            }
        }

        #[test]
        fn numbers_round_trip(number in any::<u8>()) {
            let role = Role::from_u8(number);
            prop_assert_eq!(Role::from_u8(role as u8), role);
            let profile = Profile::from_u8(number);
            prop_assert_eq!(profile.name().parse(), Ok(profile));
        }
    }
}
