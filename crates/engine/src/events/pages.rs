//! What else the application does with the pages of tracked files: sends them, maps them, advises how it will read them.

use super::read::is_beside;
use crate::core::descriptor_map::TrackedFile;
use crate::core::errno::ErrnoGuard;
use crate::handover::TookPlace;
use crate::readahead;
use crate::runtime::Runtime;
use crate::sending::SendCall;
use crate::thread;

impl Runtime {
    /// The calling thread is about to call `sendfile`. Returns whether the bytes pass through a window of
    /// the page cache. If not, the call is plain.
    pub fn before_send(&self, tracked: TrackedFile, call: &SendCall) -> bool {
        (self.sending).follow(&self.core, &self.heat, &self.reads, tracked, call)
    }

    /// A descriptor has been mapped at `address`.
    pub fn mapped(
        &self,
        descriptor: i32,
        protection: i32,
        flags: i32,
        address: usize,
        length_bytes: usize,
    ) {
        let core = &self.core;
        let Some(tracked) = core.tracked(descriptor) else {
            if self.handover.after_mapping(self.means(), descriptor) == TookPlace::Yes {
                let _errno = ErrnoGuard::new();
                self.background.record_busy(core);
            }
            return;
        };
        if let Some(inode) = core.inodes.get(tracked.slot) {
            inode.record_uncounted_use();
            // A mapping of a descriptor that can write may be made writable later, by mprotect.
            if flags & libc::MAP_TYPE != libc::MAP_PRIVATE
                && (tracked.writable || protection & libc::PROT_WRITE != 0)
            {
                inode.record_writable_mapping();
            }
        }
        self.mapped.record(core, tracked, address, length_bytes);
    }

    /// A thread advises that it will need a range of a file. Returns whether to skip the advice. The
    /// advice of a background thread whose reads are served is skipped.
    pub fn skip_range_advice(&self, tracked: TrackedFile, descriptor: i32) -> bool {
        !self.writes.is_staged(&self.core, tracked)
            && (thread::is_background_reader()
                || thread::compacts_from(descriptor, |own| is_beside(&self.core, own, tracked)))
            && self.reads.skip_advice(&self.core, tracked, descriptor)
    }

    /// A thread advises how it will read a whole file. Returns whether to skip the advice. It is skipped
    /// where Coldstream controls the readahead.
    pub fn skip_file_advice(&self, tracked: TrackedFile, descriptor: i32, advice: i32) -> bool {
        readahead::keep_advice(&self.core, tracked, descriptor, advice)
    }
}
