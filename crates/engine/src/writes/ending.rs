//! The end of all staging before a child is made, or before the process ends.
//!
//! The caller waits, but not for ever. A child that is made without the bytes sees what another process sees. A
//! process that ends without them loses them.

use super::drain::are_priorities_on;
use super::drainer::{Patience, Request, Wait};
use super::staged_file::{StagedFile, StagedFiles};
use super::sweep::Reach;
use crate::core::Core;
use crate::core::errno::ErrnoGuard;
use crate::thread::Inside;
use coldstream_control::Counter;
use coldstream_io::credentials;
use coldstream_io::helper::{Helper, Outcome, Priority};
use coldstream_io::sys::process;

impl StagedFiles {
    /// Every staged file falls back, because a child is made or the process ends.
    #[cold]
    pub fn fall_back_before(&self, core: &Core, patience: Patience) {
        if !self.any() {
            return;
        }
        let _errno = ErrnoGuard::new();
        let Some(inside) = Inside::enter() else {
            // A signal handler that interrupted our own work: the lock of a file may be this thread's.
            return self.fall_back_myself(core);
        };
        if !core.owner.is_this_process() || self.fall_back_at_once(core) {
            return;
        }
        let sets_priority = self.drainer.was_started_with_priorities() || are_priorities_on(core);
        let request = Request {
            files: std::ptr::from_ref(self) as usize,
            core: std::ptr::from_ref(core) as usize,
            io_priority: sets_priority.then_some(0),
        };
        // SAFETY: the runtime lives as long as the process; the function needs no thread-local storage.
        let outcome = unsafe { self.drainer.ask(patience, serve, request) };
        let is_late = match outcome {
            Outcome::Done(_) => false,
            Outcome::Died => !self.fall_back_without_drainer(core, patience),
            Outcome::Late => true,
        };
        core.count(Counter::DrainsLate, u64::from(is_late));
        drop(inside);
    }

    /// Whether there is a drainer. Without one nothing may be staged: a child would wait for it.
    pub(super) fn has_drainer(&self, core: &Core) -> bool {
        // SAFETY: as in `fall_back_before`.
        unsafe { self.drainer.ensure(serve, are_priorities_on(core)) }
    }

    /// Every file falls back that nobody has locked, in the calling thread. Waits for locks as long as that may
    /// take; these are held while a device writes. Returns whether all fell back.
    ///
    /// Only the bytes that were staged when the drainer died need the device here.
    fn fall_back_without_drainer(&self, core: &Core, patience: Patience) -> bool {
        let wait = Wait::begin(patience);
        let mut all = true;
        for number in 0..self.files.len() {
            let mut locked = self.try_lock(number);
            while locked.is_none() && wait.pause() {
                locked = self.try_lock(number);
            }
            match locked {
                Some(mut staged) => self.end_staging(core, &mut staged),
                None => all = false,
            }
        }
        all
    }

    /// The file falls back, if the entry has one.
    fn end_staging(&self, core: &Core, staged: &mut StagedFile) {
        if staged.owner != 0 {
            // The caller ends, or the error belongs to another file.
            let _ = self.fall_back(core, staged, Counter::StagingEndedProcess);
        }
    }

    /// The calling thread drains the files, and waits for their devices.
    fn fall_back_myself(&self, core: &Core) {
        // The caller ends, or the error belongs to another file.
        let _ = self.drain_all(core, Reach::Changes(Counter::StagingEndedProcess));
    }

    /// Every file falls back that needs no device and no wait for that. Returns whether these are all. The close
    /// of a private descriptor may need the device: XFS then frees blocks behind the file's end.
    fn fall_back_at_once(&self, core: &Core) -> bool {
        let mut all = true;
        for number in 0..self.files.len() {
            match self.try_lock(number) {
                Some(staged) if staged.owner == 0 => {}
                Some(mut staged)
                    if staged.staging.staged_bytes() == 0 && staged.direct.get().is_none() =>
                {
                    self.end_staging(core, &mut staged);
                }
                Some(_) | None => all = false,
            }
        }
        all
    }

    /// The drainer's work.
    fn drain_for_others(&self, core: &Core) {
        for number in 0..self.files.len() {
            if let Some(mut staged) = self.lock(number) {
                self.drainer.begin_file(number);
                self.end_staging(core, &mut staged);
                self.drainer.end_file();
            }
        }
    }
}

/// The main function of the drainer.
unsafe extern "C" fn serve(helper: usize) -> ! {
    process::set_thread_name(c"coldstream-sync");
    credentials::begin();
    // SAFETY: the address of a helper that lives as long as the process.
    let helper = unsafe { &*(helper as *const Helper<Request>) };
    let mut priority = Priority::default();
    loop {
        helper.serve_one(|request| {
            priority.follow(request.io_priority);
            // SAFETY: addresses of parts of the runtime, which lives as long as the process.
            let files = unsafe { &*(request.files as *const StagedFiles) };
            // SAFETY: as above.
            let core = unsafe { &*(request.core as *const Core) };
            files.drain_for_others(core);
            0
        });
    }
}
