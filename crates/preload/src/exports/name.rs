//! Naming threads: roles follow names.

use crate::exports::next::interpose;
use crate::thread;
use libc::{c_char, c_int, pthread_t};

interpose! {
    fn pthread_setname_np(target: pthread_t, name: *const c_char) -> c_int |next| {
        let result = next();
        // SAFETY: has no precondition.
        if target == unsafe { libc::pthread_self() } {
            thread::note_own_name();
        } else {
            thread::note_other_name();
        }
        result
    }
    fn prctl(option: c_int, second: usize, third: usize, fourth: usize, fifth: usize) -> c_int |next| {
        let result = next();
        if option == libc::PR_SET_NAME {
            thread::note_own_name();
        }
        result
    }
}
