//! The state of a file that is written directly.

use super::pieces::{Extent, Way, pieces};
use super::{Edge, Operation, Verdict};
use crate::alignment::Alignment;
use crate::sys::Errno;

/// What the kernel has and what the memory holds of one appended file.
///
/// `base ≤ start ≤ end`: the kernel has `[0, start)`, the memory `[start, end)`, at the distance
/// from its own beginning that they have from `base`, the last aligned offset before them. All
/// zeros are a valid state of an empty file. Not thread-safe: its owner locks.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Staging {
    base: u64,
    start: u64,
    end: u64,
    position: u64,
}

impl Staging {
    /// A file that is all in the kernel, `size` bytes long, with the application's position.
    pub fn at(size: u64, position: u64) -> Self {
        Self {
            base: size,
            start: size,
            end: size,
            position,
        }
    }

    /// What must happen before the application's next operation.
    pub fn verdict(&self, operation: Operation) -> Verdict {
        operation.verdict(self.start, self.end, self.position)
    }

    /// Size of the file for the application.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Bytes that only the memory has.
    pub fn staged_bytes(&self) -> u64 {
        self.end - self.start
    }

    /// The application's position.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The kernel moved the application's position, or the size, while nothing was staged.
    pub fn moved(&mut self, size: u64, position: u64) {
        debug_assert_eq!(self.start, self.end, "only what is settled can be moved");
        *self = Self::at(size, position);
    }

    /// Takes `source` at the application's position, which must be the end of the file; writes
    /// whenever `memory` is full. Returns how many bytes were taken: all of them, or fewer if a
    /// write failed, whose error the next call reports.
    ///
    /// # Errors
    /// The error of a write, if no byte could be taken.
    pub fn append<E: Edge>(
        &mut self,
        edge: &mut E,
        memory: &mut [u8],
        alignment: Alignment,
        source: &[u8],
    ) -> Result<usize, Errno> {
        let mut taken = 0;
        while taken < source.len() {
            if self.end == self.start {
                self.base = alignment.down(self.start);
            }
            let used = (self.end - self.base) as usize;
            let room = memory.get_mut(used..).unwrap_or_default();
            if room.is_empty() {
                match self.write_out(edge, memory, alignment, Extent::WholeBlocks) {
                    Ok(()) => continue,
                    Err(_) if taken > 0 => break,
                    Err(errno) => return Err(errno),
                }
            }
            let count = room.len().min(source.len() - taken);
            if let (Some(to), Some(from)) =
                (room.get_mut(..count), source.get(taken..taken + count))
            {
                to.copy_from_slice(from);
            }
            taken += count;
            self.end += count as u64;
            self.position = self.end;
        }
        Ok(taken)
    }

    /// As [`Staging::append`], but everything is in the kernel when it returns.
    ///
    /// # Errors
    /// The error of a write, if the kernel took no byte.
    pub fn append_through<E: Edge>(
        &mut self,
        edge: &mut E,
        memory: &mut [u8],
        alignment: Alignment,
        source: &[u8],
    ) -> Result<usize, Errno> {
        let before = self.end;
        let mut taken = 0;
        let mut result = Ok(());
        while taken < source.len() && result.is_ok() {
            let room = memory.len() - (self.end - alignment.down(self.end)) as usize;
            let part = &source[taken..source.len().min(taken + room)];
            result = match self.append(edge, memory, alignment, part) {
                Ok(count) => {
                    taken += count;
                    self.write_out(edge, memory, alignment, Extent::Everything)
                }
                Err(errno) => Err(errno),
            };
        }
        // What the kernel did not take was never written, as far as anybody is told.
        self.end = self.start;
        self.position = self.start;
        let written = (self.end - before) as usize;
        match result {
            Err(errno) if written == 0 => Err(errno),
            _ => Ok(written),
        }
    }

    /// Brings everything to the kernel. What could not be written stays.
    ///
    /// # Errors
    /// The error of the write that failed.
    pub fn settle<E: Edge>(
        &mut self,
        edge: &mut E,
        memory: &mut [u8],
        alignment: Alignment,
    ) -> Result<(), Errno> {
        self.write_out(edge, memory, alignment, Extent::Everything)
    }

    fn write_out<E: Edge>(
        &mut self,
        edge: &mut E,
        memory: &mut [u8],
        alignment: Alignment,
        extent: Extent,
    ) -> Result<(), Errno> {
        let mut result = Ok(());
        let mut head_start = self.start;
        for piece in pieces(self.start, self.end, alignment, extent) {
            if piece.way == Way::Direct && head_start < piece.start {
                edge.write_back_before(head_start, piece.start);
            }
            head_start = piece.end;
            let from = (piece.start - self.base) as usize;
            let to = (piece.end - self.base) as usize;
            let Some(bytes) = memory.get(from..to) else {
                result = Err(Errno(libc::EIO));
                break;
            };
            let (written, outcome) = write_piece(edge, piece.way, bytes, piece.start, alignment);
            self.start = piece.start + written as u64;
            result = outcome;
            if result.is_err() {
                break;
            }
        }
        self.close_up(memory, alignment);
        result
    }

    /// Moves what is left to the beginning of the memory.
    fn close_up(&mut self, memory: &mut [u8], alignment: Alignment) {
        let base = alignment.down(self.start);
        if base > self.base {
            let from = (self.start - self.base) as usize;
            let to = (self.end - self.base) as usize;
            if from < to && to <= memory.len() {
                memory.copy_within(from..to, (self.start - base) as usize);
            }
            self.base = base;
        }
    }
}

/// Writes all bytes of a piece; returns how many the kernel took, and why not more. A direct
/// write that fails, or stops in the middle of a block, goes on through the page cache.
fn write_piece<E: Edge>(
    edge: &mut E,
    way: Way,
    bytes: &[u8],
    offset: u64,
    alignment: Alignment,
) -> (usize, Result<(), Errno>) {
    let mut way = way;
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        let at = offset + written as u64;
        let result = match way {
            Way::Direct => edge.write_direct(rest, at),
            Way::Cached => edge.write_cached(rest, at),
        };
        match (result, way) {
            (Ok(count), _) if count > 0 => {
                written += count.min(rest.len());
                if alignment.down(written as u64) != written as u64 {
                    way = Way::Cached;
                }
            }
            (Err(Errno(libc::EINTR)), _) => {}
            (Ok(_) | Err(_), Way::Direct) => way = Way::Cached,
            // Not even an error: nothing that repeating would change.
            (Ok(_), Way::Cached) => return (written, Err(Errno(libc::EIO))),
            (Err(errno), Way::Cached) => return (written, Err(errno)),
        }
    }
    (written, Ok(()))
}
