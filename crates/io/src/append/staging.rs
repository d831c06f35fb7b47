//! The state of a file that is written directly.

use super::pieces::{Piece, Portion, Way, pieces};
use super::{Buffers, KernelIo, Operation, Verdict};
use crate::alignment::Alignment;
use crate::sys::Errno;

/// The state of one appended file: which bytes the kernel has, and which bytes the memory has.
///
/// - `base ≤ start ≤ end`. The kernel has `[0, start)`, the memory has `[start, end)`.
/// - A byte lies in the buffer to fill, at the distance from the buffer's beginning that it has from
///   `base`.
/// - While a write is in flight, or after it has failed, the buffer to write has the bytes
///   `[start, write_end)`. It begins with the byte at `write_base`. Only later bytes are in the buffer to
///   fill then.
/// - `base` and `write_base` are aligned.
///
/// All zeros are valid: an empty file. Not thread-safe: its owner locks.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Staging {
    base: u64,
    start: u64,
    end: u64,
    position: u64,
    write_base: u64,
    write_end: u64,
    /// The write of the bytes up to `write_end` is in flight.
    in_flight: bool,
    /// What went through the page cache last.
    cached: Cached,
}

/// Bytes that went through the page cache, and may not be on the device. All zeros: there are none.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Cached {
    start: u64,
    end: u64,
}

impl Cached {
    /// More bytes went through the page cache: they continue the former ones, or nothing of these is left to
    /// be written back.
    fn record(&mut self, start: u64, end: u64) {
        if self.start == self.end {
            self.start = start;
        }
        self.end = end;
    }

    /// Those before the file's end.
    fn before(self, end: u64) -> Self {
        Self {
            start: self.start.min(end),
            end: self.end.min(end),
        }
    }

    /// Writes them back before a direct write behind them. So a power cut leaves no gap.
    fn write_back<E: KernelIo>(&mut self, kernel: &mut E) {
        if self.start < self.end {
            kernel.write_back_before(self.start, self.end);
        }
        *self = Self::default();
    }
}

impl Staging {
    /// A file of `size` bytes that the kernel has completely, with the application's position.
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

    /// The size of the file that the application sees.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// How many bytes the kernel is known to have.
    pub fn landed(&self) -> u64 {
        self.start
    }

    /// How many bytes only the memory has.
    pub fn staged_bytes(&self) -> u64 {
        self.end - self.start
    }

    /// The application's position.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Sets size and position to the kernel's. No byte may be staged.
    pub fn set_size_and_position(&mut self, size: u64, position: u64) {
        debug_assert_eq!(self.start, self.end, "staged bytes must be drained first");
        *self = Self {
            cached: self.cached.before(size),
            ..Self::at(size, position)
        };
    }

    /// Whether `more_bytes` would not fit into a buffer of `buffer_bytes`.
    pub fn would_fill(&self, buffer_bytes: usize, more_bytes: usize) -> bool {
        (self.end - self.base).saturating_add(more_bytes as u64) > buffer_bytes as u64
    }

    /// Takes `source` at the application's position, which must be the end of the file. A full buffer is
    /// written, if possible while the other one is filled.
    ///
    /// Returns how many bytes were taken. They are fewer than `source` only if a write failed; the next call
    /// reports its error.
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
            // Reports an error now, and not only when the next buffer is full.
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

