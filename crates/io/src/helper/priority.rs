//! The priority of a helper thread. It starts with that of the thread that started it.
//!
//! It asks for nothing before it is needed: a filter of system calls may kill the thread for that.

use crate::sys::thread_priority;

/// The priority of the calling helper.
#[derive(Debug, Default)]
pub struct Priority {
    /// Its own I/O priority; `None` before it was asked for.
    own: Option<i32>,
    /// The one that is set.
    present: i32,
}

impl Priority {
    /// Sets the I/O priority for a request: `wanted`, or the helper's own for 0. `None` while priorities are off.
    /// The first time, it takes the nice value of the process's first thread.
    pub fn follow(&mut self, wanted: Option<i32>) {
        if wanted.is_none() && self.own.is_none() {
            return;
        }
        let own = *self.own.get_or_insert_with(|| {
            thread_priority::copy_from_first_thread();
            let own = thread_priority::io_priority(0).unwrap_or(0);
            self.present = thread_priority::io_priority_with_class(own);
            self.present
        });
        let wanted = wanted.filter(|wanted| *wanted != 0).unwrap_or(own);
        if wanted != self.present {
            self.present = wanted;
            let _ = thread_priority::set_io_priority(0, wanted);
        }
    }
}
