//! A memory cgroup for a test.

use crate::process::Program;
use crate::skip;
use coldstream_host::own_cgroup::MemoryCgroup;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// A memory cgroup with a limit, and a name of its own in this process. Where none can be made, [`skip`]s.
#[must_use]
pub fn memory_cgroup(limit_bytes: u64) -> Option<MemoryCgroup> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("coldstream-test-{}-{number}", std::process::id());
    match MemoryCgroup::create(&name, limit_bytes) {
        Ok(cgroup) => Some(cgroup),
        Err(error) => {
            skip(format!("no memory cgroup can be made here: {error}"));
            None
        }
    }
}

/// The program within a memory cgroup.
#[must_use]
pub fn within(cgroup: &MemoryCgroup, program: &Program) -> Program {
    let enter = format!("echo $$ > {}", cgroup.processes_file().display());
    let shell = ["-c", &format!("{enter} && exec \"$@\""), "enter"];
    program.clone().behind(Path::new("/bin/sh"), &shell)
}
