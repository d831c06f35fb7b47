//! Finished files that are read.

use crate::context::coldstream;
use crate::descriptor::{OpenFile, as_libc, from_libc, uninterrupted};
use crate::guard::{count, guarded, handle, made};
use crate::types::{coldstream_activity, coldstream_format, kind_of, role_of};
use coldstream_engine::reads::ReadCall;
use coldstream_engine::thread;
use coldstream_io::Errno;
use coldstream_io::sys::file;
use coldstream_policy::{FileKind, Role};
use std::ffi::{CStr, c_char, c_void};

/// A finished file. Its members are the library's own.
pub struct coldstream_file {
    pub(crate) file: OpenFile,
    pub(crate) kind: FileKind,
}

/// Opens a finished file for reading, by a descriptor of its own.
///
/// Heat belongs to the file itself, so all handles of a file share it. Close the handle by `coldstream_file_close`.
///
/// Returns 0, or an error of `open(2)`, or `-EINVAL`: an argument is wrong, or it is no regular file. In a signal handler
/// that interrupted this library it is `-EAGAIN`.
///
/// # Safety
/// The pointers are valid, and the path is terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldstream_file_open(
    context: *const coldstream,
    path: *const c_char,
    format: coldstream_format,
    file: *mut *mut coldstream_file,
) -> i32 {
    let opened = || {
        // SAFETY: passed on.
        let context = unsafe { handle(context) }?;
        let kind = kind_of(format)?;
        if path.is_null() {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: the caller's text.
        let path = unsafe { CStr::from_ptr(path) };
        let file = OpenFile::open(context, path, kind, libc::O_RDONLY, 0)?;
        Ok(coldstream_file { file, kind })
    };
    // SAFETY: the caller's place for the handle.
    unsafe { made(file, opened) }
}

/// Closes a file, and frees the handle. No thread may use it any more.
///
/// # Safety
/// The file is null, or a handle that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldstream_file_close(file: *mut coldstream_file) {
    guarded((), || {
        if !file.is_null() {
            // SAFETY: made by `Box::into_raw`, and closed once.
            drop(unsafe { Box::from_raw(file) });
        }
    });
}

/// Reads as `pread(2)`: `length` bytes at `offset`, fewer only at the end of the file.
///
/// - `COLDSTREAM_FOREGROUND` and `COLDSTREAM_FLUSH`: a plain read. That of the foreground is noted, so do not call
///   `coldstream_note_read` for it.
/// - Others: waits for the permit of pacing. Cached bytes come from the page cache, others around it, in large windows
///   that are read ahead. Where this does not work, it is a plain read, and the reason is counted. The engine remembers
///   the file as an input of the calling thread. The thread gets the priority of background threads (`priority`) until
///   its next read of the foreground.
///
/// Returns the bytes read, or an error of `pread(2)`.
///
/// # Safety
/// The file is valid, and the buffer is writable for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldstream_file_read(
    file: *const coldstream_file,
    activity: coldstream_activity,
    offset: u64,
    buffer: *mut c_void,
    length: usize,
) -> i64 {
    count(|| {
        // SAFETY: passed on.
        let file = unsafe { handle(file) }?;
        let role = role_of(activity)?;
        let mut done = 0;
        while done < length {
            let at = offset.checked_add(done as u64).ok_or(Errno(libc::EINVAL))?;
            let place = buffer.cast::<u8>().wrapping_add(done);
            // SAFETY: the rest of the caller's buffer.
            let read = uninterrupted(|| unsafe { file.read(role, at, place, length - done) });
            match read {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                Err(_) if done > 0 => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(done as u64)
    })
}

/// Whether the engine reads ahead by itself for reads of this activity. Then the caller asks nobody else to: the pages
/// would never be read, and a buffer of its own would only be copied. It may be otherwise at the next call.
///
/// Returns 1 or 0, or `-EINVAL`.
///
/// # Safety
/// The file is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldstream_file_reads_ahead(
    file: *const coldstream_file,
    activity: coldstream_activity,
) -> i32 {
    let asked = || {
        // SAFETY: passed on.
        let of = &unsafe { handle(file) }?.file;
        let role = role_of(activity)?;
        if matches!(role, Role::Foreground | Role::Flush) {
            return Ok(0);
        }
        thread::declare_role(role);
        let known = (of.runtime).and_then(|it| Some((it, it.core.tracked(of.number)?)));
        Ok(known.map_or(0, |(runtime, tracked)| {
            u64::from(runtime.skip_range_advice(tracked, of.number))
        }))
    };
    count(asked) as i32
}

/// The file will be deleted: its heat is forgotten, and its windows are closed. Call it before `unlink(2)`.
///
/// # Safety
/// The file is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldstream_file_forget(file: *const coldstream_file) {
    guarded((), || {
        // SAFETY: passed on.
        if let Ok(coldstream_file { file, .. }) = unsafe { handle(file) }
            && let Some(runtime) = file.runtime
        {
            runtime.before_deletion(file.number);
        }
    });
}

impl coldstream_file {
    /// # Safety
    /// The buffer is writable.
    unsafe fn read(
        &self,
        role: Role,
        offset: u64,
        buffer: *mut u8,
        length_bytes: usize,
    ) -> Result<usize, Errno> {
        let descriptor = self.file.number;
        // SAFETY: passed on.
        let plain = || unsafe { file::pread(descriptor, buffer, length_bytes, offset) };
        let Some(runtime) = self.file.runtime else {
            return plain();
        };
        let Some(tracked) = runtime.core.tracked(descriptor) else {
            return plain();
        };
        match role {
            Role::Foreground => {
                let token = self.note(offset, length_bytes as u64);
                let read = plain();
                self.note_done(token);
                read
            }
            Role::Flush => plain(),
            Role::Compaction | Role::Validation | Role::Streaming => {
                thread::declare_role(role);
                let call = ReadCall {
                    descriptor,
                    destination: buffer,
                    length_bytes,
                    offset: i64::try_from(offset).map_err(|_| Errno(libc::EINVAL))?,
                };
                // SAFETY: the caller's buffer.
                from_libc(unsafe {
                    runtime.read_in_background(tracked, &call, || as_libc(plain()))
                })
            }
        }
    }
}
