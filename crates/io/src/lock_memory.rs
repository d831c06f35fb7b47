//! `mlockall(MCL_CURRENT)` for the mappings of the application alone.
//!
//! The kernel refuses that call if all mappings together are larger than `RLIMIT_MEMLOCK`, also those that hold no
//! memory. So Coldstream's reservations could make it fail where the application alone is allowed to lock its memory.

use crate::sys::{Errno, close, memory, mlock, open, pread, process, unlocked};
use std::ops::ControlFlow;

/// As `mlockall(flags)`, but for mappings of the library's own, and its code and data. Locks one mapping after the
/// other. `false` if that is not allowed either. Nothing is changed then.
///
/// `flags` contain `MCL_CURRENT`.
pub fn lock_without_library(flags: i32) -> bool {
    let Some(mappings) = Mappings::of_this_process() else {
        return false;
    };
    let page_bytes = memory::page_bytes();
    let mut pages = 0;
    let is_read = mappings.each(|mapping| pages += mapping.bytes() / page_bytes);
    if !is_read || pages > process::locked_memory_limit() / page_bytes {
        return false;
    }
    // `mlockall(MCL_CURRENT)` ends an earlier `MCL_FUTURE`. Only `munlockall` can do that alone.
    let future = if flags & libc::MCL_FUTURE == 0 {
        mlock::unlock_everything()
    } else {
        mlock::lock_everything(flags & !libc::MCL_CURRENT)
    };
    if future.is_err() {
        return false;
    }
    let is_on_fault = flags & libc::MCL_ONFAULT != 0;
    // As `mlockall`, it goes on after an error: some mappings cannot be made resident.
    mappings.each(|mapping| {
        let _ = mlock::lock(mapping.start, mapping.bytes(), is_on_fault);
    })
}

/// A line of `/proc/PID/maps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    /// Device and inode of its file; zeros for other memory.
    file: (u64, u64, u64),
}

impl Mapping {
    fn bytes(&self) -> u64 {
        self.end - self.start
    }

    fn contains(&self, address: usize) -> bool {
        (self.start..self.end).contains(&(address as u64))
    }

    /// The beginning of a line: `start-end rwxp offset major:minor inode`.
    fn parse(line: &[u8]) -> Option<Self> {
        let text = str::from_utf8(line).ok()?;
        let mut words = text.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let (major, minor) = words.nth(2)?.split_once(':')?;
        let inode = words.next()?.parse().ok()?;
        let hexadecimal = |digits| u64::from_str_radix(digits, 16).ok();
        Some(Self {
            start: hexadecimal(start)?,
            end: hexadecimal(end)?,
            file: (hexadecimal(major)?, hexadecimal(minor)?, inode),
        })
    }
}

/// The mappings of this process that are not the library's.
struct Mappings {
    /// The file of the library.
    library: (u64, u64, u64),
}

/// Some variable of the library's.
static DATA: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

