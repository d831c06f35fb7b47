//! New files that are appended to.

use crate::context::coldstream;
use crate::descriptor::{OpenFile, as_libc, from_libc, uninterrupted};
use crate::guard::{count, handle, made, status};
use crate::types::{coldstream_activity, coldstream_format, kind_of, role_of};
use coldstream_engine::thread::{self, Inside};
use coldstream_io::Errno;
use coldstream_io::append::Operation;
use coldstream_io::lock::FutexLock;
use coldstream_io::sys::file;
use coldstream_policy::Role;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

/// A new file. Its members are the library's own.
pub struct coldstream_writer {
    file: OpenFile,
    role: Role,
    size_bytes: AtomicU64,
    /// Calls wait for each other.
    calls: FutexLock<()>,
}

/// For `coldstream_writer_open`: an existing file is emptied. Otherwise the file must not exist.
pub const COLDSTREAM_WRITER_TRUNCATE: u32 = 1;

/// Creates a file to which this handle alone appends. `mode` has its permissions, less the process's umask.
///
/// Until a flush, a sync or the close other readers may see fewer bytes, but never wrong ones. Nobody else may write to
/// the file meanwhile. A flush of memory tables goes around the page cache only with the option `flush=bypass`.
/// The foreground's writes are plain.
///
/// Returns 0, or an error of `open(2)`, or `-EINVAL`. In a signal handler that interrupted this library it is `-EAGAIN`.
///
/// # Safety
/// The pointers are valid, and the path is terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldstream_writer_open(
    context: *const coldstream,
    path: *const c_char,
    format: coldstream_format,
    activity: coldstream_activity,
    flags: u32,
    mode: u32,
    writer: *mut *mut coldstream_writer,
) -> i32 {
    let opened = || {
        // SAFETY: passed on.
        let context = unsafe { handle(context) }?;
        let (kind, role) = (kind_of(format)?, role_of(activity)?);
        if path.is_null() || flags & !COLDSTREAM_WRITER_TRUNCATE != 0 {
            return Err(Errno(libc::EINVAL));
        }
        let how = match flags & COLDSTREAM_WRITER_TRUNCATE {
            0 => libc::O_EXCL,
            _ => libc::O_TRUNC,
        };
        // SAFETY: the caller's text.
        let path = unsafe { CStr::from_ptr(path) };
        thread::declare_role(role);
        let how = libc::O_WRONLY | libc::O_CREAT | how;
        Ok(coldstream_writer {
            file: OpenFile::open(context, path, kind, how, mode)?,
            role,
            size_bytes: AtomicU64::new(0),
            calls: FutexLock::new(()),
        })
    };
    // SAFETY: the caller's place for the handle.
    unsafe { made(writer, opened) }
}

/// Appends `length` bytes. Waits for the permit of pacing before, but not for a flush.
///
/// Returns the bytes taken, as `write(2)`: fewer than `length` only if the next call has the error. Errors are those of
/// `write(2)`, such as `-ENOSPC`. An error may belong to bytes of earlier calls. They stay, and the next call tries
/// them again.
///
/// # Safety
/// The writer is valid, and the data is readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldstream_writer_append(
    writer: *mut coldstream_writer,
    data: *const c_void,
    length: usize,
) -> i64 {
    count(|| {
        // SAFETY: passed on.
        let writer = unsafe { handle(writer) }?;
        let _calls = writer.calls.lock();
        let mut done = 0;
        while done < length {
            let place = data.cast::<u8>().wrapping_add(done);
            // SAFETY: the rest of the caller's data.
            match uninterrupted(|| unsafe { writer.append(place, length - done) }) {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                Err(_) if done > 0 => break,
                Err(errno) => return Err(errno),
            }
        }
        writer.size_bytes.fetch_add(done as u64, Ordering::Relaxed);
        Ok(done as u64)
    })
}

/// The size of the file: all bytes taken.
///
/// # Safety
/// The writer is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldstream_writer_size(writer: *const coldstream_writer) -> i64 {
    count(|| {
        // SAFETY: passed on.
        let writer = unsafe { handle(writer) }?;
        Ok(writer.size_bytes.load(Ordering::Relaxed))
    })
}

