//! The calls on files under one name: `file::open`, `file::pread`, `file::stamp`, …
//!
//! Each has its own module, named like its man page. This one only lists them.

pub use super::cachestat::{CacheStatistics, cache_statistics};
pub use super::close::{close, may_close_ranges, take_empty_descriptor_table};
pub use super::fadvise::advise;
pub use super::fcntl::{access_time_flag, duplicate_above, is_closed_at_exec, status_flags};
pub use super::inode_flags::is_synchronous;
pub use super::lseek::{position, set_position};
pub use super::open::open;
pub use super::path::{make_directory, read_link, remove_directory, unlink};
pub use super::poll::takes_bytes_now;
pub use super::pread::{RWF_DONTCACHE, pread, pread_with_flags};
pub use super::pwrite::{pwrite, write, write_with_flags};
pub use super::stat::{
    FileStamp, device_of_link, is_same_inode, modified_ns, owner_and_mode, stamp, stamp_at,
    stamp_of_path,
};
pub use super::statfs::filesystem;
pub use super::statx::direct_alignment;
pub use super::sync_file_range::{start_write_back, write_back};
pub use super::truncate::truncate;
