//! What the append writer needs from its owner: system calls and memory.

use crate::sys::Errno;

/// The system calls of a staged file.
pub trait KernelIo {
    /// A positional write to the direct descriptor. Memory, offset and length are aligned.
    ///
    /// # Errors
    /// The kernel's. The writer then writes these bytes through the page cache.
    fn write_direct(&mut self, bytes: &[u8], offset: u64) -> Result<usize, Errno>;
    /// A positional write through the page cache.
    ///
    /// # Errors
    /// The kernel's.
    fn write_cached(&mut self, bytes: &[u8], offset: u64) -> Result<usize, Errno>;
    /// Writes the bytes from `start` to `end`, which went through the page cache, to the device before
    /// the direct write that follows. So a power cut leaves no gap. It may do nothing if that costs too
    /// much: none of these bytes was synced.
    fn write_back_before(&mut self, start: u64, end: u64);
    /// Starts a direct write, and returns while it is in flight. The caller fills the other buffer
    /// meanwhile, and does not change `bytes` before [`KernelIo::finish_direct`]. `false` if it cannot be
    /// started; the caller then uses [`KernelIo::write_direct`].
    fn start_direct(&mut self, bytes: &[u8], offset: u64) -> bool;
    /// Whether [`KernelIo::finish_direct`] would return without a wait.
    fn direct_is_finished(&mut self) -> bool;
    /// Waits for the end of the started write, and returns its result.
    ///
    /// # Errors
    /// As for [`KernelIo::write_direct`].
    fn finish_direct(&mut self) -> Result<usize, Errno>;
}

/// The memory of a staged file: one buffer, or two of the same length.
pub trait Buffers {
    /// The buffer that takes the application's bytes.
    fn to_fill(&mut self) -> &mut [u8];
    /// The buffer whose write is in flight or has failed. Empty if there is only one buffer.
    fn to_write(&self) -> &[u8];
    /// Exchanges both buffers.
    fn swap(&mut self);
}
