//! All files and streams of a process: finds the stream that a read continues, or starts one.
//!
//! Locks, in this order: a file's, then a stream's. While a stream's lock is held, other
//! streams' locks are only tried.

use super::sequence::{Relation, fair_share, relation};
use super::stream::{Destination, ReadContext, Stream};
use super::{CHANGED_RECENTLY_NS, Fallback, Outcome, ReadMode, ScanObserver, WINDOWS_MAX};
use crate::lock::{FutexGuard, FutexLock};
use crate::mapping::{OnFork, map_for_life};
use crate::pool::WindowPool;
use crate::private::{DescriptorRegistry, PrivateDescriptor};
use crate::sys::file::{self, FileStamp};
use crate::sys::{Descriptor, Errno, memory, process};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Files that can be in the books at once. Address space only, until a file is read.
pub const FILES_MAX: usize = 65_536;
/// Streams at once: with the smallest windows, two each, they fill the default cap of 64 MiB.
pub const STREAMS_MAX: usize = 512;
/// Streams of one file: subcompactions that read it at the same time.
const STREAMS_PER_FILE: usize = 8;
/// A stream that has not asked for a window in so many milliseconds may lose its memory.
const IDLE_MILLISECONDS: u32 = 1000;
/// Longer reads are left to the kernel: nothing small about them.
const REQUEST_BYTES_MAX: usize = 1 << 30;

/// How a scanner works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Largest window in bytes: a power of two from 64 KiB to 2 MiB.
    pub window_bytes: usize,
    /// Windows that are read ahead of each consumer, from 1 to 4.
    pub windows_in_flight: usize,
    /// Cap of the memory of all windows in bytes.
    pub memory_bytes: usize,
}

/// Who knows that the destination of a read is writable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferCheck {
    /// The caller vouches for it.
    Vouched,
    /// The scanner asks the kernel before it copies: a bad pointer must end in the `EFAULT` of the
    /// system call.
    AskKernel,
}

/// One read of one file.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The file's place in the caller's books, below [`FILES_MAX`].
    pub slot: u32,
    /// A descriptor of the file that belongs to the caller.
    pub descriptor: Descriptor,
    /// What `fstat` says of that descriptor now.
    pub stamp: FileStamp,
    /// How windows are filled.
    pub mode: ReadMode,
    /// Where in the file.
    pub offset: u64,
}

struct ScannedFile {
    /// Counts how often the slot was given away: part of the streams' owner key.
    generation: u32,
    direct: PrivateDescriptor,
    buffered: PrivateDescriptor,
    stamp: FileStamp,
    /// Stream numbers plus one.
    streams: [u16; STREAMS_PER_FILE],
}

/// What can be seen of a stream without its lock.
struct StreamSummary {
    /// Key of the file that it belongs to; 0 is nobody.
    owner: AtomicU64,
    cover_start: AtomicU64,
    cover_end: AtomicU64,
    touched_milliseconds: AtomicU32,
    continued: AtomicBool,
    active: AtomicBool,
}

/// The scan reader of a process; see the module's documentation for its promises.
#[repr(C)]
pub struct Scanner {
    window_bytes: AtomicUsize,
    windows_in_flight: AtomicUsize,
    /// Lower limits of both, for a while; 0 is none.
    window_bytes_limit: AtomicUsize,
    windows_in_flight_limit: AtomicUsize,
    active_streams: AtomicUsize,
    pool: WindowPool,
    summaries: [StreamSummary; STREAMS_MAX],
    streams: [FutexLock<Stream>; STREAMS_MAX],
    files: [FutexLock<ScannedFile>; FILES_MAX],
}

fn key_of(slot: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(slot + 1)
}

