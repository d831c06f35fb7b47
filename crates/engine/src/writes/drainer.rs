//! The thread that drains staged files for callers that must not wait without a bound.
//!
//! Nobody can interrupt a write to a frozen filesystem, or to a device that does not answer. So a thread of the
//! library's own makes it, and the caller waits for that thread.

use coldstream_io::helper::{self, Helper, Outcome};
use coldstream_io::sys::process;
use coldstream_io::sys::thread::Entry;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The longest wait before a child is made. A device that works writes two buffers in a fraction of it.
const CHILD_MILLISECONDS: u32 = 1000;
/// The longest wait for one file before the process ends. The bytes are lost afterwards.
const END_MILLISECONDS: u32 = 30_000;
/// The pause between two looks at something that another thread has.
const BUSY_MILLISECONDS: u32 = 5;

/// Who has the descriptors of staged files after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heir {
    /// A program in a child, and this process. Between the two only libc's code runs in the child, and uses none of the
    /// application's descriptors. So the program gets those that `execve` leaves open.
    Program,
    /// A child, and this process. Both may write.
    Child,
    /// The process ends, or becomes another program.
    Nobody,
}

impl Heir {
    /// How long the call waits.
    pub(super) fn patience(self) -> Patience {
        match self {
            Heir::Program | Heir::Child => Patience::Child,
            Heir::Nobody => Patience::End,
        }
    }
}

/// How long a call waits for staged files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// A child is made, and this process goes on: a second. If the drainer still waits for a device since an
    /// earlier call, no wait.
    Child,
    /// The process ends or becomes another program: as long as a file is drained in half a minute.
    End,
}

/// A wait that began at some time.
pub(super) struct Wait {
    since: u32,
    limit_milliseconds: u32,
}

impl Wait {
    pub(super) fn begin(patience: Patience) -> Self {
        Self {
            since: process::coarse_milliseconds(),
            limit_milliseconds: match patience {
                Patience::Child => CHILD_MILLISECONDS,
                Patience::End => END_MILLISECONDS,
            },
        }
    }

    /// Whether the caller may wait on.
    pub(super) fn goes_on(&self) -> bool {
        process::coarse_milliseconds().wrapping_sub(self.since) < self.limit_milliseconds
    }

    /// A pause. Whether the caller may wait on.
    pub(super) fn pause(&self) -> bool {
        let goes_on = self.goes_on();
        if goes_on {
            process::sleep(BUSY_MILLISECONDS);
        }
        goes_on
    }
}

/// What the thread needs. Addresses: both live as long as the process.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) files: usize,
    pub(super) core: usize,
    /// Who has the files afterwards.
    pub(super) heir: Heir,
    /// As for the writer threads.
    pub(super) io_priority: Option<i32>,
}

/// The thread. All-zero memory is valid: it was not started.
#[repr(C)]
pub(super) struct Drainer {
    helper: Helper<Request>,
    /// Files that it has drained.
    files: AtomicU32,
    /// The number of the file whose lock it holds, plus one; 0 is none.
    held: AtomicU32,
    /// Its first thread may have had a low priority.
    was_started_with_priorities: AtomicBool,
}

impl Drainer {
    /// Whether the thread lives, or could be started. `serve` is its main function.
    ///
    /// # Safety
    /// As for [`helper::start`].
    pub(super) unsafe fn ensure(&self, serve: Entry, priorities_are_on: bool) -> bool {
        if priorities_are_on {
            self.was_started_with_priorities
                .store(true, Ordering::Relaxed);
        }
        // SAFETY: passed on.
        let start = |id: &_| unsafe { helper::start(&self.helper, serve, id) };
        self.helper.ensure(start)
    }

    /// Whether the thread may have to set its priority.
    pub(super) fn was_started_with_priorities(&self) -> bool {
        self.was_started_with_priorities.load(Ordering::Relaxed)
    }

    /// Gives the thread a request, and waits for its end. `serve` is its main function.
    ///
    /// # Safety
    /// As for [`helper::start`].
    pub(super) unsafe fn ask(&self, patience: Patience, serve: Entry, request: Request) -> Outcome {
        let helper = &self.helper;
        let wait = Wait::begin(patience);
        let mut may_wait = self.patience(wait, patience);
        // SAFETY: passed on.
        let start = |id: &_| unsafe { helper::start(helper, serve, id) };
        while !helper.claim() {
            match helper.claim_new(start) {
                Ok(true) => break,
                Ok(false) if helper.is_dead() => return Outcome::Died,
                Ok(false) => {}
                // A limit or a filter.
                Err(_) => return Outcome::Died,
            }
            let is_stuck = patience == Patience::Child && helper.is_abandoned();
            if is_stuck || !may_wait() {
                return Outcome::Late;
            }
            process::sleep(BUSY_MILLISECONDS);
        }
        helper.submit(request);
        helper.take(may_wait)
    }

    /// Whether a caller may still wait for the thread. Each call looks at the clock.
    fn patience(&self, mut wait: Wait, patience: Patience) -> impl FnMut() -> bool {
        let mut files = self.files.load(Ordering::Relaxed);
        move || {
            let present = self.files.load(Ordering::Relaxed);
            if patience == Patience::End && present != files {
                (files, wait) = (present, Wait::begin(patience));
            }
            wait.goes_on()
        }
    }

    /// As [`coldstream_io::writers::Writers::wake_followers`].
    pub(super) fn wake_follower(&self) -> bool {
        self.helper.wake_follower()
    }

    /// The thread holds the lock of this file. No system call may come between the two.
    pub(super) fn begin_file(&self, number: usize) {
        self.held.store(number as u32 + 1, Ordering::Release);
    }

    /// The thread has drained the file, and is about to unlock it.
    pub(super) fn end_file(&self) {
        self.held.store(0, Ordering::Release);
        self.files.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the thread died with the lock of this file. Tells one caller only: the lock is that one's.
    pub(super) fn leaves(&self, number: usize) -> bool {
        let held = number as u32 + 1;
        self.held.load(Ordering::Acquire) == held
            && !self.helper.lives()
            && self
                .held
                .compare_exchange(held, 0, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wait_has_an_end() {
        for patience in [Patience::Child, Patience::End] {
            let mut wait = Wait::begin(patience);
            assert!(wait.goes_on(), "{patience:?}");
            wait.since = wait.since.wrapping_sub(END_MILLISECONDS + 1);
            assert!(!wait.goes_on() && !wait.pause(), "{patience:?}");
        }
    }

    #[test]
    fn only_the_end_waits_on_while_files_are_drained() {
        // SAFETY: all-zero memory is a valid one.
        let drainer: Drainer = unsafe { std::mem::zeroed() };
        for (patience, goes_on) in [(Patience::Child, false), (Patience::End, true)] {
            let mut wait = Wait::begin(patience);
            wait.since = wait.since.wrapping_sub(END_MILLISECONDS + 1);
            let mut may_wait = drainer.patience(wait, patience);
            drainer.end_file();
            assert_eq!(may_wait(), goes_on, "{patience:?}");
        }
    }
}
