//! Decompression of whole blocks, of bounded size.
//!
//! Each function returns all bytes of the block, or a [`Failure`]. A block never takes more than
//! [`MAX_BLOCK_BYTES`], even if the compressed bytes claim a larger size.

use std::io::Read;

use ruzstd::decoding::StreamingDecoder;

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
}

/// `size`, if it is at most [`MAX_BLOCK_BYTES`].
pub(crate) fn bounded(size: u64) -> Result<usize, Failure> {
    usize::try_from(size)
        .ok()
        .filter(|&size| size <= MAX_BLOCK_BYTES)
        .ok_or(Failure::TooLarge)
}

pub(crate) fn snappy(compressed: &[u8]) -> Result<Vec<u8>, Failure> {
    let size = snap::raw::decompress_len(compressed).map_err(|_| Failure::Damaged)?;
    let mut contents = vec![0; bounded(size as u64)?];
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
    let mut contents = vec![0; size];
    match lz4_flex::block::decompress_into(compressed, &mut contents) {
        Ok(written) if written == size => Ok(contents),
        _ => Err(Failure::Damaged),
    }
}

/// Raw deflate, without zlib's header.
pub(crate) fn deflate(size: Option<usize>, compressed: &[u8]) -> Result<Vec<u8>, Failure> {
    all_of(flate2::read::DeflateDecoder::new(compressed), size)
}

/// Deflate within zlib's header and checksum.
pub(crate) fn zlib(compressed: &[u8]) -> Result<Vec<u8>, Failure> {
    all_of(flate2::read::ZlibDecoder::new(compressed), None)
}

pub(crate) fn bzip2(size: Option<usize>, compressed: &[u8]) -> Result<Vec<u8>, Failure> {
    all_of(bzip2::read::BzDecoder::new(compressed), size)
}

pub(crate) fn zstandard(size: Option<usize>, compressed: &[u8]) -> Result<Vec<u8>, Failure> {
    all_of(
        StreamingDecoder::new(compressed).map_err(|_| Failure::Damaged)?,
        size,
    )
}

/// Memory grows with the decompressed bytes, not with the `size` that the block claims.
fn all_of(decoder: impl Read, size: Option<usize>) -> Result<Vec<u8>, Failure> {
    let mut contents = Vec::new();
    let limit = size.unwrap_or(MAX_BLOCK_BYTES);
    decoder
        .take(limit as u64 + 1)
        .read_to_end(&mut contents)
        .map_err(|_| Failure::Damaged)?;
    match size {
        Some(size) if contents.len() != size => Err(Failure::Damaged),
        None if contents.len() > MAX_BLOCK_BYTES => Err(Failure::TooLarge),
        _ => Ok(contents),
    }
}
