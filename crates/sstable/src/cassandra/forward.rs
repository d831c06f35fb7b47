//! Reads a file from its beginning to its end, and skips parts of it without reading them.

use std::io;

use crate::memory::{self, TryVec};
use crate::{Error, ReadAt, Result};

/// The error text for a file that ends within a value.
pub(super) const ENDS_EARLY: &str = "the file ends too early";

/// A buffered reader that moves forwards. It can move back, but then reads the bytes again.
pub(super) struct ForwardReader<'a, R> {
    source: &'a R,
    /// The reader stops here, in bytes from the beginning of the file.
    end: u64,
    piece_bytes: usize,
    position: u64,
    buffer: Vec<u8>,
    buffer_start: u64,
}

impl<'a, R: ReadAt> ForwardReader<'a, R> {
    /// Reads `source` up to `end`, at most `piece_bytes` at a time.
    pub(super) fn new(source: &'a R, end: u64, piece_bytes: usize) -> Self {
        Self {
            source,
            end,
            piece_bytes,
            position: 0,
            buffer: Vec::new(),
            buffer_start: 0,
        }
    }

    /// Offset in the file of the next byte.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.position == self.end
    }

    pub(super) fn seek(&mut self, position: u64) -> Result<()> {
        if position > self.end {
            return Err(self.ends_early());
        }
        self.position = position;
        Ok(())
    }

    pub(super) fn skip(&mut self, bytes: u64) -> Result<()> {
        let position = self.position.checked_add(bytes).ok_or(self.ends_early())?;
        self.seek(position)
    }

    /// Replaces the contents of `into` by the next `length` bytes.
    pub(super) fn read(&mut self, length: u16, into: &mut Vec<u8>) -> Result<()> {
        into.clear();
        let mut missing = usize::from(length);
        while missing > 0 {
            let bytes = self.buffered()?;
            let taken = missing.min(bytes.len());
            memory::append(&bytes[..taken], into)?;
            self.position += taken as u64;
            missing -= taken;
        }
        Ok(())
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        let byte = self.buffered()?[0];
        self.position += 1;
        Ok(byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_be_bytes([self.u8()?, self.u8()?]))
    }

    /// A signed number of 4 bytes that must not be negative.
    pub(super) fn length(&mut self) -> Result<u32> {
        let at = self.position;
        let mut bytes = [0; 4];
        for byte in &mut bytes {
            *byte = self.u8()?;
        }
        u32::try_from(i32::from_be_bytes(bytes)).map_err(|_| Error::Malformed {
            what: "a negative length",
            offset: at,
        })
    }

    /// A signed number of 8 bytes that must not be negative.
    pub(super) fn long_length(&mut self) -> Result<u64> {
        let at = self.position;
        let mut bytes = [0; 8];
        for byte in &mut bytes {
            *byte = self.u8()?;
        }
        u64::try_from(i64::from_be_bytes(bytes)).map_err(|_| Error::Malformed {
            what: "a negative length",
            offset: at,
        })
    }

    /// A number of variable length that must not be negative as a signed `long`.
    ///
    /// The leading ones of the first byte count the bytes that follow. Its other bits are the
    /// highest of the number. Source: `readUnsignedVInt` in `utils/vint/VIntCoding.java`
    /// (Cassandra 5.0.9).
    pub(super) fn variable_length(&mut self) -> Result<u64> {
        let at = self.position;
        let first = self.u8()?;
        let further = first.leading_ones();
        let mut value = u64::from(first) & (0xff_u64 >> further);
        for _ in 0..further {
            value = value << 8 | u64::from(self.u8()?);
        }
        if value > i64::MAX.cast_unsigned() {
            return Err(Error::Malformed {
                what: "a negative number",
                offset: at,
            });
        }
        Ok(value)
    }

    /// At least one byte from the position on.
    fn buffered(&mut self) -> Result<&[u8]> {
        if self.position >= self.end {
            return Err(self.ends_early());
        }
        let inside = self.position.checked_sub(self.buffer_start);
        let inside = inside.filter(|&from| from < self.buffer.len() as u64);
        let from = match inside {
            Some(from) => from as usize,
            None => {
                let length = (self.end - self.position).min(self.piece_bytes as u64) as usize;
                // The buffer stays empty if the read fails.
                self.buffer.clear();
                let mut buffer = std::mem::take(&mut self.buffer);
                buffer.try_resize(length, 0)?;
                self.source.read_exact_at(&mut buffer, self.position)?;
                self.buffer = buffer;
                self.buffer_start = self.position;
                0
            }
        };
        // Unreachable with a correct source: it is not the SSTable that is malformed.
        match &self.buffer[from..] {
            [] => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            bytes => Ok(bytes),
        }
    }

    fn ends_early(&self) -> Error {
        Error::Malformed {
            what: ENDS_EARLY,
            offset: self.end,
        }
    }
}
