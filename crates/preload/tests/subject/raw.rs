//! System calls that no preload library sees. They stand for other processes and for unseen calls, and serve the
//! subject's own records.

use std::ffi::CStr;

/// # Safety
/// As the system call of that number.
unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> i64 {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the caller's.
    unsafe { libc::syscall(number, a, b, c, d, e, f) }
}

pub fn open(path: &CStr, flags: i32) -> i32 {
    let at = libc::AT_FDCWD as usize;
    // SAFETY: the path is NUL-terminated.
    unsafe {
        call(
            libc::SYS_openat,
            [at, path.as_ptr() as usize, flags as usize, 0o644, 0, 0],
        ) as i32
    }
}

pub fn close(descriptor: i32) -> i32 {
    // SAFETY: no memory is passed.
    unsafe { call(libc::SYS_close, [descriptor as usize, 0, 0, 0, 0, 0]) as i32 }
}

/// `dup3` with these flags (there is no `dup2` on newer architectures).
pub fn duplicate_to(descriptor: i32, target: i32, flags: i32) -> i32 {
    // SAFETY: no memory is passed.
    unsafe {
        call(
            libc::SYS_dup3,
            [
                descriptor as usize,
                target as usize,
                flags as usize,
                0,
                0,
                0,
            ],
        ) as i32
    }
}

/// Writes all bytes. Returns whether that was possible.
pub fn write_at(descriptor: i32, bytes: &[u8], offset: u64) -> bool {
    let mut done = 0;
    while done < bytes.len() {
        // SAFETY: the slice is readable.
        let written = unsafe {
            call(
                libc::SYS_pwrite64,
                [
                    descriptor as usize,
                    bytes[done..].as_ptr() as usize,
                    bytes.len() - done,
                    offset as usize + done,
                    0,
                    0,
                ],
            )
        };
        if written <= 0 {
            return false;
        }
        done += written as usize;
    }
    true
}

/// Writes to a pipe.
pub fn write(descriptor: i32, bytes: &[u8]) {
    let mut done = 0;
    while done < bytes.len() {
        // SAFETY: the slice is readable.
        let written = unsafe {
            let rest = &bytes[done..];
            call(
                libc::SYS_write,
                [
                    descriptor as usize,
                    rest.as_ptr() as usize,
                    rest.len(),
                    0,
                    0,
                    0,
                ],
            )
        };
        if written <= 0 {
            return;
        }
        done += written as usize;
    }
}

/// Reads from a pipe until its other end is closed, or `room` is full.
pub fn read_all(descriptor: i32, room: &mut [u8]) -> usize {
    let mut done = 0;
    while done < room.len() {
        // SAFETY: the slice is writable.
        let read = unsafe {
            let rest = &mut room[done..];
            call(
                libc::SYS_read,
                [
                    descriptor as usize,
                    rest.as_mut_ptr() as usize,
                    rest.len(),
                    0,
                    0,
                    0,
                ],
            )
        };
        if read <= 0 {
            break;
        }
        done += read as usize;
    }
    done
}

pub fn truncate(descriptor: i32, length: u64) -> i32 {
    // SAFETY: no memory is passed.
    unsafe {
        call(
            libc::SYS_ftruncate,
            [descriptor as usize, length as usize, 0, 0, 0, 0],
        ) as i32
    }
}

pub fn punch_hole(descriptor: i32, offset: i64, length: i64) -> i32 {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: no memory is passed.
    unsafe {
        call(
            libc::SYS_fallocate,
            [
                descriptor as usize,
                mode as usize,
                offset as usize,
                length as usize,
                0,
                0,
            ],
        ) as i32
    }
}

/// Shares a range of blocks of one file into another, at the same offset.
pub fn clone_range(from: i32, to: i32, offset: u64, length: u64) -> bool {
    let range = libc::file_clone_range {
        src_fd: from.into(),
        src_offset: offset,
        src_length: length,
        dest_offset: offset,
    };
    let request = libc::FICLONERANGE as usize;
    // SAFETY: reads one structure.
    let result = unsafe {
        call(
            libc::SYS_ioctl,
            [to as usize, request, &raw const range as usize, 0, 0, 0],
        )
    };
    result == 0
}

