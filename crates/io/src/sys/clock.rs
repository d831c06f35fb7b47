//! Clocks and sleeping:
//! [`clock_gettime(2)`](https://man7.org/linux/man-pages/man2/clock_gettime.2.html) and
//! [`nanosleep(2)`](https://man7.org/linux/man-pages/man2/nanosleep.2.html).

use super::raw::syscall;

/// `clock_gettime(2)` in nanoseconds; 0 if there is no such clock.
pub fn clock_ns(clock: i32) -> i128 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one `struct timespec`.
    unsafe {
        syscall(
            libc::SYS_clock_gettime,
            [clock as usize, &raw mut time as usize],
        )
    };
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

/// Nanoseconds of the monotonic clock, by libc's `clock_gettime`. Libc reads it without a system call
/// where the machine allows that.
///
/// Only for threads of the application: a thread of our own has no thread-local storage, which libc
/// may use.
#[inline]
pub fn monotonic_ns() -> u64 {
    libc_clock_ns(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds since the epoch by the coarse clock, from which the kernel takes the times of files. By libc, as
/// [`monotonic_ns`].
#[inline]
pub fn coarse_real_ns() -> u64 {
    libc_clock_ns(libc::CLOCK_REALTIME_COARSE)
}

#[inline]
fn libc_clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: libc writes one `struct timespec`. It sets no errno: every Linux has the clocks that are asked for here.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

/// Milliseconds of the coarse monotonic clock (`clock_gettime(2)`). For ages only: it wraps after 49
/// days.
pub fn coarse_milliseconds() -> u32 {
    (clock_ns(libc::CLOCK_MONOTONIC_COARSE) / 1_000_000) as u32
}

/// `nanosleep(2)`: sleeps for `milliseconds`, or until a signal.
pub fn sleep(milliseconds: u32) {
    sleep_for(&duration(milliseconds));
}

/// As [`sleep`], for `ns` nanoseconds. Not until a time of [`monotonic_ns`]: another preload library may have changed
/// libc's clock, and the kernel sleeps by its own.
pub fn sleep_ns(ns: u64) {
    sleep_for(&libc::timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    });
}

fn sleep_for(time: &libc::timespec) {
    // SAFETY: the kernel reads one `struct timespec`.
    unsafe { syscall(libc::SYS_nanosleep, [std::ptr::from_ref(time) as usize, 0]) };
}

pub(super) fn duration(milliseconds: u32) -> libc::timespec {
    libc::timespec {
        tv_sec: i64::from(milliseconds / 1000),
        tv_nsec: i64::from(milliseconds % 1000) * 1_000_000,
    }
}
