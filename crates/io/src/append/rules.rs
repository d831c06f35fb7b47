//! Which of the application's calls see staged bytes, and what must happen before them, as a table
//! (docs/design/invariants.md: `write` returning means visible).

use crate::alignment::PAGE_BYTES;

/// The application's next operation on a staged file, by any thread and any descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `write` to the staged descriptor.
    Write,
    /// A positional read of `[start, end)`.
    ReadAt {
        /// First byte.
        start: u64,
        /// The byte after the last.
        end: u64,
    },
    /// A call that sees the whole file: by another descriptor, or of the C interface.
    Observe,
    /// A read at the staged descriptor's position. It moves the position.
    Read,
    /// `fsync`, `fdatasync`, `sync_file_range`.
    Sync,
    /// An `lseek` that only asks for the staged descriptor's position.
    AskPosition,
    /// A call that moves the staged descriptor's position, or may move it.
    MovePosition,
    /// An `lseek` to the file's end.
    MoveToEnd,
    /// Another `lseek` to a place that depends on the file's size or content.
    MoveByContent,
    /// `ftruncate`.
    Truncate,
    /// `fallocate` that keeps the size.
    Preallocate,
    /// A private or read-only mapping of the bytes before `end`.
    Map {
        /// The byte after the last.
        end: u64,
    },
    /// Any other call.
    Unknown,
}

/// What must happen before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The bytes may go into the buffer: they continue the file.
    Buffer,
    /// Nothing: the call sees no staged byte.
    Proceed,
    /// Answer the call with this position, which only the writer knows.
    Answer(u64),
    /// Write all staged bytes to the kernel and make the call. Staging goes on.
    Drain,
    /// Write all staged bytes to the kernel, and use plain writes for this file from now on.
    FallBack,
}

impl Operation {
    /// The verdict for a file. The kernel has its bytes `[0, start)`, the memory has `[start, end)`.
    pub fn verdict(self, start: u64, end: u64, position: u64) -> Verdict {
        match self {
            // A write that is not at the end appends nothing.
            Operation::Write if position == end => Verdict::Buffer,
            Operation::ReadAt { end: read_end, .. } if read_end <= start => Verdict::Proceed,
            // A mapping shows the page cache during its whole life. It is harmless only if none of its pages
            // can get a later byte.
            Operation::Map { end: mapped_end } => {
                let drained_pages_end = end & !(PAGE_BYTES - 1);
                if mapped_end <= drained_pages_end {
                    Verdict::Drain
                } else {
                    Verdict::FallBack
                }
            }
            Operation::AskPosition => Verdict::Answer(position),
            Operation::MoveToEnd if position == end => Verdict::Answer(position),
            Operation::Preallocate => Verdict::Proceed,
            Operation::ReadAt { .. }
            | Operation::Observe
            | Operation::Sync
            | Operation::MovePosition
            | Operation::MoveToEnd
            | Operation::MoveByContent
            | Operation::Truncate => Verdict::Drain,
            Operation::Write | Operation::Read | Operation::Unknown => Verdict::FallBack,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_that_cannot_see_staged_bytes_proceed() {
        let verdict = |operation: Operation| operation.verdict(8192, 10_000, 10_000);
        assert_eq!(verdict(Operation::Write), Verdict::Buffer);
        assert_eq!(
            Operation::Write.verdict(8192, 10_000, 9_000),
            Verdict::FallBack
        );
        let read = |start, end| verdict(Operation::ReadAt { start, end });
        assert_eq!(read(0, 8192), Verdict::Proceed);
        assert_eq!(read(0, 8193), Verdict::Drain);
        // Also beyond the end: only the kernel knows whether there is a byte.
        assert_eq!(read(20_000, 20_001), Verdict::Drain);
        assert_eq!(verdict(Operation::Map { end: 8192 }), Verdict::Drain);
        assert_eq!(verdict(Operation::Map { end: 8193 }), Verdict::FallBack);
        assert_eq!(verdict(Operation::AskPosition), Verdict::Answer(10_000));
        assert_eq!(verdict(Operation::MoveToEnd), Verdict::Answer(10_000));
        let to_end = Operation::MoveToEnd.verdict(8192, 10_000, 5);
        assert_eq!(to_end, Verdict::Drain, "the position moves");
        assert_eq!(verdict(Operation::Unknown), Verdict::FallBack);
    }
}