/// Size of an open file; 0 if it is not open.
pub fn size_bytes(descriptor: i32) -> u64 {
    let mut status = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the kernel writes one `struct stat`; zeros are one too.
    unsafe {
        call(
            libc::SYS_fstat,
            [
                descriptor as usize,
                status.as_mut_ptr() as usize,
                0,
                0,
                0,
                0,
            ],
        );
        status.assume_init().st_size as u64
    }
}

/// Writes back and drops all pages of the file with this name.
pub fn drop_pages(path: &CStr) {
    let descriptor = open(path, libc::O_RDONLY | libc::O_NONBLOCK);
    if descriptor < 0 {
        return;
    }
    // SAFETY: no memory is passed.
    unsafe {
        call(libc::SYS_fdatasync, [descriptor as usize, 0, 0, 0, 0, 0]);
        let advice = libc::POSIX_FADV_DONTNEED as usize;
        call(
            libc::SYS_fadvise64,
            [descriptor as usize, 0, 0, advice, 0, 0],
        );
    }
    close(descriptor);
}

/// Drops the clean pages of the file with this name.
pub fn drop_clean_pages(path: &CStr) {
    let descriptor = open(path, libc::O_RDONLY);
    let advice = libc::POSIX_FADV_DONTNEED as usize;
    // SAFETY: no memory is passed.
    unsafe {
        call(
            libc::SYS_fadvise64,
            [descriptor as usize, 0, 0, advice, 0, 0],
        )
    };
    close(descriptor);
}

/// Two ends of a pipe.
pub fn pipe() -> [i32; 2] {
    let mut ends = [-1; 2];
    // SAFETY: the kernel writes two numbers.
    unsafe {
        let flags = libc::O_CLOEXEC as usize;
        call(
            libc::SYS_pipe2,
            [ends.as_mut_ptr() as usize, flags, 0, 0, 0, 0],
        );
    }
    ends
}

/// Ends a forked child at once.
pub fn exit(code: i32) -> ! {
    // SAFETY: does not return.
    unsafe {
        call(libc::SYS_exit_group, [code as usize, 0, 0, 0, 0, 0]);
        libc::_exit(code)
    }
}

/// A mapping at an address that the kernel chooses. It is anonymous if `descriptor` is negative.
pub fn map(length: usize, protection: i32, descriptor: i32, offset: u64) -> Option<*mut u8> {
    let flags = if descriptor < 0 {
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS
    } else {
        libc::MAP_SHARED
    };
    // SAFETY: a new mapping.
    let address = unsafe {
        call(
            libc::SYS_mmap,
            [
                0,
                length,
                protection as usize,
                flags as usize,
                descriptor as usize,
                offset as usize,
            ],
        )
    };
    (address > 0).then_some(address as *mut u8)
}

/// Anonymous memory.
pub fn map_anonymous(length: usize, protection: i32) -> *mut u8 {
    map(length, protection, -1, 0).expect("mmap of memory")
}

/// Whether a byte is readable. A mapping behind the end of its file is not.
pub fn readable(address: *const u8) -> bool {
    let mut byte = 0_u8;
    let local = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    let remote = libc::iovec {
        iov_base: address.cast_mut().cast(),
        iov_len: 1,
    };
    // SAFETY: a bad address is answered with an error.
    unsafe {
        let own_id = libc::getpid() as usize;
        let (local, remote) = (&raw const local, &raw const remote);
        call(
            libc::SYS_process_vm_readv,
            [own_id, local as usize, 1, remote as usize, 1, 0],
        ) == 1
    }
}

/// Overwrites pages of a file through a shared mapping, up to the end of the file.
pub fn write_mapped(descriptor: i32, offset: u64, bytes: &[u8]) -> bool {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let Some(address) = map(bytes.len(), protection, descriptor, offset) else {
        return false;
    };
    for (place, page) in bytes.chunks(4096).enumerate() {
        let target = address.wrapping_add(place * 4096);
        if readable(target) {
            // SAFETY: mapped writable and, as just asked, within the file.
            unsafe { std::ptr::copy_nonoverlapping(page.as_ptr(), target, page.len()) };
        }
    }
    // SAFETY: mapped above, used by nobody else.
    unsafe {
        call(
            libc::SYS_munmap,
            [address as usize, bytes.len(), 0, 0, 0, 0],
        )
    };
    true
}
