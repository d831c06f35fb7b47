//! A thread of the library's own that carries out one request at a time for the application's threads.
//!
//! Its promises:
//! - there is no queue: a helper that is not free takes no request;
//! - a caller gets the result of its own request, exactly once;
//! - a caller may stop waiting; the helper is free again when the request is done;
//! - a caller notices the helper's death, for instance by a filter of system calls. No request goes to it then.
//!
//! The thread takes no lock of this module's and uses no thread-local storage ([`crate::sys::thread`]). It is
//! started with the first request, and lives as long as the process.

use crate::credentials::Follower;
use crate::sync::{AtomicU32, Ordering, futex_wait, futex_wait_for, futex_wake_one};
use crate::sys::thread::Entry;
pub use priority::Priority;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

mod priority;

/// How long a caller sleeps before it looks whether the helper lives.
const LOOK_MILLISECONDS: u32 = 50;

/// The thread was not started.
const ABSENT: u32 = 0;
/// The thread waits for a request.
const FREE: u32 = 1;
/// A caller is about to submit a request.
const CLAIMED: u32 = 2;
/// The thread has a request.
const SUBMITTED: u32 = 3;
/// The thread has a request, and its caller sleeps until the result is there.
const AWAITED: u32 = 4;
/// The result waits for the caller.
const DONE: u32 = 5;
/// The thread has a request, and its caller waits no longer.
const ABANDONED: u32 = 6;
/// The thread has ended.
const DEAD: u32 = 7;

/// The end of a request, for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done, with this result.
    Done(isize),
    /// The helper died before it was done. It may have been made in part.
    Died,
    /// The caller has waited long enough. The helper may still be at it.
    Late,
}

/// One thread and its request. All-zero memory is valid: the thread is not started.
///
/// The word says who may use the cells: the caller from `CLAIMED` and from `DONE` on, the thread from
/// `SUBMITTED` on.
#[repr(C)]
pub struct Helper<R> {
    word: AtomicU32,
    /// The thread's id; 0 before its start and after its end.
    thread: AtomicU32,
    credentials: Follower,
    result: UnsafeCell<isize>,
    request: UnsafeCell<MaybeUninit<R>>,
}

// SAFETY: the word hands the cells to one thread at a time.
unsafe impl<R: Send> Sync for Helper<R> {}

impl<R: Copy> Helper<R> {
    /// Takes the helper for the caller, if its thread runs and is free. Whether it got it.
    pub fn claim(&self) -> bool {
        if !self.claim_in(FREE) {
            return false;
        }
        let lives = self.lives();
        if !lives {
            self.word.store(DEAD, Ordering::Relaxed);
        }
        lives
    }

    /// Starts the thread, if it was never started, and takes the helper for the caller. `start` starts it; it
    /// gets the word for the thread's id. Whether the caller got the helper, or the error of `start`.
    ///
    /// # Errors
    /// That of `start`.
    pub fn claim_new<E>(&self, start: impl FnOnce(&AtomicU32) -> Result<(), E>) -> Result<bool, E> {
        if !self.claim_in(ABSENT) {
            return Ok(false);
        }
        start(&self.thread)
            .inspect_err(|_| self.word.store(ABSENT, Ordering::Relaxed))
            .map(|()| true)
    }

    /// Starts the thread, if it was never started. Whether there is one that lives. `start` as for
    /// [`Helper::claim_new`].
    pub fn ensure<E>(&self, start: impl FnOnce(&AtomicU32) -> Result<(), E>) -> bool {
        match self.claim_new(start) {
            // Nobody sleeps on the word: the thread waits while it is `FREE` as while it is `CLAIMED`.
            Ok(true) => self.word.store(FREE, Ordering::Release),
            Ok(false) => {}
            Err(_) => return false,
        }
        // Another thread may be about to start it.
        self.lives() || self.word.load(Ordering::Relaxed) == CLAIMED
    }

    /// Does `work` if no request is under way. None is taken meanwhile.
    pub fn if_idle(&self, work: impl FnOnce()) {
        let mut states = [ABSENT, FREE].into_iter();
        if let Some(state) = states.find(|state| self.claim_in(*state)) {
            work();
            self.word.store(state, Ordering::Release);
        }
    }

