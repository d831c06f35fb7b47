//! Signals as a program finds them that this process becomes.
//!
//! What was ignored or blocked before `execve(2)` still is behind it, and service managers rely on that
//! (`IgnoreSIGPIPE=`, `systemd.exec(5)`). Rust's runtime ignores `SIGPIPE` before `main`, and its
//! [`Command`] takes that back, and blocks nothing: whatever there was before.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

static BROKEN_PIPES_WERE_IGNORED: AtomicBool = AtomicBool::new(false);

/// Looks before Rust's runtime changes it: the loader calls these before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static OBSERVE: extern "C" fn() = observe;

extern "C" fn observe() {
    // SAFETY: all zeros is a value of this type, and nothing is changed.
    let now = unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut now);
        now
    };
    BROKEN_PIPES_WERE_IGNORED.store(now.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
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
        // SAFETY: two system calls with values of this frame; both may be made after a fork.
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
