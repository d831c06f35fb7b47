//! How much memory the process may have, and whether it is short.

use coldstream_io::sys::{file, process};
use coldstream_policy::memory::{limit_files, parse_full_pressure, parse_limit, usage_file};
use std::ffi::{CStr, CString};

/// Page cache has room if one part in so many of the memory is used for nothing.
const ROOM_SHARE: u64 = 8;

/// The limit of the tightest cgroup around the process, or the machine's memory, in bytes.
pub(crate) fn limit_bytes() -> u64 {
    let limits = cgroup_limits().into_iter().map(|(_, limit)| limit);
    let machine = process::machine_memory_bytes().unwrap_or(u64::MAX);
    limits.min().unwrap_or(u64::MAX).min(machine)
}

/// Whether more can be kept in the page cache without anything being evicted for it: in every
/// cgroup around the process, and in the machine. Not where that cannot be told.
pub(crate) fn has_room() -> bool {
    let free = process::machine_free_bytes().zip(process::machine_memory_bytes());
    let is_free = |room_bytes: u64, limit_bytes: u64| room_bytes >= limit_bytes / ROOM_SHARE;
    let in_machine = free.is_some_and(|(free, memory)| is_free(free, memory));
    in_machine
        && cgroup_limits().into_iter().all(|(file, limit)| {
            let used = usage_file(&file).and_then(read_number);
            used.is_some_and(|used| is_free(limit.saturating_sub(used), limit))
        })
}

/// The cgroups around the process that have a limit: the file that holds it, and the limit.
fn cgroup_limits() -> Vec<(String, u64)> {
    let mut text = [0; 4096];
    let membership = read(c"/proc/self/cgroup", &mut text).unwrap_or_default();
    let with_limit = |file: String| Some((file.clone(), read_number(file)?));
    limit_files(membership)
        .into_iter()
        .filter_map(with_limit)
        .collect()
}

/// The number of bytes that a cgroup's file holds; `None` for "no limit".
fn read_number(path: String) -> Option<u64> {
    let mut text = [0; 64];
    parse_limit(read(&CString::new(path).ok()?, &mut text)?)
}

/// In percent: see [`parse_full_pressure`]. `None` without `CONFIG_PSI`.
pub(crate) fn pressure() -> Option<f32> {
    let mut text = [0; 256];
    parse_full_pressure(read(c"/proc/pressure/memory", &mut text)?)
}

/// As much of a file's beginning as fits.
pub(crate) fn read<'t>(path: &CStr, text: &'t mut [u8]) -> Option<&'t str> {
    let descriptor = file::open(path, libc::O_RDONLY, 0).ok()?;
    let text = read_again(descriptor, text);
    let _ = file::close(descriptor);
    text
}

/// As above, of a file that is open.
pub(crate) fn read_again(descriptor: i32, text: &mut [u8]) -> Option<&str> {
    // SAFETY: the text is writable for its length.
    let read = unsafe { file::pread(descriptor, text.as_mut_ptr(), text.len(), 0) };
    std::str::from_utf8(text.get(..read.ok()?)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_some_memory_and_no_more_than_the_machine_has() {
        let limit = limit_bytes();
        assert!(limit > 1 << 20 && Some(limit) <= process::machine_memory_bytes());
    }
}
