//! Where in a compaction's output the heat of its inputs goes.
//!
//! Heat is known by places in files; what it belongs to are keys. A hot place of an input becomes
//! the keys that lie there, by the input's index, and these become places of the output, by the
//! output's. Where a place holds several keys nobody knows which of them was read: each gets its
//! share, so that a place of the output has the heat that is to be *expected* of it. The place of a
//! key in the output is that of its newest version, whichever input's pages were hot.
//!
//! Pure logic over the index readers of `coldstream-sstable`: no file is opened here.

#![forbid(unsafe_code)]

pub mod cassandra;
mod plan;
pub mod rocksdb;

pub use plan::{Limits, Page, Plan};

/// A part of the output, and the heat that is to be expected of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// Bytes from the beginning of the file.
    pub offset: u64,
    /// Bytes that one read of it takes.
    pub length: u64,
    /// In the units of the inputs' heat.
    pub heat: f32,
}

/// The heat of the page with the byte at this offset of an input.
pub type HeatAt<'a> = &'a dyn Fn(u64) -> u8;
