//! The nodes of a trie on disk.
//!
//! A node begins with four bits for its type. The next four bits are the type of its payload. In the
//! two node types without payload they are part of the pointer. Children are written before their
//! parents. A pointer is the distance back to the child.
//!
//! Source (Cassandra 5.0.9, 6.0-alpha2): `io/tries/TrieNode.java`. The contents of a partition's
//! leaf: `io/sstable/format/bti/PartitionIndex.java` (`PartitionIndexSerializer`, `getIndexPos`)
//! with `io/util/SizedInts.java`.

use crate::{Error, Result};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// No child.
    PayloadOnly,
    /// One child: its byte, its pointer.
    Single,
    /// The number of children, all their bytes, all their pointers.
    Sparse,
    /// The first child's byte, the last child's distance from it, a pointer for each byte between
    /// them. A pointer of 0 means no child.
    Dense,
}

/// Shape of each type, and the bits of its pointers. The header holds pointers below a byte.
const TYPES: [(Shape, usize); 16] = [
    (Shape::PayloadOnly, 0),
    (Shape::Single, 4),
    (Shape::Single, 8),
    (Shape::Single, 12),
    (Shape::Single, 16),
    (Shape::Sparse, 8),
    (Shape::Sparse, 12),
    (Shape::Sparse, 16),
    (Shape::Sparse, 24),
    (Shape::Sparse, 40),
    (Shape::Dense, 12),
    (Shape::Dense, 16),
    (Shape::Dense, 24),
    (Shape::Dense, 32),
    (Shape::Dense, 40),
    (Shape::Dense, 64),
];

/// The contents of a partition's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Payload {
    pub(super) filter_hash: Option<u8>,
    pub(super) target: Target,
}

/// Where a payload points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The partition's position in the uncompressed data.
    Data(u64),
    /// The partition's entry in the index of rows.
    Rows(u64),
}

/// A link from a node to a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Child {
    /// The child's slot in its node.
    pub(super) slot: usize,
    /// The next byte of the key.
    pub(super) transition: u8,
    /// Where the child begins in the file. It is always before its parent.
    pub(super) position: u64,
}

/// A node that lies completely in its bytes.
pub(super) struct Node<'a> {
    position: u64,
    bytes: &'a [u8],
    shape: Shape,
    pointer_bits: usize,
    slots: usize,
    payload_at: usize,
}

impl<'a> Node<'a> {
    /// The node at `position` of the file. `bytes` begin with it.
    pub(super) fn parse(position: u64, bytes: &'a [u8]) -> Result<Self> {
        let too_short = Error::Malformed {
            what: "a node crosses the boundary of a page",
            offset: position,
        };
        let Some(&header) = bytes.first() else {
            return Err(too_short);
        };
        let (shape, pointer_bits) = TYPES[usize::from(header >> 4)];
        let pointers = |slots: usize| (slots * pointer_bits).div_ceil(8);
        let byte = |index: usize| bytes.get(index).copied().map(usize::from);
        let sizes = match shape {
            Shape::PayloadOnly => Some((0, 1)),
            // The header holds four bits of a pointer of four or twelve bits.
            Shape::Single => Some((1, 2 + pointer_bits / 8)),
            Shape::Sparse => byte(1).map(|slots| (slots, 2 + slots + pointers(slots))),
            Shape::Dense => byte(2).map(|last| (last + 1, 3 + pointers(last + 1))),
        };
        let Some((slots, payload_at)) = sizes else {
            return Err(too_short);
        };
        let node = Self {
            position,
            bytes,
            shape,
            pointer_bits,
            slots,
            payload_at,
        };
        if payload_at + node.payload_length() > bytes.len() {
            return Err(too_short);
        }
        Ok(node)
    }

    /// The first child in `slot` or behind it.
    pub(super) fn child_from(&self, slot: usize) -> Result<Option<Child>> {
        for slot in slot..self.slots {
            let distance = self.distance(slot);
            if distance == 0 && self.shape == Shape::Dense {
                continue;
            }
            // A pointer always leads back, hence no walk goes round in a circle.
            let position = self.position.checked_sub(distance);
            let Some(position) = position.filter(|_| distance > 0) else {
                return Err(self.malformed("a node that is not after its child"));
            };
            let Some(transition) = self.transition(slot) else {
                return Err(self.malformed("a node with children beyond the last byte"));
            };
            if self.shape == Shape::Sparse
                && slot > 0
                && self.transition(slot - 1) >= Some(transition)
            {
                return Err(self.malformed("a node whose children are not in order"));
            }
            return Ok(Some(Child {
                slot,
                transition,
                position,
            }));
        }
        Ok(None)
    }

