//! Reading a file from its beginning to its end, with parts skipped.

use std::io;

use crate::{Error, ReadAt, Result};

/// What is said of a file that ends within what is being read.
pub(super) const ENDS_EARLY: &str = "the file ends too early";

/// A buffered reader that is meant to move forwards. Moving back is possible, and reads again.
pub(super) struct ForwardReader<'a, R> {
    source: &'a R,
    /// Where the part that may be read ends, in bytes from the beginning of the file.
    end: u64,
    piece: usize,
    position: u64,
    buffer: Vec<u8>,
    buffer_start: u64,
}

impl<'a, R: ReadAt> ForwardReader<'a, R> {
    /// Reads `source` up to `end` in pieces of `piece` bytes.
    pub(super) fn new(source: &'a R, end: u64, piece: usize) -> Self {
        Self {
            source,
            end,
            piece,
            position: 0,
            buffer: Vec::new(),
            buffer_start: 0,
        }
    }

    /// Where the next byte will be read.
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

    /// Replaces what `into` holds by the next `length` bytes.
    pub(super) fn read(&mut self, length: u16, into: &mut Vec<u8>) -> Result<()> {
        into.clear();
        let mut missing = usize::from(length);
        while missing > 0 {
            let bytes = self.buffered()?;
            let taken = missing.min(bytes.len());
            into.extend_from_slice(&bytes[..taken]);
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

    /// A signed number that must not be negative.
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

    /// A signed number that must not be negative.
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

    /// A variable-length number: as many further bytes as the first has leading ones, whose other
    /// bits are the number's highest (`utils/vint/VIntCoding.java`, `readUnsignedVInt`, Cassandra
    /// 5.0.9). The value is one of a signed `long` and must not be negative.
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
                let length = (self.end - self.position).min(self.piece as u64) as usize;
                // Nothing is buffered unless the read succeeds.
                self.buffer.clear();
                let mut buffer = std::mem::take(&mut self.buffer);
                buffer.resize(length, 0);
                self.source.read_exact_at(&mut buffer, self.position)?;
                self.buffer = buffer;
                self.buffer_start = self.position;
                0
            }
        };
        // A source that fills less than it says would be its own mistake, not a table's.
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
