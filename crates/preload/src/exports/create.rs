//! Making threads: a new one inherits the priority of the one that makes it, and must not inherit
//! what Coldstream gave that one.

use crate::exports::next::interpose;
use crate::thread;
use libc::{c_int, c_void, pthread_attr_t, pthread_t};

interpose! {
    fn pthread_create(created: *mut pthread_t, attributes: *const pthread_attr_t, entry: *mut c_void, argument: *mut c_void) -> c_int |next| {
        thread::with_former_priority(next)
    }
}
