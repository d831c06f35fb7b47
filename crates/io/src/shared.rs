//! A page of 64-bit words that one process maintains and others of the same user read.
//!
//! The words are atomics, so that a torn, stale or forged page can mislead a reader's figures
//! but never its memory safety.

use crate::sys::{Errno, file, memory};
use std::ffi::CStr;
use std::sync::atomic::AtomicU64;

/// Size of the page in bytes.
pub const SHARED_PAGE_BYTES: usize = 4096;
const WORDS: usize = SHARED_PAGE_BYTES / size_of::<AtomicU64>();

/// Why a page could not be made or opened.
#[derive(Debug, thiserror::Error)]
pub enum SharedPageError {
    /// A system call failed.
    #[error("{call}: {errno}")]
    Call {
        /// The system call.
        call: &'static str,
        /// Its error.
        errno: Errno,
    },
    /// The directory or file belongs to another user or is open to others.
    #[error("owned by user {owner} with mode {mode:o}: only the owner may have access")]
    NotPrivate {
        /// User who owns it.
        owner: u32,
        /// Its permission bits.
        mode: u32,
    },
    /// The file is not as long as a page.
    #[error("not a status page: wrong size")]
    WrongSize,
}

fn call<T>(call: &'static str, result: Result<T, Errno>) -> Result<T, SharedPageError> {
    result.map_err(|errno| SharedPageError::Call { call, errno })
}

/// A mapped page. Dropping it does not unmap: the pages of a process live as long as it does.
#[derive(Clone, Copy, Debug)]
pub struct SharedPage {
    words: &'static [AtomicU64],
}

impl SharedPage {
    /// Makes the page `file_path` within `directory_path`, which is created with mode 0700 and
    /// refused if it belongs to somebody else or is open to others. An old file of that name is
    /// replaced.
    pub fn create(directory_path: &CStr, file_path: &CStr) -> Result<Self, SharedPageError> {
        match file::make_directory(directory_path, 0o700) {
            Ok(()) | Err(Errno(libc::EEXIST)) => {}
            Err(errno) => return call("mkdir", Err(errno)),
        }
        let directory = call(
            "open directory",
            file::open(
                directory_path,
                libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW,
                0,
            ),
        )?;
        let private = require_private(directory);
        let _ = file::close(directory);
        private?;
        let _ = file::unlink(file_path);
        let descriptor = call(
            "open",
            file::open(
                file_path,
                libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW,
                0o600,
            ),
        )?;
        // Written, not truncated to its length: where the filesystem is full, the first store into a
        // page without a block would end the process with `SIGBUS`.
        let written = file::write(descriptor, &[0; SHARED_PAGE_BYTES]).and_then(|written| {
            let is_whole = written == SHARED_PAGE_BYTES;
            is_whole.then_some(()).ok_or(Errno(libc::ENOSPC))
        });
        let mapped = call("write", written).and_then(|()| map(descriptor, libc::MAP_SHARED));
        let _ = file::close(descriptor);
        if mapped.is_err() {
            let _ = file::unlink(file_path);
        }
        mapped
    }

    /// A page of this process alone, where no shared one can be made.
    pub fn anonymous() -> Result<Self, SharedPageError> {
        let address = call("mmap", memory::map_anonymous(SHARED_PAGE_BYTES, 0))?;
        Ok(from_address(address))
    }

    /// Maps an existing page. The file must belong to the caller and be closed to others. What
    /// is stored into the words stays private to this mapping: the owner never sees it.
    pub fn open(file_path: &CStr) -> Result<Self, SharedPageError> {
        Self::open_as(file_path, libc::O_RDONLY, libc::MAP_PRIVATE)
    }

    fn open_as(file_path: &CStr, access: i32, sharing: i32) -> Result<Self, SharedPageError> {
        // Whatever lies there, a named pipe for instance, is not waited for.
        let how = access | libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let descriptor = call("open", file::open(file_path, how, 0))?;
        let mapped = require_private(descriptor)
            .and_then(|()| {
                let stamp = call("fstat", file::stamp(descriptor))?;
                if stamp.is_regular() && stamp.size_bytes >= SHARED_PAGE_BYTES as u64 {
                    Ok(())
                } else {
                    Err(SharedPageError::WrongSize)
                }
            })
            .and_then(|()| map(descriptor, sharing));
        let _ = file::close(descriptor);
        mapped
    }

    /// As [`SharedPage::open`], but what is stored into the words is the owner's to see.
    ///
    /// # Errors
    /// As there.
    pub fn open_shared(file_path: &CStr) -> Result<Self, SharedPageError> {
        Self::open_as(file_path, libc::O_RDWR, libc::MAP_SHARED)
    }

    /// The words of the page.
    pub fn words(&self) -> &'static [AtomicU64] {
        self.words
    }
}

fn require_private(descriptor: i32) -> Result<(), SharedPageError> {
    let (owner, mode) = call("fstat", file::owner_and_mode(descriptor))?;
    let mode = mode & 0o777;
    if owner == crate::sys::process::effective_user() && mode & 0o077 == 0 {
        Ok(())
    } else {
        Err(SharedPageError::NotPrivate { owner, mode })
    }
}

fn map(descriptor: i32, sharing: i32) -> Result<SharedPage, SharedPageError> {
    let address = call(
        "mmap",
        memory::map(
            SHARED_PAGE_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            sharing,
            descriptor,
            0,
        ),
    )?;
    Ok(from_address(address))
}

fn from_address(address: *mut u8) -> SharedPage {
    // SAFETY: a fresh, page-aligned mapping of that length, which is never unmapped; atomics
    // may be changed by other processes at any time.
    let words = unsafe { std::slice::from_raw_parts(address.cast::<AtomicU64>(), WORDS) };
    SharedPage { words }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::Ordering;

    fn c_string(path: &std::path::Path) -> CString {
        CString::new(path.as_os_str().as_bytes()).unwrap()
    }

    #[test]
    fn one_writes_and_another_reads() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("pages");
        let path = directory.join("1");
        let owner = SharedPage::create(&c_string(&directory), &c_string(&path)).unwrap();
        let reader = SharedPage::open(&c_string(&path)).unwrap();
        owner.words()[7].store(42, Ordering::Relaxed);
        assert_eq!(reader.words()[7].load(Ordering::Relaxed), 42);
        reader.words()[8].store(1, Ordering::Relaxed);
        assert_eq!(owner.words()[8].load(Ordering::Relaxed), 0);
        let asker = SharedPage::open_shared(&c_string(&path)).unwrap();
        asker.words()[9].store(2, Ordering::Relaxed);
        assert_eq!(owner.words()[9].load(Ordering::Relaxed), 2);
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }

    #[test]
    fn what_is_open_to_others_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let path = directory.path().join("1");
        assert!(matches!(
            SharedPage::create(&c_string(directory.path()), &c_string(&path)),
            Err(SharedPageError::NotPrivate { mode: 0o755, .. })
        ));
        std::fs::write(&path, vec![0; SHARED_PAGE_BYTES]).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        assert!(matches!(
            SharedPage::open(&c_string(&path)),
            Err(SharedPageError::NotPrivate { mode: 0o644, .. })
        ));
        std::fs::write(&path, "short").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        assert!(matches!(
            SharedPage::open(&c_string(&path)),
            Err(SharedPageError::WrongSize)
        ));
    }
}
