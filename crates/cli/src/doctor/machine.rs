//! Facts about the whole machine.

use std::path::PathBuf;

use coldstream_host::cgroup::{self, MemoryLimit};
use coldstream_host::{machine, mounts};
use coldstream_io::scan;
use coldstream_policy::{descriptors, direct_writes_corrupt};
use serde::Serialize;

use crate::library;
use crate::run::elf;

/// The facts that matter for background I/O.
#[derive(Serialize)]
pub struct Machine {
    /// The preload library that `coldstream run` would use.
    #[serde(serialize_with = "super::paths::maybe")]
    pub library: Option<PathBuf>,
    /// Why there is none, and what to do.
    #[serde(skip)]
    pub library_missing: Option<String>,
    /// `uname -r`.
    pub kernel_release: String,
    /// Whether this kernel has the ext4 bug of direct writes that extend a file.
    pub ext4_direct_write_bug: bool,
    /// Whether the multi-generational LRU is on; `None` where the kernel has none.
    pub multi_generational_lru: Option<bool>,
    /// Asynchronous I/O requests that all processes have reserved.
    pub aio_in_use: Option<u64>,
    /// Their limit.
    pub aio_max: Option<u64>,
    /// Memory of the machine.
    pub memory_bytes: Option<u64>,
    /// The tightest limit of the caller's memory cgroup.
    pub memory_limit: Option<MemoryLimit>,
    /// Soft limit of open files.
    pub descriptor_limit: u64,
    /// What to change.
    pub advice: Vec<String>,
}

/// The most asynchronous requests that one process under Coldstream holds.
const AIO_NEEDED: u64 = (scan::STREAMS_MAX * scan::WINDOWS_MAX) as u64;

/// Collects the facts. What cannot be read is absent, not an error.
pub fn examine() -> Machine {
    let name = rustix::system::uname();
    let (aio_in_use, aio_max) = machine::aio_requests();
    let found = library::find(None, "--library");
    let library = found.and_then(|path| elf::check_library(&path).map(|()| path));
    Machine {
        library_missing: library.as_ref().err().map(ToString::to_string),
        library: library.ok(),
        ext4_direct_write_bug: direct_writes_corrupt(
            name.release().to_bytes(),
            name.version().to_bytes(),
        ),
        kernel_release: machine::kernel_release(),
        multi_generational_lru: machine::multi_generational_lru(),
        aio_in_use,
        aio_max,
        memory_bytes: machine::memory_bytes(),
        memory_limit: cgroup::memory_limit("self", &mounts::read()),
        descriptor_limit: coldstream_io::sys::process::descriptor_limit(),
        advice: Vec::new(),
    }
}

impl Machine {
    /// What to change. A limit of this shell counts only where a program `is_started_here`.
    pub fn to_change(&self, is_started_here: bool) -> Vec<String> {
        let mut advice = Vec::from_iter(self.library_missing.clone());
        if let (Some(in_use), Some(max)) = (self.aio_in_use, self.aio_max)
            && max.saturating_sub(in_use) < AIO_NEEDED
        {
            advice.push(format!(
                "asynchronous I/O is used up ({in_use} of {max}), so windows cannot be read ahead: \
                 raise the limit with `sudo sysctl fs.aio-max-nr=1048576`"
            ));
        }
        if is_started_here {
            advice.extend(descriptor_advice(self.descriptor_limit));
        }
        advice
    }
}

/// The advice about this shell's limit of open files. What will be started, and with how many SSTables, is not known.
fn descriptor_advice(limit: u64) -> Option<String> {
    descriptors::is_small(limit).then(|| {
        format!(
            "a program started from this shell may open {limit} files only, and Coldstream opens up to two more for \
             each SSTable in use: raise the limit with `ulimit -n`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_can_be_examined() {
        let machine = examine();
        assert!(!machine.kernel_release.is_empty());
        assert!(machine.memory_bytes.is_some());
    }
}
