//! How much of a file is read.

use std::cell::Cell;
use std::io;

use coldstream_sstable::ReadAt;

/// A file that counts what is read of it.
pub struct Counted<'a> {
    bytes: &'a [u8],
    read: Cell<u64>,
}

impl<'a> Counted<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        let read = Cell::new(0);
        Self { bytes, read }
    }

    /// Bytes that have been read.
    pub fn read(&self) -> u64 {
        self.read.get()
    }
}

impl ReadAt for Counted<'_> {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        assert!(buffer.len() <= 1 << 20, "no piece is longer than 1 MiB");
        self.read.set(self.read.get() + buffer.len() as u64);
        self.bytes.read_exact_at(buffer, offset)
    }

    fn size(&self) -> io::Result<u64> {
        self.bytes.size()
    }
}
