//! Signals as a program finds them that this process becomes.
//!
//! What was ignored or blocked before `execve(2)` still is behind it, and service managers rely on that
//! (`IgnoreSIGPIPE=`, `systemd.exec(5)`). Rust's runtime ignores `SIGPIPE` before `main`, and its
//! [`Command`] takes that back, and blocks nothing: whatever there was before.

use crate::sys::syscall;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

static BROKEN_PIPES_WERE_IGNORED: AtomicBool = AtomicBool::new(false);

/// Looks before Rust's runtime changes it: the loader calls these before `main`. It is in the preload
/// library too, where it is a system call that nobody asks for; not one of libc's functions, which
/// others may have replaced.
#[used]
#[unsafe(link_section = ".init_array")]
static OBSERVE: extern "C" fn() = observe;

extern "C" fn observe() {
    // `struct sigaction` of the kernel begins with the handler; it has four words at most.
    let mut now = [0_usize; 4];
    // SAFETY: the kernel writes one structure, and changes nothing.
    unsafe {
        syscall(
            libc::SYS_rt_sigaction,
            [
                libc::SIGPIPE as usize,
                0,
                now.as_mut_ptr() as usize,
                size_of::<u64>(),
                0,
                0,
            ],
        )
    };
    BROKEN_PIPES_WERE_IGNORED.store(now[0] == libc::SIG_IGN, Ordering::Relaxed);
}

/// What `command` becomes finds signals as this process found them.
pub fn pass_on(command: &mut Command) {
    // SAFETY: all zeros is a value of this type; the thread's mask is only read.
    let blocked = unsafe {
        let mut blocked: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut blocked);
        blocked
    };
    let restore = move || {
        // SAFETY: values of this frame; both functions may be called after a fork (`signal-safety(7)`).
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
