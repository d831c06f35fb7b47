//! Stand-ins for functions that glibc gained after 2.17, the oldest that the library loads on.
//!
//! A program may ask for such a function by `dlsym`, and go another way if there is none. It always finds this
//! library's. So on an old glibc that one must work.

use libc::{c_char, c_int, c_long, c_uint, c_void, iovec, off64_t, size_t, ssize_t};
use std::ffi::CStr;

/// What does the work of the missing function `name`; null if nothing can.
pub(super) fn find(name: &CStr) -> *const c_void {
    match name.to_bytes() {
        // glibc 2.33. Before, its headers made `__xstat` and the like of them.
        b"stat" | b"stat64" => stat as *const c_void,
        b"lstat" | b"lstat64" => lstat as *const c_void,
        b"fstat" | b"fstat64" => fstat as *const c_void,
        b"fstatat" | b"fstatat64" => fstatat as *const c_void,
        b"statx" => statx as *const c_void,
        b"renameat2" => renameat2 as *const c_void,
        b"copy_file_range" => copy_file_range as *const c_void,
        b"preadv2" | b"preadv64v2" => preadv2 as *const c_void,
        b"pwritev2" | b"pwritev64v2" => pwritev2 as *const c_void,
        b"close_range" => close_range as *const c_void,
        b"execveat" => execveat as *const c_void,
        b"fcntl64" => other(c"fcntl"),
        b"fts64_open" => other(c"fts_open"),
        b"fts64_read" => other(c"fts_read"),
        b"fts64_children" => other(c"fts_children"),
        // The handlers of `pthread_atfork` run, too.
        b"_Fork" => other(c"fork"),
        _ => std::ptr::null(),
    }
}

/// An older function with the same arguments: on the supported machines `off_t` is `off64_t`.
fn other(name: &CStr) -> *const c_void {
    // SAFETY: the name is NUL-terminated; RTLD_NEXT starts behind this library.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// Declares functions that make the system call of their name, with the arguments in their order.
macro_rules! system_calls {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty = $number:ident($($passed:expr),*);)*) => {
        $(
            unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                // SAFETY: the caller's arguments, for the kernel to check.
                unsafe { libc::syscall(libc::$number, $($passed),*) as $result }
            }
        )*
    };
}

system_calls! {
    // `struct stat` is the kernel's own on the supported machines.
    fn stat(path: *const c_char, status: *mut c_void) -> c_int
        = SYS_newfstatat(libc::AT_FDCWD, path, status, 0);
    fn lstat(path: *const c_char, status: *mut c_void) -> c_int
        = SYS_newfstatat(libc::AT_FDCWD, path, status, libc::AT_SYMLINK_NOFOLLOW);
    fn fstat(descriptor: c_int, status: *mut c_void) -> c_int
        = SYS_fstat(descriptor, status);
    fn fstatat(at: c_int, path: *const c_char, status: *mut c_void, flags: c_int) -> c_int
        = SYS_newfstatat(at, path, status, flags);
    fn statx(at: c_int, path: *const c_char, flags: c_int, mask: c_uint, status: *mut c_void) -> c_int
        = SYS_statx(at, path, flags, mask, status);
    fn renameat2(from_at: c_int, from: *const c_char, to_at: c_int, to: *const c_char, flags: c_uint) -> c_int
        = SYS_renameat2(from_at, from, to_at, to, flags);
    fn copy_file_range(from: c_int, from_offset: *mut off64_t, to: c_int, to_offset: *mut off64_t, length: size_t, flags: c_uint) -> ssize_t
        = SYS_copy_file_range(from, from_offset, to, to_offset, length, flags);
    // The kernel takes an offset in two halves, and on machines of 64 bits all of it from the first
    // (`fs/read_write.c: pos_from_hilo`).
    fn preadv2(descriptor: c_int, vector: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t
        = SYS_preadv2(descriptor, vector, c_long::from(count), offset, 0 as c_long, flags);
    fn pwritev2(descriptor: c_int, vector: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t
        = SYS_pwritev2(descriptor, vector, c_long::from(count), offset, 0 as c_long, flags);
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int
        = SYS_close_range(first, last, flags);
    fn execveat(at: c_int, path: *const c_char, arguments: *const *mut c_char, environment: *const *mut c_char, flags: c_int) -> c_int
        = SYS_execveat(at, path, arguments, environment, flags);
}