    /// As [`Staging::append`], but the kernel has all bytes when it returns.
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
        // The application learns that the kernel did not take the rest. So the rest was never written.
        *self = Self {
            cached: self.cached,
            ..Self::at(self.start, self.start)
        };
        let written = (self.end - before) as usize;
        match result {
            Err(errno) if written == 0 => Err(errno),
            _ => Ok(written),
        }
    }

    /// Writes all staged bytes to the kernel. No write is in flight afterwards. Bytes that could not be
    /// written stay.
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
        self.write_filled(kernel, buffers, alignment, Portion::Everything)
    }

    /// Discards all staged bytes: the file was truncated to nothing. Returns whether a write was in flight.
    /// It may have reached the file before the truncation or after it.
    pub fn discard<E: KernelIo>(&mut self, kernel: &mut E) -> bool {
        let was_in_flight = self.in_flight;
        if was_in_flight {
            let _ = kernel.finish_direct();
        }
        *self = Self::at(0, self.position);
        was_in_flight
    }

    /// Empties the full buffer: starts the write of its blocks, or makes it.
    fn make_room<E: KernelIo, B: Buffers>(
        &mut self,
        kernel: &mut E,
        buffers: &mut B,
        alignment: Alignment,
    ) -> Result<(), Errno> {
        self.finish_in_flight(kernel, buffers, alignment)?;
        let ends_at_block = alignment.down(self.end) == self.end;
        if ends_at_block && !buffers.to_write().is_empty() {
            let head_end = alignment.up(self.start);
            let filled = buffers.to_fill();
            let head = BufferedRange::new(filled, self.base, head_end);
            let (start, cached) = (&mut self.start, &mut self.cached);
            head.write(start, cached, kernel, alignment, Portion::WholeBlocks, None)?;
            let blocks = filled.get((head_end - self.base) as usize..);
            let blocks = blocks.filter(|blocks| !blocks.is_empty());
            if blocks.is_some() {
                self.cached.write_back(kernel);
            }
            if blocks.is_some_and(|blocks| kernel.start_direct(blocks, head_end)) {
                self.in_flight = true;
                self.write_base = self.base;
                self.write_end = self.end;
                self.base = self.end;
                buffers.swap();
                return Ok(());
            }
        }
        self.write_filled(kernel, buffers, alignment, Portion::WholeBlocks)
    }

    /// Waits for the write in flight. Bytes of the buffer to write that did not arrive are written now.
    fn finish_in_flight<E: KernelIo, B: Buffers>(
        &mut self,
        kernel: &mut E,
        buffers: &B,
        alignment: Alignment,
    ) -> Result<(), Errno> {
        let first_result = std::mem::take(&mut self.in_flight).then(|| kernel.finish_direct());
        if self.start >= self.write_end {
            return Ok(());
        }
        // The buffer to write ends at a block's end.
        let rest = BufferedRange::new(buffers.to_write(), self.write_base, self.write_end);
        let (start, cached) = (&mut self.start, &mut self.cached);
        rest.write(
            start,
            cached,
            kernel,
            alignment,
            Portion::WholeBlocks,
            first_result,
        )
    }

    /// Writes the buffer to fill. The other one must be empty.
    fn write_filled<E: KernelIo, B: Buffers>(
        &mut self,
        kernel: &mut E,
        buffers: &mut B,
        alignment: Alignment,
        portion: Portion,
    ) -> Result<(), Errno> {
        let filled = BufferedRange::new(buffers.to_fill(), self.base, self.end);
        let (start, cached) = (&mut self.start, &mut self.cached);
        let result = filled.write(start, cached, kernel, alignment, portion, None);
        self.move_to_front(buffers.to_fill(), alignment);
        result
    }

    /// Moves the bytes that are left to the beginning of the memory.
    fn move_to_front(&mut self, memory: &mut [u8], alignment: Alignment) {
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

/// A range of the file in a buffer.
struct BufferedRange<'a> {
    buffer: &'a [u8],
    base: u64,
    end: u64,
}

impl<'a> BufferedRange<'a> {
    /// The bytes up to `end`, in a buffer that begins with the byte at `base`.
    fn new(buffer: &'a [u8], base: u64, end: u64) -> Self {
        Self { buffer, base, end }
    }

    /// Writes its bytes from `start` on, moves `start` along, and records what went through the page cache.
    /// `first_result` is the result of a write
    /// that was made already: that of the first piece.
    fn write<E: KernelIo>(
        &self,
        start: &mut u64,
        cached: &mut Cached,
        kernel: &mut E,
        alignment: Alignment,
        portion: Portion,
        mut first_result: Option<Result<usize, Errno>>,
    ) -> Result<(), Errno> {
        for piece in pieces(*start, self.end, alignment, portion) {
            // A write in flight had its turn when it was started.
            if piece.way == Way::Direct && first_result.is_none() {
                cached.write_back(kernel);
            }
            let from = (piece.start - self.base) as usize;
            let to = (piece.end - self.base) as usize;
            let bytes = self.buffer.get(from..to).ok_or(Errno(libc::EIO))?;
            let written = write_piece(kernel, piece, bytes, alignment, first_result.take());
            *start = piece.start + written.bytes as u64;
            if let Some(from) = written.cached_from {
                cached.record(piece.start + from as u64, *start);
            }
            written.outcome?;
        }
        Ok(())
    }
}

/// What the kernel took of a piece.
struct Written {
    bytes: usize,
    /// The first of them that went through the page cache. All later ones went there, too.
    cached_from: Option<usize>,
    outcome: Result<(), Errno>,
}

/// Writes all bytes of a piece. After a direct write that failed, or stopped within a block, the rest goes
/// through the page cache.
fn write_piece<E: KernelIo>(
    kernel: &mut E,
    piece: Piece,
    bytes: &[u8],
    alignment: Alignment,
    mut first_result: Option<Result<usize, Errno>>,
) -> Written {
    let mut way = piece.way;
    let mut written = Written {
        bytes: 0,
        cached_from: None,
        outcome: Ok(()),
    };
    while let Some(rest) = bytes.get(written.bytes..).filter(|rest| !rest.is_empty()) {
        let at = piece.start + written.bytes as u64;
        let result = first_result.take().unwrap_or_else(|| match way {
            Way::Direct => kernel.write_direct(rest, at),
            Way::Cached => kernel.write_cached(rest, at),
        });
        match (result, way) {
            (Ok(count), _) if count > 0 => {
                if way == Way::Cached {
                    written.cached_from.get_or_insert(written.bytes);
                }
                written.bytes += count.min(rest.len());
                if alignment.down(written.bytes as u64) != written.bytes as u64 {
                    way = Way::Cached;
                }
            }
            (Err(Errno(libc::EINTR)), _) => {}
            (Ok(_) | Err(_), Way::Direct) => way = Way::Cached,
            // No byte and no error: a repetition would change nothing.
            (Ok(_), Way::Cached) => written.outcome = Err(Errno(libc::EIO)),
            (Err(errno), Way::Cached) => written.outcome = Err(errno),
        }
        if written.outcome.is_err() {
            break;
        }
    }
    written
}
