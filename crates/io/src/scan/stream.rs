//! One sequential consumer of one file: a ring of windows. The consumer is in the first window while the
//! next ones are read.
//!
//! Not thread-safe: the scanner lets one thread at a time use it.

use super::context::{Destination, ReadContext, Shared};
use super::contexts::REQUESTS_MAX;
use super::mode::ReadMode;
use super::observer::{Event, ScanObserver};
use super::outcome::Fallback;
use super::request::BufferCheck;
use super::sequence::{Relation, Sequence, relation};
use super::window::{State, Window};
use crate::absent::AbsentPages;
use crate::residency;
use crate::sys::pread::{RWF_DONTCACHE, pread, pread_with_flags};
use crate::sys::stat::{FileStamp, is_same_inode};
use crate::sys::{Errno, aio, sync_file_range, user_memory};

/// The most windows of one stream: the consumer's own and those that are read ahead of it.
pub const WINDOWS_MAX: usize = REQUESTS_MAX;

/// A stream. All-zero memory is a valid one without windows.
pub(super) struct Stream {
    stamp: FileStamp,
    pub(super) sequence: Sequence,
    /// End of the last request. Bytes behind it were not consumed.
    consumed_to: u64,
    windows: [Window; WINDOWS_MAX],
    /// How many of `windows` form the ring.
    ring: usize,
    /// The consumer's window in the ring.
    first: usize,
    /// Windows in use: the consumer's and those ahead of it.
    count: usize,
    in_flight: usize,
    aio_context: aio::Context,
    /// The kernel refused a context, or the context failed: windows are read one at a time.
    aio_refused: bool,
}

impl Stream {
    /// Whether it holds windows.
    pub(super) fn is_active(&self) -> bool {
        self.count > 0
    }

    /// Serves the bytes at `offset`, all within the file. Returns how many of them came out of the page
    /// cache. After an error the stream has no windows.
    ///
    /// # Safety
    /// The destination must be writable. Or it is to be checked, and no Rust code relies on it.
    pub(super) unsafe fn read<O: ScanObserver>(
        &mut self,
        context: &ReadContext<'_, O>,
        destination: &Destination,
        offset: u64,
    ) -> Result<usize, Fallback> {
        // SAFETY: the caller vouches for the destination.
        let result = unsafe { self.read_windows(context, destination, offset) };
        let is_at_end = self.consumed_to >= context.stamp.size_bytes;
        if result.is_err() || is_at_end {
            self.release(context.shared, context.observer);
        }
        result
    }

    /// # Safety
    /// As for [`Stream::read`].
    unsafe fn read_windows<O: ScanObserver>(
        &mut self,
        context: &ReadContext<'_, O>,
        destination: &Destination,
        offset: u64,
    ) -> Result<usize, Fallback> {
        if self.stamp != context.stamp {
            self.release(context.shared, context.observer);
            self.stamp = context.stamp;
            // Contexts may have been given back.
            self.aio_refused = false;
        }
        let now = relation(self.sequence.cover_start, self.sequence.cover_end, offset);
        if now != Relation::Continues {
            self.release(context.shared, context.observer);
            self.sequence.restart(offset, context.mode.alignment(), now);
        }
        self.sequence.record_read();
        if self.count == 0 {
            self.ring = (1 + context.windows_in_flight).min(WINDOWS_MAX);
            self.first = 0;
        }
        let end = offset + destination.length_bytes as u64;
        let mut position = offset;
        let mut cached_bytes = 0;
        let mut unchecked = destination.check == BufferCheck::AskKernel;
        while position < end {
            self.retire(position)?;
            self.top_up(context)?;
            let window = self.windows.get(self.first).ok_or(Fallback::ReadFailed)?;
            if self.count == 0 || !(window.start..window.end()).contains(&position) {
                return Err(Fallback::ReadFailed);
            }
            self.make_ready(context)?;
            if std::mem::take(&mut unchecked)
                // SAFETY: a caller that asks for bytes there does not rely on its present content.
                && !unsafe { user_memory::writable(destination.memory, destination.length_bytes) }
            {
                return Err(Fallback::BadBuffer);
            }
            let rest = destination
                .memory
                .wrapping_add((position - offset) as usize);
            // SAFETY: the rest of the destination, which is writable.
            let (copied, cached) =
                unsafe { self.copy_out(context, rest, position, end - position)? };
            position += copied as u64;
            cached_bytes += if cached { copied } else { 0 };
            self.consumed_to = position;
        }
        // Consumed windows make room at once. Otherwise the device would be idle until the consumer's next
        // read. A failure concerns only bytes of later reads.
        self.retire(position)?;
        if self.sequence.continued && position < context.stamp.size_bytes {
            let _ = self.top_up(context);
        }
        Ok(cached_bytes)
    }

