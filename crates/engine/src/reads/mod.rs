//! Background reads of tracked files: served out of windows around the page cache, or not at all.
//!
//! A served byte is the file's present byte. On any doubt nothing is served, the reason is counted, and the
//! caller makes the plain call.

mod filesystems;

pub use filesystems::Choice;

use crate::core::descriptor_map::TrackedFile;
use crate::core::errno::ErrnoGuard;
use crate::core::{Core, fuse};
use crate::thread::Inside;
use crate::{report, settings};
use coldstream_control::{Counter, Mechanism};
use coldstream_io::scan::{BufferCheck, Fallback, Outcome, ReadMode, Request};
use coldstream_io::sys::file::{self, FileStamp};
use filesystems::Filesystems;
use std::ops::Range;

/// All-zero memory has read nothing.
#[repr(C)]
pub struct Reads {
    filesystems: Filesystems,
}

/// A call of `pread`.
pub struct ReadCall {
    /// The descriptor that is read.
    pub descriptor: i32,
    /// Where the bytes go.
    pub destination: *mut u8,
    /// How many bytes are asked for.
    pub length_bytes: usize,
    /// Offset in the file, in bytes.
    pub offset: i64,
}

/// A read that was served.
pub struct Served {
    /// Bytes delivered.
    pub bytes: u64,
    /// Of these, bytes that had been in the page cache.
    pub cached_bytes: u64,
}

impl Reads {
    /// Serves a background read. Calls `record_input` for each file that may be read in the background. Returns
    /// `None` if the plain call must be made.
    ///
    /// # Safety
    /// `destination` and `length_bytes` are what the application gave to `pread`.
    pub unsafe fn serve(
        &self,
        core: &Core,
        tracked: TrackedFile,
        call: &ReadCall,
        record_input: impl FnOnce(&FileStamp, Range<u64>),
    ) -> Option<Served> {
        // Negative offsets and empty reads are left to the kernel: it refuses the former and allows the latter.
        let offset = u64::try_from(call.offset).ok()?;
        if call.length_bytes == 0 {
            return None;
        }
        let count_fallback = |reason: Option<Counter>| {
            if let Some(reason) = reason {
                core.count(reason, 1);
            }
        };
        let (stamp, choice) = (self.eligible(core, tracked, call.descriptor))
            .map_err(count_fallback)
            .ok()?;
        let end = offset.saturating_add(call.length_bytes as u64);
        record_input(&stamp, offset..end);
        let mode = match choice {
            Choice::Windows(mode) => mode,
            Choice::Buffered(reason) => {
                count_fallback(reason);
                return None;
            }
        };
        let request = Request {
            slot: tracked.slot,
            descriptor: call.descriptor.into(),
            stamp,
            mode,
            offset,
        };
        // SAFETY: the kernel is asked whether the destination is writable; it is the
        // application's, and nothing in this library relies on its content.
        let outcome = unsafe {
            (core.scanner).read(
                &request,
                call.destination,
                call.length_bytes,
                BufferCheck::AskKernel,
                core,
            )
        };
        match outcome {
            Outcome::Served {
                bytes,
                cached_bytes,
            } => {
                let served = Served {
                    bytes: bytes as u64,
                    cached_bytes: cached_bytes as u64,
                };
                core.count(Counter::BackgroundReads, 1);
                core.count(Counter::BackgroundBytes, served.bytes);
                core.count(Counter::BytesFromCache, served.cached_bytes);
                core.count(bytes_counter(mode), served.bytes - served.cached_bytes);
                Some(served)
            }
            Outcome::Plain(reason) => {
                core.count(reason_counter(reason), 1);
                None
            }
        }
    }

