//! The scan reader of a process: all its files, streams and windows.
//!
//! Order of locks: first a file's, then a stream's. A read holds the file's lock only until it knows its
//! stream.

use super::context::{Destination, ReadContext, Shared};
use super::file::ScannedFile;
use super::observer::ScanObserver;
use super::outcome::{Fallback, Outcome};
use super::request::{BufferCheck, Request, Settings};
use super::sequence::fair_share;
use super::stream::WINDOWS_MAX;
use super::stream_set::StreamSet;
use crate::lock::FutexLock;
use crate::mapping::{OnFork, give_untouched_back, map_for_life};
use crate::pool::WindowPool;
use crate::private::DescriptorRegistry;
use crate::sys::{Errno, user_memory};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most files. They take address space only, until they are read.
pub const FILES_MAX: usize = 65_536;
/// Longer reads are left to the kernel: they are large requests already.
const REQUEST_BYTES_MAX: usize = 1 << 30;

/// The scan reader of a process; see the module's documentation for its promises.
///
/// Any thread may use it. Reads of one stream wait for each other; reads of different streams do not.
#[repr(C)]
pub struct Scanner {
    window_bytes: AtomicUsize,
    windows_in_flight: AtomicUsize,
    /// Lower limits of both, for a while; 0 is none.
    window_bytes_limit: AtomicUsize,
    windows_in_flight_limit: AtomicUsize,
    shared: Shared,
    streams: StreamSet,
    files: [FutexLock<ScannedFile>; FILES_MAX],
}

