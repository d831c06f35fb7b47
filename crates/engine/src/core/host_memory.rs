//! How much memory the process may have, and whether it is short.

use crate::core::text::Text;
use coldstream_io::sys::{file, process};
use coldstream_policy::memory_limits::{
    Version, each_cgroup, parse_full_pressure, parse_limit, parse_refaults, path_of_controller,
};
use std::ffi::CStr;
use std::io::Write;

/// The page cache has room if an eighth of the memory is unused.
const ROOM_SHARE: u64 = 8;

/// The limit of the tightest cgroup around the process, or the machine's memory, in bytes.
pub fn limit_bytes() -> u64 {
    let mut least = process::machine_memory_bytes().unwrap_or(u64::MAX);
    each_limit(|_, _, limit| least = least.min(limit));
    least
}

/// Whether more fits in the page cache without an eviction: in every cgroup around the process, and in the
/// machine. `false` where that is not known.
pub fn has_room() -> bool {
    let free = process::machine_free_bytes().zip(process::machine_memory_bytes());
    let is_free = |room_bytes: u64, limit_bytes: u64| room_bytes >= limit_bytes / ROOM_SHARE;
    let mut has_room = free.is_some_and(|(free, memory)| is_free(free, memory));
    each_limit(|version, cgroup, limit| {
        let used = read_number(version, cgroup, version.usage_file());
        has_room &= used.is_some_and(|used| is_free(limit.saturating_sub(used), limit));
    });
    has_room
}

/// Calls `visit` with the path of each cgroup around the process that has a limit, and the limit. A cgroup may
/// have two. Does not allocate.
fn each_limit(mut visit: impl FnMut(Version, &str, u64)) {
    let mut text = [0; 4096];
    let membership = read(c"/proc/self/cgroup", &mut text).unwrap_or_default();
    each_cgroup(membership, |version, cgroup| {
        for file in version.limit_files() {
            if let Some(limit) = read_number(version, cgroup, file) {
                visit(version, cgroup, limit);
            }
        }
    });
}

/// The number of bytes that a cgroup's file holds; `None` for "no limit".
fn read_number(version: Version, cgroup: &str, file: &str) -> Option<u64> {
    let path = path_in(version, cgroup, file);
    parse_limit(read(path.as_c_str()?, &mut [0; 64])?)
}

/// Memory pressure in percent ([`parse_full_pressure`]): that of the machine's tasks or of the process's own
/// cgroup, whichever is higher. On a large machine all tasks of a container may stall while the machine's
/// do not. `None` without `CONFIG_PSI`. Does not allocate.
pub fn pressure() -> Option<f32> {
    let machine = pressure_in(c"/proc/pressure/memory");
    let own = own_pressure();
    machine
        .zip(own)
        .map_or(machine.or(own), |(machine, own)| Some(machine.max(own)))
}

/// As [`pressure`], of the process's own cgroup, if it is one of version 2.
fn own_pressure() -> Option<f32> {
    of_own_file(Version::V2, "memory.pressure", pressure_in)
}

fn pressure_in(path: &CStr) -> Option<f32> {
    parse_full_pressure(read(path, &mut [0; 256])?)
}

/// How many pages of files were evicted and read again, in the process's own cgroup, else in the machine. `None` before
/// Linux 5.9. Does not allocate.
pub fn refaulted_pages() -> Option<u64> {
    let refaults_in = |path: &CStr, version| {
        let mut refaults = None;
        each_line(path, &mut [0; 512], |line| {
            let line = std::str::from_utf8(line).unwrap_or_default();
            refaults = refaults.or(parse_refaults(line, version));
        });
        refaults
    };
    [Version::V1, Version::V2]
        .into_iter()
        .find_map(|version| {
            of_own_file(version, "memory.stat", |path| {
                refaults_in(path, Some(version))
            })
        })
        .or_else(|| refaults_in(c"/proc/vmstat", None))
}

