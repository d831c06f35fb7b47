//! An engine's own direct I/O as a mode: of compaction's reads, of its writes, or both.

/// `direct-reads`, `direct-writes` or `direct-reads-writes`.
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

    /// As written on the command line.
    pub fn name(self) -> &'static str {
        match self {
            OwnDirect::Reads => "direct-reads",
            OwnDirect::Writes => "direct-writes",
            OwnDirect::ReadsWrites => "direct-reads-writes",
        }
    }

    /// The one of that name.
    pub fn from_name(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.name() == text)
    }

    /// Whether reads are direct.
    pub fn reads(self) -> bool {
        self != OwnDirect::Writes
    }

    /// Whether writes are.
    pub fn writes(self) -> bool {
        self != OwnDirect::Reads
    }
}