    /// Copies from the first window. Returns how many bytes, and whether they came out of the page cache.
    ///
    /// # Safety
    /// `destination` must be writable for `wanted_bytes`.
    unsafe fn copy_out<O: ScanObserver>(
        &self,
        context: &ReadContext<'_, O>,
        destination: *mut u8,
        position: u64,
        wanted_bytes: u64,
    ) -> Result<(usize, bool), Fallback> {
        let window = &self.windows[self.first];
        let within = (position - window.start) as usize;
        let length_bytes = (wanted_bytes as usize).min(window.length_bytes - within);
        if window.state == State::Cached {
            if !is_same_inode(context.buffered, &context.stamp) {
                return Err(Fallback::Identity);
            }
            // SAFETY: the caller vouches for the destination.
            let read = unsafe { pread(context.buffered, destination, length_bytes, position) };
            return match read {
                Ok(bytes) if bytes == length_bytes => Ok((bytes, true)),
                Err(Errno(libc::EFAULT)) => Err(Fallback::BadBuffer),
                _ => Err(Fallback::ReadFailed),
            };
        }
        if within + length_bytes > window.filled_bytes {
            return Err(Fallback::ReadFailed);
        }
        let source = context
            .shared
            .pool
            .address(&window.memory)
            .wrapping_add(within);
        // SAFETY: the kernel has finished writing the window's `filled_bytes`. The destination is writable.
        // The application never gets window memory, so the ranges do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(source, destination, length_bytes) };
        Ok((length_bytes, false))
    }

    /// Empties the windows that end at or before `position`: they were consumed.
    fn retire(&mut self, position: u64) -> Result<(), Fallback> {
        while self.count > 0 && self.windows[self.first].end() <= position {
            if self.windows[self.first].state == State::InFlight {
                // The consumer skipped it. Its memory belongs to the kernel until the read has ended.
                self.take_completions(1)?;
                continue;
            }
            self.windows[self.first].state = State::Empty;
            self.first = (self.first + 1) % self.ring;
            self.count -= 1;
            self.sequence.cover_start = if self.count > 0 {
                self.windows[self.first].start
            } else {
                self.sequence.cover_end
            };
        }
        Ok(())
    }

    /// Starts windows, until the consumer has its own and the ones ahead of it.
    fn top_up<O: ScanObserver>(&mut self, context: &ReadContext<'_, O>) -> Result<(), Fallback> {
        let asynchronous = context.mode.is_direct() && !self.aio_refused;
        let ahead = if self.sequence.continued && asynchronous {
            context.windows_in_flight
        } else {
            0
        };
        while self.count < (1 + ahead).min(self.ring) {
            let Some(length_bytes) = self.sequence.next_window(
                context.stamp.size_bytes,
                context.window_bytes,
                context.mode.alignment(),
            ) else {
                return Ok(());
            };
            match self.start_window(context, length_bytes) {
                Ok(()) => {}
                // Only the consumer's own window is needed now.
                Err(Fallback::MemoryCap) if self.count > 0 => return Ok(()),
                Err(reason) => return Err(reason),
            }
        }
        Ok(())
    }

