//! All streams of a scanner: finds the one that a read continues, or one for a new consumer.
//!
//! A read looks for its stream in the summaries, without the streams' locks. While a thread holds a
//! stream's lock, it only tries the locks of other streams.
//!
//! If a file is closed while the device writes into windows of its stream, the stream becomes an orphan. Nobody waits
//! for it: its windows are given back by whoever needs a stream, or closes a file, after the device has finished.

use super::context::Shared;
use super::file::STREAMS_PER_FILE;
use super::observer::ScanObserver;
use super::outcome::Fallback;
use super::sequence::{Relation, relation};
use super::stream::Stream;
use crate::lock::{FutexGuard, FutexLock};
use crate::sys::clock::coarse_milliseconds;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The most streams. With two of the smallest windows each they fill the default cap of 64 MiB.
pub const STREAMS_MAX: usize = 512;
/// A stream may lose its memory if it has not asked for a window for longer than this.
const IDLE_MILLISECONDS: u32 = 1000;
/// A stream loses its windows and its context if it has not asked for a window for longer than this. A throttled
/// compaction of many SSTables asks for one every few seconds.
pub(super) const ABANDONED_MILLISECONDS: u32 = 60_000;

/// Instead of an owner's key: the stream is an orphan.
const ORPHAN: u64 = u64::MAX;

/// What other threads can read of a stream without its lock.
struct StreamSummary {
    /// Key of the file that owns the stream; 0 is none.
    owner: AtomicU64,
    cover_start: AtomicU64,
    cover_end: AtomicU64,
    touched_milliseconds: AtomicU32,
    continued: AtomicBool,
    active: AtomicBool,
}

/// The streams. All-zero memory is valid: none has an owner.
#[repr(C)]
pub(super) struct StreamSet {
    active: AtomicUsize,
    orphans: AtomicUsize,
    summaries: [StreamSummary; STREAMS_MAX],
    streams: [FutexLock<Stream>; STREAMS_MAX],
}

