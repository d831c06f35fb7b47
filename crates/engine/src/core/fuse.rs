//! The global fuse: a panic in Coldstream's own code that [`protect`] catches blows it, for good.
//!
//! Reads are plain then, no further file is staged, and nothing is handed over. A file that is staged stays so to its
//! end.
//!
//! Guarded are served reads, writes of staged files, a compaction's first write, records of blob files, handovers, and the
//! waits of pacing. Nothing may unwind into the database. So any other panic ends the process, at the border to C.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// Outside the wiped region on purpose: a forked child runs the same code.
static BLOWN: AtomicBool = AtomicBool::new(false);

/// Whether guarded code has panicked.
pub fn is_blown() -> bool {
    BLOWN.load(Ordering::Relaxed)
}

/// Runs `work`, which may panic. `None` after a panic; the fuse is blown then, and `on_panic` has run.
pub fn protect<T>(on_panic: impl FnOnce(), work: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => Some(result),
        Err(_) => {
            BLOWN.store(true, Ordering::Relaxed);
            on_panic();
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_blows_the_fuse_and_does_not_unwind() {
        let mut times = 0;
        assert_eq!(protect(|| times += 1, || 7), Some(7));
        assert_eq!(times, 0);
        let result: Option<()> = protect(|| times += 1, || panic!("on purpose"));
        assert_eq!((result, times), (None, 1));
        assert!(is_blown());
        BLOWN.store(false, Ordering::Relaxed);
    }
}
