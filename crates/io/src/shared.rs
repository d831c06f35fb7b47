//! A page of 64-bit words that one process writes and others of the same user read.
//!
//! The words are atomics. A torn, stale or forged page can give a reader wrong figures, but it cannot break
//! its memory safety.

use crate::sys::stat::{owner_and_mode, stamp};
use crate::sys::{Descriptor, Errno, close, memory, open, path, process, pwrite, thread};
use std::ffi::CStr;
use std::sync::atomic::AtomicU64;

/// Size of the page in bytes.
pub const SHARED_PAGE_BYTES: usize = 4096;
const WORDS: usize = SHARED_PAGE_BYTES / size_of::<AtomicU64>();

/// Times that a directory is created which others remove. Each removal is the end of a process.
const CREATIONS_MAX: usize = 16;

const OPEN_DIRECTORY: &str = "open directory";
const OPEN: &str = "open";

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
    /// The directory or file belongs to another user, or others may access it.
    #[error("owned by user {owner} with mode {mode:o}: only the owner may have access")]
    NotPrivate {
        /// The user that owns it.
        owner: u32,
        /// Its permission bits.
        mode: u32,
    },
    /// The file is no regular file, or shorter than a page.
    #[error("not a status page: wrong size")]
    WrongSize,
}

fn call<T>(call: &'static str, result: Result<T, Errno>) -> Result<T, SharedPageError> {
    result.map_err(|errno| SharedPageError::Call { call, errno })
}

/// A mapped page. It is never unmapped: it lives as long as the process.
#[derive(Clone, Copy, Debug)]
pub struct SharedPage {
    words: &'static [AtomicU64],
}

impl SharedPage {
    /// Creates the page `file_path` within `directory_path`, and replaces an old file of that name. The
    /// directory is created with mode 0700. Another process may remove it, empty, at the same moment: then it is
    /// created again.
    ///
    /// # Errors
    /// [`SharedPageError::NotPrivate`] if the directory belongs to another user, or others may access it;
    /// [`SharedPageError::Call`] with the kernel's error.
    pub fn create(directory_path: &CStr, file_path: &CStr) -> Result<Self, SharedPageError> {
        let mut created = Self::create_once(directory_path, file_path);
        for _ in 1..CREATIONS_MAX {
            match created {
                Err(SharedPageError::Call {
                    call: OPEN_DIRECTORY | OPEN,
                    errno: Errno(libc::ENOENT),
                }) => created = Self::create_once(directory_path, file_path),
                _ => break,
            }
        }
        created
    }

    /// Removes the page's file, and the directory with the last one. Two system calls: a signal handler may make them.
    pub fn remove(directory_path: &CStr, file_path: &CStr) {
        let _ = path::unlink(file_path);
        let _ = path::remove_directory(directory_path);
    }

    fn create_once(directory_path: &CStr, file_path: &CStr) -> Result<Self, SharedPageError> {
        match path::make_directory(directory_path, 0o700) {
            Ok(()) | Err(Errno(libc::EEXIST)) => {}
            Err(errno) => return call("mkdir", Err(errno)),
        }
        let directory = call(
            OPEN_DIRECTORY,
            open::open(
                directory_path,
                libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW,
                0,
            ),
        )?;
        let private = require_private(directory);
        let _ = close::close(directory);
        private?;
        let _ = path::unlink(file_path);
        let descriptor = call(
            OPEN,
            open::open(
                file_path,
                libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW,
                0o600,
            ),
        )?;
        // Zeros are written, instead of extending the file. On a full filesystem the first store into a page
        // without a block would end the process with `SIGBUS`.
        let zeros = [0; SHARED_PAGE_BYTES];
        let written = thread::without_signals_of_writes(|| pwrite::write(descriptor, &zeros));
        let written = written.and_then(|written| {
            let is_whole = written == SHARED_PAGE_BYTES;
            is_whole.then_some(()).ok_or(Errno(libc::ENOSPC))
        });
        let mapped = call("write", written).and_then(|()| map(descriptor, libc::MAP_SHARED));
        let _ = close::close(descriptor);
        if mapped.is_err() {
            let _ = path::unlink(file_path);
        }
        mapped
    }

    /// A page of this process alone, for when no shared one can be created.
    ///
    /// # Errors
    /// [`SharedPageError::Call`] if there is no memory.
    pub fn anonymous() -> Result<Self, SharedPageError> {
        let address = call("mmap", memory::map_anonymous(SHARED_PAGE_BYTES, 0))?;
        Ok(from_address(address))
    }

    /// Maps an existing page, for reading. The owner never sees what is stored into the words: stores stay
    /// private to this mapping.
    ///
    /// # Errors
    /// [`SharedPageError::NotPrivate`] if the file belongs to another user, or others may access it;
    /// [`SharedPageError::WrongSize`] if it is no page; [`SharedPageError::Call`] with the kernel's error.
    pub fn open(file_path: &CStr) -> Result<Self, SharedPageError> {
        Self::open_as(file_path, libc::O_RDONLY, libc::MAP_PRIVATE)
    }

    fn open_as(file_path: &CStr, access: i32, sharing: i32) -> Result<Self, SharedPageError> {
        // O_NONBLOCK: the path may name a pipe, whose open would wait.
        let how = access | libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let descriptor = call("open", open::open(file_path, how, 0))?;
        let mapped = require_private(descriptor)
            .and_then(|()| {
                let found = call("fstat", stamp(descriptor))?;
                if found.is_regular() && found.size_bytes >= SHARED_PAGE_BYTES as u64 {
                    Ok(())
                } else {
                    Err(SharedPageError::WrongSize)
                }
            })
            .and_then(|()| map(descriptor, sharing));
        let _ = close::close(descriptor);
        mapped
    }

    /// As [`SharedPage::open`], but the owner sees what is stored into the words.
    ///
    /// # Errors
    /// As for [`SharedPage::open`].
    pub fn open_shared(file_path: &CStr) -> Result<Self, SharedPageError> {
        Self::open_as(file_path, libc::O_RDWR, libc::MAP_SHARED)
    }

    /// The words of the page.
    pub fn words(&self) -> &'static [AtomicU64] {
        self.words
    }
}

fn require_private(descriptor: impl Into<Descriptor>) -> Result<(), SharedPageError> {
    let (owner, mode) = call("fstat", owner_and_mode(descriptor))?;
    let mode = mode & 0o777;
    if owner == process::effective_user() && mode & 0o077 == 0 {
        Ok(())
    } else {
        Err(SharedPageError::NotPrivate { owner, mode })
    }
}

fn map(descriptor: impl Into<Descriptor>, sharing: i32) -> Result<SharedPage, SharedPageError> {
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
    // SAFETY: a fresh, page-aligned mapping of that length, which is never unmapped. Other processes may
    // change atomics at any time.
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
    fn a_page_can_be_made_while_the_directory_goes_with_the_last_one() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("pages");
        let work = |name: &str| {
            let (directory, path) = (c_string(&directory), c_string(&directory.join(name)));
            for turn in 0..2000 {
                let page = SharedPage::create(&directory, &path);
                page.unwrap_or_else(|error| panic!("turn {turn}: {error}"));
                SharedPage::remove(&directory, &path);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| work("1"));
            scope.spawn(|| work("2"));
        });
        assert!(!directory.exists());
    }

    #[test]
    fn a_page_that_others_may_access_is_refused() {
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
