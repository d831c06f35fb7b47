//! Calls that can observe or move a table without touching a window: positions, sizes, names.
//! Reads are served by position, current size and identity, so that there is nothing to keep
//! here; the calls are part of the interposer's complete list (DESIGN.md, section 4, rule 8).

use super::hidden;
use crate::next::interpose;
use libc::{c_char, c_int, c_uint, c_void, off_t, off64_t};

interpose! {
    fn lseek(descriptor: c_int, offset: off_t, whence: c_int) -> off_t |next| { hidden(descriptor, next) }
    fn lseek64(descriptor: c_int, offset: off64_t, whence: c_int) -> off64_t |next| { hidden(descriptor, next) }
    fn truncate(path: *const c_char, length: off_t) -> c_int |next| { next() }
    fn truncate64(path: *const c_char, length: off64_t) -> c_int |next| { next() }
    fn fstat(descriptor: c_int, status: *mut c_void) -> c_int |next| { hidden(descriptor, next) }
    fn fstat64(descriptor: c_int, status: *mut c_void) -> c_int |next| { hidden(descriptor, next) }
    fn __fxstat(version: c_int, descriptor: c_int, status: *mut c_void) -> c_int |next| { hidden(descriptor, next) }
    fn __fxstat64(version: c_int, descriptor: c_int, status: *mut c_void) -> c_int |next| { hidden(descriptor, next) }
    fn stat(path: *const c_char, status: *mut c_void) -> c_int |next| { next() }
    fn stat64(path: *const c_char, status: *mut c_void) -> c_int |next| { next() }
    fn lstat(path: *const c_char, status: *mut c_void) -> c_int |next| { next() }
    fn lstat64(path: *const c_char, status: *mut c_void) -> c_int |next| { next() }
    fn fstatat(at: c_int, path: *const c_char, status: *mut c_void, flags: c_int) -> c_int |next| { next() }
    fn fstatat64(at: c_int, path: *const c_char, status: *mut c_void, flags: c_int) -> c_int |next| { next() }
    fn statx(at: c_int, path: *const c_char, flags: c_int, mask: c_uint, status: *mut c_void) -> c_int |next| { next() }
    fn link(from: *const c_char, to: *const c_char) -> c_int |next| { next() }
    fn linkat(from_at: c_int, from: *const c_char, to_at: c_int, to: *const c_char, flags: c_int) -> c_int |next| { next() }
    fn rename(from: *const c_char, to: *const c_char) -> c_int |next| { next() }
    fn renameat(from_at: c_int, from: *const c_char, to_at: c_int, to: *const c_char) -> c_int |next| { next() }
    fn renameat2(from_at: c_int, from: *const c_char, to_at: c_int, to: *const c_char, flags: c_uint) -> c_int |next| { next() }
    fn unlink(path: *const c_char) -> c_int |next| { next() }
    fn unlinkat(at: c_int, path: *const c_char, flags: c_int) -> c_int |next| { next() }
}
