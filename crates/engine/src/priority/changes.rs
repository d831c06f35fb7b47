//! The priorities that Coldstream set for one thread, and the thread's former ones.

use coldstream_control::{Counter, PageView};
use coldstream_io::sys::{Errno, thread_priority};
use coldstream_policy::{Held, PriorityMode, changed, io_rank};

/// What was changed of a thread.
#[derive(Clone, Copy, Default)]
pub(super) struct Changes {
    nice: Held,
    io: Held,
    /// A nice value was not set, because the process could not restore the former one. Counted once.
    was_refused: bool,
}

impl Changes {
    /// Whether anything of the thread is changed at present.
    pub(super) fn any(&self) -> bool {
        self.nice.is_changed() || self.io.is_changed()
    }

    /// Runs `work` with the calling thread's former priorities.
    pub(super) fn suspend<T>(&self, work: impl FnOnce() -> T) -> T {
        let Self { nice, io, .. } = *self;
        // If the application has set another value since, that value stays. A new thread inherits it.
        let is_still_ours = |held, now: Result<i32, Errno>| now.is_ok_and(|now| is_ours(held, now));
        let nice_is_back = is_still_ours(nice, thread_priority::nice(0))
            && thread_priority::set_nice(0, nice.before).is_ok();
        let io_is_back = is_still_ours(io, thread_priority::io_priority(0))
            && thread_priority::set_io_priority(0, io.before).is_ok();
        let result = work();
        if nice_is_back {
            let _ = thread_priority::set_nice(0, nice.set);
        }
        if io_is_back {
            let _ = thread_priority::set_io_priority(0, io.set);
        }
        result
    }

    /// Sets or restores the nice value. Returns false if the former value had to be restored and was not.
    pub(super) fn tend_nice(
        &mut self,
        id: i32,
        is_fresh: bool,
        mode: PriorityMode,
        wanted: Option<i32>,
        page: &PageView<'_>,
    ) -> bool {
        let Ok(now) = thread_priority::nice(id) else {
            return true;
        };
        if !is_fresh && !is_ours(self.nice, now) {
            self.nice = Held::default();
            return true;
        }
        let held = changed(now, self.nice, wanted, |nice| nice);
        if held.set > now && mode != PriorityMode::Always && !may_return_to(held.before) {
            self.count_refusal(page);
            return true;
        }
        if held.set != now
            && let Err(Errno(error)) = thread_priority::set_nice(id, held.set)
        {
            let is_gone = error == libc::ESRCH;
            if !is_gone {
                self.count_refusal(page);
            }
            return is_gone || held.set > now;
        }
        self.nice = held;
        true
    }

    fn count_refusal(&mut self, page: &PageView<'_>) {
        if !std::mem::replace(&mut self.was_refused, true) {
            page.add(Counter::PriorityRefused, 1);
        }
    }

    /// Sets or restores the I/O priority. Restoring one of these classes needs no privilege. Returns the thread's
    /// new I/O priority; 0 if it has none of its own.
    pub(super) fn tend_io(&mut self, id: i32, is_fresh: bool, wanted: Option<i32>) -> i32 {
        let Ok(mut now) = thread_priority::io_priority(id) else {
            return 0;
        };
        if !is_fresh && !is_ours(self.io, now) {
            self.io = Held::default();
        } else {
            let held = changed(now, self.io, wanted, io_rank);
            if held.set == now || thread_priority::set_io_priority(id, held.set).is_ok() {
                self.io = held;
                now = held.set;
            }
        }
        thread_priority::io_priority_with_class(now)
    }
}

/// Whether a value is the one that was set here.
fn is_ours(held: Held, now: i32) -> bool {
    held.is_changed() && held.set == now
}

/// Whether this process may lower a nice value to this one again. Capabilities, limits and user namespaces
/// decide it, and only the kernel knows them. So the calling thread tries it on itself. It must be the control
/// thread.
fn may_return_to(nice: i32) -> bool {
    thread_priority::set_nice(0, nice + 1).is_ok() && thread_priority::set_nice(0, nice).is_ok()
}