impl Mappings {
    fn of_this_process() -> Option<Self> {
        let code = lock_without_library as *const () as usize;
        let mut library = None;
        each_mapping(|mapping| {
            if mapping.contains(code) {
                library = Some(mapping.file);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })
        .ok()?;
        Some(Self { library: library? })
    }

    /// Calls `visit` for each. `false` if they cannot be read.
    fn each(&self, mut visit: impl FnMut(&Mapping)) -> bool {
        each_mapping(|mapping| {
            if !self.is_library(mapping) && !is_of_the_kernel(mapping) {
                visit(mapping);
            }
            ControlFlow::Continue(())
        })
        .is_ok()
    }

    fn is_library(&self, mapping: &Mapping) -> bool {
        let mut is_reservation = false;
        unlocked::each(|start, length_bytes| {
            let end = (start + length_bytes) as u64;
            is_reservation |= mapping.start < end && (start as u64) < mapping.end;
        });
        is_reservation
            || mapping.file == self.library
            || mapping.contains(std::ptr::from_ref(&DATA) as usize)
    }
}

/// `[vsyscall]` lies outside the memory of processes.
fn is_of_the_kernel(mapping: &Mapping) -> bool {
    mapping.start >> 63 == 1
}

/// Calls `visit` for each line of `/proc/self/maps`, until it breaks.
fn each_mapping(mut visit: impl FnMut(&Mapping) -> ControlFlow<()>) -> Result<(), Errno> {
    let maps = open::open(c"/proc/self/maps", libc::O_RDONLY, 0)?;
    let read = each_line(
        |text, offset| {
            // SAFETY: the array is writable for its length.
            unsafe { pread::pread(maps, text.as_mut_ptr(), text.len(), offset) }
        },
        |line| Mapping::parse(line).map_or(ControlFlow::Continue(()), |mapping| visit(&mapping)),
    );
    let _ = close::close(maps);
    read
}

/// Calls `visit` with the beginning of each line of what `read` reads, until it breaks.
fn each_line(
    mut read: impl FnMut(&mut [u8], u64) -> Result<usize, Errno>,
    mut visit: impl FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<(), Errno> {
    /// More than stands before the path.
    const BEGINNING_BYTES: usize = 100;
    let mut beginning = [0_u8; BEGINNING_BYTES];
    let mut length = 0;
    let mut offset = 0;
    let mut text = [0_u8; 4096];
    loop {
        let count = read(&mut text, offset)?;
        if count == 0 {
            return Ok(());
        }
        offset += count as u64;
        for &byte in text.iter().take(count) {
            if byte == b'\n' {
                let line = beginning.get(..length).unwrap_or_default();
                if visit(line).is_break() {
                    return Ok(());
                }
                length = 0;
            } else if let Some(place) = beginning.get_mut(length) {
                *place = byte;
                length += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "\
        55d0c8a00000-55d0c8a02000 r--p 00000000 fd:01 1835021                    /usr/bin/a b\n\
        7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \n\
        ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";

    #[test]
    fn lines_are_read_in_pieces_of_any_length() {
        for piece in 1..LINES.len() {
            let mut found = Vec::new();
            let read = |text: &mut [u8], offset: u64| {
                let left = &LINES.as_bytes()[offset as usize..];
                let count = left.len().min(piece).min(text.len());
                text[..count].copy_from_slice(&left[..count]);
                Ok(count)
            };
            each_line(read, |line| {
                found.push(Mapping::parse(line).unwrap());
                ControlFlow::Continue(())
            })
            .unwrap();
            assert_eq!(found.len(), 3);
            assert_eq!(
                found[0],
                Mapping {
                    start: 0x55d0_c8a0_0000,
                    end: 0x55d0_c8a0_2000,
                    file: (0xfd, 1, 1_835_021),
                }
            );
            assert_eq!((found[1].bytes(), found[1].file), (0x21000, (0, 0, 0)));
            assert!(is_of_the_kernel(&found[2]) && !is_of_the_kernel(&found[1]));
        }
    }

    #[test]
    fn the_library_and_its_reservations_are_left_out() {
        use crate::mapping::{OnFork, map_for_life};
        let reservation = map_for_life(1 << 20, OnFork::Wipe).unwrap() as usize;
        let heap = Box::new(1_u8);
        let addresses = [
            (lock_without_library as *const () as usize, false),
            (std::ptr::from_ref(&DATA) as usize, false),
            (reservation + (1 << 19), false),
            (std::ptr::from_ref(&*heap) as usize, true),
        ];
        let mappings = Mappings::of_this_process().unwrap();
        let mut found = [false; 4];
        assert!(mappings.each(|mapping| {
            for (found, (address, _)) in found.iter_mut().zip(addresses) {
                *found |= mapping.contains(address);
            }
        }));
        assert_eq!(found, addresses.map(|(_, is_found)| is_found));
    }
}