/// Brings all bytes taken to the kernel: every reader sees them then. They are not durable.
///
/// Returns 0, or an error of `write(2)`.
///
/// # Safety
/// The writer is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldstream_writer_flush(writer: *mut coldstream_writer) -> i32 {
    // SAFETY: passed on.
    unsafe { with(writer, |writer| writer.before(Operation::Observe)) }
}

/// Makes all bytes taken durable, by `fsync(2)`, or by `fdatasync(2)` if `data_only` is not 0.
///
/// Returns 0, or an error of `write(2)` or `fsync(2)`.
///
/// # Safety
/// The writer is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldstream_writer_sync(
    writer: *mut coldstream_writer,
    data_only: c_int,
) -> i32 {
    let call = |writer: &coldstream_writer| {
        let descriptor = writer.file.number;
        let sync = || match data_only {
            // SAFETY: the handle's descriptor.
            0 => unsafe { libc::fsync(descriptor) },
            // SAFETY: as above.
            _ => unsafe { libc::fdatasync(descriptor) },
        };
        let result = match writer.file.runtime {
            Some(runtime) => runtime.sync(descriptor, sync),
            None => sync(),
        };
        from_libc(result as isize).map(|_| ())
    };
    // SAFETY: passed on.
    unsafe { with(writer, call) }
}

/// Starts the writeback of a range, and waits for it if `wait` is not 0. It makes nothing durable.
///
/// Returns 0, or an error of `write(2)` or `sync_file_range(2)`.
///
/// # Safety
/// The writer is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldstream_writer_range_sync(
    writer: *mut coldstream_writer,
    offset: u64,
    length: u64,
    wait: c_int,
) -> i32 {
    let call = |writer: &coldstream_writer| {
        writer.before(Operation::Observe)?;
        match wait {
            0 => file::start_write_back(writer.file.number, offset, length),
            _ => file::write_back(writer.file.number, offset, length),
        }
    };
    // SAFETY: passed on.
    unsafe { with(writer, call) }
}

/// Reserves blocks for a range, and leaves the size as it is.
///
/// Returns 0, or an error of `fallocate(2)`, such as `-EOPNOTSUPP`.
///
/// # Safety
/// The writer is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldstream_writer_allocate(
    writer: *mut coldstream_writer,
    offset: u64,
    length: u64,
) -> i32 {
    let call = |writer: &coldstream_writer| {
        let too_large = |_| Errno(libc::EFBIG);
        let offset = i64::try_from(offset).map_err(too_large)?;
        let length = i64::try_from(length).map_err(too_large)?;
        writer.before(Operation::Preallocate)?;
        let keep = libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: the handle's descriptor.
        let result = unsafe { libc::fallocate(writer.file.number, keep, offset, length) };
        from_libc(result as isize).map(|_| ())
    };
    // SAFETY: passed on.
    unsafe { with(writer, call) }
}

/// Cuts the file off, or extends it with zeros. Appends go on at the new end, after a cut by plain writes.
///
/// Returns 0, or an error of `write(2)` or `ftruncate(2)`.
///
/// # Safety
/// The writer is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldstream_writer_truncate(
    writer: *mut coldstream_writer,
    size: u64,
) -> i32 {
    // SAFETY: passed on.
    unsafe { with(writer, |writer| writer.truncate(size)) }
}

/// Brings all bytes taken to the kernel, closes the file, and frees the handle, also after an error.
///
/// Returns 0, or the error of a delayed write, or of `close(2)`. In a signal handler that interrupted this library it
/// is `-EAGAIN`, and the handle stays.
///
/// # Safety
/// The writer is a handle that is not closed, and no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldstream_writer_close(writer: *mut coldstream_writer) -> i32 {
    status(|| {
        if writer.is_null() {
            return Err(Errno(libc::EINVAL));
        }
        if Inside::enter().is_none() {
            return Err(Errno(libc::EAGAIN));
        }
        // SAFETY: made by `Box::into_raw`, and closed once.
        let writer = unsafe { Box::from_raw(writer) };
        thread::declare_role(writer.role);
        writer.file.close()
    })
}

