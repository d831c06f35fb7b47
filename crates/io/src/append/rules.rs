//! Which of the application's calls sees staged bytes, and what must happen before it, as a table
//! (docs/design/invariants.md: `write` returning means visible).

use crate::alignment::PAGE_BYTES;

/// What the application is about to do with a staged file, by any thread and any descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `write` to the staged descriptor.
    Append,
    /// A positional read of `[start, end)`.
    ReadAt {
        /// First byte.
        start: u64,
        /// WritebackProgress the last.
        end: u64,
    },
    /// Whatever tells the size, and reads without a range: `fstat`, `sendfile`, `link`, …
    Observe,
    /// A read at the staged descriptor's position, which it moves.
    Read,
    /// `fsync`, `fdatasync`, `sync_file_range`.
    Sync,
    /// Asks for the staged descriptor's position and moves nothing.
    AskPosition,
    /// Moves the staged descriptor's position, or may.
    MovePosition,
    /// `ftruncate`.
    Truncate,
    /// `fallocate` that keeps the size.
    Preallocate,
    /// A private or read-only mapping of the bytes before `end`.
    Map {
        /// WritebackProgress the last byte.
        end: u64,
    },
    /// Anything else.
    Unknown,
}

/// What must happen first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The bytes are taken into memory.
    Buffer,
    /// Nothing: the call sees no staged byte.
    Proceed,
    /// The call is answered with the position that only the writer knows.
    Answer(u64),
    /// Everything goes to the kernel; then the call is made, and staging goes on.
    Drain,
    /// Everything goes to the kernel, and the file is the kernel's alone for good.
    FallBack,
}

impl Operation {
    /// The verdict for a file of which the kernel has `[0, start)` and the memory `[start, end)`.
    pub fn verdict(self, start: u64, end: u64, position: u64) -> Verdict {
        match self {
            // A write elsewhere than at the end is no appending.
            Operation::Append if position == end => Verdict::Buffer,
            Operation::ReadAt { end, .. } if end <= start => Verdict::Proceed,
            // A mapping shows the page cache for as long as it lives: harmless only if no byte
            // that is yet to be written can lie within its pages.
            Operation::Map { end: mapped } => {
                let drained_pages_end = end & !(PAGE_BYTES - 1);
                if mapped <= drained_pages_end {
                    Verdict::Drain
                } else {
                    Verdict::FallBack
                }
            }
            Operation::AskPosition => Verdict::Answer(position),
            Operation::Preallocate => Verdict::Proceed,
            Operation::ReadAt { .. }
            | Operation::Observe
            | Operation::Sync
            | Operation::MovePosition
            | Operation::Truncate => Verdict::Drain,
            Operation::Append | Operation::Read | Operation::Unknown => Verdict::FallBack,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_cannot_see_staged_bytes_is_left_alone() {
        let verdict = |operation: Operation| operation.verdict(8192, 10_000, 10_000);
        assert_eq!(verdict(Operation::Append), Verdict::Buffer);
        assert_eq!(
            Operation::Append.verdict(8192, 10_000, 9_000),
            Verdict::FallBack
        );
        let read = |start, end| verdict(Operation::ReadAt { start, end });
        assert_eq!(read(0, 8192), Verdict::Proceed);
        assert_eq!(read(0, 8193), Verdict::Drain);
        // Even beyond the end: whether there is a byte is for the kernel to say.
        assert_eq!(read(20_000, 20_001), Verdict::Drain);
        assert_eq!(verdict(Operation::Map { end: 8192 }), Verdict::Drain);
        assert_eq!(verdict(Operation::Map { end: 8193 }), Verdict::FallBack);
        assert_eq!(verdict(Operation::AskPosition), Verdict::Answer(10_000));
        assert_eq!(verdict(Operation::Unknown), Verdict::FallBack);
    }
}
