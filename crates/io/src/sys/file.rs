//! File system calls: open, close, pread, fstat, statx, fcntl, fadvise, cachestat, statfs.

use super::raw::syscall;
use super::{Errno, Errno as E};
use std::ffi::{CStr, c_char};

/// `RWF_DONTCACHE`, Linux 6.14 (`include/uapi/linux/fs.h`).
pub const RWF_DONTCACHE: i32 = 0x80;
/// `cachestat(2)`, Linux 6.5; the same number on every architecture.
const SYS_CACHESTAT: i64 = 451;
/// `STATX_DIOALIGN`, Linux 6.1.
const STATX_DIOALIGN: u32 = 0x2000;

/// What identifies a file and its present content. Two equal stamps, the first of which was
/// taken at least one clock tick after the change time, mean that nothing changed in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStamp {
    /// Device of the inode.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Type and permission bits.
    pub mode: u32,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Change time (ctime) in nanoseconds since the epoch: no program can set it back.
    pub changed_ns: i128,
    /// Changes that the embedding program noticed itself, on top of what the kernel says.
    pub noticed_changes: u32,
}

impl From<&libc::stat> for FileStamp {
    #[inline]
    fn from(status: &libc::stat) -> Self {
        let seconds_ns = i128::from(status.st_ctime) * 1_000_000_000;
        Self {
            device: status.st_dev,
            inode: status.st_ino,
            mode: status.st_mode,
            size_bytes: status.st_size as u64,
            changed_ns: seconds_ns + i128::from(status.st_ctime_nsec),
            noticed_changes: 0,
        }
    }
}

impl FileStamp {
    /// Whether both stamps are of the same inode.
    #[inline]
    pub fn same_inode(&self, other: &FileStamp) -> bool {
        self.inode == other.inode && self.device == other.device
    }

    /// Whether it is a regular file.
    #[inline]
    pub fn is_regular(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFREG
    }
}

/// `openat(2)` at the current directory, with `O_CLOEXEC` always set.
pub fn open(path: &CStr, flags: i32, mode: u32) -> Result<i32, Errno> {
    // SAFETY: `path` is a NUL-terminated string.
    let result = unsafe {
        syscall(
            libc::SYS_openat,
            [
                libc::AT_FDCWD as usize,
                path.as_ptr() as usize,
                (flags | libc::O_CLOEXEC) as usize,
                mode as usize,
                0,
                0,
            ],
        )
    };
    E::check(result).map(|descriptor| descriptor as i32)
}

/// `readlinkat(2)`: bytes of the link's content that fit `content`.
pub fn read_link(path: &CStr, content: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: `path` is a NUL-terminated string, and the kernel writes within `content`.
    E::check(unsafe {
        syscall(
            libc::SYS_readlinkat,
            [
                libc::AT_FDCWD as usize,
                path.as_ptr() as usize,
                content.as_mut_ptr() as usize,
                content.len(),
                0,
                0,
            ],
        )
    })
}

/// `close(2)`. The descriptor is gone even when an error is returned.
pub fn close(descriptor: i32) -> Result<(), Errno> {
    // SAFETY: closing a number is memory-safe; callers own the descriptor.
    E::check(unsafe { syscall(libc::SYS_close, [descriptor as usize, 0, 0, 0, 0, 0]) }).map(|_| ())
}

/// Gives the calling thread a table of descriptors of its own, with nothing in it
/// (`close_range(2)` with `CLOSE_RANGE_UNSHARE`, Linux 5.9): no number in it is anybody else's, and
/// closing one drops none of the process's record locks, which belong to the other table.
///
/// # Errors
/// `ENOSYS` on older kernels, `EPERM` under a filter; nothing has changed then.
pub fn take_empty_descriptor_table() -> Result<(), Errno> {
    /// `CLOSE_RANGE_UNSHARE` (`include/uapi/linux/close_range.h`).
    const UNSHARE: usize = 1 << 1;
    // SAFETY: closes nothing but in the table that the calling thread has alone afterwards.
    E::check(unsafe {
        syscall(
            libc::SYS_close_range,
            [0, u32::MAX as usize, UNSHARE, 0, 0, 0],
        )
    })
    .map(|_| ())
}

/// The open file's access mode and status flags (`F_GETFL`), such as `O_DIRECT`.
///
/// # Errors
/// `EBADF` if no file is open under that number.
pub fn status_flags(descriptor: i32) -> Result<i32, Errno> {
    fcntl(descriptor, libc::F_GETFL, 0)
}