/// What `read_it` finds in a file of the process's own cgroup.
fn of_own_file<T>(version: Version, name: &str, read_it: impl Fn(&CStr) -> Option<T>) -> Option<T> {
    let mut text = [0; 4096];
    let membership = read(c"/proc/self/cgroup", &mut text)?;
    let cgroup = path_of_controller(membership, version.controller())?.trim_end_matches('/');
    read_it(path_in(version, cgroup, name).as_c_str()?)
}

/// The path of a cgroup's file.
fn path_in(version: Version, cgroup: &str, file: &str) -> Text<4096> {
    let mut path = Text::new();
    let _ = write!(path, "{}{cgroup}/{file}", version.top());
    path
}

/// The beginning of a file, as much as fits.
pub fn read<'t>(path: &CStr, text: &'t mut [u8]) -> Option<&'t str> {
    let descriptor = file::open(path, libc::O_RDONLY, 0).ok()?;
    let text = read_again(descriptor, text);
    let _ = file::close(descriptor);
    text
}

/// As [`read`], of a file that is open.
pub fn read_again(descriptor: i32, text: &mut [u8]) -> Option<&str> {
    // SAFETY: the text is writable for its length.
    let read = unsafe { file::pread(descriptor, text.as_mut_ptr(), text.len(), 0) };
    std::str::from_utf8(text.get(..read.ok()?)?).ok()
}

/// As [`each_line_of`], of the file at a path. `None` if it cannot be opened.
pub fn each_line(path: &CStr, room: &mut [u8], visit: impl FnMut(&[u8])) -> Option<()> {
    let descriptor = file::open(path, libc::O_RDONLY, 0).ok()?;
    each_line_of(descriptor, room, visit);
    let _ = file::close(descriptor);
    Some(())
}

/// Calls `visit` with each line of a file of any length, in room for one line. The rest of a longer line
/// counts as a line of its own. Needs no thread-local storage.
pub fn each_line_of(descriptor: i32, room: &mut [u8], mut visit: impl FnMut(&[u8])) {
    let (mut kept, mut offset) = (0, 0);
    while let Some(rest) = room.get_mut(kept..).filter(|rest| !rest.is_empty()) {
        // SAFETY: the rest is writable for its length.
        let read = unsafe { file::pread(descriptor, rest.as_mut_ptr(), rest.len(), offset) };
        let count = read.unwrap_or(0);
        if count == 0 {
            break;
        }
        offset += count as u64;
        let filled = kept + count;
        let mut done = 0;
        while let Some(text) = room.get(done..filled)
            && let Some(length) = text.iter().position(|byte| *byte == b'\n')
        {
            visit(text.get(..length).unwrap_or_default());
            done += length + 1;
        }
        if done > filled || filled > room.len() {
            break;
        }
        if done == 0 && filled == room.len() {
            done = filled;
        }
        room.copy_within(done..filled, 0);
        kept = filled - done;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_some_memory_and_no_more_than_the_machine_has() {
        let limit = limit_bytes();
        assert!(limit > 1 << 20 && Some(limit) <= process::machine_memory_bytes());
        assert!(pressure().is_none_or(|percent| (0.0..=100.0).contains(&percent)));
        let (first, second) = (refaulted_pages(), refaulted_pages());
        assert!(first <= second, "they never fall");
        assert!(first.is_some(), "since Linux 5.9");
    }

    #[test]
    fn lines_are_seen_whole_as_far_as_there_is_room() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, b"one\n\nthree\n123456789abc\nfive\nrest").unwrap();
        let path = std::ffi::CString::new(file.path().to_str().unwrap()).unwrap();
        let mut lines = Vec::new();
        let seen = each_line(&path, &mut [0; 8], |line| lines.push(line.to_vec()));
        assert!(seen.is_some());
        let expected: [&[u8]; 5] = [b"one", b"", b"three", b"9abc", b"five"];
        assert_eq!(lines, expected);
        assert!(each_line(c"/nowhere", &mut [0; 8], |_| ()).is_none());
    }
}
