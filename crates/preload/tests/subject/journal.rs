//! The record of what a subject saw. It is a shared mapping of a file: it survives a crash, needs no
//! descriptor, and makes no call that could be interposed.

use super::raw;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// More than any program writes.
const BYTES: usize = 8 << 20;

pub struct Journal {
    memory: *mut u8,
    used: usize,
}

// SAFETY: the mapping belongs to the journal alone.
unsafe impl Send for Journal {}

impl Journal {
    pub fn create(path: &Path) -> Self {
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        let descriptor = raw::open(&path, libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC);
        assert!(descriptor >= 0, "{path:?}");
        assert_eq!(raw::truncate(descriptor, BYTES as u64), 0);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let memory = raw::map(BYTES, protection, descriptor, 0).expect("mmap of the journal");
        raw::close(descriptor);
        Self { memory, used: 0 }
    }

    pub fn line(&mut self, text: &str) {
        let bytes = text.as_bytes();
        assert!(self.used + bytes.len() + 1 < BYTES, "the journal is full");
        // SAFETY: there is room, as just asserted.
        unsafe {
            let end = self.memory.add(self.used);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), end, bytes.len());
            *end.add(bytes.len()) = b'\n';
        }
        self.used += bytes.len() + 1;
    }

    /// The record of a subject, line by line.
    pub fn read(path: &Path) -> Vec<String> {
        let bytes = std::fs::read(path).unwrap_or_default();
        let used = bytes
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..used])
            .lines()
            .map(str::to_owned)
            .collect()
    }
}
