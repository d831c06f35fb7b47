//! Fixed-width and variable-length integers (`util/coding.h` of both engines).

/// Reads forward through `all`.
///
/// Every read returns `None` where the bytes end, or where a number does not fit its type.
#[derive(Clone, Debug)]
pub(super) struct Bytes<'b> {
    all: &'b [u8],
    position: usize,
}

impl<'b> Bytes<'b> {
    pub(super) fn new(all: &'b [u8]) -> Self {
        Self { all, position: 0 }
    }

    /// Starts at `position`. Nothing is left to read if that is behind the end.
    pub(super) fn from(all: &'b [u8], position: usize) -> Self {
        Self {
            all,
            position: position.min(all.len()),
        }
    }

    /// Bytes from the beginning of `all`.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    pub(super) fn is_empty(&self) -> bool {
        self.position == self.all.len()
    }

    pub(super) fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let taken = self.all.get(self.position..)?.get(..length)?;
        self.position += length;
        Some(taken)
    }

    pub(super) fn rest(&mut self) -> &'b [u8] {
        let rest = &self.all[self.position..];
        self.position = self.all.len();
        rest
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    pub(super) fn fixed32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(super) fn fixed64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    pub(super) fn varint64(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    pub(super) fn varint32(&mut self) -> Option<u32> {
        self.varint64()?.try_into().ok()
    }

    /// A signed number with its sign in the lowest bit (`zigzagToI64`).
    pub(super) fn signed_varint64(&mut self) -> Option<i64> {
        let folded = self.varint64()?;
        Some((folded >> 1) as i64 ^ -((folded & 1) as i64))
    }

    /// A length as varint32, and the bytes behind it.
    pub(super) fn length_prefixed(&mut self) -> Option<&'b [u8]> {
        let length = self.varint32()?;
        self.take(length as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldstream_testkit::database::varint;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_come_back(value: u64) {
            let bytes = varint(value);
            let mut read = Bytes::new(&bytes);
            prop_assert_eq!(read.varint64(), Some(value));
            prop_assert!(read.is_empty());
            prop_assert_eq!(Bytes::new(&bytes).varint32(), u32::try_from(value).ok());
            prop_assert_eq!(Bytes::new(&bytes[..bytes.len() - 1]).varint64(), None);
        }

        #[test]
        fn signed_varints_come_back(value: i64) {
            let bytes = varint(((value << 1) ^ (value >> 63)) as u64);
            prop_assert_eq!(Bytes::new(&bytes).signed_varint64(), Some(value));
        }
    }

    #[test]
    fn a_varint_of_more_than_64_bits_is_none() {
        let mut bytes = vec![0xff; 9];
        bytes.push(0x02);
        assert_eq!(Bytes::new(&bytes).varint64(), None);
        bytes[9] = 0x01;
        assert_eq!(Bytes::new(&bytes).varint64(), Some(u64::MAX));
        bytes[9] = 0x81;
        bytes.push(0);
        assert_eq!(Bytes::new(&bytes).varint64(), None);
    }

    #[test]
    fn lengths_never_reach_behind_the_end() {
        assert_eq!(Bytes::new(&[3, 1, 2]).length_prefixed(), None);
        assert_eq!(Bytes::new(&[2, 1, 2]).length_prefixed(), Some(&[1, 2][..]));
        assert_eq!(Bytes::from(&[1], 2).take(1), None);
    }
}
