//! `pthread_create(3)` and `thrd_create(3)`: a new thread inherits the priority of its maker. It must not inherit what Coldstream
//! gave that one.

use super::next::interpose;
use coldstream_engine::runtime;
use libc::{c_int, c_void, pthread_attr_t, pthread_t};

interpose! {
    fn pthread_create(created: *mut pthread_t, attributes: *const pthread_attr_t, entry: *mut c_void, argument: *mut c_void) -> c_int |next| {
        match runtime::get() {
            Some(runtime) => runtime.make_thread(next),
            None => next(),
        }
    }

    fn thrd_create(created: *mut pthread_t, entry: *mut c_void, argument: *mut c_void) -> c_int |next| {
        match runtime::get() {
            Some(runtime) => runtime.make_thread(next),
            None => next(),
        }
    }
}
