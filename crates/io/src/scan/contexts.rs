//! Contexts of kernel asynchronous I/O, which the streams of a process share.
//!
//! The kernel counts the requests of all contexts of the machine. It refuses more than `fs.aio-max-nr` (65,536 by
//! default) to everybody. So a stream takes a context with its first request, and puts it back when it gives its
//! windows back. Contexts that nobody needs are destroyed.

use crate::lock::FutexLock;
use crate::sys::{Errno, aio};

/// Requests of one context, and so of one stream.
pub(super) const REQUESTS_MAX: usize = 5;
/// The most contexts: 1,280 requests of `fs.aio-max-nr`. That many streams have small windows: they share the
/// memory. Further streams read one window at a time.
pub(super) const CONTEXTS_MAX: usize = 256;

/// The most contexts that are destroyed in one call. The kernel takes some 20 ms for each.
const DESTROYED_MAX: usize = 8;

/// All-zero memory is valid: there are none.
#[repr(C)]
pub(super) struct Contexts {
    list: FutexLock<List>,
}

struct List {
    /// How many there are, taken or free.
    count: usize,
    /// How many are free: the first of `free`.
    free_count: usize,
    /// The fewest that were free since the last look. Nobody needed these.
    unneeded: usize,
    free: [aio::Context; CONTEXTS_MAX],
}

impl Contexts {
    /// A context with nothing in flight, for all windows of a stream.
    pub(super) fn take(&self) -> Result<aio::Context, Errno> {
        {
            let mut list = self.list.lock();
            if let Some(last) = list.free_count.checked_sub(1) {
                list.free_count = last;
                list.unneeded = list.unneeded.min(last);
                return Ok(list.free.get(last).copied().unwrap_or_default());
            }
            if list.count >= CONTEXTS_MAX {
                return Err(Errno(libc::EAGAIN));
            }
            list.count += 1;
        }
        aio::create(REQUESTS_MAX as u32).inspect_err(|_| self.list.lock().count -= 1)
    }

    /// Puts a context back that has nothing in flight.
    pub(super) fn put(&self, context: aio::Context) {
        let mut list = self.list.lock();
        let end = list.free_count;
        if let Some(place) = list.free.get_mut(end) {
            *place = context;
            list.free_count = end + 1;
        }
    }

    /// Destroys a context that was taken. Waits for its requests in flight.
    pub(super) fn discard(&self, context: aio::Context) {
        aio::destroy(context);
        self.list.lock().count -= 1;
    }

    /// Destroys contexts that nobody has needed since the last call, some of many. Waits for no device. Returns how
    /// many there are still.
    pub(super) fn destroy_unneeded(&self) -> usize {
        for _ in 0..DESTROYED_MAX {
            match self.take_unneeded() {
                Some(context) => self.discard(context),
                None => break,
            }
        }
        let mut list = self.list.lock();
        if list.unneeded == 0 {
            list.unneeded = list.free_count;
        }
        list.count
    }

    fn take_unneeded(&self) -> Option<aio::Context> {
        let mut list = self.list.lock();
        list.unneeded = list.unneeded.checked_sub(1)?;
        list.free_count -= 1;
        list.free.get(list.free_count).copied()
    }
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests {
    use super::*;

    fn contexts() -> Contexts {
        Contexts {
            list: FutexLock::new(List {
                count: 0,
                free_count: 0,
                unneeded: 0,
                free: [0; CONTEXTS_MAX],
            }),
        }
    }

    #[test]
    fn contexts_are_used_again_and_then_destroyed() {
        let contexts = contexts();
        let Ok(first) = contexts.take() else {
            return;
        };
        let second = contexts.take().unwrap();
        assert_ne!(first, second);
        contexts.put(first);
        let again = contexts.take().unwrap();
        assert_eq!(again, first);
        contexts.put(again);
        contexts.put(second);
        assert_eq!(contexts.destroy_unneeded(), 2, "they were needed until now");
        let needed = contexts.take().unwrap();
        contexts.put(needed);
        assert_eq!(contexts.destroy_unneeded(), 1);
        assert_eq!(contexts.destroy_unneeded(), 0);
        assert!(contexts.take().is_ok());
    }

    #[test]
    fn there_is_a_limit() {
        let contexts = contexts();
        let taken: Vec<_> = (0..CONTEXTS_MAX)
            .map_while(|_| contexts.take().ok())
            .collect();
        if taken.len() < CONTEXTS_MAX {
            // The machine's own limit.
            return;
        }
        assert!(contexts.take().is_err());
        for context in taken {
            contexts.put(context);
        }
        assert_eq!(
            contexts.destroy_unneeded(),
            CONTEXTS_MAX,
            "they were needed"
        );
        assert_eq!(contexts.destroy_unneeded(), CONTEXTS_MAX - DESTROYED_MAX);
        while contexts.destroy_unneeded() > 0 {}
    }
}
