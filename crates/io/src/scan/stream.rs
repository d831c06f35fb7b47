//! One sequential consumer of one file: a ring of windows, the next of which are being read
//! while the consumer is in the first.
//!
//! Not thread-safe: the scanner hands it to one thread at a time.

use super::sequence::{Relation, Sequence, WINDOW_BYTES_MIN, relation};
use super::{BufferCheck, Event, Fallback, ReadMode, ScanObserver, WINDOWS_MAX};
use crate::absent::AbsentPages;
use crate::alignment::Alignment;
use crate::pool::{WindowMemory, WindowPool};
use crate::residency;
use crate::sys::file::{self, FileStamp};
use crate::sys::{Descriptor, Errno, aio, memory};

/// What a window holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum State {
    /// Nothing.
    Empty = 0,
    /// The kernel is writing into its memory.
    InFlight,
    /// `filled_bytes` of the file.
    Filled,
    /// No memory: the range was resident, and is copied out of the page cache.
    Cached,
    /// Memory, to be read when the consumer gets there.
    Pending,
}

struct Window {
    memory: WindowMemory,
    start: u64,
    length_bytes: usize,
    filled_bytes: usize,
    state: State,
}

impl Window {
    fn end(&self) -> u64 {
        self.start + self.length_bytes as u64
    }
}

/// Where the bytes of one read go.
pub(super) struct Destination {
    pub(super) memory: *mut u8,
    pub(super) length_bytes: usize,
    /// Whether to ask the kernel first if it can be written: at the last moment, since asking
    /// leaves marks in it that only the bytes themselves cover.
    pub(super) check: BufferCheck,
}

/// What a stream needs from context it for one read.
pub(super) struct ReadContext<'a, O: ScanObserver> {
    pub(super) observer: &'a O,
    pub(super) pool: &'a WindowPool,
    pub(super) mode: ReadMode,
    /// Direct descriptor; the buffered one where the mode is not direct.
    pub(super) descriptor: Descriptor,
    /// Buffered descriptor without kernel readahead.
    pub(super) buffered: Descriptor,
    /// The file as it is now.
    pub(super) stamp: FileStamp,
    /// Largest window, by configuration and by fair share.
    pub(super) window_bytes: usize,
    /// Windows to read ahead of the consumer.
    pub(super) windows_in_flight: usize,
}

impl<O: ScanObserver> ReadContext<'_, O> {
    fn alignment(&self) -> Alignment {
        match self.mode {
            ReadMode::Direct(alignment) => alignment,
            ReadMode::DontCache | ReadMode::DropBehind => Alignment::PAGE,
        }
    }
}

/// A stream; all-zero memory is a valid one at rest.
pub(super) struct Stream {
    stamp: FileStamp,
    pub(super) sequence: Sequence,
    /// End of the last request: what lies beyond it has not been consumed.
    consumed_to: u64,
    windows: [Window; WINDOWS_MAX],
    /// Places in use of `windows`: the consumer's and those ahead of it.
    ring: usize,
    first: usize,
    count: usize,
    in_flight: usize,
    aio_context: aio::Context,
    aio_refused: bool,
}

impl Stream {
    /// Whether it holds windows.
    pub(super) fn is_active(&self) -> bool {
        self.count > 0
    }

