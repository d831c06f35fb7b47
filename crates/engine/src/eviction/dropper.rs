//! Drops cold ranges of SSTables that this process has open.
//!
//! Never dropped:
//!
//! - files whose use heat does not know: mapped, or read by position;
//! - files that anybody in this process could be writing;
//! - ranges with pages that are dirty or under writeback: advice would start their writeback;
//! - what a background thread is about to read;
//! - young files that no background thread reads.
//!
//! Exactly the pages of a range are dropped: of a large folio that reaches beyond it, the kernel drops
//! nothing.

use super::moment::Moment;
use super::shared::{Eviction, LATELY_READ};
use crate::core::Core;
use crate::core::descriptor_map::Entry;
use crate::core::inode_map::{Inode, Scan};
use crate::heat::Present;
use coldstream_control::{Counter, Mechanism, PageView};
use coldstream_io::Errno;
use coldstream_io::proc_fd::reopen;
use coldstream_io::scan::FILES_MAX;
use coldstream_io::sys::file::{self, FileStamp};
use coldstream_io::sys::{memory, process};
use coldstream_policy::eviction::{Hand, Level, OVERLAP_BYTES, SPAN_BYTES, cold_runs};
use coldstream_policy::heat::GROUP_BYTES;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// A step ends after this much processor time, or after a few megabytes that are dropped at once.
const STEP_NS: u64 = 2_000_000;
/// The newest data stays for this time, even if no thread reads it.
const GRACE_MILLISECONDS: u32 = 10_000;
/// A background thread that has read within this time is expected to continue.
const SCAN_MILLISECONDS: u32 = 3000;
/// Bytes that must stay ahead of such a thread: the kernel may have read them ahead.
const SCAN_AHEAD_BYTES: u64 = 8 << 20;

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dropped {
    /// The wanted number of bytes was dropped, or the step has used its time.
    Enough,
    /// Nothing is left that may be dropped.
    All,
    /// This kernel cannot report dirty pages (no `cachestat`).
    Never,
}

/// A file, opened by a descriptor of the thread's own.
struct Opened {
    slot: usize,
    descriptor: i32,
    stamp: FileStamp,
}

impl Drop for Opened {
    fn drop(&mut self) {
        let _ = file::close(self.descriptor);
    }
}

pub(super) struct Dropper<'a> {
    core: &'a Core,
    eviction: &'a Eviction,
    page: &'a PageView<'static>,
    hand: Hand,
    is_refused: bool,
}

/// One step.
struct Step<'s> {
    present: &'s Present,
    clock: u32,
    wanted_bytes: u64,
    dropped_bytes: u64,
    started_ns: u64,
    opened: Option<Opened>,
}

impl Step<'_> {
    fn is_over(&self) -> bool {
        self.dropped_bytes >= self.wanted_bytes || processor_ns() - self.started_ns >= STEP_NS
    }
}

impl<'a> Dropper<'a> {
    pub(super) fn new(core: &'a Core, eviction: &'a Eviction, page: &'a PageView<'static>) -> Self {
        Self {
            core,
            eviction,
            page,
            hand: Hand::new(FILES_MAX),
            is_refused: false,
        }
    }

    /// Memory has become short: starts again with the coldest ranges.
    pub(super) fn begin(&mut self) {
        self.hand.begin();
    }

    /// Drops up to `wanted_bytes`. Returns how the step ended, and how many bytes were dropped.
    pub(super) fn drop(
        &mut self,
        present: &Present,
        clock: u32,
        wanted_bytes: u64,
    ) -> (Dropped, u64) {
        let mut step = Step {
            present,
            clock,
            wanted_bytes,
            dropped_bytes: 0,
            started_ns: processor_ns(),
            opened: None,
        };
        self.drop_behind_scans(&mut step);
        let mut result = Dropped::Enough;
        while !step.is_over() && self.is_on() && !self.is_refused {
            if !self.drop_at_hand(&mut step) {
                result = Dropped::All;
                break;
            }
        }
        if self.is_refused {
            result = Dropped::Never;
        }
        (result, step.dropped_bytes)
    }

    fn is_on(&self) -> bool {
        self.core.is_on(Mechanism::Eviction)
    }