    fn claim_in(&self, state: u32) -> bool {
        self.word
            .compare_exchange(state, CLAIMED, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Whether its thread was started, and has not ended.
    pub fn lives(&self) -> bool {
        self.thread.load(Ordering::Acquire) != 0
    }

    /// Submits a request to a helper that the caller has claimed.
    pub fn submit(&self, request: R) {
        // SAFETY: claimed by the caller; the thread reads a request only after its submission.
        unsafe { (*self.request.get()).write(request) };
        self.word.store(SUBMITTED, Ordering::Release);
        futex_wake_one(&self.word);
    }

    /// Whether [`Helper::take`] would return without a wait.
    pub fn is_done(&self) -> bool {
        self.word.load(Ordering::Relaxed) == DONE
    }

    /// Whether the thread has ended. It is never started again.
    pub fn is_dead(&self) -> bool {
        match self.word.load(Ordering::Acquire) {
            DEAD => true,
            ABANDONED => !self.lives(),
            _ => false,
        }
    }

    /// Whether the helper is at a request that its caller does not wait for any more.
    pub fn is_abandoned(&self) -> bool {
        self.word.load(Ordering::Relaxed) == ABANDONED
    }

    /// Wakes the thread if it lives and has not followed the process's credentials. Returns whether that is so.
    pub fn wake_follower(&self) -> bool {
        let is_behind = self.lives() && self.credentials.is_behind();
        if is_behind {
            futex_wake_one(&self.word);
        }
        is_behind
    }

    /// Waits for the end of the caller's request, and frees the helper. Before each sleep it asks `may_wait`.
    pub fn take(&self, mut may_wait: impl FnMut() -> bool) -> Outcome {
        loop {
            match self.word.load(Ordering::Acquire) {
                SUBMITTED if self.move_on(SUBMITTED, AWAITED) => {}
                SUBMITTED => continue,
                AWAITED => {}
                _ => break,
            }
            if !may_wait() {
                if self.move_on(AWAITED, ABANDONED) {
                    return Outcome::Late;
                }
                continue;
            }
            futex_wait_for(&self.word, AWAITED, LOOK_MILLISECONDS);
            // The thread's last change of the word comes before its end.
            if !self.lives() && self.move_on(AWAITED, DEAD) {
                return Outcome::Died;
            }
        }
        // SAFETY: done: the thread does not use the cells until the next submission.
        let result = unsafe { *self.result.get() };
        self.word.store(FREE, Ordering::Release);
        Outcome::Done(result)
    }

    fn move_on(&self, from: u32, to: u32) -> bool {
        self.word
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// The thread's side: waits for a request, and performs it.
    pub fn serve_one(&self, perform: impl FnOnce(&R) -> isize) {
        loop {
            match self.word.load(Ordering::Acquire) {
                SUBMITTED | AWAITED | ABANDONED => break,
                other => {
                    self.credentials.follow();
                    futex_wait(&self.word, other);
                }
            }
        }
        // SAFETY: submitted: the cells belong to this thread until the word is `DONE`, and the request is
        // initialised.
        unsafe { *self.result.get() = perform((*self.request.get()).assume_init_ref()) };
        match self.word.swap(DONE, Ordering::AcqRel) {
            AWAITED => futex_wake_one(&self.word),
            // Nobody takes the result.
            ABANDONED => self.word.store(FREE, Ordering::Release),
            _ => {}
        }
    }
}

/// Starts the thread of a helper that lives as long as the process. `entry` gets its address.
///
/// # Safety
/// As for [`crate::sys::thread::start`].
///
/// # Errors
/// As for [`crate::sys::thread::start`].
#[cfg(not(loom))]
pub unsafe fn start<R>(
    helper: &Helper<R>,
    entry: Entry,
    id: &AtomicU32,
) -> Result<(), crate::sys::Errno> {
    let address = std::ptr::from_ref(helper) as usize;
    // SAFETY: passed on; the id is a part of the helper.
    unsafe { crate::sys::thread::start_watched(entry, address, id) }
}

/// A model starts no thread of the kernel's.
///
/// # Safety
/// None is needed.
///
/// # Errors
/// Always.
#[cfg(loom)]
pub unsafe fn start<R>(_: &Helper<R>, _: Entry, _: &AtomicU32) -> Result<(), crate::sys::Errno> {
    Err(crate::sys::Errno(libc::ENOSYS))
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;

    /// A helper, and bytes that its request names.
    type Shared = Arc<(Helper<u64>, loom::cell::UnsafeCell<u64>)>;

    fn shared() -> Shared {
        let helper = Helper {
            word: AtomicU32::new(FREE),
            thread: AtomicU32::new(1),
            credentials: Follower::default(),
            result: UnsafeCell::new(0),
            request: UnsafeCell::new(MaybeUninit::uninit()),
        };
        Arc::new((helper, loom::cell::UnsafeCell::new(0)))
    }

    fn claim_and_submit((helper, bytes): &(Helper<u64>, loom::cell::UnsafeCell<u64>), number: u64) {
        while !helper.claim() {
            loom::thread::yield_now();
        }
        // SAFETY: claimed; loom fails the test if that is not enough.
        bytes.with_mut(|bytes| unsafe { *bytes = number });
        helper.submit(number);
    }

    fn serve((helper, bytes): &(Helper<u64>, loom::cell::UnsafeCell<u64>)) {
        helper.serve_one(|request| {
            // SAFETY: as above.
            let bytes = bytes.with(|bytes| unsafe { *bytes });
            assert_eq!(bytes, *request);
            *request as isize * 10
        });
    }

    /// Two callers with two requests and one. Each gets its own result, its bytes stay unchanged until then,
    /// and no thread sleeps for ever.
    #[test]
    fn loom_each_gets_the_result_of_its_own_request() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let shared = shared();
            let submit_and_take = |shared: &Shared, number: u64| {
                claim_and_submit(shared, number);
                let _ = shared.0.is_done();
                let result = Outcome::Done(number as isize * 10);
                assert_eq!(shared.0.take(|| true), result);
            };
            let thread = {
                let shared = Arc::clone(&shared);
                loom::thread::spawn(move || (0..3).for_each(|_| serve(&shared)))
            };
            let other = {
                let shared = Arc::clone(&shared);
                loom::thread::spawn(move || submit_and_take(&shared, 3))
            };
            submit_and_take(&shared, 1);
            submit_and_take(&shared, 2);
            other.join().unwrap();
            thread.join().unwrap();
        });
    }

