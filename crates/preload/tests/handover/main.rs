//! The handover with real RocksDB. After a compaction the blocks of hot keys are in the page cache before the
//! first read, and few others are.

mod case;
mod compactions;
mod jvm;
mod nodes;
mod orders;
mod reads;
mod tables;
