//! The calls on memory under one name: `memory::map`, `memory::advise`, `memory::writable`, …
//!
//! Each has its own module, named like its man page. This one only lists them. `memory::fetch` is an instruction.

pub use super::fetch::fetch;
pub use super::madvise::{
    ADVICE_DONT_DUMP, ADVICE_DONT_FORK, ADVICE_DONT_NEED, ADVICE_HUGE_PAGES, ADVICE_NORMAL,
    ADVICE_RANDOM, ADVICE_WIPE_ON_FORK, advise, hint,
};
pub use super::mincore::residency;
pub use super::mmap::{map, map_anonymous, page_bytes, unmap};
pub use super::user_memory::{WRITABLE_BYTES_MIN, readable, writable};
