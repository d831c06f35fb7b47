//! libc's file calls by symbol. Each is looked up by name, so that every glibc variant of a call is made,
//! whatever names the compiler would choose.
//!
//! This is the only list of interposed symbols. The library must export exactly these, except for those in
//! [`PLAIN`].

use libc::{
    c_char, c_int, c_long, c_uint, c_void, iovec, mode_t, off_t, off64_t, pthread_t, size_t,
    ssize_t,
};
use std::ffi::CString;
use std::sync::atomic::{AtomicPtr, Ordering};

macro_rules! calls {
    ($list:ident: $(fn $name:ident($($argument:ident: $type:ty),* $(; ...$more:ident: $more_type:ty)?) -> $result:ty;)*) => {
        /// Names of the symbols declared here.
        pub const $list: &[&str] = &[$(stringify!($name)),*];
        $(
            /// # Safety
            /// As the libc function of that name.
            #[allow(clippy::too_many_arguments, non_snake_case, reason = "libc's signature")]
            pub unsafe fn $name($($argument: $type,)* $($more: $more_type)?) -> $result {
                static ADDRESS: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
                let address = resolve(&ADDRESS, stringify!($name));
                // SAFETY: the symbol of that name has this signature.
                unsafe {
                    let function: calls!(@type ($($type),*) $($more_type)? => $result) =
                        std::mem::transmute(address);
                    function($($argument,)* $($more)?)
                }
            }
        )*
    };
    (@type ($($type:ty),*) $more:ty => $result:ty) => {
        unsafe extern "C" fn($($type,)* ...) -> $result
    };
    (@type ($($type:ty),*) => $result:ty) => { unsafe extern "C" fn($($type),*) -> $result };
}

fn resolve(cache: &AtomicPtr<c_void>, name: &str) -> *mut c_void {
    let known = cache.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    let symbol = CString::new(name).expect("no NUL in a symbol's name");
    // SAFETY: the name is NUL-terminated.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, symbol.as_ptr()) };
    assert!(!address.is_null(), "libc has no {name}");
    cache.store(address, Ordering::Relaxed);
    address
}

