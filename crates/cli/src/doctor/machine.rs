//! What holds for the whole machine.

use std::fs;
use std::path::{Path, PathBuf};

use coldstream_io::scan;
use coldstream_policy::direct_writes_corrupt;
use serde::Serialize;

use super::cgroup::{self, MemoryLimit};
use super::mounts;
use crate::library;

/// Facts of the machine that bear on background I/O.
#[derive(Serialize)]
pub struct Machine {
    /// The preload library that `coldstream run` would use.
    #[serde(serialize_with = "super::paths::maybe")]
    pub library: Option<PathBuf>,
    /// `uname -r`.
    pub kernel_release: String,
    /// Whether this kernel has the ext4 bug of direct, extending writes.
    pub ext4_direct_write_bug: bool,
    /// Whether the multi-generational LRU is on; `None` where the kernel lacks it.
    pub multi_generational_lru: Option<bool>,
    /// Asynchronous I/O contexts in use by all processes.
    pub aio_in_use: Option<u64>,
    /// The most that there may be.
    pub aio_max: Option<u64>,
    /// Memory of the machine.
    pub memory_bytes: Option<u64>,
    /// The tightest limit of the caller's memory cgroup.
    pub memory_limit: Option<MemoryLimit>,
    /// Open files that a process may have (soft limit).
    pub descriptor_limit: u64,
}

/// Asynchronous requests that one process under Coldstream holds at most.
const AIO_NEEDED: u64 = (scan::STREAMS_MAX * scan::WINDOWS_MAX) as u64;

/// Gathers the facts. What cannot be read is absent, not an error.
pub fn examine() -> Machine {
    let name = rustix::system::uname();
    let kernel_release = name.release().to_string_lossy().into_owned();
    Machine {
        library: library::find(None, "--library").ok(),
        ext4_direct_write_bug: direct_writes_corrupt(
            name.release().to_bytes(),
            name.version().to_bytes(),
        ),
        kernel_release,
        multi_generational_lru: multi_generational_lru(),
        aio_in_use: number("/proc/sys/fs/aio-nr"),
        aio_max: number("/proc/sys/fs/aio-max-nr"),
        memory_bytes: memory_bytes(),
        memory_limit: cgroup::memory_limit("self", &mounts::read()),
        descriptor_limit: coldstream_io::sys::process::descriptor_limit(),
    }
}

impl Machine {
    /// What to change, in plain words.
    pub fn advice(&self) -> Vec<String> {
        let mut advice = Vec::new();
        if self.library.is_none() {
            advice.push(format!(
                "build the library with `make build`, or name it with --library or {}",
                library::VARIABLE
            ));
        }
        if let (Some(in_use), Some(max)) = (self.aio_in_use, self.aio_max)
            && max.saturating_sub(in_use) < AIO_NEEDED
        {
            advice.push(format!(
                "asynchronous I/O is used up ({in_use} of {max}): windows cannot be read ahead; \
                 raise it with `sysctl fs.aio-max-nr=1048576`"
            ));
        }
        let who = "a program that is started from this shell";
        advice.extend(descriptor_advice(self.descriptor_limit, who, "`ulimit -n`"));
        advice
    }
}

/// A limit of open files that is too low for Coldstream, whom it is set for, and how it is raised.
pub fn descriptor_advice(limit: u64, who: &str, how: &str) -> Option<String> {
    (limit <= 1024).then(|| {
        format!(
            "{who} may open {limit} files only: each table in use takes up to two more under \
             Coldstream; raise it with {how}"
        )
    })
}

fn multi_generational_lru() -> Option<bool> {
    let mask = fs::read_to_string("/sys/kernel/mm/lru_gen/enabled").ok()?;
    let mask = u32::from_str_radix(mask.trim().trim_start_matches("0x"), 16).ok()?;
    Some(mask & 1 != 0)
}

fn memory_bytes() -> Option<u64> {
    let table = fs::read_to_string("/proc/meminfo").ok()?;
    let row = table
        .lines()
        .find_map(|row| row.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = row.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// The number that a file of `/proc` or `/sys` holds.
pub fn number(path: impl AsRef<Path>) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
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