/// `O_NOATIME` if the descriptor has it: who opens its file again for the same reader shall leave the
/// access time alone, too.
pub fn access_time_flag(descriptor: i32) -> i32 {
    status_flags(descriptor).map_or(0, |flags| flags & libc::O_NOATIME)
}

/// A duplicate, closed by `execve(2)`, with the first free number from `lowest` on.
///
/// # Errors
/// `EMFILE` if there is none; `EBADF`.
pub fn duplicate_above(descriptor: i32, lowest: i32) -> Result<i32, Errno> {
    fcntl(descriptor, libc::F_DUPFD_CLOEXEC, lowest)
}

/// Commands of `fcntl(2)` that take a number and no pointer.
fn fcntl(descriptor: i32, command: i32, argument: i32) -> Result<i32, Errno> {
    // SAFETY: takes numbers only.
    E::check(unsafe {
        syscall(
            libc::SYS_fcntl,
            [
                descriptor as usize,
                command as usize,
                argument as usize,
                0,
                0,
                0,
            ],
        )
    })
    .map(|result| result as i32)
}

#[inline]
fn status(descriptor: i32) -> Result<libc::stat, Errno> {
    let mut status = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the kernel writes one `struct stat`, for which there is room.
    E::check(unsafe {
        syscall(
            libc::SYS_fstat,
            [
                descriptor as usize,
                status.as_mut_ptr() as usize,
                0,
                0,
                0,
                0,
            ],
        )
    })?;
    // SAFETY: the call succeeded, so that the structure is filled.
    Ok(unsafe { status.assume_init() })
}

/// `fstat(2)`: identity, size and change time.
#[inline]
pub fn stamp(descriptor: i32) -> Result<FileStamp, Errno> {
    status(descriptor).map(|status| FileStamp::from(&status))
}

/// `stat(2)`: the same of the file at `path`, through links.
///
/// # Safety
/// Any pointer will do that may be handed to the kernel: a bad one is `EFAULT`. What it reads is not to
/// change meanwhile.
pub unsafe fn stamp_of_path(path: *const c_char) -> Result<FileStamp, Errno> {
    let mut status = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the kernel writes one `struct stat`, for which there is room; the caller vouches for the path.
    E::check(unsafe {
        syscall(
            libc::SYS_newfstatat,
            [
                libc::AT_FDCWD as usize,
                path as usize,
                status.as_mut_ptr() as usize,
                0,
                0,
                0,
            ],
        )
    })?;
    // SAFETY: the call succeeded, so that the structure is filled.
    Ok(FileStamp::from(unsafe { status.assume_init_ref() }))
}

/// Whether a descriptor is of this inode still: somebody may have closed it unseen, and its number may be
/// another file's.
pub fn is_still(descriptor: i32, stamp: &FileStamp) -> bool {
    self::stamp(descriptor).is_ok_and(|now| now.same_inode(stamp))
}

/// `pread64(2)` into `memory`; may be short.
///
/// # Safety
/// `memory` must be valid for writes of `length_bytes`, or not be mapped as Rust memory at all
/// (the kernel answers a bad pointer with `EFAULT`).
pub unsafe fn pread(
    descriptor: i32,
    memory: *mut u8,
    length_bytes: usize,
    offset: u64,
) -> Result<usize, Errno> {
    // SAFETY: the caller vouches for `memory`.
    E::check(unsafe {
        syscall(
            libc::SYS_pread64,
            [
                descriptor as usize,
                memory as usize,
                length_bytes,
                offset as usize,
                0,
                0,
            ],
        )
    })
}

/// `preadv2(2)` of one buffer with `flags` (`RWF_*`).
///
/// # Safety
/// As for [`pread`].
pub unsafe fn pread_with_flags(
    descriptor: i32,
    memory: *mut u8,
    length_bytes: usize,
    offset: u64,
    flags: i32,
) -> Result<usize, Errno> {
    let vector = libc::iovec {
        iov_base: memory.cast(),
        iov_len: length_bytes,
    };
    // SAFETY: the caller vouches for `memory`; the vector lives across the call. The offset is
    // split in two words as the kernel wants it (the high word is ignored on 64-bit machines).
    E::check(unsafe {
        syscall(
            libc::SYS_preadv2,
            [
                descriptor as usize,
                &raw const vector as usize,
                1,
                offset as usize,
                0,
                flags as usize,
            ],
        )
    })
}

