//! The remainder of a handover: hot pages of an output for which it had no memory or no time. They are warmed after the
//! publication.
//!
//! Until then requests read the same rows from the inputs. A page cache that one copy of a hot set fills has no room for
//! two. That the compaction has deleted an input shows that the output is published.
//!
//! A thread of the library's own does this. It is started with the first remainder, and works on one at a time: while it
//! has one, others stay cold. It has no thread-local storage (for the consequences see `control_thread`).

use super::lineage::{self, PATH_BYTES};
use super::pages_left::is_memory_short;
use super::transfer::{LeftCold, Transfer};
use crate::core::Core;
use coldstream_control::{Counter, Mechanism};
use coldstream_io::alignment::PAGE_BYTES;
use coldstream_io::credentials;
use coldstream_io::helper::{self, Helper};
use coldstream_io::private::PrivateDescriptor;
use coldstream_io::sys::file::{self, FileStamp};
use coldstream_io::sys::process;
use coldstream_io::warm::{RANGE_BYTES_MAX, WarmList};
use std::cell::{Cell, UnsafeCell};
use std::ffi::{CStr, CString};
use std::ops::Range;

/// The longest wait for the publication, and the longest time of warming. Later the foreground has read itself what it
/// needs.
const WAIT_MILLISECONDS: u32 = 10_000;
/// The pause between two looks whether the output was published.
const LOOK_MILLISECONDS: u32 = 20;
/// So many ranges are warmed between two looks at the output and at the memory's pressure.
const RANGES_A_LOOK: u32 = 256;

/// A file, by its path.
#[repr(C)]
struct Place {
    stamp: FileStamp,
    path: [u8; PATH_BYTES],
}

/// One output's remainder.
#[repr(C)]
struct Job {
    output: Place,
    input: Place,
    ranges: WarmList,
}

/// Addresses: all of it lives as long as the process.
#[derive(Clone, Copy)]
struct Request {
    remainder: usize,
    core: usize,
    slot: u32,
    in_flight: usize,
}

/// The thread and its job. All-zero memory is valid: the thread was not started.
#[repr(C)]
pub struct Remainder {
    helper: Helper<Request>,
    /// Belongs to whoever has claimed the helper, and to the thread from the submission on.
    job: UnsafeCell<Job>,
}

// SAFETY: the helper hands the job to one thread at a time.
unsafe impl Sync for Remainder {}

