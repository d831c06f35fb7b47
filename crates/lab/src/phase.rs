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

/// An event of the load. Times are of the monotonic clock, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A read. It counts for the phase in which it started.
    Read {
        /// The phase in which it started.
        phase: Phase,
        /// The time at which it was due.
        intended_ns: u64,
        /// Its start.
        start_ns: u64,
        /// Its end.
        end_ns: u64,
        /// Whether it ended with an error, such as a timeout, instead of a value.
        failed: bool,
    },
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