    /// Drops what background threads have read and are done with.
    fn drop_behind_scans(&mut self, step: &mut Step<'_>) {
        for index in 0..LATELY_READ {
            let lately = self.eviction.lately_read.get(index);
            let word = lately.map_or(0, |word| word.load(Ordering::Relaxed));
            let Some(slot) = (word as usize).checked_sub(1) else {
                continue;
            };
            let Some(inode) = self.core.inodes.get(slot as u32) else {
                continue;
            };
            for scan in &inode.scans {
                while let Some(span) = passed(scan) {
                    if step.is_over() || self.is_refused || !self.is_on() {
                        return;
                    }
                    scan.looked_at.store(span.end, Ordering::Relaxed);
                    if !self.drop_span(step, slot, inode, span, Level::Cold) {
                        break;
                    }
                }
            }
        }
    }

    /// Continues where the hand stopped. Returns whether anything is left to look at.
    fn drop_at_hand(&mut self, step: &mut Step<'_>) -> bool {
        let place = self.hand.extent();
        let inode = self.core.inodes.get(place.slot as u32);
        let size_bytes = inode
            .filter(|inode| is_only_read(inode))
            .filter(|inode| place.level != Level::Untouched || !inode.is_read())
            .and_then(|inode| self.open(step, place.slot, inode))
            .filter(|stamp| self.is_old(place.slot, stamp, step))
            .map_or(0, |stamp| stamp.size_bytes);
        let (Some(inode), true) = (inode, place.offset < size_bytes) else {
            return self
                .hand
                .next_file(|from| self.core.inodes.next_in_use(from));
        };
        let end = size_bytes.min(place.offset + SPAN_BYTES);
        let span = place.offset.saturating_sub(OVERLAP_BYTES)..end;
        self.hand.advance(SPAN_BYTES);
        let before = step.dropped_bytes;
        self.drop_span(step, place.slot, inode, span, place.level);
        if step.dropped_bytes > before {
            self.hand.record_found();
        }
        true
    }

    /// Drops the cold ranges in a span of a file. Returns whether the file can be opened.
    fn drop_span(
        &mut self,
        step: &mut Step<'_>,
        slot: usize,
        inode: &Inode,
        span: Range<u64>,
        level: Level,
    ) -> bool {
        if !is_only_read(inode) || self.open(step, slot, inode).is_none() {
            return false;
        }
        let Some(opened) = step.opened.take() else {
            return false;
        };
        let Present { heat, epoch } = *step.present;
        let clock = step.clock;
        cold_runs(
            &heat,
            inode.key(),
            span,
            level.heat_max(),
            epoch,
            |range| is_about_to_be_read(inode, range, clock),
            |run| step.dropped_bytes += self.drop_run(&opened, inode, run),
        );
        step.opened = Some(opened);
        true
    }

    /// Drops a run of cold ranges: as a whole if all of it is clean, else range by range.
    fn drop_run(&mut self, opened: &Opened, inode: &Inode, run: Range<u64>) -> u64 {
        // The control thread takes this lock to switch eviction off, and so waits for the run.
        let _dropping = self.eviction.dropping.lock();
        if !self.is_on() || !inode.is(&opened.stamp) || !is_only_read(inode) {
            return 0;
        }
        let whole = self.drop_if_clean(opened, inode, &run);
        let dropped_bytes = whole.unwrap_or_else(|| self.drop_clean_parts(opened, inode, run));
        self.page.add(Counter::EvictionBytes, dropped_bytes);
        dropped_bytes
    }

    /// Drops a run range by range, except ranges with pages that are not on the device yet.
    fn drop_clean_parts(&mut self, opened: &Opened, inode: &Inode, run: Range<u64>) -> u64 {
        let mut dropped_bytes = 0;
        let mut start = run.start;
        while start < run.end {
            let end = ((start / GROUP_BYTES + 1) * GROUP_BYTES).min(run.end);
            match self.drop_if_clean(opened, inode, &(start..end)) {
                Some(bytes) => dropped_bytes += bytes,
                None => self.page.add(Counter::EvictionRangesDirty, 1),
            }
            start = end;
        }
        dropped_bytes
    }

    /// The bytes that were dropped; `None` if any page is not on the device yet.
    fn drop_if_clean(&mut self, opened: &Opened, inode: &Inode, range: &Range<u64>) -> Option<u64> {
        let length_bytes = range.end - range.start;
        if length_bytes == 0 || self.is_refused {
            // A length of zero would mean the whole file.
            return Some(0);
        }
        self.page.add(Counter::EvictionRanges, 1);
        let ask = || file::cache_statistics(opened.descriptor, range.start, length_bytes);
        let before = match ask() {
            Ok(statistics) => statistics,
            Err(Errno(libc::ENOSYS)) => {
                self.is_refused = true;
                return Some(0);
            }
            // Another user's file, or a filesystem without pages: not asked about again.
            Err(_) => {
                inode.record_uncounted_use();
                self.page.add(Counter::EvictionRefused, 1);
                return Some(0);
            }
        };
        if before.cached_pages == 0 {
            return Some(0);
        }
        if before.dirty_pages + before.writeback_pages > 0 {
            return None;
        }
        let advice = libc::POSIX_FADV_DONTNEED;
        let _ = file::advise(opened.descriptor, range.start, length_bytes, advice);
        let after = ask().map_or(before.cached_pages, |after| after.cached_pages);
        Some(before.cached_pages.saturating_sub(after) * memory::page_bytes())
    }

