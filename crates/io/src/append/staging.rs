//! The state of a file that is written directly.

use super::pieces::{Extent, Piece, Way, pieces};
use super::{Buffers, KernelIo, Operation, Verdict};
use crate::alignment::Alignment;
use crate::sys::Errno;

/// What the kernel has and what the memory holds of one appended file.
///
/// `base ≤ start ≤ end`: the kernel has `[0, start)`, the memory `[start, end)`. While one buffer is
/// being written, or could not be, it holds `[start, leaving_end)`, from `leaving_base` on; what is
/// behind it, or else everything, is in the other one, at the distance from its beginning that it
/// has from `base`. Bases are aligned. All zeros are a valid state of an empty file. Not
/// thread-safe: its owner locks.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Staging {
    base: u64,
    start: u64,
    end: u64,
    position: u64,
    leaving_base: u64,
    leaving_end: u64,
    /// The bytes up to `leaving_end` are being written.
    in_flight: bool,
}

impl Staging {
    /// A file that is all in the kernel, `size` bytes long, with the application's position.
    pub fn at(size: u64, position: u64) -> Self {
        Self {
            base: size,
            start: size,
            end: size,
            position,
            ..Self::default()
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
    pub fn set_size_and_position(&mut self, size: u64, position: u64) {
        debug_assert_eq!(self.start, self.end, "staged bytes must be drained first");
        *self = Self::at(size, position);
    }

    /// Whether so many more bytes do not fit into a buffer of this length.
    pub fn would_fill(&self, buffer_bytes: usize, more_bytes: usize) -> bool {
        (self.end - self.base).saturating_add(more_bytes as u64) > buffer_bytes as u64
    }

    /// Takes `source` at the application's position, which must be the end of the file; writes
    /// whenever the buffer is full, if possible while the other one is filled. Returns how many
    /// bytes were taken: all of them, or fewer if a write failed, whose error the next call reports.
    ///
    /// # Errors
    /// The error of a write, if no byte could be taken.
    pub fn append<E: KernelIo, B: Buffers>(
        &mut self,
        kernel: &mut E,
        buffers: &mut B,
        alignment: Alignment,
        source: &[u8],
    ) -> Result<usize, Errno> {
        if self.in_flight && kernel.direct_is_finished() {
            // The application hears of an error now, not when the next buffer is full.
            self.finish_in_flight(kernel, buffers, alignment)?;
        }
        let mut taken = 0;
        while taken < source.len() {
            if self.end == self.start {
                self.base = alignment.down(self.start);
            }
            let used = (self.end - self.base) as usize;
            let room = buffers.to_fill().get_mut(used..).unwrap_or_default();
            if room.is_empty() {
                match self.make_room(kernel, buffers, alignment) {
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
    pub fn append_write_through<E: KernelIo, B: Buffers>(
        &mut self,
        kernel: &mut E,
        buffers: &mut B,
        alignment: Alignment,
        source: &[u8],
    ) -> Result<usize, Errno> {
        let before = self.end;
        let mut taken = 0;
        let mut result = Ok(());
        while taken < source.len() && result.is_ok() {
            let ahead = (self.end - alignment.down(self.end)) as usize;
            let room = buffers.to_fill().len() - ahead;
            let part = &source[taken..source.len().min(taken + room)];
            result = match self.append(kernel, buffers, alignment, part) {
                Ok(count) => {
                    taken += count;
                    self.drain(kernel, buffers, alignment)
                }
                Err(errno) => Err(errno),
            };
        }
        // What the kernel did not take was never written, as far as anybody is told.
        *self = Self::at(self.start, self.start);
        let written = (self.end - before) as usize;
        match result {
            Err(errno) if written == 0 => Err(errno),
            _ => Ok(written),
        }
    }

    /// Brings everything to the kernel. What could not be written stays; nothing is in flight then.
    ///
    /// # Errors
    /// The error of the write that failed.
    pub fn drain<E: KernelIo, B: Buffers>(
        &mut self,
        kernel: &mut E,
        buffers: &mut B,
        alignment: Alignment,
    ) -> Result<(), Errno> {
        self.finish_in_flight(kernel, buffers, alignment)?;
        self.write_filled(kernel, buffers, alignment, Extent::Everything)
    }

    /// What is staged is void: the file was truncated to nothing. Whether a write was in flight then,
    /// of which nobody knows on which side of the truncation it was made.
    pub fn discard<E: KernelIo>(&mut self, kernel: &mut E) -> bool {
        let was_in_flight = self.in_flight;
        if was_in_flight {
            let _ = kernel.finish_direct();
        }
        *self = Self::at(0, self.position);
        was_in_flight
    }

    /// Empties the buffer that is full: its blocks take off, or are written.
    fn make_room<E: KernelIo, B: Buffers>(
        &mut self,
        kernel: &mut E,
        buffers: &mut B,
        alignment: Alignment,
    ) -> Result<(), Errno> {
        self.finish_in_flight(kernel, buffers, alignment)?;
        let ends_with_a_block = alignment.down(self.end) == self.end;
        if ends_with_a_block && !buffers.to_write().is_empty() {
            let head_start = self.start;
            let head_end = alignment.up(head_start);
            let filled = buffers.to_fill();
            let head = Stretch::new(filled, self.base, head_end);
            head.write(
                &mut self.start,
                kernel,
                alignment,
                Extent::WholeBlocks,
                None,
            )?;
            if head_start < head_end && head_end < self.end {
                kernel.write_back_before(head_start, head_end);
            }
            let blocks = filled.get((head_end - self.base) as usize..);
            if blocks
                .is_some_and(|blocks| !blocks.is_empty() && kernel.start_direct(blocks, head_end))
            {
                self.in_flight = true;
                self.leaving_base = self.base;
                self.leaving_end = self.end;
                self.base = self.end;
                buffers.swap();
                return Ok(());
            }
        }
        self.write_filled(kernel, buffers, alignment, Extent::WholeBlocks)
    }

    /// Waits for what is in flight. What did not arrive, then or earlier, is written now.
    fn finish_in_flight<E: KernelIo, B: Buffers>(
        &mut self,
        kernel: &mut E,
        buffers: &B,
        alignment: Alignment,
    ) -> Result<(), Errno> {
        let begun = std::mem::take(&mut self.in_flight).then(|| kernel.finish_direct());
        if self.start >= self.leaving_end {
            return Ok(());
        }
        // It ends with a block.
        let left = Stretch::new(buffers.to_write(), self.leaving_base, self.leaving_end);
        left.write(
            &mut self.start,
            kernel,
            alignment,
            Extent::WholeBlocks,
            begun,
        )
    }

    /// Writes what is in the buffer that is filled, once the other one is empty.
    fn write_filled<E: KernelIo, B: Buffers>(
        &mut self,
        kernel: &mut E,
        buffers: &mut B,
        alignment: Alignment,
        extent: Extent,
    ) -> Result<(), Errno> {
        let filled = Stretch::new(buffers.to_fill(), self.base, self.end);
        let result = filled.write(&mut self.start, kernel, alignment, extent, None);
        self.close_up(buffers.to_fill(), alignment);
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

/// Bytes of the file in a buffer.
struct Stretch<'a> {
    buffer: &'a [u8],
    base: u64,
    end: u64,
}

impl<'a> Stretch<'a> {
    /// Up to `end`, in a buffer that begins with the byte at `base`.
    fn new(buffer: &'a [u8], base: u64, end: u64) -> Self {
        Self { buffer, base, end }
    }

    /// Writes what is in it from `start` on, which moves along; of its first direct piece a write
    /// may have been `begun`, and ended so.
    fn write<E: KernelIo>(
        &self,
        start: &mut u64,
        kernel: &mut E,
        alignment: Alignment,
        extent: Extent,
        mut begun: Option<Result<usize, Errno>>,
    ) -> Result<(), Errno> {
        let mut head_start = *start;
        for piece in pieces(*start, self.end, alignment, extent) {
            if piece.way == Way::Direct && head_start < piece.start {
                kernel.write_back_before(head_start, piece.start);
            }
            head_start = piece.end;
            let from = (piece.start - self.base) as usize;
            let to = (piece.end - self.base) as usize;
            let bytes = self.buffer.get(from..to).ok_or(Errno(libc::EIO))?;
            let (written, outcome) = write_piece(kernel, piece, bytes, alignment, begun.take());
            *start = piece.start + written as u64;
            outcome?;
        }
        Ok(())
    }
}

/// Writes all bytes of a piece; returns how many the kernel took, and why not more. A direct
/// write that fails, or stops in the middle of a block, goes on through the page cache.
fn write_piece<E: KernelIo>(
    kernel: &mut E,
    piece: Piece,
    bytes: &[u8],
    alignment: Alignment,
    mut begun: Option<Result<usize, Errno>>,
) -> (usize, Result<(), Errno>) {
    let mut way = piece.way;
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        let at = piece.start + written as u64;
        let result = begun.take().unwrap_or_else(|| match way {
            Way::Direct => kernel.write_direct(rest, at),
            Way::Cached => kernel.write_cached(rest, at),
        });
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
