//! One window of a stream.

use super::context::ReadContext;
use super::observer::ScanObserver;
use super::outcome::Fallback;
use super::sequence::WINDOW_BYTES_MIN;
use crate::pool::WindowMemory;

/// What a window holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum State {
    /// Nothing.
    Empty = 0,
    /// The kernel is writing into its memory.
    InFlight,
    /// `filled_bytes` of the file.
    Filled,
    /// No memory: the range is resident, and is copied out of the page cache.
    Cached,
    /// Memory that is read when the consumer arrives.
    Pending,
}

/// A range of the file, with memory or without. All-zero memory is a valid empty one.
pub(super) struct Window {
    pub(super) memory: WindowMemory,
    pub(super) start: u64,
    pub(super) length_bytes: usize,
    pub(super) filled_bytes: usize,
    pub(super) state: State,
}

impl Window {
    pub(super) fn end(&self) -> u64 {
        self.start + self.length_bytes as u64
    }

    /// Bytes of the window that lie within a file of `size_bytes`.
    pub(super) fn in_file_bytes(&self, size_bytes: u64) -> u64 {
        (size_bytes - self.start).min(self.length_bytes as u64)
    }

    /// Gets memory for `length_bytes`, and reuses what the window has. Returns the length that the
    /// memory is good for. The consumer's own window (`is_needed`) accepts less.
    pub(super) fn take_memory<O: ScanObserver>(
        &mut self,
        length_bytes: usize,
        is_needed: bool,
        context: &ReadContext<'_, O>,
    ) -> Result<usize, Fallback> {
        let memory = &mut self.memory;
        if memory.bytes() >= length_bytes && memory.bytes() <= context.window_bytes {
            return Ok(length_bytes);
        }
        context.shared.pool.give_back(std::mem::take(memory));
        let mut bytes = length_bytes;
        loop {
            if let Some(taken) = context.shared.pool.take(bytes) {
                *memory = taken;
                return Ok(length_bytes.min(memory.bytes()));
            }
            if !is_needed || bytes <= WINDOW_BYTES_MIN {
                return Err(Fallback::MemoryCap);
            }
            bytes = WINDOW_BYTES_MIN
                .max(bytes / 2)
                .next_multiple_of(WINDOW_BYTES_MIN);
        }
    }
}
