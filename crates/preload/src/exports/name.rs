//! `pthread_setname_np(3)` and `prctl(2)`: roles follow the names of threads.
//! `prctl` also sets whether the process may dump core.

use super::credentials::saying_dumpable;
use super::next::interpose;
use coldstream_engine::{events, thread};
use libc::{c_char, c_int, pthread_t};

interpose! {
    fn pthread_setname_np(target: pthread_t, name: *const c_char) -> c_int |next| {
        let result = next();
        // SAFETY: has no precondition.
        if target == unsafe { libc::pthread_self() } {
            events::named_itself();
        } else {
            thread::forget_all_roles();
        }
        result
    }
    fn prctl(option: c_int, second: usize, third: usize, fourth: usize, fifth: usize) -> c_int |next| {
        if option == libc::PR_SET_DUMPABLE {
            return saying_dumpable(second == 1, next);
        }
        let result = next();
        if option == libc::PR_SET_NAME {
            events::named_itself();
        }
        result
    }
}
