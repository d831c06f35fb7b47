//! Computes which ranges of a compaction's output are hot, from the heat of its inputs.
//!
//! Heat is counted per page of a file. It belongs to keys. So the crate takes three steps:
//!
//! 1. The index of an input turns hot ranges into keys.
//! 2. The index of the output turns these keys into ranges of the output.
//! 3. [`Plan`] chooses the pages that are worth warming. [`Heirs`] record the heat that the output has from then on.
//!
//! What it promises:
//!
//! - The heat of an output's range is the *expected* heat. If a hot range holds several keys, it is
//!   not known which one was read. Each gets a share.
//! - A key's range in the output is that of its newest version. It does not matter which input was
//!   hot.
//! - It opens no file and makes no system call. It works on the readers of `coldstream-sstable`.
//! - Its memory is bounded, and it stops soon after the caller's `is_over` returns true.
//!
//! [`rocksdb::Output`] is the main type for RocksDB and LevelDB, [`cassandra::Input`] for Cassandra.
//! In this example two SSTables of Cassandra are compacted. The partition "bob" is hot in the first:
//!
//! ```
//! use coldstream_handover::cassandra::{Input, transfer_to_finished};
//! use coldstream_handover::{Limits, Plan};
//! use coldstream_sstable::cassandra::{IndexCursor, Key};
//! # use coldstream_sstable::cassandra::{Components, Descriptor, SsTable};
//! #
//! # struct Files {
//! #     index: Vec<u8>,
//! #     statistics: Vec<u8>,
//! #     data_length: u64,
//! # }
//! #
//! # impl Files {
//! #     fn of(names: &[&str]) -> Self {
//! #         let mut names = names.to_vec();
//! #         let key = |name: &str| Key::from_partition_key(name.as_bytes());
//! #         names.sort_by(|one, other| key(one).compare(&key(other)));
//! #         let (mut index, mut data_length) = (Vec::new(), 0_u64);
//! #         for name in names {
//! #             index.extend((name.len() as u16).to_be_bytes());
//! #             index.extend(name.as_bytes());
//! #             index.push(0xff);
//! #             index.extend(data_length.to_be_bytes());
//! #             index.push(0);
//! #             data_length += 4096;
//! #         }
//! #         let mut statistics = [1_u32, 0, 0, 16].map(u32::to_be_bytes).concat();
//! #         statistics.extend([0, 43]);
//! #         statistics.extend(b"org.apache.cassandra.dht.Murmur3Partitioner");
//! #         Self { index, statistics, data_length }
//! #     }
//! #
//! #     fn open(&self) -> coldstream_sstable::Result<SsTable<&[u8]>> {
//! #         let components = Components {
//! #             keys: &self.index[..],
//! #             rows: None,
//! #             compression_info: None,
//! #             statistics: &self.statistics[..],
//! #             data_length: self.data_length,
//! #         };
//! #         SsTable::new(&Descriptor::parse("nb-1-big-Data.db")?, components)
//! #     }
//! # }
//! #
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // SSTables in memory, of partitions of one page each.
//! let files = [
//!     Files::of(&["alice", "bob"]),
//!     Files::of(&["bob", "carol", "dave"]),
//!     Files::of(&["alice", "bob", "carol", "dave"]),
//! ];
//! let (one, other, output) = (files[0].open()?, files[1].open()?, files[2].open()?);
//!
//! let bob = Key::from_partition_key(b"bob");
//! let hot = one.partitions()?.find(&bob)?.ok_or("no bob")?;
//! let heat_of_one = |offset: u64| if hot.contains(&offset) { 100 } else { 0 };
//! let heat_of_other = |_: u64| 0;
//!
//! let start = IndexCursor::default();
//! let mut inputs = [
//!     Input::new(&one, start, &heat_of_one)?,
//!     Input::new(&other, start, &heat_of_other)?,
//! ];
//! let part = transfer_to_finished(&output, start, &mut inputs, &|| false)?;
//! let limits = Limits { heat_min: 10.0, pages_max: 1000 };
//! let plan = Plan::choose(part.pieces, limits)?;
//!
//! // The page of "bob" in the output is warmed, and no other.
//! let expected = output.partitions()?.find(&bob)?.ok_or("no bob")?;
//! assert_eq!(plan.ranges(1 << 20).collect::<Vec<_>>(), [expected]);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_macros, clippy::disallowed_methods))]

mod block_cache;
pub mod cassandra;
mod heirs;
mod piece;
mod plan;
pub mod rocksdb;

pub use block_cache::InputReads;
pub use heirs::{Heirs, KEPT_MIN};
pub use piece::{HeatAt, Piece};
pub use plan::{Limits, MEMORY_SHARE, Page, Plan, SHARE_MIN};
