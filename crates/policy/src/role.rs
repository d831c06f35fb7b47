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
    /// Writes out a memtable. Its output is the newest data.
    Flush = 2,
    /// Reads whole SSTables to compare replicas.
    Validation = 3,
    /// Sends or receives whole SSTables.
    Streaming = 4,
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

    /// Whether the SSTables that it writes need not be in the page cache. About those of a memtable flush
    /// [`FlushOutput`](crate::FlushOutput) decides.
    pub fn is_background_writer(self) -> bool {
        match self {
            Role::Compaction | Role::Streaming => true,
            Role::Foreground | Role::Flush | Role::Validation => false,
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

/// The threads of Cassandra (4.0 to 6.0) that do background work.
const CASSANDRA: [JavaThread; 8] = [
    JavaThread::numbered("CompactionExecutor", Role::Compaction),
    JavaThread::numbered("ValidationExecutor", Role::Validation),
    JavaThread::numbered("PerDiskMemtableFlushWriter", Role::Flush),
    JavaThread::numbered("LocalSystemKeyspacesDiskMemtableFlushWriter", Role::Flush),
    JavaThread::numbered("MemtableFlushWriter", Role::Flush),
    // An address and the id of a connection follow.
    JavaThread::addressed("Stream-Deserializer", Role::Streaming),
    JavaThread::addressed("NettyStreaming-Outbound", Role::Streaming),
    JavaThread::numbered("Streaming-EventLoop", Role::Streaming),
];

/// Threads of Cassandra and Flink whose names resemble those, and which are foreground: none of them reads or writes
/// whole SSTables.
const JAVA_FOREGROUND: [JavaThread; 6] = [
    JavaThread::numbered("MemtablePostFlush", Role::Foreground),
    JavaThread::numbered("MemtableReclaimMemory", Role::Foreground),
    JavaThread::numbered("CompactionLogger", Role::Foreground),
    JavaThread::numbered("StreamingTransferTaskTimeouts", Role::Foreground),
    JavaThread::numbered("StreamReceiveTask", Role::Foreground),
    // Flink's `RecordWriter`. The name of a task follows.
    JavaThread::addressed("OutputFlusher", Role::Foreground),
];

/// Parts of names, in lower case, that background threads of many engines have.
const BACKGROUND_WORDS: [&[u8]; 6] = [
    b"compact",
    b"memtable",
    b"flush",
    b"stream",
    b"validat",
    b"rocksdb:",
];

/// The beginnings of such names that are known to mean something else: threads of InnoDB, RocksDB's reads for the
/// application, and Kvrocks' clock for compactions (`Server::Start`).
const OTHER_BEGINNINGS: [&[u8]; 3] = [b"ib_", b"rocksdb:user", b"compact-check"];

/// Characters of a thread name that Linux keeps (`TASK_COMM_LEN` minus the NUL).
const NAME_BYTES_MAX: usize = 15;

/// What a JVM makes of a longer name: it keeps the first 15 characters, or, since OpenJDK's change 8368124
/// (`os::set_native_thread_name` in `os_linux.cpp`), the first 7 and the last 6 with two dots between them.
const HEAD_BYTES: usize = 7;
const DOTS: &[u8] = b"..";

/// The thread of a Java program. Its name is longer than Linux keeps.
struct JavaThread {
    /// How its name begins.
    beginning: &'static str,
    /// Whether only numbers follow, each after one of `:`, `-` and `_`.
    is_numbered: bool,
    role: Role,
}

impl JavaThread {
    const fn numbered(beginning: &'static str, role: Role) -> Self {
        Self {
            beginning,
            is_numbered: true,
            role,
        }
    }

    const fn addressed(beginning: &'static str, role: Role) -> Self {
        Self {
            beginning,
            is_numbered: false,
            role,
        }
    }

    /// Whether Linux shows this thread by `name`.
    fn has_name(&self, name: &[u8]) -> bool {
        let beginning = self.beginning.as_bytes();
        let kept = beginning.get(..NAME_BYTES_MAX).unwrap_or(beginning);
        if name.starts_with(kept) {
            return true;
        }
        let tail = beginning
            .get(..HEAD_BYTES)
            .and_then(|head| name.strip_prefix(head)?.strip_prefix(DOTS));
        name.len() == NAME_BYTES_MAX
            && tail.is_some_and(|tail| {
                // Where the numbers are long, nothing of the beginning is left in front of them.
                !self.is_numbered || beginning.ends_with(without_numbers(tail))
            })
    }
}

/// The text without the numbers at its end, and without the character before each.
fn without_numbers(mut text: &[u8]) -> &[u8] {
    while let Some((b'0'..=b'9', rest)) = text.split_last() {
        text = rest;
        if let Some((b':' | b'-' | b'_', rest)) = text.split_last() {
            text = rest;
        }
    }
    text
}

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
            for known in &CASSANDRA {
                if known.has_name(name) {
                    return known.role;
                }
            }
        }
        Role::Foreground
    }

    /// Whether a name is unknown, and resembles those of background threads. Such a thread counts as foreground.
    pub fn looks_like_background(self, name: &[u8]) -> bool {
        let name = name.split(|byte| *byte == 0).next().unwrap_or(name);
        let has = |word: &&[u8]| {
            let mut parts = name.windows(word.len());
            parts.any(|part| part.eq_ignore_ascii_case(word))
        };
        self.role_of_thread(name) == Role::Foreground
            && BACKGROUND_WORDS.iter().any(has)
            && !JAVA_FOREGROUND.iter().any(|it| it.has_name(name))
            && !OTHER_BEGINNINGS.iter().any(|it| name.starts_with(it))
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

    /// As a JVM before and after OpenJDK's change 8368124 names a native thread.
    fn cut_in_both_ways(name: &str) -> [String; 2] {
        if name.len() <= 15 {
            return [name.to_owned(), name.to_owned()];
        }
        let (head, tail) = (&name[..7], &name[name.len() - 6..]);
        [name[..15].to_owned(), format!("{head}..{tail}")]
    }

    #[test]
    fn all_threads_of_cassandra_in_both_cuts() {
        for (name, role) in [
            ("CompactionExecutor:1", Role::Compaction),
            ("CompactionExecutor:12", Role::Compaction),
            ("CompactionExecutor:4711", Role::Compaction),
            ("CompactionExecutor:1234567", Role::Compaction),
            ("ValidationExecutor:3", Role::Validation),
            ("ValidationExecutor:12345", Role::Validation),
            ("MemtableFlushWriter:1", Role::Flush),
            ("MemtableFlushWriter:4711", Role::Flush),
            ("PerDiskMemtableFlushWriter_0:1", Role::Flush),
            ("PerDiskMemtableFlushWriter_11:123", Role::Flush),
            ("LocalSystemKeyspacesDiskMemtableFlushWriter:2", Role::Flush),
            (
                "Stream-Deserializer-/127.0.0.2:7000-672a9b1c",
                Role::Streaming,
            ),
            (
                "Stream-Deserializer-672d8154-/127.0.0.2:7000",
                Role::Streaming,
            ),
            ("Streaming-EventLoop-4-4", Role::Streaming),
            ("Streaming-EventLoop-14-12", Role::Streaming),
            ("NettyStreaming-Outbound-/10.0.0.2.7000:1", Role::Streaming),
            ("MemtablePostFlush:1", Role::Foreground),
            ("MemtableReclaimMemory:1", Role::Foreground),
            ("CompactionLogger:1", Role::Foreground),
            ("StreamingTransferTaskTimeouts:1", Role::Foreground),
            ("StreamReceiveTask:1", Role::Foreground),
            ("SecondaryIndexManagement:1", Role::Foreground),
            ("ReadStage-1", Role::Foreground),
            ("MutationStage-2", Role::Foreground),
            ("Native-Transport-Requests-1", Role::Foreground),
            ("epollEventLoopGroup-5-1", Role::Foreground),
            ("Messaging-EventLoop-3-1", Role::Foreground),
            ("COMMIT-LOG-ALLOCATOR", Role::Foreground),
            ("PERIODIC-COMMIT-LOG-SYNCER", Role::Foreground),
            ("HintsDispatcher:1", Role::Foreground),
            ("ViewBuildExecutor:1", Role::Foreground),
            ("CacheCleanupExecutor:1", Role::Foreground),
        ] {
            for cut in cut_in_both_ways(name) {
                let found = Profile::Auto.role_of_thread(cut.as_bytes());
                assert_eq!(found, role, "{name} as {cut}");
                let looks = Profile::Auto.looks_like_background(cut.as_bytes());
                assert!(!looks, "{name} as {cut} is known");
            }
        }
    }

    #[test]
    fn unknown_names_that_look_like_background_work() {
        for (name, looks) in [
            ("Compact..ol-1-1", true),
            ("CompactionPool1", true),
            ("rocksdb:lowly", true),
            ("MyFlushThread", true),
            ("sst-streamer", true),
            ("ReadStage-1", false),
            ("rocksdb:user", false),
            ("rocksdb:low", false),
            ("ib_log_flush", false),
            ("compact-check", false),
            ("OutputFlusher f", false),
            ("OutputF..(1/1)#", false),
            ("java", false),
            ("", false),
        ] {
            let found = Profile::Auto.looks_like_background(name.as_bytes());
            assert_eq!(found, looks, "{name}");
        }
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
