//! What becomes of staged files before a child is made, or before the process ends.
//!
//! The caller waits, but not for ever. A child that is made without the bytes sees what another process sees. A
//! process that ends without them loses them.

use super::drain::are_priorities_on;
use super::drainer::{Heir, Request, Wait};
use super::staged_file::{StagedFile, StagedFiles, WriteMode};
use super::sweep::Reach;
use crate::core::Core;
use crate::core::errno::ErrnoGuard;
use crate::thread::Inside;
use coldstream_control::Counter;
use coldstream_io::credentials;
use coldstream_io::helper::{Helper, Outcome, Priority};
use coldstream_io::sys::file;
use coldstream_io::sys::process;

impl StagedFiles {
    /// Every staged file is drained, because a child is made or the process ends. It stays staged if nobody else gets its
    /// descriptor. If a child gets that, its later writes are plain calls. Otherwise it falls back.
    #[cold]
    pub fn drain_before(&self, core: &Core, heir: Heir) {
        if !self.any() {
            return;
        }
        let _errno = ErrnoGuard::new();
        let Some(inside) = Inside::enter() else {
            // A signal handler that interrupted our own work: the lock of a file may be this thread's.
            return self.fall_back_myself(core);
        };
        if !core.owner.is_this_process() || self.drain_at_once(core, heir) {
            return;
        }
        let sets_priority = self.drainer.was_started_with_priorities() || are_priorities_on(core);
        let request = Request {
            files: std::ptr::from_ref(self) as usize,
            core: std::ptr::from_ref(core) as usize,
            heir,
            io_priority: sets_priority.then_some(0),
        };
        // SAFETY: the runtime lives as long as the process; the function needs no thread-local storage.
        let outcome = unsafe { self.drainer.ask(heir.patience(), serve, request) };
        let is_late = match outcome {
            Outcome::Done(_) => false,
            Outcome::Died => !self.drain_without_drainer(core, heir),
            Outcome::Late => true,
        };
        core.count(Counter::DrainsLate, u64::from(is_late));
        drop(inside);
    }

    /// Whether there is a drainer. Without one nothing may be staged: a child would wait for it.
    pub(super) fn has_drainer(&self, core: &Core) -> bool {
        // SAFETY: as in `drain_before`.
        unsafe { self.drainer.ensure(serve, are_priorities_on(core)) }
    }

    /// Drains every file that nobody has locked, in the calling thread. Waits for locks as long as that may
    /// take; these are held while a device writes. Returns whether these were all.
    ///
    /// Only the bytes that were staged when the drainer died need the device here.
    fn drain_without_drainer(&self, core: &Core, heir: Heir) -> bool {
        let wait = Wait::begin(heir.patience());
        let mut all = true;
        for number in 0..self.files.len() {
            let mut locked = self.try_lock(number);
            while locked.is_none() && wait.pause() {
                locked = self.try_lock(number);
            }
            match locked {
                Some(mut staged) => self.prepare_for(core, &mut staged, heir),
                None => all = false,
            }
        }
        all
    }

    /// Drains the file, if the entry has one, and lets it go as far as the heir demands.
    fn prepare_for(&self, core: &Core, staged: &mut StagedFile, heir: Heir) {
        if staged.owner == 0 {
            return;
        }
        // The caller ends, or the error belongs to another file.
        let _ = match heir {
            Heir::Program if is_kept_from_programs(staged) => self.drain(core, staged),
            Heir::Program | Heir::Child => self.share(core, staged),
            Heir::Nobody => self.fall_back(core, staged, Counter::StagingEndedProcess),
        };
    }

    /// The calling thread drains the files, and waits for their devices.
    fn fall_back_myself(&self, core: &Core) {
        // The caller ends, or the error belongs to another file.
        let _ = self.drain_all(core, Reach::Changes(Counter::StagingEndedProcess));
    }

    /// Prepares every file that needs no device and no wait for that. Returns whether these are all. The close
    /// of a private descriptor may need the device: XFS then frees blocks behind the file's end.
    fn drain_at_once(&self, core: &Core, heir: Heir) -> bool {
        let mut all = true;
        for number in 0..self.files.len() {
            match self.try_lock(number) {
                Some(staged) if staged.owner == 0 => {}
                Some(mut staged)
                    if staged.staging.staged_bytes() == 0
                        && (staged.direct.get().is_none()
                            || heir == Heir::Program && is_kept_from_programs(&staged)) =>
                {
                    self.prepare_for(core, &mut staged, heir);
                }
                Some(_) | None => all = false,
            }
        }
        all
    }

    /// The drainer's work.
    fn drain_for_others(&self, core: &Core, heir: Heir) {
        for number in 0..self.files.len() {
            if let Some(mut staged) = self.lock(number) {
                self.drainer.begin_file(number);
                self.prepare_for(core, &mut staged, heir);
                self.drainer.end_file();
            }
        }
    }
}

/// Whether a program that a child becomes does not get the file's descriptor. Duplicates have ended the staging.
fn is_kept_from_programs(staged: &StagedFile) -> bool {
    staged.mode != WriteMode::None && file::is_closed_at_exec(staged.descriptor) == Ok(true)
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
            files.drain_for_others(core, request.heir);
            0
        });
    }
}