    fn start_window<O: ScanObserver>(
        &mut self,
        context: &ReadContext<'_, O>,
        length_bytes: usize,
    ) -> Result<(), Fallback> {
        let place = (self.first + self.count) % self.ring;
        let start = self.sequence.cover_end;
        // Somebody may have closed the private descriptor without a call that Coldstream sees. Its number
        // may name another file by now.
        if !is_same_inode(context.descriptor, &context.stamp) {
            return Err(Fallback::Identity);
        }
        let in_file_bytes = (context.stamp.size_bytes - start).min(length_bytes as u64);
        let residency = residency::of_range(context.descriptor, start, in_file_bytes);
        let resident = residency.is_ok_and(|residency| residency.is_complete());
        let direct = context.mode.is_direct();
        let unwritten = residency.map_or(None, |residency| residency.unwritten_pages);
        if !direct && !resident && unwritten != Some(0) {
            // A store through a mapping to a dirty page does not move the change time. So such pages are
            // written back first. Direct reads do that themselves.
            let (descriptor, length_bytes) = (context.descriptor, in_file_bytes);
            if unwritten.is_some() {
                // No wait: it would wait for the device where the plain call would not. And it would take an
                // error of writeback, which a sync by a later descriptor of the application's must report.
                let _ = sync_file_range::start_write_back(descriptor, start, length_bytes);
                return Err(Fallback::ChangedRecently);
            }
            sync_file_range::write_back(descriptor, start, length_bytes)
                .map_err(|_| Fallback::ReadFailed)?;
        }
        let window = &mut self.windows[place];
        window.start = start;
        window.length_bytes = length_bytes;
        window.filled_bytes = 0;
        if resident {
            window.state = State::Cached;
        } else {
            window.length_bytes = window.take_memory(length_bytes, self.count == 0, context)?;
            window.state = State::Pending;
            if direct {
                self.submit(context, place);
            }
        }
        self.count += 1;
        self.sequence.cover_end = start + self.windows[place].length_bytes as u64;
        Ok(())
    }

    /// Asks the device for a pending window. If that fails, it stays pending, and is read when the consumer
    /// arrives.
    fn submit<O: ScanObserver>(&mut self, context: &ReadContext<'_, O>, place: usize) {
        if self.aio_context == 0 && !self.aio_refused {
            match context.shared.contexts.take() {
                Ok(taken) => self.aio_context = taken,
                Err(_) => {
                    self.aio_refused = true;
                    context.observer.count(Event::AsynchronousUnavailable, 1);
                }
            }
        }
        if self.aio_context == 0 {
            return;
        }
        let window = &mut self.windows[place];
        // SAFETY: the memory belongs to this window until the completion was taken. A window in flight is
        // neither retired nor given back.
        let submitted = unsafe {
            aio::submit_read(
                self.aio_context,
                context.descriptor,
                context.shared.pool.address(&window.memory),
                window.length_bytes,
                window.start,
                place as u64,
            )
        };
        if submitted.is_ok() {
            window.state = State::InFlight;
            self.in_flight += 1;
            context
                .observer
                .count(Event::WindowRead(context.mode), window.length_bytes as u64);
        }
    }

    /// Makes the first window readable.
    fn make_ready<O: ScanObserver>(
        &mut self,
        context: &ReadContext<'_, O>,
    ) -> Result<(), Fallback> {
        if self.windows[self.first].state == State::InFlight {
            self.take_completions(0)?;
        }
        if self.windows[self.first].state == State::InFlight {
            context.observer.count(Event::WindowWaited, 1);
            while self.windows[self.first].state == State::InFlight {
                self.take_completions(1)?;
            }
        }
        if self.windows[self.first].state == State::Pending {
            context.observer.count(Event::WindowWaited, 1);
            self.fill_now(context)?;
        }
        let window = &self.windows[self.first];
        let expected = window.in_file_bytes(context.stamp.size_bytes);
        if window.state == State::Filled && (window.filled_bytes as u64) < expected {
            return Err(Fallback::ReadFailed);
        }
        Ok(())
    }