    /// Serves the bytes at `offset`, all within the file, to the destination; returns how many
    /// of them came out of the page cache. After an error nothing is kept.
    ///
    /// # Safety
    /// The destination must be writable, or be one to be checked that no Rust code relies upon.
    pub(super) unsafe fn read<O: ScanObserver>(
        &mut self,
        context: &ReadContext<'_, O>,
        destination: &Destination,
        offset: u64,
    ) -> Result<usize, Fallback> {
        // SAFETY: passed on.
        let result = unsafe { self.read_windows(context, destination, offset) };
        if result.is_err() {
            self.release(context.pool, context.observer);
        } else if self.consumed_to >= context.stamp.size_bytes {
            // At the end of the file there is nothing left to serve.
            self.release(context.pool, context.observer);
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
            self.release(context.pool, context.observer);
            self.stamp = context.stamp;
            // There may be contexts again: others take them and give them back.
            self.aio_refused = false;
        }
        let now = relation(self.sequence.cover_start, self.sequence.cover_end, offset);
        if now != Relation::Continues {
            self.release(context.pool, context.observer);
            self.sequence.restart(offset, context.alignment(), now);
        }
        self.sequence.note_read();
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
                // SAFETY: whoever asks for bytes there counts on nothing that is there now.
                && !unsafe { memory::writable(destination.memory, destination.length_bytes) }
            {
                return Err(Fallback::BadBuffer);
            }
            let rest = destination
                .memory
                .wrapping_add((position - offset) as usize);
            // SAFETY: the unserved rest of the destination, which is writable.
            let (copied, cached) =
                unsafe { self.copy_out(context, rest, position, end - position)? };
            position += copied as u64;
            cached_bytes += if cached { copied } else { 0 };
            self.consumed_to = position;
        }
        // What has been consumed makes room at once, so that the device does not rest until the
        // consumer comes back. A failure here concerns what nobody has asked for yet.
        self.retire(position)?;
        if self.sequence.continued && position < context.stamp.size_bytes {
            let _ = self.top_up(context);
        }
        Ok(cached_bytes)
    }

    /// Copies from the first window; returns how much, and whether out of the page cache.
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
            if !file::is_still(context.buffered, &context.stamp) {
                return Err(Fallback::Identity);
            }
            // SAFETY: passed on.
            let read =
                unsafe { file::pread(context.buffered, destination, length_bytes, position) };
            return match read {
                Ok(bytes) if bytes == length_bytes => Ok((bytes, true)),
                Err(Errno(libc::EFAULT)) => Err(Fallback::BadBuffer),
                _ => Err(Fallback::ReadFailed),
            };
        }
        if within + length_bytes > window.filled_bytes {
            return Err(Fallback::ReadFailed);
        }
        let source = context.pool.address(&window.memory).wrapping_add(within);
        // SAFETY: the window holds `filled_bytes` bytes that the kernel has finished writing,
        // the destination is writable, and window memory is never handed to the application.
        unsafe { std::ptr::copy_nonoverlapping(source, destination, length_bytes) };
        Ok((length_bytes, false))
    }

    /// Windows that end at or before `position` have been consumed.
    fn retire(&mut self, position: u64) -> Result<(), Fallback> {
        while self.count > 0 && self.windows[self.first].end() <= position {
            if self.windows[self.first].state == State::InFlight {
                // Skipped over before it arrived: until then its memory is the kernel's.
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

    /// Starts windows until there is one for the consumer, and those ahead of it.
    fn top_up<O: ScanObserver>(&mut self, context: &ReadContext<'_, O>) -> Result<(), Fallback> {
        let asynchronous = matches!(context.mode, ReadMode::Direct(_)) && !self.aio_refused;
        let ahead = if self.sequence.continued && asynchronous {
            context.windows_in_flight
        } else {
            0
        };
        while self.count < (1 + ahead).min(self.ring) {
            let Some(length_bytes) = self.sequence.next_window(
                context.stamp.size_bytes,
                context.window_bytes,
                context.alignment(),
            ) else {
                return Ok(());
            };
            match self.start_window(context, length_bytes) {
                Ok(()) => {}
                // Reading ahead is a favour; the consumer's own window is not.
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
        // Guards against a private descriptor that somebody closed unseen: its number may name
        // another file by now.
        if !file::is_still(context.descriptor, &context.stamp) {
            return Err(Fallback::Identity);
        }
        let in_file_bytes = (context.stamp.size_bytes - start).min(length_bytes as u64);
        let residency = residency::of_range(context.descriptor, start, in_file_bytes);
        let resident = residency.is_ok_and(|residency| residency.is_complete());
        let direct = matches!(context.mode, ReadMode::Direct(_));
        let clean = residency.is_ok_and(|residency| residency.unwritten_pages == Some(0));
        if !direct && !resident && !clean {
            // A store through a mapping to a page that is dirty already leaves no trace. Direct
            // reads write such pages back by themselves; the others must be made to.
            file::write_back(context.descriptor, start, in_file_bytes)
                .map_err(|_| Fallback::ReadFailed)?;
        }
        let window = &mut self.windows[place];
        window.start = start;
        window.length_bytes = length_bytes;
        window.filled_bytes = 0;
        if resident {
            window.state = State::Cached;
        } else {
            window.length_bytes =
                take_memory(&mut window.memory, length_bytes, self.count == 0, context)?;
            window.state = State::Pending;
            if direct {
                self.submit(context, place);
            }
        }
        self.count += 1;
        self.sequence.cover_end = start + self.windows[place].length_bytes as u64;
        Ok(())
    }

    /// Asks the device for a pending window; it stays pending if that cannot be done, and is
    /// then read when the consumer gets there.
    fn submit<O: ScanObserver>(&mut self, context: &ReadContext<'_, O>, place: usize) {
        if self.aio_context == 0 && !self.aio_refused {
            match aio::create(WINDOWS_MAX as u32) {
                Ok(created) => self.aio_context = created,
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
        // SAFETY: the memory belongs to this window until the completion has been taken: an
        // in-flight window is neither retired nor given back.
        let submitted = unsafe {
            aio::submit_read(
                self.aio_context,
                context.descriptor,
                context.pool.address(&window.memory),
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
        let expected = (context.stamp.size_bytes - window.start).min(window.length_bytes as u64);
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

    /// Reads the first window in the consumer's own time.
    fn fill_now<O: ScanObserver>(&mut self, context: &ReadContext<'_, O>) -> Result<(), Fallback> {
        let window = &mut self.windows[self.first];
        let memory = context.pool.address(&window.memory);
        let expected =
            (context.stamp.size_bytes - window.start).min(window.length_bytes as u64) as usize;
        let flags = match context.mode {
            ReadMode::DontCache => file::RWF_DONTCACHE,
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
            // SAFETY: the memory belongs to this window, whose length it has at least.
            let read = unsafe {
                file::pread_with_flags(
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

    /// Waits for what is in flight and gives all windows back; their content is forgotten.
    pub(super) fn release<O: ScanObserver>(&mut self, pool: &WindowPool, observer: &O) {
        while self.in_flight > 0 {
            if self.take_completions(1).is_err() {
                // Destroying the context waits for the device: afterwards nothing is in flight.
                // Another is not tried before the next file: making one takes milliseconds.
                aio::destroy(self.aio_context);
                self.aio_context = 0;
                self.aio_refused = true;
                self.in_flight = 0;
                observer.count(Event::AsynchronousUnavailable, 1);
            }
        }
        for step in 0..self.count {
            let window = &self.windows[(self.first + step) % self.ring];
            if window.start >= self.consumed_to && window.state == State::Filled {
                observer.count(Event::Wasted, window.length_bytes as u64);
            }
        }
        for window in &mut self.windows {
            window.state = State::Empty;
            pool.give_back(std::mem::take(&mut window.memory));
        }
        self.first = 0;
        self.count = 0;
        self.sequence.end();
    }
}

/// Gets memory for a window, reusing what it has; returns the length that it is good for. A
/// consumer's own window (`needed`) makes do with less.
fn take_memory<O: ScanObserver>(
    memory: &mut WindowMemory,
    length_bytes: usize,
    needed: bool,
    context: &ReadContext<'_, O>,
) -> Result<usize, Fallback> {
    if memory.bytes() >= length_bytes && memory.bytes() <= context.window_bytes {
        return Ok(length_bytes);
    }
    context.pool.give_back(std::mem::take(memory));
    let mut bytes = length_bytes;
    loop {
        if let Some(taken) = context.pool.take(bytes) {
            *memory = taken;
            return Ok(length_bytes.min(memory.bytes()));
        }
        if !needed || bytes <= WINDOW_BYTES_MIN {
            return Err(Fallback::MemoryCap);
        }
        bytes = WINDOW_BYTES_MIN
            .max(bytes / 2)
            .next_multiple_of(WINDOW_BYTES_MIN);
    }
}