/// Runs a call on a writer, after the other calls on it.
///
/// # Safety
/// The writer is null or valid.
unsafe fn with(
    writer: *const coldstream_writer,
    call: impl FnOnce(&coldstream_writer) -> Result<(), Errno>,
) -> i32 {
    status(|| {
        // SAFETY: passed on.
        let writer = unsafe { handle(writer) }?;
        let _calls = writer.calls.lock();
        thread::declare_role(writer.role);
        call(writer)
    })
}

impl coldstream_writer {
    /// # Safety
    /// The data is readable.
    unsafe fn append(&self, data: *const u8, length_bytes: usize) -> Result<usize, Errno> {
        let descriptor = self.file.number;
        // SAFETY: the caller's data.
        let bytes = unsafe { std::slice::from_raw_parts(data, length_bytes) };
        let plain = || as_libc(file::write(descriptor, bytes));
        let runtime = self.file.runtime;
        from_libc(
            match runtime.and_then(|it| Some((it, it.core.tracked(descriptor)?))) {
                Some((runtime, tracked)) => {
                    thread::declare_role(self.role);
                    // SAFETY: the caller's data.
                    unsafe { runtime.write(tracked, descriptor, data, length_bytes, plain) }
                }
                None => plain(),
            },
        )
    }

    /// Before a call that sees or changes the file.
    fn before(&self, operation: Operation) -> Result<(), Errno> {
        match self.file.runtime {
            Some(runtime) => runtime.before_linked_call(self.file.number, operation),
            None => Ok(()),
        }
    }

    fn truncate(&self, size_bytes: u64) -> Result<(), Errno> {
        self.before(Operation::Truncate)?;
        file::truncate(self.file.number, size_bytes)?;
        file::set_position(self.file.number, size_bytes)?;
        if let Some(runtime) = self.file.runtime {
            runtime.after_linked_truncate(self.file.number, size_bytes);
        }
        self.size_bytes.store(size_bytes, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::coldstream_create;
    use crate::types::{COLDSTREAM_COMPACTION, COLDSTREAM_FORMAT_ROCKSDB};
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    use std::ptr::null_mut;

    const AGAIN: i32 = -libc::EAGAIN;

    /// A signal handler runs while its thread is inside the library.
    #[test]
    fn a_signal_handler_neither_opens_nor_closes_a_writer() {
        let directory = coldstream_testkit::directories::on_disk();
        let path = directory.path().join("000001.sst");
        let name = CString::new(path.as_os_str().as_bytes()).unwrap();
        let mut context = null_mut();
        // SAFETY: places of this function, and no texts.
        let created = unsafe { coldstream_create(null_mut(), &raw mut context, null_mut(), 0) };
        assert_eq!(created, 0);
        let open = || {
            let mut writer = null_mut();
            let (format, activity) = (COLDSTREAM_FORMAT_ROCKSDB, COLDSTREAM_COMPACTION);
            // SAFETY: the context lives, and the name is terminated.
            let opened = unsafe {
                let place = &raw mut writer;
                coldstream_writer_open(context, name.as_ptr(), format, activity, 0, 0o600, place)
            };
            (opened, writer)
        };
        let interrupted = Inside::enter();
        assert_eq!(open().0, AGAIN);
        assert!(!path.exists());
        drop(interrupted);
        let (opened, writer) = open();
        assert_eq!(opened, 0);
        let bytes = [7_u8; 5000];
        // SAFETY: the writer is open, and the bytes live.
        let taken = unsafe { coldstream_writer_append(writer, bytes.as_ptr().cast(), 5000) };
        assert_eq!(taken, 5000);
        let interrupted = Inside::enter();
        // SAFETY: open, and not closed by this.
        assert_eq!(unsafe { coldstream_writer_close(writer) }, AGAIN);
        drop(interrupted);
        // SAFETY: still open.
        assert_eq!(unsafe { coldstream_writer_close(writer) }, 0);
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
}
