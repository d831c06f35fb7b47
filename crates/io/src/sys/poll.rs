//! Readiness of a descriptor: [`poll(2)`](https://man7.org/linux/man-pages/man2/poll.2.html).

use super::raw::syscall;
use super::{Descriptor, Errno};

/// `ppoll(2)` without a wait: whether the descriptor would take a write of a few bytes at once.
///
/// Regular files always do. Pipes and sockets do if they have room and a reader.
pub fn takes_bytes_now(descriptor: impl Into<Descriptor>) -> bool {
    let mut wanted = libc::pollfd {
        fd: descriptor.into().number(),
        events: libc::POLLOUT,
        revents: 0,
    };
    let no_wait = [0_i64; 2];
    // SAFETY: the kernel writes one entry and reads a time; there is no signal mask.
    let result = unsafe {
        syscall(
            libc::SYS_ppoll,
            [&raw mut wanted as usize, 1, no_wait.as_ptr() as usize, 0, 0],
        )
    };
    Errno::check(result).is_ok() && wanted.revents == libc::POLLOUT
}