impl Scanner {
    /// A scanner for the life of the process. A forked child finds it empty and unconfigured,
    /// and passes everything through.
    pub fn for_process(settings: Settings) -> Result<&'static Scanner, Errno> {
        let memory = map_for_life(size_of::<Scanner>(), OnFork::Wipe)?;
        // SAFETY: the mapping is page-aligned, zeroed, of the right size, and never unmapped;
        // all-zero memory is a valid scanner.
        let scanner = unsafe { &*memory.cast::<Scanner>() };
        scanner.configure(settings)?;
        Ok(scanner)
    }

    /// Reserves the memory of the windows. Called once, before the scanner is shared.
    pub fn configure(&self, settings: Settings) -> Result<(), Errno> {
        self.pool.reserve(settings.memory_bytes)?;
        self.windows_in_flight.store(
            settings.windows_in_flight.clamp(1, WINDOWS_MAX - 1),
            Ordering::Relaxed,
        );
        self.window_bytes
            .store(settings.window_bytes, Ordering::Release);
        Ok(())
    }

    /// Until further notice windows are of `window_bytes` at most, and so many are read ahead of
    /// each consumer; 0 is as configured. What is in flight is left alone.
    pub fn limit_requests(&self, window_bytes: usize, windows_in_flight: usize) {
        self.window_bytes_limit
            .store(window_bytes, Ordering::Relaxed);
        self.windows_in_flight_limit
            .store(windows_in_flight, Ordering::Relaxed);
    }

    /// The windows' memory, for figures.
    pub fn pool(&self) -> &WindowPool {
        &self.pool
    }

    /// Serves a read into `destination`.
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

    /// Serves a read to memory that the application named. With [`BufferCheck::AskKernel`] the kernel is
    /// asked first whether it can be written: a bad pointer must end in the system call's
    /// `EFAULT`. Bytes behind those delivered are left alone; bytes before may be clobbered when
    /// the outcome is [`Outcome::Plain`].
    ///
    /// # Safety
    /// With [`BufferCheck::Vouched`], `destination` must be writable for `length_bytes`. Otherwise
    /// the range must not be memory that Rust code relies upon.
    pub unsafe fn read<H: DescriptorRegistry + ScanObserver>(
        &self,
        request: &Request,
        destination: *mut u8,
        length_bytes: usize,
        check: BufferCheck,
        host: &H,
    ) -> Outcome {
        // What makes no sense is the kernel's to refuse, in its own order of checks.
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
        // Before a window is read for it in vain.
        if check == BufferCheck::AskKernel && length_bytes < memory::WRITABLE_BYTES_MIN {
            return Outcome::Plain(Fallback::BadBuffer);
        }
        let destination = Destination {
            memory: destination,
            length_bytes,
            check,
        };
        match self.read_present(request, &destination, host) {
            Ok(cached_bytes) => Outcome::Served {
                bytes: length_bytes,
                cached_bytes,
            },
            Err(Fallback::Identity) => {
                self.close(request.slot, host);
                Outcome::Plain(Fallback::Identity)
            }
            Err(reason) => Outcome::Plain(reason),
        }
    }

    /// Serves bytes that are all within the file.
    fn read_present<H: DescriptorRegistry + ScanObserver>(
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
        let key = key_of(request.slot, file.generation);
        if file.stamp != request.stamp {
            // Seen for the first time, or changed since: trusted only when it has come to rest.
            if changed_recently(&request.stamp) {
                return Err(Fallback::ChangedRecently);
            }
            file.stamp = request.stamp;
        }
        file.ensure_open(request, host)?;
        let number = self.stream_for(&mut file, key, request.offset, host)?;
        let (direct, buffered) = (file.direct.get(), file.buffered.get());
        drop(file);

        let mut stream = self.streams[number].lock();
        let summary = &self.summaries[number];
        if summary.owner.load(Ordering::Relaxed) != key {
            return Err(Fallback::StreamLimit);
        }
        let buffered = buffered.ok_or(Fallback::OpenFailed)?;
        let windows_in_flight = limited(&self.windows_in_flight, &self.windows_in_flight_limit);
        let context = ReadContext {
            observer: host,
            pool: &self.pool,
            mode: request.mode,
            descriptor: match request.mode {
                ReadMode::Direct(_) => direct.ok_or(Fallback::OpenFailed)?,
                ReadMode::DontCache | ReadMode::DropBehind => buffered,
            },
            buffered,
            stamp: request.stamp,
            window_bytes: fair_share(
                self.pool.cap_bytes(),
                self.active_streams.load(Ordering::Relaxed) + usize::from(!stream.is_active()),
                1 + windows_in_flight,
                limited(&self.window_bytes, &self.window_bytes_limit),
            ),
            windows_in_flight,
        };
        let cover_end = stream.sequence.cover_end;
        // SAFETY: the destination is checked, or vouched for by the caller of `read`.
        let mut result = unsafe { stream.read(&context, destination, request.offset) };
        if result == Err(Fallback::MemoryCap) && self.release_idle(number, host) {
            // SAFETY: as above.
            result = unsafe { stream.read(&context, destination, request.offset) };
        }
        if stream.sequence.cover_end != cover_end {
            // Once a window, not once a read: the clock is not free.
            summary
                .touched_milliseconds
                .store(process::coarse_milliseconds(), Ordering::Relaxed);
        }
        self.publish(number, &stream);
        result
    }

    /// Publishes what other threads look for, and keeps the count of active streams.
    fn publish(&self, number: usize, stream: &Stream) {
        let summary = &self.summaries[number];
        let sequence = &stream.sequence;
        summary
            .cover_start
            .store(sequence.cover_start, Ordering::Relaxed);
        summary
            .cover_end
            .store(sequence.cover_end, Ordering::Relaxed);
        summary
            .continued
            .store(sequence.continued, Ordering::Relaxed);
        let active = stream.is_active();
        if summary.active.swap(active, Ordering::Relaxed) != active {
            if active {
                self.active_streams.fetch_add(1, Ordering::Relaxed);
            } else {
                self.active_streams.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// The stream that a read at `offset` belongs to.
    fn stream_for<H: DescriptorRegistry + ScanObserver>(
        &self,
        file: &mut ScannedFile,
        key: u64,
        offset: u64,
        host: &H,
    ) -> Result<usize, Fallback> {
        let mut skipping = None;
        let mut reusable: Option<(bool, u32, usize)> = None;
        for place in &mut file.streams {
            let Some(number) = usize::from(*place).checked_sub(1) else {
                continue;
            };
            let summary = &self.summaries[number];
            if summary.owner.load(Ordering::Relaxed) != key {
                *place = 0;
                continue;
            }
            match relation(
                summary.cover_start.load(Ordering::Relaxed),
                summary.cover_end.load(Ordering::Relaxed),
                offset,
            ) {
                Relation::Continues => return Ok(number),
                Relation::SkipsAhead => skipping = Some(number),
                Relation::Elsewhere => {
                    // If none is free: one that nothing ever continued, then the oldest.
                    let continued = summary.continued.load(Ordering::Relaxed);
                    let touched = summary.touched_milliseconds.load(Ordering::Relaxed);
                    let candidate = (continued, touched, number);
                    if reusable.is_none_or(|best| (candidate.0, candidate.1) < (best.0, best.1)) {
                        reusable = Some(candidate);
                    }
                }
            }
        }
        if let Some(number) = skipping {
            return Ok(number);
        }
        let Some(place) = file.streams.iter_mut().find(|place| **place == 0) else {
            return reusable
                .map(|(_, _, number)| number)
                .ok_or(Fallback::StreamLimit);
        };
        let number = self
            .acquire(key, process::coarse_milliseconds(), host)
            .ok_or(Fallback::StreamLimit)?;
        *place = number as u16 + 1;
        Ok(number)
    }

    /// A stream that belongs to nobody, or one that its owner has left idle.
    fn acquire<H: DescriptorRegistry + ScanObserver>(
        &self,
        key: u64,
        now: u32,
        host: &H,
    ) -> Option<usize> {
        let free = self.summaries.iter().position(|summary| {
            summary.owner.load(Ordering::Relaxed) == 0
                && summary
                    .owner
                    .compare_exchange(0, key, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
        });
        let number = free.or_else(|| {
            (0..STREAMS_MAX).find(|&number| {
                self.take_idle(number, now).is_some_and(|mut stream| {
                    stream.release(&self.pool, host);
                    self.publish(number, &stream);
                    self.summaries[number].owner.store(key, Ordering::Relaxed);
                    true
                })
            })
        })?;
        let summary = &self.summaries[number];
        summary.cover_start.store(u64::MAX, Ordering::Relaxed);
        summary.cover_end.store(u64::MAX, Ordering::Relaxed);
        summary.continued.store(false, Ordering::Relaxed);
        summary.touched_milliseconds.store(now, Ordering::Relaxed);
        Some(number)
    }

    fn take_idle(&self, number: usize, now: u32) -> Option<FutexGuard<'_, Stream>> {
        let touched = &self.summaries[number].touched_milliseconds;
        let idle = || now.wrapping_sub(touched.load(Ordering::Relaxed)) > IDLE_MILLISECONDS;
        if !idle() {
            return None;
        }
        self.streams[number].try_lock().filter(|_| idle())
    }

    /// Takes the windows of idle streams, except `own`; whether there were any.
    fn release_idle<H: DescriptorRegistry + ScanObserver>(&self, own: usize, host: &H) -> bool {
        let now = process::coarse_milliseconds();
        let mut released = false;
        for number in (0..STREAMS_MAX).filter(|&number| number != own) {
            if !self.summaries[number].active.load(Ordering::Relaxed) {
                continue;
            }
            if let Some(mut stream) = self.take_idle(number, now) {
                released |= stream.is_active();
                stream.release(&self.pool, host);
                self.publish(number, &stream);
            }
        }
        released
    }

    /// Waits for what is in flight, gives everything back, and makes the slot ready for another
    /// file: the file's last descriptor is about to be closed, or the application needs the
    /// number of a private one. If the file is read again, private descriptors are opened anew.
    /// A private descriptor that was lost to somebody else is theirs, and stays open.
    pub fn close<H: DescriptorRegistry + ScanObserver>(&self, slot: u32, host: &H) {
        let Some(file) = self.files.get(slot as usize) else {
            return;
        };
        let mut file = file.lock();
        let key = key_of(slot, file.generation);
        file.generation = file.generation.wrapping_add(1);
        for place in std::mem::take(&mut file.streams) {
            let Some(number) = usize::from(place).checked_sub(1) else {
                continue;
            };
            let mut stream = self.streams[number].lock();
            if self.summaries[number].owner.load(Ordering::Relaxed) == key {
                stream.release(&self.pool, host);
                self.publish(number, &stream);
                self.summaries[number].owner.store(0, Ordering::Release);
            }
        }
        let stamp = file.stamp;
        for private in [
            &mut std::mem::take(&mut file.direct),
            &mut std::mem::take(&mut file.buffered),
        ] {
            private.close(&stamp, host);
        }
        file.stamp = FileStamp::default();
    }
}

impl ScannedFile {
    fn ensure_open<H: DescriptorRegistry + ScanObserver>(
        &mut self,
        request: &Request,
        host: &H,
    ) -> Result<(), Fallback> {
        let open = |flags| {
            PrivateDescriptor::open(
                request.descriptor,
                flags,
                &request.stamp,
                request.slot,
                host,
            )
        };
        if self.buffered.get().is_none() {
            self.buffered = open(file::access_time_flag(request.descriptor))?;
            // Background reads bring their own readahead: the kernel's would pull in pages that
            // nobody asked for.
            if let Some(descriptor) = self.buffered.get() {
                let _ = file::advise(descriptor, 0, 0, libc::POSIX_FADV_RANDOM);
            }
        }
        if matches!(request.mode, ReadMode::Direct(_)) && self.direct.get().is_none() {
            let flags = libc::O_DIRECT | file::access_time_flag(request.descriptor);
            self.direct = open(flags)?;
        }
        Ok(())
    }
}

/// A setting, or the limit that it has for a while.
fn limited(setting: &AtomicUsize, limit: &AtomicUsize) -> usize {
    let setting = setting.load(Ordering::Relaxed);
    match limit.load(Ordering::Relaxed) {
        0 => setting,
        limit => setting.min(limit),
    }
}

/// Whether the kernel's `access_ok` would take the whole range, of which only the part within
/// the file is written.
fn within_user_space(memory: *const u8, length_bytes: usize) -> bool {
    /// `TASK_SIZE_MAX` of x86-64 with four levels of page tables; other machines are only
    /// checked for an overflow.
    const END: usize = if cfg!(target_arch = "x86_64") {
        (1 << 47) - 4096
    } else {
        usize::MAX
    };
    (memory as usize)
        .checked_add(length_bytes)
        .is_some_and(|end| end <= END)
}

/// Nothing to deliver: the end of the file, or a read of nothing.
fn nothing() -> Outcome {
    Outcome::Served {
        bytes: 0,
        cached_bytes: 0,
    }
}

/// Whether the change time may be too young for the next change to move it.
fn changed_recently(stamp: &FileStamp) -> bool {
    let age_ns = process::clock_ns(libc::CLOCK_REALTIME) - stamp.changed_ns;
    // A change time in the future (a clock that was set back) is as good as an old one, once it
    // is further away than a tick.
    (-CHANGED_RECENTLY_NS..CHANGED_RECENTLY_NS).contains(&age_ns)
}