impl Scanner {
    /// A scanner for the life of the process. A forked child finds it empty and without settings: every
    /// read ends in a fallback there.
    ///
    /// # Errors
    /// The kernel's, such as `ENOMEM`.
    pub fn for_process(settings: Settings) -> Result<&'static Scanner, Errno> {
        let memory = map_for_life(size_of::<Scanner>(), OnFork::Wipe)?;
        // SAFETY: the mapping is page-aligned, zeroed, of the right size, and never unmapped; all-zero
        // memory is a valid scanner.
        let scanner = unsafe { &*memory.cast::<Scanner>() };
        scanner.configure(settings)?;
        Ok(scanner)
    }

    /// Reserves the memory of the windows. Called once, before other threads use the scanner.
    ///
    /// # Errors
    /// The kernel's, such as `ENOMEM`.
    pub fn configure(&self, settings: Settings) -> Result<(), Errno> {
        self.shared.pool.reserve(settings.memory_bytes)?;
        self.windows_in_flight.store(
            settings.windows_in_flight.clamp(1, WINDOWS_MAX - 1),
            Ordering::Relaxed,
        );
        self.window_bytes
            .store(settings.window_bytes, Ordering::Release);
        Ok(())
    }

    /// Limits new windows to `window_bytes`, and the windows ahead of each consumer to
    /// `windows_in_flight`. 0 removes a limit. Windows in flight stay as they are.
    pub fn limit_requests(&self, window_bytes: usize, windows_in_flight: usize) {
        self.window_bytes_limit
            .store(window_bytes, Ordering::Relaxed);
        self.windows_in_flight_limit
            .store(windows_in_flight, Ordering::Relaxed);
    }

    /// The memory of the windows, for figures.
    pub fn pool(&self) -> &WindowPool {
        &self.shared.pool
    }

    /// Gives back what streams do not need any more: contexts of asynchronous I/O that were free since the last call,
    /// and everything of streams without a read for a minute. `now` is a time of
    /// [`coarse_milliseconds`](crate::sys::clock::coarse_milliseconds). Returns whether there is more to give back later.
    ///
    /// To be called about once a second while files are read, by a thread that may wait for some milliseconds.
    pub fn tend<H: ScanObserver>(&self, now: u32, host: &H) -> bool {
        self.streams.release_orphans(&self.shared, host);
        self.streams.release_abandoned(now, &self.shared, host);
        self.shared.contexts.destroy_unneeded() > 0
    }

    /// Serves a read into `destination`. The file at `request.slot` must always be the same one, until
    /// [`Scanner::close`].
    pub fn read_into<H: DescriptorRegistry + ScanObserver>(
        &self,
        request: &Request,
        destination: &mut [u8],
        host: &H,
    ) -> Outcome {
        // SAFETY: a mutable slice is writable.
        unsafe {
            self.read(
                request,
                destination.as_mut_ptr(),
                destination.len(),
                BufferCheck::Vouched,
                host,
            )
        }
    }

    /// Serves a read into memory that the application named. With [`BufferCheck::AskKernel`] it asks the
    /// kernel first whether the memory is writable: a bad pointer must end in the `EFAULT` of the system
    /// call.
    ///
    /// It leaves the bytes behind those that it delivers unchanged. With [`Outcome::Plain`] it may have
    /// changed the bytes before.
    ///
    /// # Safety
    /// With [`BufferCheck::Vouched`], `destination` must be writable for `length_bytes`. Otherwise Rust
    /// code must not rely on the range.
    pub unsafe fn read<H: DescriptorRegistry + ScanObserver>(
        &self,
        request: &Request,
        destination: *mut u8,
        length_bytes: usize,
        check: BufferCheck,
        host: &H,
    ) -> Outcome {
        // The kernel must refuse bad arguments, in its own order of checks.
        let end = request.offset.checked_add(length_bytes as u64);
        if length_bytes > REQUEST_BYTES_MAX
            || end.is_none_or(|end| i64::try_from(end).is_err())
            || !within_user_space(destination, length_bytes)
        {
            return Outcome::Plain(Fallback::BadBuffer);
        }
        let Some(left) = request.stamp.size_bytes.checked_sub(request.offset) else {
            return nothing();
        };
        let length_bytes = (length_bytes as u64).min(left) as usize;
        if length_bytes == 0 {
            return nothing();
        }
        // Checked here, so that no window is read in vain.
        if check == BufferCheck::AskKernel && length_bytes < user_memory::WRITABLE_BYTES_MIN {
            return Outcome::Plain(Fallback::BadBuffer);
        }
        let destination = Destination {
            memory: destination,
            length_bytes,
            check,
        };
        match self.read_within_file(request, &destination, host) {
            Ok(cached_bytes) => Outcome::Served {
                bytes: length_bytes,
                cached_bytes,
            },
            Err(Fallback::Identity) => {
                self.close(request.slot, host);
                Outcome::Plain(Fallback::Identity)
            }
            Err(fallback) => Outcome::Plain(fallback),
        }
    }

    /// Serves a read whose bytes are all within the file. Returns how many came out of the page cache.
    fn read_within_file<H: DescriptorRegistry + ScanObserver>(
        &self,
        request: &Request,
        destination: &Destination,
        host: &H,
    ) -> Result<usize, Fallback> {
        let file = self
            .files
            .get(request.slot as usize)
            .ok_or(Fallback::StreamLimit)?;
        let mut file = file.lock();
        let key = file.key(request.slot);
        file.check_stamp(&request.stamp)?;
        file.ensure_open(request, host)?;
        let number =
            self.streams
                .find(&mut file.streams, key, request.offset, &self.shared, host)?;
        let (direct, buffered) = (file.direct.get(), file.buffered.get());
        drop(file);

        let mut stream = self
            .streams
            .lock(number, key)
            .ok_or(Fallback::StreamLimit)?;
        let buffered = buffered.ok_or(Fallback::OpenFailed)?;
        let windows_in_flight = limited(&self.windows_in_flight, &self.windows_in_flight_limit);
        let context = ReadContext {
            observer: host,
            shared: &self.shared,
            mode: request.mode,
            descriptor: if request.mode.is_direct() {
                direct.ok_or(Fallback::OpenFailed)?
            } else {
                buffered
            },
            buffered,
            stamp: request.stamp,
            window_bytes: fair_share(
                self.shared.pool.cap_bytes(),
                self.streams.active() + usize::from(!stream.is_active()),
                1 + windows_in_flight,
                limited(&self.window_bytes, &self.window_bytes_limit),
            ),
            windows_in_flight,
        };
        let cover_end = stream.sequence.cover_end;
        // SAFETY: the destination is checked, or the caller of `read` vouches for it.
        let mut result = unsafe { stream.read(&context, destination, request.offset) };
        if result == Err(Fallback::MemoryCap)
            && self.streams.release_idle(number, &self.shared, host)
        {
            // SAFETY: as above.
            result = unsafe { stream.read(&context, destination, request.offset) };
        }
        if stream.sequence.cover_end != cover_end {
            self.streams.touch(number);
        }
        self.streams.publish(number, &stream);
        result
    }

    /// Closes a file: gives its windows back, and closes its private descriptors. The slot is then ready for
    /// another file. A later read of the same file opens new private descriptors.
    ///
    /// It waits for threads that read the file just now, and for nothing else. If the device still writes into
    /// windows that were read ahead, they are given back later: see [`Scanner::release_orphans`].
    ///
    /// Called before the file's last descriptor is closed, and when the application needs the number of a
    /// private descriptor. A private descriptor whose number names another file now stays open.
    pub fn close<H: DescriptorRegistry + ScanObserver>(&self, slot: u32, host: &H) {
        let Some(file) = self.files.get(slot as usize) else {
            return;
        };
        let mut file = file.lock();
        let key = file.key(slot);
        (self.streams).release_file(file.streams, key, &self.shared, host);
        file.close(host);
        drop(file);
        self.release_orphans(host);
    }

    /// As [`Scanner::close`], if nobody has read the file for a minute. Its descriptors are then free for others. Waits
    /// for nothing.
    pub fn close_abandoned<H: DescriptorRegistry + ScanObserver>(
        &self,
        slot: u32,
        now: u32,
        host: &H,
    ) {
        if let Some(mut file) = (self.files.get(slot as usize)).and_then(FutexLock::try_lock)
            && file.is_open()
            && (self.streams).try_release_abandoned_file(
                (file.streams, file.key(slot)),
                now,
                &self.shared,
                host,
            )
        {
            file.close(host);
        }
    }

    /// Gives memory of files back to the system that `mlockall` has made resident, and that was never used.
    ///
    /// # Safety
    /// The scanner lies in a mapping of [`map_for_life`]. No thread calls it with a slot for which `is_in_use` is
    /// false.
    pub unsafe fn give_untouched_back(&self, is_in_use: impl Fn(usize) -> bool) {
        let start = std::ptr::from_ref(&self.files).cast_mut().cast();
        let file_bytes = size_of::<FutexLock<ScannedFile>>();
        // SAFETY: passed on.
        unsafe {
            give_untouched_back(start, size_of_val(&self.files), |page| {
                !(page.start / file_bytes..page.end.div_ceil(file_bytes)).any(&is_in_use)
            });
        }
    }

    /// Gives back windows of closed files for which the device has finished. Waits for nothing.
    pub fn release_orphans<H: ScanObserver>(&self, host: &H) {
        self.streams.release_orphans(&self.shared, host);
    }

    /// Waits for the device, and gives back all windows of closed files.
    pub fn wait_for_orphans<H: ScanObserver>(&self, host: &H) {
        self.streams.wait_for_orphans(&self.shared, host);
    }
}

/// A setting, or its present limit.
fn limited(setting: &AtomicUsize, limit: &AtomicUsize) -> usize {
    let setting = setting.load(Ordering::Relaxed);
    match limit.load(Ordering::Relaxed) {
        0 => setting,
        limit => setting.min(limit),
    }
}

/// Whether the kernel's `access_ok` would accept the whole range. Only the part within the file is
/// written.
fn within_user_space(memory: *const u8, length_bytes: usize) -> bool {
    /// `TASK_SIZE_MAX` of x86-64 with four levels of page tables. On other machines only an overflow is
    /// found.
    const END: usize = if cfg!(target_arch = "x86_64") {
        (1 << 47) - 4096
    } else {
        usize::MAX
    };
    (memory as usize)
        .checked_add(length_bytes)
        .is_some_and(|end| end <= END)
}

/// Nothing to deliver: the end of the file, or a read of no bytes.
fn nothing() -> Outcome {
    Outcome::Served {
        bytes: 0,
        cached_bytes: 0,
    }
}
