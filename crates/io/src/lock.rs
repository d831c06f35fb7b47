//! A futex lock that is unlocked when its memory is all zeros.
//!
//! `std::sync::Mutex` does not fit here, for two reasons. The kernel zeroes the lock's memory in a forked
//! child (`MADV_WIPEONFORK`), and the lock must then be free. And it may not call libc.

use crate::sync::{AtomicU32, Ordering, futex_wait, futex_wait_for, futex_wake_one};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// How long a thread sleeps before it looks whether the lock's holder lives.
const LOOK_MILLISECONDS: u32 = 50;

const UNLOCKED: u32 = 0;
const LOCKED: u32 = 1;
const CONTENDED: u32 = 2;

/// A value that one thread at a time may use. Not re-entrant: a thread that locks twice waits for itself.
/// Zeroed memory is a valid unlocked lock if zeroed memory is a valid `T`.
#[derive(Default)]
#[repr(C)]
pub struct FutexLock<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the lock hands the value to one thread at a time.
unsafe impl<T: Send> Sync for FutexLock<T> {}

/// Access to the value of a [`FutexLock`]; unlocks when dropped.
pub struct FutexGuard<'a, T> {
    lock: &'a FutexLock<T>,
    /// The guard may be shared between threads only if the value may.
    value: PhantomData<&'a mut T>,
}

impl<T> FutexLock<T> {
    /// A new, unlocked lock.
    pub fn new(value: T) -> Self {
        Self {
            word: AtomicU32::new(UNLOCKED),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits until the lock is free and takes it.
    pub fn lock(&self) -> FutexGuard<'_, T> {
        if self
            .word
            .compare_exchange(UNLOCKED, LOCKED, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            while self.word.swap(CONTENDED, Ordering::Acquire) != UNLOCKED {
                futex_wait(&self.word, CONTENDED);
            }
        }
        self.guard()
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<FutexGuard<'_, T>> {
        self.word
            .compare_exchange(UNLOCKED, LOCKED, Ordering::Acquire, Ordering::Relaxed)
            .ok()
            .map(|_| self.guard())
    }

    /// As [`FutexLock::lock`], where the holder may be a thread that has ended. `inherits` is asked before each
    /// sleep. If it is true, the caller gets the lock of such a thread.
    ///
    /// # Safety
    /// `inherits` is true only after the end of a thread that held this lock, and once for each such end.
    pub unsafe fn lock_or_inherit(&self, mut inherits: impl FnMut() -> bool) -> FutexGuard<'_, T> {
        // SAFETY: passed on.
        if let Some(guard) = unsafe { self.try_lock_or_inherit(&mut inherits) } {
            return guard;
        }
        while self.word.swap(CONTENDED, Ordering::Acquire) != UNLOCKED && !inherits() {
            futex_wait_for(&self.word, CONTENDED, LOOK_MILLISECONDS);
        }
        self.guard()
    }

    /// As [`FutexLock::lock_or_inherit`], without a wait.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn try_lock_or_inherit(
        &self,
        inherits: impl FnOnce() -> bool,
    ) -> Option<FutexGuard<'_, T>> {
        // If others wait for the lock, the word says so already.
        self.try_lock().or_else(|| inherits().then(|| self.guard()))
    }

    /// The guard of a lock that this thread has just taken.
    fn guard(&self) -> FutexGuard<'_, T> {
        FutexGuard {
            lock: self,
            value: PhantomData,
        }
    }
}

impl<T> Deref for FutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard exists only while this thread holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for FutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard exists only while this thread holds the lock.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for FutexGuard<'_, T> {
    fn drop(&mut self) {
        if self.lock.word.swap(UNLOCKED, Ordering::Release) == CONTENDED {
            futex_wake_one(&self.lock.word);
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::FutexLock;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// Three threads, with up to two preemptions. Never two hold the lock, and none sleeps for ever.
    #[test]
    fn loom_one_at_a_time_and_no_wake_up_is_lost() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let shared = Arc::new((FutexLock::new(()), UnsafeCell::new(0)));
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || {
                        let _held = shared.0.lock();
                        // SAFETY: the lock is held; loom fails the test if that is not enough.
                        shared.1.with_mut(|count| unsafe { *count += 1 });
                    })
                })
                .collect();
            for thread in threads {
                thread.join().unwrap();
            }
            let _held = shared.0.lock();
            // SAFETY: as above.
            assert_eq!(shared.1.with(|count| unsafe { *count }), 2);
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn counts_exactly_under_contention() {
        let lock = FutexLock::new(0_u64);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        *lock.lock() += 1;
                    }
                });
            }
        });
        assert_eq!(*lock.lock(), 160_000);
        let held = lock.lock();
        assert!(lock.try_lock().is_none());
        drop(held);
        assert!(lock.try_lock().is_some());
    }

    #[test]
    fn the_lock_of_a_thread_that_ended_is_inherited_once() {
        let lock = FutexLock::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| std::mem::forget(lock.lock()));
        });
        assert!(lock.try_lock().is_none());
        let heirs = std::sync::atomic::AtomicU32::new(1);
        let inherits = || heirs.swap(0, Ordering::Relaxed) == 1;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    // SAFETY: the thread that held the lock has ended, and one is told.
                    *unsafe { lock.lock_or_inherit(inherits) } += 1;
                });
            }
        });
        assert_eq!(*lock.lock(), 4);
        // SAFETY: nobody is told.
        assert!(unsafe { lock.try_lock_or_inherit(|| false) }.is_some());
    }
}
