//! Operations on files other than reads.

use super::super::machine::{NO_ERRNO, State, set_errno};
use super::super::{calls, raw};
use super::processes::in_child;
use super::reads::halves;
use super::{outcome, path_of};
use coldstream_testkit::files::Hash;
use std::ffi::c_char;

pub fn write(state: &mut State, call: &str, slot: usize, length: usize) -> String {
    let number = state.number(slot);
    let bytes = state.content(length);
    let vector = halves(bytes, length);
    // SAFETY: `length` bytes are readable.
    let result = unsafe {
        match call {
            "write" => calls::write(number, bytes.cast(), length),
            "writev" => calls::writev(number, vector.as_ptr(), 2),
            _ => unreachable!("{call}"),
        }
    };
    outcome(result as i64)
}

pub fn write_at(
    state: &mut State,
    call: &str,
    slot: usize,
    offset: i64,
    length: usize,
    flags: i32,
) -> String {
    let number = state.number(slot);
    let bytes = state.content(length);
    let vector = halves(bytes, length);
    let vector = vector.as_ptr();
    // SAFETY: `length` bytes are readable.
    let result = unsafe {
        match call {
            "pwrite" => calls::pwrite(number, bytes.cast(), length, offset),
            "pwrite64" => calls::pwrite64(number, bytes.cast(), length, offset),
            "pwritev" => calls::pwritev(number, vector, 2, offset),
            "pwritev64" => calls::pwritev64(number, vector, 2, offset),
            "pwritev2" => calls::pwritev2(number, vector, 2, offset, flags),
            "pwritev64v2" => calls::pwritev64v2(number, vector, 2, offset, flags),
            _ => unreachable!("{call}"),
        }
    };
    outcome(result as i64)
}

pub fn allocate(
    state: &State,
    call: &str,
    slot: usize,
    mode: i32,
    offset: i64,
    length: i64,
) -> String {
    let number = state.number(slot);
    // SAFETY: no memory is passed.
    outcome(unsafe {
        match call {
            "fallocate" => calls::fallocate(number, mode, offset, length),
            "fallocate64" => calls::fallocate64(number, mode, offset, length),
            "posix_fallocate" => calls::posix_fallocate(number, offset, length),
            "posix_fallocate64" => calls::posix_fallocate64(number, offset, length),
            _ => unreachable!("{call}"),
        }
    })
}

pub fn advise(
    state: &State,
    call: &str,
    slot: usize,
    offset: i64,
    length: i64,
    advice: i32,
) -> String {
    let number = state.number(slot);
    // SAFETY: no memory is passed.
    outcome(unsafe {
        match call {
            "posix_fadvise" => i64::from(calls::posix_fadvise(number, offset, length, advice)),
            "posix_fadvise64" => i64::from(calls::posix_fadvise64(number, offset, length, advice)),
            "readahead" => calls::readahead(number, offset, length.max(0) as usize) as i64,
            _ => unreachable!("{call}"),
        }
    })
}

/// Stores through a mapping, in this process or in a child that shares it.
pub fn store(
    state: &mut State,
    mapping: usize,
    offset: usize,
    length: usize,
    by_child: bool,
) -> String {
    let Some(map) = state.mappings[mapping].filter(|map| map.writable) else {
        return "no writable mapping".into();
    };
    let offset = offset % map.length;
    let length = length.min(map.length - offset);
    let content = state.content(length);
    let stored = || {
        let mut stored = 0;
        while stored < length {
            let target = map.address.wrapping_add(offset + stored);
            let piece = (4096 - (offset + stored) % 4096).min(length - stored);
            if !raw::readable(target) {
                break;
            }
            // SAFETY: the page is mapped writable and, as just asked, within the file.
            unsafe { std::ptr::copy_nonoverlapping(content.add(stored), target, piece) };
            stored += piece;
        }
        stored
    };
    if by_child {
        in_child(|_| i32::from(stored() == length))
    } else {
        format!("{} bytes", stored())
    }
}

pub fn send_file(
    state: &State,
    call: &str,
    from: usize,
    to: usize,
    offset: Option<i64>,
    length: usize,
) -> String {
    let (from, to) = (state.number(from), state.number(to));
    let mut position = offset.unwrap_or_default();
    let pointer = match offset {
        Some(_) => &raw mut position,
        None => std::ptr::null_mut(),
    };
    // SAFETY: the offset lives across the call.
    let result = unsafe {
        match call {
            "sendfile" => calls::sendfile(to, from, pointer, length),
            "sendfile64" => calls::sendfile64(to, from, pointer, length),
            _ => unreachable!("{call}"),
        }
    };
    format!("{} at {position}", outcome(result as i64))
}

pub fn copy_range(
    state: &State,
    from: usize,
    from_offset: Option<i64>,
    to: usize,
    to_offset: Option<i64>,
    length: usize,
) -> String {
    let pointer = |offset: &mut Option<i64>| match offset {
        Some(offset) => std::ptr::from_mut(offset),
        None => std::ptr::null_mut(),
    };
    let (mut from_offset, mut to_offset) = (from_offset, to_offset);
    // SAFETY: the offsets live across the call.
    let result = unsafe {
        calls::copy_file_range(
            state.number(from),
            pointer(&mut from_offset),
            state.number(to),
            pointer(&mut to_offset),
            length,
            0,
        )
    };
    format!(
        "{} at {from_offset:?} {to_offset:?}",
        outcome(result as i64)
    )
}

