//! `mlockall(2)`: the application's memory stays resident. Coldstream's reservations are not part of that, since most of
//! them are never touched.

use super::next::interpose;
use coldstream_engine::core::errno;
use coldstream_engine::runtime;
use coldstream_io::lock_memory::lock_without_library;
use libc::c_int;

interpose! {
    fn mlockall(flags: c_int) -> c_int |next| {
        let before = errno::get();
        let result = next();
        let Some(runtime) = runtime::get() else {
            return result;
        };
        let is_locked = result == 0
            || errno::get() == libc::ENOMEM
                && flags & libc::MCL_CURRENT != 0
                && lock_without_library(flags);
        if is_locked {
            runtime.memory_locked(flags & (libc::MCL_CURRENT | libc::MCL_ONFAULT) == libc::MCL_CURRENT);
            errno::set(before);
            return 0;
        }
        result
    }
}
