//! Passes ignored and blocked signals on to the program that this process executes.
//!
//! Ignored and blocked signals survive `execve(2)`, and service managers rely on that (`IgnoreSIGPIPE=`,
//! `systemd.exec(5)`). Rust breaks it: its runtime ignores `SIGPIPE` before `main`. Its [`Command`] sets
//! `SIGPIPE` to the default and unblocks all signals, whatever they were before.

use crate::sys::syscall;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

static BROKEN_PIPES_WERE_IGNORED: AtomicBool = AtomicBool::new(false);

/// Runs before Rust's runtime changes the signal: the loader calls the functions of this section before
/// `main`. The preload library contains it too, where it costs one unused system call. It is no libc
/// function, because others may have replaced that.
#[used]
#[unsafe(link_section = ".init_array")]
static OBSERVE: extern "C" fn() = observe;

extern "C" fn observe() {
    // The kernel's `struct sigaction` begins with the handler, and has four words at most.
    let mut now = [0_usize; 4];
    // SAFETY: the kernel writes one structure, and changes no signal.
    unsafe {
        syscall(
            libc::SYS_rt_sigaction,
            [
                libc::SIGPIPE as usize,
                0,
                now.as_mut_ptr() as usize,
                size_of::<u64>(),
            ],
        )
    };
    BROKEN_PIPES_WERE_IGNORED.store(now[0] == libc::SIG_IGN, Ordering::Relaxed);
}

/// Gives the program that `command` executes the signals that this process had at its start.
pub fn pass_on(command: &mut Command) {
    // SAFETY: all zeros is a valid signal set; the call only reads the thread's mask.
    let blocked = unsafe {
        let mut blocked: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut blocked);
        blocked
    };
    let restore = move || {
        // SAFETY: values of this frame. Both functions may be called after a fork (`signal-safety(7)`).
        unsafe {
            if BROKEN_PIPES_WERE_IGNORED.load(Ordering::Relaxed) {
                libc::signal(libc::SIGPIPE, libc::SIG_IGN);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const blocked, std::ptr::null_mut());
        }
        Ok(())
    };
    // SAFETY: the closure allocates nothing and takes no lock.
    unsafe { command.pre_exec(restore) };
}
