//! Content that names its own offset: each eight-byte word of a file is a function of the file's identity and the
//! word's offset. A byte from elsewhere is recognised.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use crate::random::mix;
use crate::residency;

/// The word at `offset`, a multiple of eight, of the content `identity`.
#[must_use]
pub fn word(identity: u64, offset: u64) -> u64 {
    mix(identity.wrapping_mul(0xA076_1D64_78BD_642F) ^ offset)
}

/// Fills `bytes` with the content `identity` from `offset` on.
pub fn fill(identity: u64, offset: u64, bytes: &mut [u8]) {
    let mut done = 0;
    while done < bytes.len() {
        let position = offset + done as u64;
        let within = (position % 8) as usize;
        let word = word(identity, position - within as u64).to_le_bytes();
        let count = (8 - within).min(bytes.len() - done);
        bytes[done..done + count].copy_from_slice(&word[within..within + count]);
        done += count;
    }
}

/// The first offset at which `bytes`, read at `offset`, differ from the content `identity`.
#[must_use]
pub fn first_difference(identity: u64, offset: u64, bytes: &[u8]) -> Option<u64> {
    let mut expected = vec![0; bytes.len()];
    fill(identity, offset, &mut expected);
    let difference = expected.iter().zip(bytes).position(|(a, b)| a != b)?;
    Some(offset + difference as u64)
}

/// Makes a file with that content, on the device and not in the page cache.
///
/// # Panics
/// The file cannot be made.
pub fn create(path: &Path, identity: u64, size_bytes: u64) {
    let file = File::create(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut bytes = vec![0; 1 << 20];
    let mut offset = 0;
    while offset < size_bytes {
        let count = (size_bytes - offset).min(bytes.len() as u64) as usize;
        fill(identity, offset, &mut bytes[..count]);
        file.write_all_at(&bytes[..count], offset).expect("write");
        offset += count as u64;
    }
    file.sync_all().expect("fsync");
    residency::drop_pages(&file);
}

/// The time for which a file must be unchanged before it is read in windows (20 ms), with a margin.
pub const REST: Duration = Duration::from_millis(30);

/// FNV-1a, eight bytes at a time: fast in an unoptimised build, and good enough for comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash(pub u64);

impl Hash {
    /// The hash of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }

    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.add_number(u64::from_le_bytes(*word));
        }
        for byte in rest {
            self.add_number(u64::from(*byte));
        }
    }

    /// Adds eight bytes.
    pub fn add_number(&mut self, number: u64) {
        self.0 = (self.0 ^ number)
            .wrapping_mul(0x0000_0100_0000_01B3)
            .rotate_left(23);
    }

    /// The hash of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut hash = Self::new();
        hash.add(bytes);
        hash
    }
}

impl Default for Hash {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Display for Hash {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}
