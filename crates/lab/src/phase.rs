//! What a run tells: its phases, each read, and what the compaction has moved.

/// A phase of a run.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// After the start; not counted.
    WarmUp,
    /// No compaction.
    Idle,
    /// From its start to the publication of its output.
    Compaction,
    /// The output has taken the place of the inputs.
    After,
    /// Over.
    End,
}

impl Phase {
    /// The phases that are counted.
    pub const COUNTED: [Phase; 3] = [Phase::Idle, Phase::Compaction, Phase::After];

    /// As the RocksDB driver numbers them (`Phase` in `records.h`).
    pub fn from_number(number: u32) -> Self {
        match number {
            0 => Phase::WarmUp,
            1 => Phase::Idle,
            2 => Phase::Compaction,
            3 => Phase::After,
            _ => Phase::End,
        }
    }

    /// As printed.
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

/// What the load says. Times are of the monotonic clock, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// One read, in the phase in which it started.
    Read {
        /// Its phase.
        phase: Phase,
        /// When it was due.
        intended_ns: u64,
        /// When it started.
        start_ns: u64,
        /// When it had ended.
        end_ns: u64,
        /// Whether it ended with an error (a timeout, above all) instead of a value.
        failed: bool,
    },
    /// An update that ended with an error.
    FailedUpdate {
        /// The phase in which it started.
        phase: Phase,
    },
    /// A phase begins.
    Phase {
        /// Which.
        phase: Phase,
        /// When.
        at_ns: u64,
        /// CPU time of the database's process until then, user and system.
        process_cpu_ns: u64,
        /// The part of it that threads which make the load have spent.
        load_cpu_ns: u64,
    },
    /// What the compaction has read and written, by the engine's own count.
    Compacted {
        /// Bytes read.
        read_bytes: u64,
        /// Bytes written.
        written_bytes: u64,
    },
    /// What became of the updates that keep compaction going, at the end of its phase.
    Updated {
        /// Made in it.
        updates: u64,
        /// How much later than it was due the latest of them began.
        late_ns_max: u64,
        /// Bytes that compaction is behind.
        debt_bytes: u64,
    },
}
