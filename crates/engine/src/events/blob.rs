//! The records of blob files that compactions read and write: the handover follows them.

use crate::core::descriptor_map::TrackedFile;
use crate::core::errno::ErrnoGuard;
use crate::reads::ReadCall;
use crate::runtime::Runtime;
use crate::thread::{self, Inside};
use coldstream_policy::FileKind;

impl Runtime {
    /// A background thread's read of a tracked file had this result. If it is a blob file, its records are noted.
    ///
    /// # Safety
    /// The buffer of `call` holds as many bytes as `result` says, if it is positive.
    #[inline]
    pub(super) unsafe fn follow_blob_read(
        &self,
        tracked: TrackedFile,
        call: &ReadCall,
        result: isize,
    ) {
        if tracked.kind == FileKind::RocksDbBlob
            && let Ok(length_bytes @ 1..) = usize::try_from(result)
        {
            let offset = call.offset.max(0) as u64;
            self.follow_blob(|| {
                // SAFETY: passed on.
                let bytes = unsafe { std::slice::from_raw_parts(call.destination, length_bytes) };
                (self.handover).record_blob_read(self.means(), tracked, offset, bytes);
            });
        }
    }

    /// A thread has appended to a tracked file with this result. If that is a compaction's, and a blob file, its records
    /// are noted.
    ///
    /// # Safety
    /// As many bytes as `result` says, if it is positive, can be read at `buffer`.
    #[inline]
    pub unsafe fn follow_append(
        &self,
        (tracked, descriptor): (TrackedFile, i32),
        buffer: *const u8,
        result: isize,
    ) {
        if tracked.kind == FileKind::RocksDbBlob
            && (thread::is_background_reader() || thread::compacts_into(descriptor))
            && let Ok(length_bytes @ 1..) = usize::try_from(result)
        {
            self.follow_blob(|| {
                // SAFETY: passed on.
                let bytes = unsafe { std::slice::from_raw_parts(buffer, length_bytes) };
                (self.handover).record_blob_written(self.means(), tracked, bytes);
            });
        }
    }

    #[cold]
    fn follow_blob(&self, note: impl FnOnce()) {
        let _errno = ErrnoGuard::new();
        if let Some(_inside) = Inside::enter()
            && self.core.owner.is_this_process()
        {
            self.core.protect(note);
        }
    }
}
