//! The phases of a run, and the events that its load reports.

/// A phase of a run.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Not measured: after the start, and again from the first update to the first compaction.
    WarmUp,
    /// No compaction.
    Idle,
    /// From the start of the compaction to the publication of its output.
    Compaction,
    /// After the publication: reads go to the output.
    After,
    /// The run is over.
    End,
}

impl Phase {
    /// The phases that are measured.
    pub const COUNTED: [Phase; 3] = [Phase::Idle, Phase::Compaction, Phase::After];

    /// The phase with this number of the RocksDB driver (`Phase` in `records.h`).
    pub fn from_number(number: u32) -> Self {
        match number {
            0 => Phase::WarmUp,
            1 => Phase::Idle,
            2 => Phase::Compaction,
            3 => Phase::After,
            _ => Phase::End,
        }
    }

    /// Name in reports and messages.
    pub fn name(self) -> &'static str {
        match self {
            Phase::WarmUp => "warm-up",
            Phase::Idle => "idle",
            Phase::Compaction => "compaction",
            Phase::After => "after publication",
            Phase::End => "end",
        }
    }
}

/// The first pass over the hot keys takes this long at most, in seconds.
pub const FIRST_PASS_SECONDS: u64 = 30;

/// How far compaction is behind. A figure that the engine does not tell is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// SSTables of level 0.
    pub level0_files: u64,
    /// SSTables of the compacted CQL table.
    pub sstables: u64,
    /// Compactions that wait or run.
    pub pending_compactions: u64,
    /// Bytes of compaction work that is left.
    pub debt_bytes: u64,
    /// Whether a compaction runs or is about to.
    pub is_compacting: bool,
}

/// The first pass over the hot keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FirstPass {
    /// Keys that it has read.
    pub read_keys: u64,
    /// Keys of the hot set.
    pub hot_keys: u64,
}

impl FirstPass {
    /// What it means for the figures if it did not read all of them.
    pub fn note(self) -> Option<String> {
        let Self {
            read_keys,
            hot_keys,
        } = self;
        (read_keys < hot_keys).then(|| {
            format!(
                "the first pass over the hot set was cut at {read_keys} of {hot_keys} keys: p99 idle has first reads"
            )
        })
    }
}

/// An event of the load. Times are of the monotonic clock, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A read. Its service time counts for the phase in which it started, its response time for the one in which it was
    /// due. So a read that starts after a phase comes behind the event of that phase.
    Read {
        /// The time at which it was due.
        intended_ns: u64,
        /// Its start.
        start_ns: u64,
        /// Its end.
        end_ns: u64,
        /// Whether it ended with an error, such as a timeout, instead of a value.
        failed: bool,
    },
    /// Reads that were due before the end of the load and never started. They were due evenly between two times.
    Unstarted {
        /// The time after which they were due.
        due_after_ns: u64,
        /// Their number.
        reads: u64,
        /// The end of the load, up to which they had waited.
        at_ns: u64,
    },
    /// The end of the first pass over the hot keys.
    FirstPass(FirstPass),
    /// An update that ended with an error.
    FailedUpdate {
        /// The phase in which it started.
        phase: Phase,
    },
    /// A phase begins.
    Phase {
        /// The phase.
        phase: Phase,
        /// Its start.
        at_ns: u64,
        /// Processor time of the database's process up to now, user and system.
        process_cpu_ns: u64,
        /// The part of it that the threads of the load took.
        load_cpu_ns: u64,
    },
    /// Bytes of the compaction, by the engine's own count.
    Compacted {
        /// Bytes read.
        read_bytes: u64,
        /// Bytes written.
        written_bytes: u64,
    },
    /// The updates that keep compaction going, at the end of its phase.
    Updated {
        /// Updates in this phase.
        updates: u64,
        /// Largest delay between the due time of an update and its start.
        late_ns_max: u64,
        /// Bytes of compaction work that is left.
        debt_bytes: u64,
    },
    /// What the user wrote in the compaction phase, at its end.
    Written {
        /// Bytes that the user wrote.
        user_bytes: u64,
        /// Time for which the engine delayed these writes.
        stall_us: u64,
    },
    /// How far compaction is behind at one moment. Each phase has many.
    Backlog {
        /// The phase.
        phase: Phase,
        /// The sample.
        backlog: Backlog,
    },
}