pub fn splice_out(state: &State, from: usize, offset: Option<i64>, length: usize) -> String {
    let [out, into] = raw::pipe();
    let mut position = offset.unwrap_or_default();
    let mut hash = Hash::new();
    let mut total = 0;
    let mut text = String::new();
    while total < length {
        let pointer = match offset {
            Some(_) => &raw mut position,
            None => std::ptr::null_mut(),
        };
        set_errno(NO_ERRNO);
        // SAFETY: the offset lives across the call.
        let result = unsafe {
            calls::splice(
                state.number(from),
                pointer,
                into,
                std::ptr::null_mut(),
                length - total,
                libc::SPLICE_F_NONBLOCK,
            )
        };
        if result <= 0 {
            text = outcome(result as i64);
            break;
        }
        let mut bytes = vec![0; result as usize];
        assert_eq!(raw::read_all(out, &mut bytes), bytes.len());
        hash.add(&bytes);
        total += result as usize;
    }
    raw::close(out);
    raw::close(into);
    format!("{total} bytes {hash} {text}")
}

pub fn link(call: &str, from: usize, to: usize) -> String {
    let (from, to, at) = (path_of(from), path_of(to), libc::AT_FDCWD);
    // SAFETY: NUL-terminated paths.
    outcome(unsafe {
        match call {
            "link" => calls::link(from, to),
            "linkat" => calls::linkat(at, from, at, to, 0),
            _ => unreachable!("{call}"),
        }
    })
}

pub fn rename(call: &str, from: usize, to: usize, flags: u32) -> String {
    let (from, to, at) = (path_of(from), path_of(to), libc::AT_FDCWD);
    // SAFETY: NUL-terminated paths.
    outcome(unsafe {
        match call {
            "rename" => calls::rename(from, to),
            "renameat" => calls::renameat(at, from, at, to),
            "renameat2" => calls::renameat2(at, from, at, to, flags),
            _ => unreachable!("{call}"),
        }
    })
}

/// The fields that do not depend on time and machine.
fn facts(mode: u32, links: impl Into<u64>, size_bytes: i64) -> String {
    let links = links.into();
    format!("mode {mode:o} links {links} size {size_bytes}")
}

fn status_by(call: impl FnOnce(*mut libc::stat) -> i32) -> String {
    let mut status = std::mem::MaybeUninit::<libc::stat>::zeroed();
    let text = outcome(call(status.as_mut_ptr()));
    // SAFETY: zeros are a valid structure, and so is what the kernel writes.
    let status = unsafe { status.assume_init() };
    format!(
        "{text} {}",
        facts(status.st_mode, status.st_nlink, status.st_size)
    )
}

fn extended_status(at: i32, path: *const c_char, flags: i32) -> String {
    let mut status = std::mem::MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: NUL-terminated path, room for one structure.
    let text = outcome(unsafe {
        calls::statx(
            at,
            path,
            flags,
            libc::STATX_BASIC_STATS,
            status.as_mut_ptr(),
        )
    });
    // SAFETY: zeros are a valid structure, and so is what the kernel writes.
    let status = unsafe { status.assume_init() };
    let facts = facts(
        status.stx_mode.into(),
        status.stx_nlink,
        status.stx_size as i64,
    );
    format!("{text} {facts}")
}

pub fn status(state: &State, call: &str, slot: usize) -> String {
    let number = state.number(slot);
    let empty = c"".as_ptr();
    // SAFETY: room for one structure; NUL-terminated paths.
    unsafe {
        match call {
            "fstat" => status_by(|status| calls::fstat(number, status)),
            "fstat64" => status_by(|status| calls::fstat64(number, status)),
            "__fxstat" => status_by(|status| calls::__fxstat(1, number, status)),
            "__fxstat64" => status_by(|status| calls::__fxstat64(1, number, status)),
            "fstatat" => {
                status_by(|status| calls::fstatat(number, empty, status, libc::AT_EMPTY_PATH))
            }
            "statx" => extended_status(number, empty, libc::AT_EMPTY_PATH),
            _ => unreachable!("{call}"),
        }
    }
}

pub fn path_status(call: &str, path: usize) -> String {
    let (path, at) = (path_of(path), libc::AT_FDCWD);
    // SAFETY: room for one structure; NUL-terminated paths.
    unsafe {
        match call {
            "stat" => status_by(|status| calls::stat(path, status)),
            "stat64" => status_by(|status| calls::stat64(path, status)),
            "lstat" => status_by(|status| calls::lstat(path, status)),
            "lstat64" => status_by(|status| calls::lstat64(path, status)),
            "fstatat" => status_by(|status| calls::fstatat(at, path, status, 0)),
            "fstatat64" => status_by(|status| calls::fstatat64(at, path, status, 0)),
            "statx" => extended_status(at, path, 0),
            _ => unreachable!("{call}"),
        }
    }
}