    /// Whether background reads of a file can be served at all, and how. `Err` has the reason to count. It is
    /// `Err(None)` if the plain call will fail and report the reason itself.
    pub fn eligible(
        &self,
        core: &Core,
        tracked: TrackedFile,
        descriptor: i32,
    ) -> Result<(FileStamp, Choice), Option<Counter>> {
        if !tracked.servable {
            return Err(Some(if tracked.writable {
                Counter::FallbackWritten
            } else {
                Counter::FallbackDescriptorFlags
            }));
        }
        let inode = core.inodes.get(tracked.slot).ok_or(None)?;
        // The descriptor is closed: the plain call reports `EBADF`.
        let mut stamp = file::stamp(descriptor).map_err(|_| None)?;
        if !inode.is(&stamp) || !stamp.is_regular() {
            return Err(Some(Counter::FallbackIdentity));
        }
        if inode.may_be_written() {
            return Err(Some(Counter::FallbackWritten));
        }
        if inode.is_locked() || !reads_plainly(descriptor) {
            return Err(Some(Counter::FallbackDescriptorFlags));
        }
        stamp.noticed_changes = inode.changes();
        if let Some(choice) = Choice::decode(inode.read_choice()) {
            return Ok((stamp, choice));
        }
        let settings = settings::get().ok_or(None)?;
        let choice = self
            .filesystems
            .choose(settings, descriptor, stamp.device)
            .ok_or(Some(Counter::FallbackOpenFailed))?;
        inode.set_read_choice(choice.encode());
        if let Some(page) = core.page() {
            page.set_in_force(choice.io_mode());
        }
        report::log_reads(settings, choice.io_mode(), &core.status);
        Ok((stamp, choice))
    }

    /// A background thread advises that it will need a range of a file. Returns whether to skip the advice. It is
    /// skipped if the thread's reads are served from windows: the pages would never be read.
    #[cold]
    pub fn skip_advice(&self, core: &Core, tracked: TrackedFile, descriptor: i32) -> bool {
        let _errno = ErrnoGuard::new();
        let Some(_inside) = Inside::enter() else {
            return false;
        };
        if fuse::is_blown() || !core.is_on(Mechanism::Reads) {
            return false;
        }
        let is_served = matches!(
            self.eligible(core, tracked, descriptor),
            Ok((_, Choice::Windows(_)))
        );
        if is_served {
            core.count(Counter::ReadaheadAdviceSkipped, 1);
        }
        is_served
    }
}

/// Counts a background read that was a plain call.
pub fn count_plain(core: &Core, descriptor: i32, result: isize) {
    core.count(Counter::BackgroundReads, 1);
    if let Ok(bytes) = u64::try_from(result) {
        core.count(Counter::BackgroundBytes, bytes);
        let counter = match is_direct(descriptor) {
            true => Counter::BytesEngineDirect,
            false => Counter::BytesBuffered,
        };
        core.count(counter, bytes);
    }
}

/// Whether the engine itself has set `O_DIRECT` on its descriptor. It may set it at any time.
pub fn is_direct(descriptor: i32) -> bool {
    file::status_flags(descriptor).is_ok_and(|flags| flags & libc::O_DIRECT != 0)
}

/// Whether a descriptor may be read, and through the page cache. Only the kernel knows: duplicates in other
/// processes share its flags, and its number may be another opening of the same file by now.
fn reads_plainly(descriptor: i32) -> bool {
    file::status_flags(descriptor).is_ok_and(|flags| {
        flags & libc::O_ACCMODE != libc::O_WRONLY && flags & (libc::O_DIRECT | libc::O_PATH) == 0
    })
}

fn bytes_counter(mode: ReadMode) -> Counter {
    match mode {
        ReadMode::Direct(_) => Counter::BytesDirect,
        ReadMode::DontCache => Counter::BytesDontcache,
        ReadMode::DropBehind => Counter::BytesDropBehind,
    }
}

/// The counter of a reason for which there is no direct I/O.
pub fn reason_counter(reason: Fallback) -> Counter {
    match reason {
        Fallback::ChangedRecently => Counter::FallbackChangedRecently,
        Fallback::DescriptorLimit => Counter::FallbackDescriptorLimit,
        Fallback::OpenFailed => Counter::FallbackOpenFailed,
        Fallback::Identity => Counter::FallbackIdentity,
        Fallback::ReadFailed => Counter::FallbackReadFailed,
        Fallback::MemoryCap => Counter::FallbackMemoryCap,
        Fallback::StreamLimit => Counter::FallbackStreamLimit,
        Fallback::BadBuffer => Counter::FallbackCall,
    }
}
