//! Kernel asynchronous I/O (`io_submit(2)`): the one asynchronous interface that every kernel
//! in use has, that container runtimes allow (unlike io_uring), and that needs no thread of
//! ours inside somebody else's process. For `O_DIRECT` reads it really is asynchronous.

use super::Errno;
use super::raw::syscall;

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
    /// The tag given at submission.
    pub tag: u64,
    object: u64,
    /// Bytes transferred, or a negative error number.
    pub result: i64,
    result2: i64,
}

/// `io_setup(2)`: a context for at most `requests` in flight.
pub fn create(requests: u32) -> Result<Context, Errno> {
    let mut context: Context = 0;
    // SAFETY: the kernel writes the context's handle.
    Errno::check(unsafe {
        syscall(
            libc::SYS_io_setup,
            [requests as usize, &raw mut context as usize, 0, 0, 0, 0],
        )
    })?;
    Ok(context)
}

/// `io_destroy(2)`: waits for what is in flight.
pub fn destroy(context: Context) {
    // SAFETY: a wrong handle is refused by the kernel.
    unsafe { syscall(libc::SYS_io_destroy, [context, 0, 0, 0, 0, 0]) };
}

/// Submits one read. On success the kernel writes into `memory` until the completion with
/// `tag` has been taken by [`take`].
///
/// # Safety
/// `memory` must stay valid, and be used by nobody, until the completion has been taken.
pub unsafe fn submit_read(
    context: Context,
    descriptor: i32,
    memory: *mut u8,
    length_bytes: usize,
    offset: u64,
    tag: u64,
) -> Result<(), Errno> {
    let block = ControlBlock {
        data: tag,
        opcode: COMMAND_PREAD,
        descriptor: descriptor as u32,
        buffer: memory as u64,
        bytes: length_bytes as u64,
        offset: offset as i64,
        ..ControlBlock::default()
    };
    let blocks = [&raw const block];
    // SAFETY: the kernel copies the block before it returns; the caller vouches for `memory`.
    let submitted = Errno::check(unsafe {
        syscall(
            libc::SYS_io_submit,
            [context, 1, blocks.as_ptr() as usize, 0, 0, 0],
        )
    })?;
    if submitted == 1 {
        Ok(())
    } else {
        Err(Errno(libc::EAGAIN))
    }
}

/// Takes what has completed, after waiting for at least `least` completions; `EINTR` is passed
/// on.
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
