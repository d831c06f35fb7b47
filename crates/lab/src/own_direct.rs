//! The engine's own direct I/O as a mode: for compaction's reads, for its writes, or for both.

/// The operations for which the engine's own direct I/O is switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnDirect {
    /// Reads.
    Reads,
    /// Writes.
    Writes,
    /// Both.
    ReadsWrites,
}

impl OwnDirect {
    const ALL: [OwnDirect; 3] = [OwnDirect::Reads, OwnDirect::Writes, OwnDirect::ReadsWrites];

    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            OwnDirect::Reads => "direct-reads",
            OwnDirect::Writes => "direct-writes",
            OwnDirect::ReadsWrites => "direct-reads-writes",
        }
    }

    /// The value with this name.
    pub fn from_name(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.name() == text)
    }

    /// Whether reads are direct.
    pub fn reads(self) -> bool {
        self != OwnDirect::Writes
    }

    /// Whether writes are direct.
    pub fn writes(self) -> bool {
        self != OwnDirect::Reads
    }
}