    /// The first child whose byte is `byte` or more.
    pub(super) fn child_from_byte(&self, byte: u8) -> Result<Option<Child>> {
        let below = |&slot: &usize| self.transition(slot).is_some_and(|other| other < byte);
        self.child_from((0..self.slots).take_while(below).count())
    }

    /// The first child of a node that is no partition. Such a node has at least one.
    pub(super) fn first_child(&self) -> Result<Child> {
        let child = self.child_from(0)?;
        child.ok_or(self.malformed("a node without children that is no partition"))
    }

    /// The node's payload, if the node is a partition.
    ///
    /// Such a node has no children: no byte-comparable form is a prefix of another.
    pub(super) fn payload(&self) -> Result<Option<Payload>> {
        let length = self.payload_length();
        if length == 0 {
            return Ok(None);
        }
        if self.slots > 0 {
            return Err(self.malformed("a partition's node that has children"));
        }
        let bytes = &self.bytes[self.payload_at..self.payload_at + length];
        let (filter_hash, number) = match bytes.split_first() {
            Some((&hash, number)) if self.payload_bits() >= 8 => (Some(hash), number),
            _ => (None, bytes),
        };
        let unsigned = big_endian(number);
        let unused_bits = 64 - 8 * number.len();
        let number = (unsigned << unused_bits).cast_signed() >> unused_bits;
        Ok(Some(Payload {
            filter_hash,
            target: match u64::try_from(number) {
                Ok(position) => Target::Rows(position),
                Err(_) => Target::Data((!number).cast_unsigned()),
            },
        }))
    }

    fn malformed(&self, what: &'static str) -> Error {
        Error::Malformed {
            what,
            offset: self.position,
        }
    }

    /// The payload's type. 0 to 7: bytes of a signed number. 8 to 15: a byte of hash, then a signed
    /// number of 1 to 8 bytes.
    fn payload_bits(&self) -> usize {
        let in_use = !(self.shape == Shape::Single && matches!(self.pointer_bits, 4 | 12));
        if in_use {
            usize::from(self.bytes[0] & 0x0f)
        } else {
            0
        }
    }

    fn payload_length(&self) -> usize {
        match self.payload_bits() {
            bits @ 0..8 => bits,
            bits => 1 + bits - 7,
        }
    }

    fn transition(&self, slot: usize) -> Option<u8> {
        match self.shape {
            Shape::PayloadOnly => None,
            // The pointer of twelve bits goes on in the byte behind the header.
            Shape::Single if self.pointer_bits == 12 => Some(self.bytes[2]),
            Shape::Single => Some(self.bytes[1]),
            Shape::Sparse => Some(self.bytes[2 + slot]),
            Shape::Dense => u8::try_from(usize::from(self.bytes[1]) + slot).ok(),
        }
    }

    /// How far a child is before the node.
    fn distance(&self, slot: usize) -> u64 {
        let header = u64::from(self.bytes[0] & 0x0f);
        let pointers_at = match (self.shape, self.pointer_bits) {
            (Shape::Single, 4) => return header,
            (Shape::Single, 12) => return header << 8 | u64::from(self.bytes[1]),
            (Shape::PayloadOnly | Shape::Single, _) => 2,
            (Shape::Sparse, _) => 2 + self.slots,
            (Shape::Dense, _) => 3,
        };
        if self.pointer_bits == 12 {
            let at = pointers_at + slot * 3 / 2;
            let both = big_endian(&self.bytes[at..at + 2]);
            return if slot.is_multiple_of(2) {
                both >> 4
            } else {
                both & 0xfff
            };
        }
        let length = self.pointer_bits / 8;
        let at = pointers_at + slot * length;
        big_endian(&self.bytes[at..at + length])
    }
}

/// The number in at most 8 bytes.
fn big_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |number, &byte| number << 8 | u64::from(byte))
}
