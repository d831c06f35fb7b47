//! How much memory the process may have, and whether it is short.

use coldstream_io::sys::{file, process};
use coldstream_policy::memory::{limit_files, parse_full_pressure, parse_limit};
use std::ffi::{CStr, CString};

/// The limit of the tightest cgroup around the process, or the machine's memory, in bytes.
pub(crate) fn limit_bytes() -> u64 {
    let mut text = [0; 4096];
    let membership = read(c"/proc/self/cgroup", &mut text).unwrap_or_default();
    let limits = limit_files(membership).into_iter().filter_map(|path| {
        let mut text = [0; 64];
        parse_limit(read(&CString::new(path).ok()?, &mut text)?)
    });
    let machine = process::machine_memory_bytes().unwrap_or(u64::MAX);
    limits.min().unwrap_or(u64::MAX).min(machine)
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
