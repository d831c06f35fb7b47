//! What every mechanism may use, and what uses none of them: the tracked files, the switches, memory.

pub(crate) mod descriptor_map;
pub(crate) mod errno;
pub(crate) mod heap;
pub(crate) mod host_memory;
pub(crate) mod inode_map;
pub(crate) mod status_page;
pub(crate) mod switches;
pub(crate) mod text;
