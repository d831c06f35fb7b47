//! Sizes of what is read together.

/// Most chunks of a partition that the foreground reads as a whole. Larger ones it reads in parts.
pub(super) const WHOLE_CHUNKS_MAX: u64 = 3;
/// The chunk length of data that is not compressed.
pub(super) const PAGE_BYTES: u64 = 4096;
