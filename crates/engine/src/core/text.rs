//! Text in a buffer of fixed size: for threads and moments that must not allocate.

use std::ffi::CStr;
use std::io::Write;

/// A line or a path, built without allocating; what does not fit is cut off.
pub struct Text<const BYTES: usize> {
    bytes: [u8; BYTES],
    length: usize,
}

impl<const BYTES: usize> Text<BYTES> {
    /// An empty text.
    pub(crate) fn new() -> Self {
        Self {
            bytes: [0; BYTES],
            length: 0,
        }
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// Ends the line with a newline, also if the text was cut off.
    pub fn end_line(&mut self) {
        self.length = self.length.min(BYTES - 1);
        let _ = writeln!(self);
    }

    /// The text as a path. It must have been written with a NUL at its end.
    pub fn as_c_str(&self) -> Option<&CStr> {
        CStr::from_bytes_until_nul(&self.bytes).ok()
    }
}

impl<const BYTES: usize> Write for Text<BYTES> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let room = self.bytes.get_mut(self.length..).unwrap_or_default();
        let count = bytes.len().min(room.len());
        for (target, byte) in room.iter_mut().zip(bytes) {
            *target = *byte;
        }
        self.length += count;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_not_overrun() {
        let mut text = Text::<8>::new();
        let _ = write!(text, "0123456789");
        assert_eq!(text.as_bytes(), b"01234567");
    }
}
