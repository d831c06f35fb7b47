//! Kernel asynchronous I/O: [`io_submit(2)`](https://man7.org/linux/man-pages/man2/io_submit.2.html).
//!
//! Why this interface:
//! - every kernel in use has it;
//! - container runtimes allow it, unlike io_uring;
//! - it needs no thread of ours in the application's process;
//! - `O_DIRECT` reads are really asynchronous with it.

use super::raw::syscall;
use super::{Descriptor, Errno};

/// An asynchronous I/O context (`aio_context_t`); 0 is none.
pub type Context = usize;

/// `IOCB_CMD_PREAD` of `include/uapi/linux/aio_abi.h`.
const COMMAND_PREAD: u16 = 0;

/// `struct iocb` of `include/uapi/linux/aio_abi.h`.
#[repr(C)]
#[derive(Default)]
struct ControlBlock {
    data: u64,
    #[cfg(target_endian = "little")]
    key: u32,
    flags_rw: i32,
    #[cfg(target_endian = "big")]
    key: u32,
    opcode: u16,
    priority: i16,
    descriptor: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_descriptor: u32,
}

/// `struct io_event`: a finished request.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Completion {
    /// The tag that was passed to [`submit_read`].
    pub tag: u64,
    object: u64,
    /// Bytes transferred, or a negative error number.
    pub result: i64,
    result2: i64,
}

/// [`io_setup(2)`](https://man7.org/linux/man-pages/man2/io_setup.2.html): a context for `requests` in
/// flight at most.
///
/// # Errors
/// `EAGAIN` if `/proc/sys/fs/aio-max-nr` is reached; `ENOMEM`; `ENOSYS`.
pub fn create(requests: u32) -> Result<Context, Errno> {
    let mut context: Context = 0;
    // SAFETY: the kernel writes the context's handle.
    Errno::check(unsafe {
        syscall(
            libc::SYS_io_setup,
            [requests as usize, &raw mut context as usize],
        )
    })?;
    Ok(context)
}

/// [`io_destroy(2)`](https://man7.org/linux/man-pages/man2/io_destroy.2.html): waits for all requests in
/// flight, and ends the context.
pub fn destroy(context: Context) {
    // SAFETY: a wrong handle is refused by the kernel.
    unsafe { syscall(libc::SYS_io_destroy, [context]) };
}

/// `io_submit(2)` of one read. On success the kernel writes into `memory` until [`take`] has returned the
/// completion with `tag`.
///
/// # Safety
/// Until then `memory` must stay valid, and nobody may use it.
///
/// # Errors
/// The kernel's; `EAGAIN` if the context is full.
pub unsafe fn submit_read(
    context: Context,
    descriptor: impl Into<Descriptor>,
    memory: *mut u8,
    length_bytes: usize,
    offset: u64,
    tag: u64,
) -> Result<(), Errno> {
    let block = ControlBlock {
        data: tag,
        opcode: COMMAND_PREAD,
        descriptor: descriptor.into().number() as u32,
        buffer: memory as u64,
        bytes: length_bytes as u64,
        offset: offset as i64,
        ..ControlBlock::default()
    };
    let blocks = [&raw const block];
    // SAFETY: the kernel copies the block before it returns; the caller vouches for `memory`.
    let submitted = Errno::check(unsafe {
        syscall(libc::SYS_io_submit, [context, 1, blocks.as_ptr() as usize])
    })?;
    if submitted == 1 {
        Ok(())
    } else {
        Err(Errno(libc::EAGAIN))
    }
}

/// [`io_getevents(2)`](https://man7.org/linux/man-pages/man2/io_getevents.2.html): waits for `least`
/// completions, and returns how many it has stored.
///
/// # Errors
/// The kernel's; `EINTR` if a signal comes during the wait.
pub fn take(
    context: Context,
    least: usize,
    completions: &mut [Completion],
) -> Result<usize, Errno> {
    // SAFETY: the kernel writes at most `completions.len()` events.
    Errno::check(unsafe {
        syscall(
            libc::SYS_io_getevents,
            [
                context,
                least,
                completions.len(),
                completions.as_mut_ptr() as usize,
                0,
            ],
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_is_the_kernels() {
        assert_eq!(size_of::<ControlBlock>(), 64);
        assert_eq!(size_of::<Completion>(), 32);
        assert_eq!(std::mem::offset_of!(ControlBlock, buffer), 24);
    }
}
