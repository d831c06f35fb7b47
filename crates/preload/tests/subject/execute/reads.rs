//! Read operations. Every buffer is filled with a mark before, and hashed as a whole afterwards. Bytes behind
//! the delivered ones must not change.

use super::super::calls;
use super::super::machine::{NO_ERRNO, State, TRANSFER_BYTES, set_errno, touched_errno};
use super::super::operations::Buffer;
use super::outcome;
use coldstream_testkit::files::Hash;
use libc::{c_void, iovec};

/// Bytes behind a good buffer that must not change.
const MARGIN_BYTES: usize = 64;
const MARK: u8 = 0xA5;

/// Makes a positional read through this symbol.
pub fn positional(
    call: &str,
    number: i32,
    buffer: *mut u8,
    length: usize,
    offset: i64,
    flags: i32,
) -> isize {
    let address = buffer.cast::<c_void>();
    let vector = halves(buffer, length);
    // SAFETY: the buffer has room for `length` bytes, or is bad on purpose: the kernel then
    // says so.
    unsafe {
        match call {
            "pread" => calls::pread(number, address, length, offset),
            "pread64" => calls::pread64(number, address, length, offset),
            "__pread_chk" => calls::__pread_chk(number, address, length, offset, length),
            "__pread64_chk" => calls::__pread64_chk(number, address, length, offset, length),
            "preadv" => calls::preadv(number, vector.as_ptr(), 2, offset),
            "preadv64" => calls::preadv64(number, vector.as_ptr(), 2, offset),
            "preadv2" => calls::preadv2(number, vector.as_ptr(), 2, offset, flags),
            "preadv64v2" => calls::preadv64v2(number, vector.as_ptr(), 2, offset, flags),
            _ => unreachable!("{call}"),
        }
    }
}

/// A buffer in two parts. The first is smaller.
pub fn halves(buffer: *mut u8, length: usize) -> [iovec; 2] {
    let first = length / 3;
    [
        iovec {
            iov_base: buffer.cast(),
            iov_len: first,
        },
        iovec {
            iov_base: buffer.wrapping_add(first).cast(),
            iov_len: length - first,
        },
    ]
}

fn mark(buffer: *mut u8, length: usize) {
    // SAFETY: the caller's buffer has room for the margin too.
    unsafe { std::ptr::write_bytes(buffer, MARK, length + MARGIN_BYTES) };
}

fn seen(buffer: *const u8, length: usize) -> Hash {
    // SAFETY: as above.
    Hash::of(unsafe { std::slice::from_raw_parts(buffer, length + MARGIN_BYTES) })
}

pub fn read(state: &State, call: &str, slot: usize, length: usize) -> String {
    let (number, buffer) = (state.number(slot), state.good);
    mark(buffer, length);
    let vector = halves(buffer, length);
    // SAFETY: the buffer has room for `length` bytes.
    let result = unsafe {
        match call {
            "read" => calls::read(number, buffer.cast(), length),
            "__read_chk" => calls::__read_chk(number, buffer.cast(), length, length),
            "readv" => calls::readv(number, vector.as_ptr(), 2),
            _ => unreachable!("{call}"),
        }
    };
    format!("{} {}", outcome(result as i64), seen(buffer, length))
}

pub fn read_at(
    state: &State,
    call: &str,
    slot: usize,
    offset: i64,
    length: usize,
    buffer: Buffer,
    flags: i32,
) -> String {
    let number = state.number(slot);
    let address = match buffer {
        Buffer::Good { misaligned } => state.good.wrapping_add(misaligned),
        Buffer::Null => std::ptr::null_mut(),
        Buffer::ReadOnly => state.read_only,
        Buffer::Guarded { room } => state.good.wrapping_add(TRANSFER_BYTES - room),
    };
    match buffer {
        Buffer::Good { .. } => {
            mark(address, length);
            let result = positional(call, number, address, length, offset, flags);
            format!("{} {}", outcome(result as i64), seen(address, length))
        }
        Buffer::Null | Buffer::ReadOnly => {
            let result = positional(call, number, address, length, offset, flags);
            outcome(result as i64)
        }
        Buffer::Guarded { room } => {
            let result = positional(call, number, address, length, offset, flags);
            let text = outcome(result as i64);
            let delivered = (result.max(0) as usize).min(room);
            // SAFETY: so much lies before the guard page.
            let hash = Hash::of(unsafe { std::slice::from_raw_parts(address, delivered) });
            format!("{text} {hash}")
        }
    }
}

/// Reads chunks in sequence, up to the end of the file.
pub fn scan(
    state: &mut State,
    call: &str,
    slot: usize,
    offset: i64,
    chunk: usize,
    count: usize,
) -> String {
    let number = state.number(slot);
    let mut position = offset.max(0);
    let mut hash = Hash::new();
    let mut reads = 0;
    let mut last = 0;
    let mut errno = None;
    for _ in 0..count {
        mark(state.good, chunk);
        set_errno(NO_ERRNO);
        last = positional(call, number, state.good, chunk, position, 0);
        errno = touched_errno();
        hash.add_number(last as u64);
        hash.add(&seen(state.good, chunk).0.to_le_bytes());
        reads += 1;
        if last <= 0 {
            break;
        }
        position += last as i64;
    }
    // After the end of the file the next scan starts from the front again.
    state.slots[slot].position = if last > 0 { position as u64 } else { 0 };
    format!("{reads} reads from {offset} to {position}, last {last} errno {errno:?}: {hash}")
}
