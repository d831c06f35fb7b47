//! Decompression of whole blocks, of bounded size.
//!
//! Each function returns all bytes of the block, or a [`Failure`]. A block never takes more than
//! [`MAX_BLOCK_BYTES`], even if the compressed bytes claim a larger size.

use std::collections::TryReserveError;
use std::io::{self, Read};

use ruzstd::decoding::StreamingDecoder;

use crate::memory::{self, with_working_memory};

/// Largest block that is read, in bytes. The limit holds before and after decompression.
///
/// An index block of RocksDB of this size lists about 2 million data blocks. That is an SSTable of
/// about 8 GiB at the default block size. Larger ones have partitioned indexes. Cassandra's chunks
/// are far smaller.
pub(crate) const MAX_BLOCK_BYTES: usize = 64 << 20;

/// Why a block does not decompress.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The compression is not known in this format.
    Unknown,
    /// The block would be larger than [`MAX_BLOCK_BYTES`].
    TooLarge,
    /// The compressed bytes contradict themselves or the size before them.
    Damaged,
    /// There is no memory for it.
    OutOfMemory,
}

impl From<TryReserveError> for Failure {
    fn from(_: TryReserveError) -> Self {
        Self::OutOfMemory
    }
}

/// What is known of the decompressed size of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    Exactly(usize),
    AtMost(usize),
    /// At most [`MAX_BLOCK_BYTES`]. Such a block is decompressed twice: first to find its size.
    Unknown,
}

/// Memory that a decoder takes beside the decompressed bytes. `flate2` takes 43 KiB, `bzip2` 3.8 MiB.
const DEFLATE_BYTES: usize = 128 << 10;
const BZIP2_BYTES: usize = 5 << 20;
/// Of Zstandard: the tables, literals (1 MiB) and sequences (1.2 MB) of a block, with what is left over when they
/// grow. A block may bring 1 MiB of literals into a window that is full.
const ZSTANDARD_BYTES: usize = 12 << 20;
/// A frame of Zstandard with a larger window is refused, unless the block itself is larger. Frames of a known
/// size have no larger window than that size.
const WINDOW_BYTES_MIN: usize = 1 << 20;
/// The buffer for the window grows in powers of two. The former ones may be left over.
const BYTES_OF_WINDOW: usize = 4;
/// Bytes that are taken out of a decoder at once. So it need not keep more than its window.
const PIECE_BYTES: usize = 16 << 10;

/// `size`, if it is at most [`MAX_BLOCK_BYTES`].
pub(crate) fn bounded(size: u64) -> Result<usize, Failure> {
    usize::try_from(size)
        .ok()
        .filter(|&size| size <= MAX_BLOCK_BYTES)
        .ok_or(Failure::TooLarge)
}

pub(crate) fn snappy(compressed: &[u8]) -> Result<Vec<u8>, Failure> {
    let size = snap::raw::decompress_len(compressed).map_err(|_| Failure::Damaged)?;
    let mut contents = memory::filled(bounded(size as u64)?, 0)?;
    let written = snap::raw::Decoder::new()
        .decompress(compressed, &mut contents)
        .map_err(|_| Failure::Damaged)?;
    if written == size {
        Ok(contents)
    } else {
        Err(Failure::Damaged)
    }
}

pub(crate) fn lz4(size: usize, compressed: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut contents = memory::filled(size, 0)?;
    match lz4_flex::block::decompress_into(compressed, &mut contents) {
        Ok(written) if written == size => Ok(contents),
        _ => Err(Failure::Damaged),
    }
}

/// Raw deflate, without zlib's header.
pub(crate) fn deflate(size: Size, compressed: &[u8]) -> Result<Vec<u8>, Failure> {
    let decoder = || Ok(flate2::bufread::DeflateDecoder::new(compressed));
    all_of(decoder, DEFLATE_BYTES, size)
}

/// Deflate within zlib's header and checksum.
pub(crate) fn zlib(size: Size, compressed: &[u8]) -> Result<Vec<u8>, Failure> {
    let decoder = || Ok(flate2::bufread::ZlibDecoder::new(compressed));
    all_of(decoder, DEFLATE_BYTES, size)
}

pub(crate) fn bzip2(size: Size, compressed: &[u8]) -> Result<Vec<u8>, Failure> {
    let decoder = || Ok(bzip2::bufread::BzDecoder::new(compressed));
    all_of(decoder, BZIP2_BYTES, size)
}

pub(crate) fn zstandard(size: Size, compressed: &[u8]) -> Result<Vec<u8>, Failure> {
    let window = match size {
        Size::Exactly(size) | Size::AtMost(size) => size.max(WINDOW_BYTES_MIN),
        Size::Unknown => MAX_BLOCK_BYTES,
    };
    let decoder = || {
        StreamingDecoder::new_with_max_window_size(compressed, window as u64)
            .map_err(|_| Failure::Damaged)
    };
    all_of(decoder, ZSTANDARD_BYTES + BYTES_OF_WINDOW * window, size)
}

/// All bytes of a decoder, which takes at most `working_bytes` of memory for itself.
fn all_of<D: Read>(
    decoder: impl Fn() -> Result<D, Failure>,
    working_bytes: usize,
    size: Size,
) -> Result<Vec<u8>, Failure> {
    let decoded = |work: &mut dyn FnMut(&mut D) -> io::Result<usize>| {
        // An error of a decoder is memory of its own: it must not leave the working memory.
        let whole = || work(&mut decoder()?).map_err(|_| Failure::Damaged);
        with_working_memory(working_bytes, whole).ok_or(Failure::OutOfMemory)?
    };
    let limit = match size {
        Size::Exactly(size) | Size::AtMost(size) => size,
        Size::Unknown => decoded(&mut |decoder| count(decoder, MAX_BLOCK_BYTES))?,
    };
    if limit > MAX_BLOCK_BYTES {
        return Err(Failure::TooLarge);
    }
    // One more byte shows whether the block has more than allowed.
    let mut contents = memory::filled(limit + 1, 0)?;
    let length = decoded(&mut |decoder| fill(decoder, &mut contents))?;
    match size {
        Size::Exactly(size) if length != size => Err(Failure::Damaged),
        Size::AtMost(limit) if length > limit => Err(Failure::TooLarge),
        _ => {
            contents.truncate(length);
            Ok(contents)
        }
    }
}

/// Fills `contents` with the first bytes of a decoder. Returns their number.
fn fill(decoder: &mut impl Read, contents: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < contents.len() {
        let end = contents.len().min(length + PIECE_BYTES);
        match decoder.read(&mut contents[length..end])? {
            0 => break,
            read => length += read,
        }
    }
    Ok(length)
}

/// The number of a decoder's bytes. Larger than `limit` if there are more than that.
fn count(decoder: &mut impl Read, limit: usize) -> io::Result<usize> {
    let (mut length, mut room) = (0, [0; PIECE_BYTES]);
    while length <= limit {
        match decoder.read(&mut room)? {
            0 => break,
            read => length += read,
        }
    }
    Ok(length)
}