/// A handover that has a remainder.
struct Unfinished<'a> {
    output: (&'a CStr, FileStamp),
    /// One that is deleted after the publication.
    input: (&'a CStr, FileStamp),
    /// Of the output.
    slot: u32,
    /// As for [`coldstream_io::warm::warm`].
    in_flight: usize,
}

impl Place {
    /// Whether there was room for the path.
    fn put(&mut self, (path, stamp): (&CStr, FileStamp)) -> bool {
        self.stamp = stamp;
        let path = path.to_bytes_with_nul();
        let room = self.path.get_mut(..path.len());
        let fits = room.is_some();
        if let Some(room) = room {
            room.copy_from_slice(path);
        }
        fits
    }

    /// Whether the path still names the file.
    fn is_there(&self) -> bool {
        // SAFETY: the path ends with a NUL, and nobody changes it meanwhile.
        let now = unsafe { file::stamp_of_path(self.path.as_ptr().cast()) };
        now.is_ok_and(|now| now.same_inode(&self.stamp))
    }
}

impl Remainder {
    /// Has what the transfer left cold warmed after the publication. `last_input` is deleted then.
    pub(super) fn leave_of(
        &self,
        transfer: &Transfer<'_>,
        last_input: Option<(CString, FileStamp)>,
    ) {
        if let Some(LeftCold { plan, from_page }) = transfer.left_cold.take()
            && let Some((input_path, input_stamp)) = last_input
            && let Some(path) = lineage::path_of(transfer.output.descriptor)
        {
            let unfinished = Unfinished {
                output: (&path, transfer.output.stamp),
                input: (&input_path, input_stamp),
                slot: transfer.output.slot,
                in_flight: transfer.config().handover_in_flight,
            };
            let warmed_bytes = transfer.done.get().warmed_pages * PAGE_BYTES;
            let mut room_bytes = (transfer.config().handover_bytes).saturating_sub(warmed_bytes);
            let fits = |range: &Range<u64>| {
                let room = room_bytes.checked_sub(range.end - range.start);
                room_bytes = room.unwrap_or(0);
                room.is_some()
            };
            let ranges = plan.remainder(from_page, RANGE_BYTES_MAX as u64);
            self.leave(transfer.core, &unfinished, ranges.take_while(fits));
        }
    }

    /// Has ranges of the output warmed once the input is deleted, if the thread is free.
    fn leave(
        &self,
        core: &Core,
        unfinished: &Unfinished<'_>,
        ranges: impl Iterator<Item = Range<u64>>,
    ) {
        let helper = &self.helper;
        // SAFETY: the runtime lives as long as the process, and the thread keeps to what a thread without thread-local
        // storage may do.
        let start = |id: &_| unsafe { helper::start(helper, serve, id) };
        if !helper.claim() && helper.claim_new(start) != Ok(true) {
            return;
        }
        // SAFETY: the helper is claimed, so the job is this thread's until the submission.
        let job = unsafe { &mut *self.job.get() };
        let fits = job.output.put(unfinished.output) && job.input.put(unfinished.input);
        job.ranges.fill(ranges.take_while(|_| fits));
        helper.submit(Request {
            remainder: std::ptr::from_ref(self) as usize,
            core: std::ptr::from_ref(core) as usize,
            slot: unfinished.slot,
            in_flight: unfinished.in_flight,
        });
        // Nobody waits for it.
        let _ = helper.take(|| false);
    }

    /// Gives memory back to the system that `mlockall` has made resident.
    pub(crate) fn give_untouched_back(&self) {
        self.helper.if_idle(|| {
            // SAFETY: no request is under way, so nobody else has the job.
            let job = unsafe { &mut *self.job.get() };
            job.ranges.give_back();
        });
    }

    /// As [`coldstream_io::writers::Writers::wake_followers`].
    pub(crate) fn wake_follower(&self) -> bool {
        self.helper.wake_follower()
    }
}

impl Job {
    /// Warms the output's remainder, once it is published. Returns the pages that were absent.
    fn perform(&mut self, core: &Core, request: &Request) -> u64 {
        // To close a descriptor of a locked file would drop the lock.
        if !self.is_published(core) || core.inodes.is_locked(&self.output.stamp) {
            return 0;
        }
        let path = CStr::from_bytes_until_nul(&self.output.path).unwrap_or_default();
        let Ok((mut opened, stamp)) = PrivateDescriptor::open_path(path, request.slot, core) else {
            return 0;
        };
        let mut pages = 0;
        if let Some(descriptor) = opened.get()
            && stamp.same_inode(&self.output.stamp)
        {
            let (until, asked) = (Deadline::begin(), Cell::new(0_u32));
            let output = &self.output;
            let is_over = || {
                asked.set(asked.get().wrapping_add(1));
                let looks = asked.get().is_multiple_of(RANGES_A_LOOK);
                until.is_over()
                    || !core.is_on(Mechanism::Handover)
                    || looks && (is_memory_short() || !output.is_there())
            };
            let warmed = self.ranges.warm(descriptor, request.in_flight, is_over);
            pages = warmed.pages;
        }
        opened.close(&stamp, core);
        pages
    }

    /// Waits until the input is deleted. Whether it was, in time.
    fn is_published(&self, core: &Core) -> bool {
        let until = Deadline::begin();
        while core.is_on(Mechanism::Handover) && !until.is_over() {
            if !self.input.is_there() {
                return true;
            }
            process::sleep(LOOK_MILLISECONDS);
        }
        false
    }
}

/// The end of a wait that began at some time.
struct Deadline(u32);

impl Deadline {
    fn begin() -> Self {
        Self(process::coarse_milliseconds())
    }

    fn is_over(&self) -> bool {
        process::coarse_milliseconds().wrapping_sub(self.0) >= WAIT_MILLISECONDS
    }
}

/// The main function of the thread.
unsafe extern "C" fn serve(helper: usize) -> ! {
    process::set_thread_name(c"coldstream-warm");
    credentials::begin();
    // SAFETY: the address of a helper that lives as long as the process.
    let helper = unsafe { &*(helper as *const Helper<Request>) };
    loop {
        helper.serve_one(|request| {
            // SAFETY: addresses of parts of the runtime, which lives as long as the process.
            let remainder = unsafe { &*(request.remainder as *const Remainder) };
            // SAFETY: as above.
            let core = unsafe { &*(request.core as *const Core) };
            // SAFETY: submitted, so the job is this thread's until the request is done.
            let job = unsafe { &mut *remainder.job.get() };
            core.count(Counter::HandoverPagesWarmedLate, job.perform(core, request));
            job.ranges.give_back();
            0
        });
    }
}