    /// Whether a file that no background thread reads is old enough.
    fn is_old(&self, slot: usize, stamp: &FileStamp, step: &Step<'_>) -> bool {
        let Some(inode) = self.core.inodes.get(slot as u32) else {
            return false;
        };
        // An output of a compaction is as old as its inputs.
        if inode.was_opened_in_background() {
            return true;
        }
        let now_ns = process::clock_ns(libc::CLOCK_REALTIME);
        let grace_ns = i128::from(GRACE_MILLISECONDS) * 1_000_000;
        inode.age_milliseconds(step.clock) >= GRACE_MILLISECONDS
            && !(0..grace_ns).contains(&(now_ns - stamp.changed_ns))
    }

    /// Opens a file, unless it is open already. Returns its stamp.
    fn open(&self, step: &mut Step<'_>, slot: usize, inode: &Inode) -> Option<FileStamp> {
        match &step.opened {
            Some(opened) if opened.slot == slot && inode.is(&opened.stamp) => {
                return Some(opened.stamp);
            }
            _ => step.opened = None,
        }
        let is_of_slot = |entry: Option<Entry>| match entry {
            Some(Entry::Tracked(tracked)) => tracked.slot as usize == slot,
            _ => false,
        };
        let known = inode
            .descriptor()
            .filter(|known| is_of_slot(self.core.entry(*known)));
        let number = known.or_else(|| {
            let mut found = None;
            self.core.each_descriptor(|descriptor, entry| {
                if is_of_slot(Some(entry)) {
                    found = Some(descriptor);
                }
            });
            found
        })?;
        let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY;
        let descriptor = reopen(number, flags).ok()?;
        let Ok(stamp) = file::stamp(descriptor) else {
            let _ = file::close(descriptor);
            return None;
        };
        let opened = Opened {
            slot,
            descriptor,
            stamp,
        };
        // The path may lead to another file by now. `opened` then closes it.
        if !inode.is(&stamp) || !stamp.is_regular() {
            return None;
        }
        step.opened = Some(opened);
        Some(stamp)
    }
}

/// Processor time of the calling thread, in nanoseconds.
pub(super) fn processor_ns() -> u64 {
    u64::try_from(process::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)).unwrap_or(0)
}

/// Whether a file is open, no thread of this process could be writing it, and heat knows its use.
fn is_only_read(inode: &Inode) -> bool {
    inode.is_open()
        && !inode.may_be_written()
        && inode.staged_slot().is_none()
        && !inode.has_uncounted_use()
}

/// The whole ranges that a scan has passed since the last look, and a little before them. `None` if there
/// are none.
fn passed(scan: &Scan) -> Option<Range<u64>> {
    let last = scan.last.load(Ordering::Relaxed);
    if last == 0 {
        return None;
    }
    // The next read may begin in the range before the current one.
    let end = (Moment(last).offset() / GROUP_BYTES).saturating_sub(1) * GROUP_BYTES;
    let started = scan
        .started
        .load(Ordering::Relaxed)
        .next_multiple_of(GROUP_BYTES);
    let looked_at = scan.looked_at.load(Ordering::Relaxed);
    let start = if looked_at > end {
        started
    } else {
        looked_at.max(started)
    };
    let overlapping = start.saturating_sub(OVERLAP_BYTES).max(started);
    (start < end).then(|| overlapping..end.min(start + SPAN_BYTES))
}

/// Whether a background thread is about to read a range, or has just started to.
fn is_about_to_be_read(inode: &Inode, range: &Range<u64>, clock: u32) -> bool {
    inode.scans.iter().any(|scan| {
        let last = scan.last.load(Ordering::Relaxed);
        let moment = Moment(last);
        last != 0
            && moment.age_milliseconds(clock) <= SCAN_MILLISECONDS
            && range.end > moment.offset().saturating_sub(GROUP_BYTES)
            && range.start < moment.offset() + SCAN_AHEAD_BYTES
    })
}