    /// A caller that does not wait leaves a helper that is free for the next request, and gets no other result.
    #[test]
    fn loom_an_abandoned_helper_is_free_again() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let shared = shared();
            let thread = {
                let shared = Arc::clone(&shared);
                loom::thread::spawn(move || (0..2).for_each(|_| serve(&shared)))
            };
            claim_and_submit(&shared, 1);
            let first = shared.0.take(|| false);
            assert!([Outcome::Late, Outcome::Done(10)].contains(&first));
            claim_and_submit(&shared, 2);
            assert_eq!(shared.0.take(|| true), Outcome::Done(20));
            thread.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::mapping::{OnFork, map_for_life};
    use crate::sys::thread::end_this_thread as die;

    /// When the thread ends.
    #[derive(Clone, Copy, PartialEq, Eq)]
    #[repr(usize)]
    enum Death {
        AtItsStart,
        InItsSecondRequest,
        AfterItsFirstRequest,
    }

    struct Mortal {
        helper: Helper<u64>,
        death: UnsafeCell<Death>,
    }

    unsafe extern "C" fn entry(address: usize) -> ! {
        // SAFETY: the helper is the first member of a `Mortal` that is never unmapped.
        let mortal = unsafe { &*(address as *const Mortal) };
        // SAFETY: written before the start, and never again.
        let death = unsafe { *mortal.death.get() };
        if death == Death::AtItsStart {
            die();
        }
        loop {
            mortal.helper.serve_one(|request| {
                if death == Death::InItsSecondRequest && *request == 2 {
                    die();
                }
                *request as isize * 10
            });
            if death == Death::AfterItsFirstRequest {
                die();
            }
        }
    }

    fn started(death: Death) -> &'static Helper<u64> {
        let memory = map_for_life(size_of::<Mortal>(), OnFork::Unmap).unwrap();
        // SAFETY: page-aligned, zeroed, and never unmapped; zeroed memory is valid.
        let mortal = unsafe { &*memory.cast::<Mortal>() };
        // SAFETY: no thread uses it yet.
        unsafe { *mortal.death.get() = death };
        let helper = &mortal.helper;
        assert!(!helper.claim(), "not started yet");
        // SAFETY: it lives as long as the process.
        let claimed = helper.claim_new(|id| unsafe { start(helper, entry, id) });
        assert_eq!(claimed, Ok(true));
        helper
    }

    #[test]
    fn a_helpers_death_is_noticed() {
        let helper = started(Death::AtItsStart);
        helper.submit(1);
        assert_eq!(helper.take(|| true), Outcome::Died);
        assert!(!helper.claim());

        let helper = started(Death::InItsSecondRequest);
        helper.submit(1);
        assert_eq!(helper.take(|| true), Outcome::Done(10));
        assert!(helper.claim());
        helper.submit(2);
        assert_eq!(helper.take(|| true), Outcome::Died);

        let helper = started(Death::AfterItsFirstRequest);
        helper.submit(1);
        assert_eq!(helper.take(|| true), Outcome::Done(10));
        while helper.lives() {
            std::thread::yield_now();
        }
        assert!(!helper.claim(), "it is dead");
        let again = helper.claim_new(|_| Err(()));
        assert_eq!(again, Ok(false), "it is not started again");
    }
}
