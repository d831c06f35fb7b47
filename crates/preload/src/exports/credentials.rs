//! `setuid(2)` and its like: libc changes the credentials of the threads that it knows. The library's own follow.
//!
//! Not seen: the same by `syscall(2)`, which changes the calling thread only.

use super::next::interpose;
use coldstream_engine::runtime::{self, Runtime};
use coldstream_io::credentials::{said_dumpable, will_say_dumpable};
use libc::{c_int, c_uint, c_void};

/// The runtime, if the library has threads that must follow.
fn with_helpers() -> Option<&'static Runtime> {
    runtime::get().filter(|runtime| runtime.has_helpers())
}

/// Runs a call that sets whether the process may dump core. The library's threads do not change that when they
/// follow.
pub(super) fn saying_dumpable(yes: bool, call: impl FnOnce() -> c_int) -> c_int {
    let is_heard = with_helpers().is_some();
    if is_heard {
        will_say_dumpable(yes);
    }
    let result = call();
    if is_heard {
        said_dumpable(yes);
    }
    result
}

/// Runs a call that changes credentials. After a success the library's threads follow.
fn followed(call: impl FnOnce() -> c_int) -> c_int {
    // The kernel takes the permission to dump core away.
    let result = saying_dumpable(false, call);
    if result == 0
        && let Some(runtime) = with_helpers()
    {
        runtime.credentials_changed();
    }
    result
}

interpose! {
    fn setuid | seteuid | setgid | setegid(id: c_uint) -> c_int |next| { followed(next) }

    fn setreuid | setregid(real: c_uint, effective: c_uint) -> c_int |next| { followed(next) }

    fn setresuid | setresgid(real: c_uint, effective: c_uint, saved: c_uint) -> c_int |next| { followed(next) }

    fn capset(header: *mut c_void, data: *const c_void) -> c_int |next| { followed(next) }
}