/// `write(2)`; may be short.
pub fn write(descriptor: i32, bytes: &[u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel only reads `bytes`.
    E::check(unsafe {
        syscall(
            libc::SYS_write,
            [
                descriptor as usize,
                bytes.as_ptr() as usize,
                bytes.len(),
                0,
                0,
                0,
            ],
        )
    })
}

/// `pwrite64(2)`; may be short. The descriptor must not be `O_APPEND`: the kernel would then
/// ignore the offset.
pub fn pwrite(descriptor: i32, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
    // SAFETY: the kernel only reads `bytes`.
    E::check(unsafe {
        syscall(
            libc::SYS_pwrite64,
            [
                descriptor as usize,
                bytes.as_ptr() as usize,
                bytes.len(),
                offset as usize,
                0,
                0,
            ],
        )
    })
}

/// `pwritev2(2)` of one buffer at the file position, with `flags` (`RWF_*`). Any pointer will do: the kernel
/// answers a bad one with `EFAULT`.
pub fn write_with_flags(
    descriptor: i32,
    memory: *const u8,
    length_bytes: usize,
    flags: i32,
) -> Result<usize, Errno> {
    let vector = libc::iovec {
        iov_base: memory.cast_mut().cast(),
        iov_len: length_bytes,
    };
    // SAFETY: the kernel only reads, and checks the vector's buffer; the vector lives across the call. An
    // offset of -1 means the file position.
    E::check(unsafe {
        syscall(
            libc::SYS_pwritev2,
            [
                descriptor as usize,
                &raw const vector as usize,
                1,
                usize::MAX,
                usize::MAX,
                flags as usize,
            ],
        )
    })
}

/// `lseek(2)` to an absolute position.
pub fn set_position(descriptor: i32, position: u64) -> Result<(), Errno> {
    // SAFETY: no memory is passed.
    E::check(unsafe {
        syscall(
            libc::SYS_lseek,
            [
                descriptor as usize,
                position as usize,
                libc::SEEK_SET as usize,
                0,
                0,
                0,
            ],
        )
    })
    .map(|_| ())
}

/// `ftruncate(2)`.
pub fn truncate(descriptor: i32, size_bytes: u64) -> Result<(), Errno> {
    // SAFETY: no memory is passed.
    E::check(unsafe {
        syscall(
            libc::SYS_ftruncate,
            [descriptor as usize, size_bytes as usize, 0, 0, 0, 0],
        )
    })
    .map(|_| ())
}

/// `fadvise64(2)`.
pub fn advise(descriptor: i32, offset: u64, length_bytes: u64, advice: i32) -> Result<(), Errno> {
    // SAFETY: no memory is passed.
    E::check(unsafe {
        syscall(
            libc::SYS_fadvise64,
            [
                descriptor as usize,
                offset as usize,
                length_bytes as usize,
                advice as usize,
                0,
                0,
            ],
        )
    })
    .map(|_| ())
}

/// Whether `close_range(2)` (Linux 5.9) may be called: no descriptor has the number that it is tried with.
pub fn may_close_ranges() -> bool {
    let last = u32::MAX as usize;
    // SAFETY: closes nothing.
    let tried = unsafe { syscall(libc::SYS_close_range, [last, last, 0, 0, 0, 0]) };
    E::check(tried).is_ok()
}

/// Whether a write of a few bytes would be taken without waiting (`poll(2)`): by regular files always, by
/// pipes and sockets with room for them and somebody to read them.
pub fn takes_bytes_now(descriptor: i32) -> bool {
    let mut wanted = libc::pollfd {
        fd: descriptor,
        events: libc::POLLOUT,
        revents: 0,
    };
    let at_once = [0_i64; 2];
    // SAFETY: one entry, which is written, and a time; no signal mask.
    let ready = unsafe {
        syscall(
            libc::SYS_ppoll,
            [
                &raw mut wanted as usize,
                1,
                at_once.as_ptr() as usize,
                0,
                0,
                0,
            ],
        )
    };
    E::check(ready).is_ok() && wanted.revents == libc::POLLOUT
}

/// `sync_file_range(2)` of a range, begun and waited for: its pages are clean and write-protected
/// afterwards, so that the next store through a mapping moves the change time.
pub fn write_back(descriptor: i32, offset: u64, length_bytes: u64) -> Result<(), Errno> {
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    sync_file_range(descriptor, offset, length_bytes, flags)
}

/// `sync_file_range(2)` of a range, only begun.
pub fn start_write_back(descriptor: i32, offset: u64, length_bytes: u64) -> Result<(), Errno> {
    let flags = libc::SYNC_FILE_RANGE_WRITE;
    sync_file_range(descriptor, offset, length_bytes, flags)
}

fn sync_file_range(
    descriptor: i32,
    offset: u64,
    length_bytes: u64,
    flags: libc::c_uint,
) -> Result<(), Errno> {
    // SAFETY: no memory is passed.
    E::check(unsafe {
        syscall(
            libc::SYS_sync_file_range,
            [
                descriptor as usize,
                offset as usize,
                length_bytes as usize,
                flags as usize,
                0,
                0,
            ],
        )
    })
    .map(|_| ())
}

/// `mkdirat(2)` at the current directory.
pub fn make_directory(path: &CStr, mode: u32) -> Result<(), Errno> {
    // SAFETY: `path` is a NUL-terminated string.
    E::check(unsafe {
        syscall(
            libc::SYS_mkdirat,
            [
                libc::AT_FDCWD as usize,
                path.as_ptr() as usize,
                mode as usize,
                0,
                0,
                0,
            ],
        )
    })
    .map(|_| ())
}

/// `unlinkat(2)` of a file at the current directory.
pub fn unlink(path: &CStr) -> Result<(), Errno> {
    // SAFETY: `path` is a NUL-terminated string.
    E::check(unsafe {
        syscall(
            libc::SYS_unlinkat,
            [libc::AT_FDCWD as usize, path.as_ptr() as usize, 0, 0, 0, 0],
        )
    })
    .map(|_| ())
}

/// Owner and permission bits of an open file or directory.
pub fn owner_and_mode(descriptor: i32) -> Result<(u32, u32), Errno> {
    let status = status(descriptor)?;
    Ok((status.st_uid, status.st_mode))
}

/// Type of the filesystem that an open file lives on (`f_type` of `fstatfs(2)`).
pub fn filesystem_type(descriptor: i32) -> Result<i64, Errno> {
    let mut status = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the kernel writes one `struct statfs`, for which there is room.
    E::check(unsafe {
        syscall(
            libc::SYS_fstatfs,
            [
                descriptor as usize,
                status.as_mut_ptr() as usize,
                0,
                0,
                0,
                0,
            ],
        )
    })?;
    // SAFETY: the call succeeded, so that the structure is filled.
    Ok(unsafe { status.assume_init() }.f_type)
}

/// Memory and offset alignment in bytes that direct I/O needs, as the filesystem reports it
/// (`statx(2)` with `STATX_DIOALIGN`). `Ok(None)`: the kernel or the filesystem does not say.
/// `Ok(Some((0, 0)))`: it says that direct I/O is not supported on this file.
pub fn direct_alignment(descriptor: i32) -> Result<Option<(u32, u32)>, Errno> {
    let mut status = std::mem::MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: an empty path with AT_EMPTY_PATH names the descriptor; one `struct statx` is
    // written, for which there is room.
    E::check(unsafe {
        syscall(
            libc::SYS_statx,
            [
                descriptor as usize,
                c"".as_ptr() as usize,
                libc::AT_EMPTY_PATH as usize,
                STATX_DIOALIGN as usize,
                status.as_mut_ptr() as usize,
                0,
            ],
        )
    })?;
    // SAFETY: zeroed before and filled by the kernel: every field is an integer.
    let status = unsafe { status.assume_init() };
    if status.stx_mask & STATX_DIOALIGN == 0 {
        return Ok(None);
    }
    Ok(Some((
        status.stx_dio_mem_align,
        status.stx_dio_offset_align,
    )))
}

/// What `cachestat(2)` reports of a range, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CacheStatistics {
    /// Pages in the page cache.
    pub cached_pages: u64,
    /// Of these, dirty ones.
    pub dirty_pages: u64,
    /// Of these, pages under writeback.
    pub writeback_pages: u64,
    /// Pages that were evicted.
    pub evicted_pages: u64,
    /// Pages that were evicted so lately that reading them again is a refault.
    pub recently_evicted_pages: u64,
}

/// `cachestat(2)`, Linux 6.5. Needs write permission on the file, or to own it.
pub fn cache_statistics(
    descriptor: i32,
    offset: u64,
    length_bytes: u64,
) -> Result<CacheStatistics, Errno> {
    let range = [offset, length_bytes];
    let mut statistics = CacheStatistics::default();
    // SAFETY: the kernel reads two and writes five words at these places.
    E::check(unsafe {
        syscall(
            SYS_CACHESTAT,
            [
                descriptor as usize,
                range.as_ptr() as usize,
                &raw mut statistics as usize,
                0,
                0,
                0,
            ],
        )
    })?;
    Ok(statistics)
}