impl StreamSet {
    /// Streams that hold windows.
    pub(super) fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// The number of the stream for a read at `offset` of the file `key`, whose streams are `of_file`.
    pub(super) fn find<O: ScanObserver>(
        &self,
        of_file: &mut [u16; STREAMS_PER_FILE],
        key: u64,
        offset: u64,
        shared: &Shared,
        observer: &O,
    ) -> Result<usize, Fallback> {
        let mut skipping = None;
        let mut reusable: Option<(bool, u32, usize)> = None;
        for entry in of_file.iter_mut() {
            let Some(number) = usize::from(*entry).checked_sub(1) else {
                continue;
            };
            let summary = &self.summaries[number];
            if summary.owner.load(Ordering::Relaxed) != key {
                *entry = 0;
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
                    // If none is free: first a stream that no read ever continued, then the oldest.
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
        let Some(entry) = of_file.iter_mut().find(|entry| **entry == 0) else {
            return reusable
                .map(|(_, _, number)| number)
                .ok_or(Fallback::StreamLimit);
        };
        let number = self
            .acquire(key, coarse_milliseconds(), shared, observer)
            .ok_or(Fallback::StreamLimit)?;
        *entry = number as u16 + 1;
        Ok(number)
    }

    /// Locks a stream. `None` if it does not belong to the file `key` any more.
    pub(super) fn lock(&self, number: usize, key: u64) -> Option<FutexGuard<'_, Stream>> {
        let stream = self.streams[number].lock();
        let owner = self.summaries[number].owner.load(Ordering::Relaxed);
        (owner == key).then_some(stream)
    }

    /// Records that a stream asked for a window. It reads the clock, so it is called once for a window
    /// and not once for a read.
    pub(super) fn touch(&self, number: usize) {
        self.summaries[number]
            .touched_milliseconds
            .store(coarse_milliseconds(), Ordering::Relaxed);
    }

    /// Publishes the summary of a stream whose lock the caller holds, and counts active streams.
    pub(super) fn publish(&self, number: usize, stream: &Stream) {
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
                self.active.fetch_add(1, Ordering::Relaxed);
            } else {
                self.active.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// A stream without an owner, or one that its owner left idle. It belongs to the file `key` then.
    fn acquire<O: ScanObserver>(
        &self,
        key: u64,
        now: u32,
        shared: &Shared,
        observer: &O,
    ) -> Option<usize> {
        self.release_orphans(shared, observer);
        let free = self.summaries.iter().position(|summary| {
            summary.owner.load(Ordering::Relaxed) == 0
                && summary
                    .owner
                    .compare_exchange(0, key, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
        });
        let number = free.or_else(|| {
            (0..STREAMS_MAX).find(|&number| {
                self.lock_idle(number, now, IDLE_MILLISECONDS)
                    .is_some_and(|mut stream| {
                        let released = stream.try_release(shared, observer);
                        self.publish(number, &stream);
                        if released {
                            self.set_owner(number, key);
                        }
                        released
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

    /// Locks a stream if it was idle for `milliseconds`, and its lock is free.
    fn lock_idle(
        &self,
        number: usize,
        now: u32,
        milliseconds: u32,
    ) -> Option<FutexGuard<'_, Stream>> {
        let touched = &self.summaries[number].touched_milliseconds;
        let is_idle = || is_idle(now, touched.load(Ordering::Relaxed), milliseconds);
        if !is_idle() {
            return None;
        }
        self.streams[number].try_lock().filter(|_| is_idle())
    }

    /// Releases the windows of idle streams, except `own`. Whether there were any.
    pub(super) fn release_idle<O: ScanObserver>(
        &self,
        own: usize,
        shared: &Shared,
        observer: &O,
    ) -> bool {
        let now = coarse_milliseconds();
        let mut released = false;
        for number in (0..STREAMS_MAX).filter(|&number| number != own) {
            if !self.summaries[number].active.load(Ordering::Relaxed) {
                continue;
            }
            if let Some(mut stream) = self.lock_idle(number, now, IDLE_MILLISECONDS) {
                let was_active = stream.is_active();
                released |= stream.try_release(shared, observer) && was_active;
                self.publish(number, &stream);
            }
        }
        released
    }

    /// Changes the owner of a stream whose lock the caller holds.
    fn set_owner(&self, number: usize, owner: u64) {
        let before = self.summaries[number].owner.swap(owner, Ordering::AcqRel);
        if owner == ORPHAN && before != ORPHAN {
            self.orphans.fetch_add(1, Ordering::Relaxed);
        } else if owner != ORPHAN && before == ORPHAN {
            self.orphans.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Releases those orphans for which the device has finished.
    pub(super) fn release_orphans<O: ScanObserver>(&self, shared: &Shared, observer: &O) {
        self.each_orphan(|number| {
            if let Some(mut stream) = self.streams[number].try_lock()
                && self.is_orphan(number)
                && stream.try_release(shared, observer)
            {
                self.publish(number, &stream);
                self.set_owner(number, 0);
            }
        });
    }

    /// Waits for the device, and releases all orphans.
    pub(super) fn wait_for_orphans<O: ScanObserver>(&self, shared: &Shared, observer: &O) {
        self.each_orphan(|number| {
            let mut stream = self.streams[number].lock();
            if self.is_orphan(number) {
                stream.release(shared, observer);
                self.publish(number, &stream);
                self.set_owner(number, 0);
            }
        });
    }

    fn is_orphan(&self, number: usize) -> bool {
        self.summaries[number].owner.load(Ordering::Relaxed) == ORPHAN
    }

    fn each_orphan(&self, visit: impl FnMut(usize)) {
        if self.orphans.load(Ordering::Relaxed) > 0 {
            (0..STREAMS_MAX)
                .filter(|&number| self.is_orphan(number))
                .for_each(visit);
        }
    }

    /// Releases the windows of abandoned streams for which the device has finished. Waits for nothing.
    pub(super) fn release_abandoned<O: ScanObserver>(
        &self,
        now: u32,
        shared: &Shared,
        observer: &O,
    ) {
        for number in 0..STREAMS_MAX {
            if self.summaries[number].active.load(Ordering::Relaxed)
                && let Some(mut stream) = self.lock_idle(number, now, ABANDONED_MILLISECONDS)
            {
                stream.try_release(shared, observer);
                self.publish(number, &stream);
            }
        }
    }

    /// As [`StreamSet::release_file`], if all streams of the file are abandoned. Returns whether they are. Waits for
    /// nothing. The caller holds the file's lock.
    pub(super) fn try_release_abandoned_file<O: ScanObserver>(
        &self,
        (of_file, key): ([u16; STREAMS_PER_FILE], u64),
        now: u32,
        shared: &Shared,
        observer: &O,
    ) -> bool {
        let mut locked: [Option<(usize, FutexGuard<'_, Stream>)>; STREAMS_PER_FILE] =
            Default::default();
        for (entry, place) in of_file.into_iter().zip(&mut locked) {
            let Some(number) = usize::from(entry).checked_sub(1) else {
                continue;
            };
            if self.summaries[number].owner.load(Ordering::Relaxed) != key {
                continue;
            }
            let Some(stream) = self.lock_idle(number, now, ABANDONED_MILLISECONDS) else {
                return false;
            };
            *place = Some((number, stream));
        }
        for (number, mut stream) in locked.into_iter().flatten() {
            self.disown(number, key, &mut stream, shared, observer);
        }
        true
    }

    /// Releases all streams of the file `key`. It waits for a thread that is reading by one of them just now, since that
    /// thread uses the file's descriptors. It does not wait for what is read ahead: see [`StreamSet`].
    pub(super) fn release_file<O: ScanObserver>(
        &self,
        of_file: [u16; STREAMS_PER_FILE],
        key: u64,
        shared: &Shared,
        observer: &O,
    ) {
        for entry in of_file {
            let Some(number) = usize::from(entry).checked_sub(1) else {
                continue;
            };
            if let Some(mut stream) = self.lock(number, key) {
                self.disown(number, key, &mut stream, shared, observer);
            }
        }
    }

    /// Takes a stream, whose lock the caller holds, from the file `key`, if it has it still.
    fn disown<O: ScanObserver>(
        &self,
        number: usize,
        key: u64,
        stream: &mut Stream,
        shared: &Shared,
        observer: &O,
    ) {
        if self.summaries[number].owner.load(Ordering::Relaxed) == key {
            let released = stream.try_release(shared, observer);
            self.publish(number, stream);
            self.set_owner(number, if released { 0 } else { ORPHAN });
        }
    }
}

/// Whether the last use was more than `milliseconds` before `now`. It may be later: `now` was asked before.
fn is_idle(now: u32, touched: u32, milliseconds: u32) -> bool {
    let age = now.wrapping_sub(touched);
    age > milliseconds && age <= u32::MAX / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_was_used_after_the_clock_was_read_is_not_idle() {
        assert!(is_idle(500, 100, 399) && !is_idle(500, 100, 400));
        assert!(!is_idle(500, 504, 20));
        assert!(is_idle(10, u32::MAX, 10) && !is_idle(u32::MAX, 3, 10));
    }
}