calls! { INTERPOSED:
    fn open(path: *const c_char, flags: c_int; ...mode: c_uint) -> c_int;
    fn open64(path: *const c_char, flags: c_int; ...mode: c_uint) -> c_int;
    fn openat(at: c_int, path: *const c_char, flags: c_int; ...mode: c_uint) -> c_int;
    fn openat64(at: c_int, path: *const c_char, flags: c_int; ...mode: c_uint) -> c_int;
    fn creat(path: *const c_char, mode: mode_t) -> c_int;
    fn creat64(path: *const c_char, mode: mode_t) -> c_int;
    fn __open_2(path: *const c_char, flags: c_int) -> c_int;
    fn __open64_2(path: *const c_char, flags: c_int) -> c_int;
    fn __openat_2(at: c_int, path: *const c_char, flags: c_int) -> c_int;
    fn __openat64_2(at: c_int, path: *const c_char, flags: c_int) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    fn closefrom(first: c_int) -> ();
    fn dup(fd: c_int) -> c_int;
    fn dup2(fd: c_int, target: c_int) -> c_int;
    fn dup3(fd: c_int, target: c_int, flags: c_int) -> c_int;
    fn fcntl(fd: c_int, command: c_int; ...argument: c_long) -> c_int;
    fn fcntl64(fd: c_int, command: c_int; ...argument: c_long) -> c_int;
    fn read(fd: c_int, buffer: *mut c_void, length: size_t) -> ssize_t;
    fn __read_chk(fd: c_int, buffer: *mut c_void, length: size_t, room: size_t) -> ssize_t;
    fn pread(fd: c_int, buffer: *mut c_void, length: size_t, offset: off_t) -> ssize_t;
    fn pread64(fd: c_int, buffer: *mut c_void, length: size_t, offset: off64_t) -> ssize_t;
    fn __pread_chk(fd: c_int, buffer: *mut c_void, length: size_t, offset: off_t, room: size_t) -> ssize_t;
    fn __pread64_chk(fd: c_int, buffer: *mut c_void, length: size_t, offset: off64_t, room: size_t) -> ssize_t;
    fn readv(fd: c_int, vector: *const iovec, count: c_int) -> ssize_t;
    fn preadv(fd: c_int, vector: *const iovec, count: c_int, offset: off_t) -> ssize_t;
    fn preadv64(fd: c_int, vector: *const iovec, count: c_int, offset: off64_t) -> ssize_t;
    fn preadv2(fd: c_int, vector: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    fn preadv64v2(fd: c_int, vector: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t;
    fn write(fd: c_int, buffer: *const c_void, length: size_t) -> ssize_t;
    fn pwrite(fd: c_int, buffer: *const c_void, length: size_t, offset: off_t) -> ssize_t;
    fn pwrite64(fd: c_int, buffer: *const c_void, length: size_t, offset: off64_t) -> ssize_t;
    fn writev(fd: c_int, vector: *const iovec, count: c_int) -> ssize_t;
    fn pwritev(fd: c_int, vector: *const iovec, count: c_int, offset: off_t) -> ssize_t;
    fn pwritev64(fd: c_int, vector: *const iovec, count: c_int, offset: off64_t) -> ssize_t;
    fn pwritev2(fd: c_int, vector: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    fn pwritev64v2(fd: c_int, vector: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t;
    fn lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t;
    fn lseek64(fd: c_int, offset: off64_t, whence: c_int) -> off64_t;
    fn ftruncate(fd: c_int, length: off_t) -> c_int;
    fn ftruncate64(fd: c_int, length: off64_t) -> c_int;
    fn truncate(path: *const c_char, length: off_t) -> c_int;
    fn truncate64(path: *const c_char, length: off64_t) -> c_int;
    fn fallocate(fd: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int;
    fn fallocate64(fd: c_int, mode: c_int, offset: off64_t, length: off64_t) -> c_int;
    fn posix_fallocate(fd: c_int, offset: off_t, length: off_t) -> c_int;
    fn posix_fallocate64(fd: c_int, offset: off64_t, length: off64_t) -> c_int;
    fn lockf(fd: c_int, command: c_int, length: off_t) -> c_int;
    fn lockf64(fd: c_int, command: c_int, length: off64_t) -> c_int;
    fn fsync(fd: c_int) -> c_int;
    fn fdatasync(fd: c_int) -> c_int;
    fn sync_file_range(fd: c_int, offset: off64_t, length: off64_t, flags: c_uint) -> c_int;
    fn posix_fadvise(fd: c_int, offset: off_t, length: off_t, advice: c_int) -> c_int;
    fn posix_fadvise64(fd: c_int, offset: off64_t, length: off64_t, advice: c_int) -> c_int;
    fn readahead(fd: c_int, offset: off64_t, length: size_t) -> ssize_t;
    fn mmap(address: *mut c_void, length: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void;
    fn mmap64(address: *mut c_void, length: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off64_t) -> *mut c_void;
    fn sendfile(to: c_int, from: c_int, offset: *mut off_t, length: size_t) -> ssize_t;
    fn sendfile64(to: c_int, from: c_int, offset: *mut off64_t, length: size_t) -> ssize_t;
    fn copy_file_range(from: c_int, from_offset: *mut off64_t, to: c_int, to_offset: *mut off64_t, length: size_t, flags: c_uint) -> ssize_t;
    fn splice(from: c_int, from_offset: *mut off64_t, to: c_int, to_offset: *mut off64_t, length: size_t, flags: c_uint) -> ssize_t;
    fn link(from: *const c_char, to: *const c_char) -> c_int;
    fn linkat(from_at: c_int, from: *const c_char, to_at: c_int, to: *const c_char, flags: c_int) -> c_int;
    fn rename(from: *const c_char, to: *const c_char) -> c_int;
    fn renameat(from_at: c_int, from: *const c_char, to_at: c_int, to: *const c_char) -> c_int;
    fn renameat2(from_at: c_int, from: *const c_char, to_at: c_int, to: *const c_char, flags: c_uint) -> c_int;
    fn fstat(fd: c_int, status: *mut libc::stat) -> c_int;
    fn fstat64(fd: c_int, status: *mut libc::stat) -> c_int;
    fn __fxstat(version: c_int, fd: c_int, status: *mut libc::stat) -> c_int;
    fn __fxstat64(version: c_int, fd: c_int, status: *mut libc::stat) -> c_int;
    fn stat(path: *const c_char, status: *mut libc::stat) -> c_int;
    fn stat64(path: *const c_char, status: *mut libc::stat) -> c_int;
    fn lstat(path: *const c_char, status: *mut libc::stat) -> c_int;
    fn lstat64(path: *const c_char, status: *mut libc::stat) -> c_int;
    fn fstatat(at: c_int, path: *const c_char, status: *mut libc::stat, flags: c_int) -> c_int;
    fn fstatat64(at: c_int, path: *const c_char, status: *mut libc::stat, flags: c_int) -> c_int;
    fn statx(at: c_int, path: *const c_char, flags: c_int, mask: c_uint, status: *mut libc::statx) -> c_int;
    fn __xstat(version: c_int, path: *const c_char, status: *mut libc::stat) -> c_int;
    fn __xstat64(version: c_int, path: *const c_char, status: *mut libc::stat) -> c_int;
    fn __lxstat(version: c_int, path: *const c_char, status: *mut libc::stat) -> c_int;
    fn __lxstat64(version: c_int, path: *const c_char, status: *mut libc::stat) -> c_int;
    fn __fxstatat(version: c_int, at: c_int, path: *const c_char, status: *mut libc::stat, flags: c_int) -> c_int;
    fn __fxstatat64(version: c_int, at: c_int, path: *const c_char, status: *mut libc::stat, flags: c_int) -> c_int;
    fn syncfs(fd: c_int) -> c_int;
    fn sync() -> ();
    fn fopen(path: *const c_char, mode: *const c_char) -> *mut c_void;
    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut c_void;
    fn freopen(path: *const c_char, mode: *const c_char, stream: *mut c_void) -> *mut c_void;
    fn freopen64(path: *const c_char, mode: *const c_char, stream: *mut c_void) -> *mut c_void;
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut c_void;
    fn dprintf(fd: c_int, format: *const c_char; ...argument: c_int) -> c_int;
    fn vdprintf(fd: c_int, format: *const c_char, arguments: *mut c_void) -> c_int;
    fn __dprintf_chk(fd: c_int, flag: c_int, format: *const c_char; ...argument: c_int) -> c_int;
    fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int;
    fn ftw(path: *const c_char, visit: *const c_void, descriptors: c_int) -> c_int;
    fn ftw64(path: *const c_char, visit: *const c_void, descriptors: c_int) -> c_int;
    fn nftw(path: *const c_char, visit: *const c_void, descriptors: c_int, flags: c_int) -> c_int;
    fn nftw64(path: *const c_char, visit: *const c_void, descriptors: c_int, flags: c_int) -> c_int;
    fn fts_open(paths: *const *mut c_char, options: c_int, compare: *const c_void) -> *mut c_void;
    fn fts64_open(paths: *const *mut c_char, options: c_int, compare: *const c_void) -> *mut c_void;
    fn fts_children(walk: *mut c_void, options: c_int) -> *mut c_void;
    fn fts64_children(walk: *mut c_void, options: c_int) -> *mut c_void;
    fn fts_read(walk: *mut c_void) -> *mut c_void;
    fn fts64_read(walk: *mut c_void) -> *mut c_void;
    fn open_by_handle_at(mount: c_int, handle: *mut c_void, flags: c_int) -> c_int;
    fn ioctl(fd: c_int, request: u64; ...argument: *mut c_void) -> c_int;
    fn aio_read(block: *mut c_void) -> c_int;
    fn aio_read64(block: *mut c_void) -> c_int;
    fn aio_write(block: *mut c_void) -> c_int;
    fn aio_write64(block: *mut c_void) -> c_int;
    fn aio_fsync(operation: c_int, block: *mut c_void) -> c_int;
    fn aio_fsync64(operation: c_int, block: *mut c_void) -> c_int;
    fn lio_listio(mode: c_int, list: *const *mut c_void, count: c_int, event: *mut c_void) -> c_int;
    fn lio_listio64(mode: c_int, list: *const *mut c_void, count: c_int, event: *mut c_void) -> c_int;
    fn fork() -> c_int;
    fn _Fork() -> c_int;
    fn vfork() -> c_int;
    fn posix_spawn(child: *mut c_int, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn posix_spawnp(child: *mut c_int, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn pidfd_spawn(child: *mut c_int, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn pidfd_spawnp(child: *mut c_int, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn system(command: *const c_char) -> c_int;
    fn popen(command: *const c_char, mode: *const c_char) -> *mut c_void;
    fn execl(path: *const c_char, first: *const c_char; ...more: *const c_char) -> c_int;
    fn execle(path: *const c_char, first: *const c_char; ...more: *const c_char) -> c_int;
    fn execlp(path: *const c_char, first: *const c_char; ...more: *const c_char) -> c_int;
    fn execv(path: *const c_char, arguments: *const *const c_char) -> c_int;
    fn execve(path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn execvp(path: *const c_char, arguments: *const *const c_char) -> c_int;
    fn execvpe(path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn execveat(at: c_int, path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char, flags: c_int) -> c_int;
    fn fexecve(fd: c_int, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn daemon(no_chdir: c_int, no_close: c_int) -> c_int;
    fn forkpty(terminal: *mut c_int, name: *mut c_char, modes: *const c_void, size: *const c_void) -> c_int;
    fn clone(entry: *mut c_void, stack: *mut c_void, flags: c_int, argument: *mut c_void; ...more: *mut c_void) -> c_int;
    fn abort() -> ();
    fn futimens(fd: c_int, times: *const c_void) -> c_int;
    fn futimes(fd: c_int, times: *const c_void) -> c_int;
    fn utimensat(at: c_int, path: *const c_char, times: *const c_void, flags: c_int) -> c_int;
    fn utimes(path: *const c_char, times: *const c_void) -> c_int;
    fn lutimes(path: *const c_char, times: *const c_void) -> c_int;
    fn futimesat(at: c_int, path: *const c_char, times: *const c_void) -> c_int;
    fn utime(path: *const c_char, times: *const c_void) -> c_int;
    fn _exit(status: c_int) -> ();
    fn _Exit(status: c_int) -> ();
    fn quick_exit(status: c_int) -> ();
    fn fclose(stream: *mut c_void) -> c_int;
    fn unlink(path: *const c_char) -> c_int;
    fn unlinkat(at: c_int, path: *const c_char, flags: c_int) -> c_int;
    fn remove(path: *const c_char) -> c_int;
    fn mlockall(flags: c_int) -> c_int;
    fn prctl(option: c_int; ...argument: *const c_char) -> c_int;
    fn pthread_setname_np(thread: pthread_t, name: *const c_char) -> c_int;
    fn pthread_create(thread: *mut pthread_t, attributes: *const c_void, entry: *mut c_void, argument: *mut c_void) -> c_int;
    fn setuid(user: libc::uid_t) -> c_int;
    fn seteuid(user: libc::uid_t) -> c_int;
    fn setgid(group: libc::gid_t) -> c_int;
    fn setegid(group: libc::gid_t) -> c_int;
    fn setreuid(real: libc::uid_t, effective: libc::uid_t) -> c_int;
    fn setregid(real: libc::gid_t, effective: libc::gid_t) -> c_int;
    fn setresuid(real: libc::uid_t, effective: libc::uid_t, saved: libc::uid_t) -> c_int;
    fn setresgid(real: libc::gid_t, effective: libc::gid_t, saved: libc::gid_t) -> c_int;
    fn capset(header: *mut c_void, data: *const c_void) -> c_int;
    fn thrd_create(thread: *mut pthread_t, entry: *mut c_void, argument: *mut c_void) -> c_int;
}

// Calls that change descriptors or content unseen by the library. It must not depend on seeing them.
calls! { PLAIN:
    fn munmap(address: *mut c_void, length: size_t) -> c_int;
    fn msync(address: *mut c_void, length: size_t, flags: c_int) -> c_int;
}