    fn take_completions(&mut self, least: usize) -> Result<(), Fallback> {
        let mut completions = [aio::Completion::default(); WINDOWS_MAX];
        match aio::take(self.aio_context, least, &mut completions) {
            Ok(count) => {
                for completion in completions.iter().take(count) {
                    if let Some(window) = self.windows.get_mut(completion.tag as usize) {
                        window.state = State::Filled;
                        window.filled_bytes = completion.result.max(0) as usize;
                        self.in_flight = self.in_flight.saturating_sub(1);
                    }
                }
                Ok(())
            }
            Err(Errno(libc::EINTR)) => Ok(()),
            Err(_) => Err(Fallback::ReadFailed),
        }
    }

    /// Reads the first window while the consumer waits.
    fn fill_now<O: ScanObserver>(&mut self, context: &ReadContext<'_, O>) -> Result<(), Fallback> {
        let window = &mut self.windows[self.first];
        let memory = context.shared.pool.address(&window.memory);
        let expected =
            (context.stamp.size_bytes - window.start).min(window.length_bytes as u64) as usize;
        let flags = match context.mode {
            ReadMode::DontCache => RWF_DONTCACHE,
            ReadMode::Direct(_) | ReadMode::DropBehind => 0,
        };
        let absent_before = match context.mode {
            ReadMode::DropBehind => Some(AbsentPages::of(
                context.buffered,
                window.start,
                expected as u64,
            )),
            ReadMode::Direct(_) | ReadMode::DontCache => None,
        };
        while window.filled_bytes < expected {
            // SAFETY: the memory belongs to this window, and has at least its length.
            let read = unsafe {
                pread_with_flags(
                    context.descriptor,
                    memory.wrapping_add(window.filled_bytes),
                    window.length_bytes - window.filled_bytes,
                    window.start + window.filled_bytes as u64,
                    flags,
                )
            };
            match read {
                Ok(0) => break,
                Ok(bytes) => window.filled_bytes += bytes,
                Err(Errno(libc::EINTR)) => {}
                Err(_) => break,
            }
        }
        if let Some(absent) = absent_before {
            absent.drop_again(context.buffered, window.start, |_| false);
        }
        window.state = State::Filled;
        context
            .observer
            .count(Event::WindowRead(context.mode), window.filled_bytes as u64);
        if window.filled_bytes < expected {
            return Err(Fallback::ReadFailed);
        }
        Ok(())
    }

    /// As [`Stream::release`], but waits for nothing. Returns whether the windows were given back: the device may still
    /// be writing into them.
    pub(super) fn try_release<O: ScanObserver>(&mut self, shared: &Shared, observer: &O) -> bool {
        if self.in_flight > 0 {
            let _ = self.take_completions(0);
        }
        if self.in_flight > 0 {
            return false;
        }
        self.release(shared, observer);
        true
    }

    /// Waits for all reads in flight, and gives the windows and the context back.
    pub(super) fn release<O: ScanObserver>(&mut self, shared: &Shared, observer: &O) {
        while self.in_flight > 0 {
            if self.take_completions(1).is_err() {
                // Destroying the context waits for the device: then nothing is in flight. The next context is
                // taken with the next file, because to make one takes milliseconds.
                shared
                    .contexts
                    .discard(std::mem::take(&mut self.aio_context));
                self.aio_refused = true;
                self.in_flight = 0;
                observer.count(Event::AsynchronousUnavailable, 1);
            }
        }
        if self.aio_context != 0 {
            shared.contexts.put(std::mem::take(&mut self.aio_context));
        }
        for step in 0..self.count {
            let window = &self.windows[(self.first + step) % self.ring];
            if window.start >= self.consumed_to && window.state == State::Filled {
                observer.count(Event::ReadAheadWasted, window.length_bytes as u64);
            }
        }
        for window in &mut self.windows {
            window.state = State::Empty;
            shared.pool.give_back(std::mem::take(&mut window.memory));
        }
        self.first = 0;
        self.count = 0;
        self.sequence.end();
    }
}
