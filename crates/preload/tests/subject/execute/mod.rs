//! One operation: makes the call through its symbol, and describes the result.

mod descriptors;
mod files;
mod processes;
pub mod reads;

use super::machine::{Mapping, NO_ERRNO, State, set_errno, touched_errno};
use super::operations::{Action, NAMES, PATHS, Position};
use super::{calls, raw};
use coldstream_testkit::files::{Hash, fill};
use std::ffi::{CStr, c_char};

pub fn path_of(path: usize) -> *const c_char {
    PATHS[path].0.as_ptr()
}

/// A result, and `errno` if the call touched it.
pub fn outcome(result: impl Into<i64>) -> String {
    let errno = touched_errno();
    let result = result.into();
    match errno {
        None => format!("{result}"),
        Some(errno) => format!("{result} errno {errno}"),
    }
}

impl State {
    pub fn number(&self, slot: usize) -> i32 {
        self.slots[slot].number
    }

    /// Sets the descriptor of a variable. The old one is closed.
    fn set(&mut self, slot: usize, number: i32) {
        if self.slots[slot].open && self.slots[slot].number != number {
            // SAFETY: closing a number is memory-safe.
            unsafe { calls::close(self.slots[slot].number) };
        }
        if number >= 0 {
            for other in &mut self.slots {
                // The number was this variable's. It was closed through another one.
                other.open &= other.number != number;
            }
        }
        let variable = &mut self.slots[slot];
        variable.number = number;
        variable.open = number >= 0;
        variable.position = 0;
    }

    /// The present offset of a position, for a descriptor.
    pub fn offset(&self, slot: usize, position: Position) -> i64 {
        match position {
            Position::At(offset) => offset,
            Position::BeforeEnd(bytes) => raw::size_bytes(self.number(slot)) as i64 - bytes,
            Position::Continue => self.slots[slot].position as i64,
        }
    }

    /// Content for the next write. Every step has its own.
    pub fn content(&mut self, length: usize) -> *mut u8 {
        // SAFETY: lengths are below the size of the transfer memory.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.good, length) };
        fill(0x1000 + self.step as u64, 0, bytes);
        self.good
    }
}

#[expect(clippy::too_many_lines, reason = "a line or two for each action")]
pub fn execute(state: &mut State, action: &Action) -> String {
    set_errno(NO_ERRNO);
    match action.clone() {
        Action::Open {
            call,
            path,
            flags,
            slot,
        } => descriptors::open(state, call, path, flags, slot),
        Action::Close { how, slot } => descriptors::close(state, how, slot),
        Action::CloseNumber { number } => {
            if state
                .slots
                .iter()
                .any(|slot| slot.open && slot.number == number)
            {
                return "not aimed at a variable".into();
            }
            // SAFETY: closing a number is memory-safe.
            outcome(unsafe { calls::close(number) })
        }
        Action::CloseAll { how } => descriptors::close_all(state, how),
        Action::Duplicate {
            how,
            from,
            to,
            target,
        } => descriptors::duplicate(state, how, from, to, target),
        Action::StatusFlags { call, slot, flags } => {
            descriptors::status_flags(state, call, slot, flags)
        }
        Action::DescriptorFlags { slot, flags } => {
            // SAFETY: integer commands.
            let (set, got) = unsafe {
                (
                    calls::fcntl(state.number(slot), libc::F_SETFD, flags.into()),
                    calls::fcntl64(state.number(slot), libc::F_GETFD, 0),
                )
            };
            outcome(set) + &format!(" flags {got}")
        }
        Action::Read { call, slot, length } => reads::read(state, call, slot, length),
        Action::ReadAt {
            call,
            slot,
            position,
            length,
            buffer,
            flags,
        } => {
            let offset = state.offset(slot, position);
            reads::read_at(state, call, slot, offset, length, buffer, flags)
        }
        Action::Scan {
            call,
            slot,
            position,
            chunk,
            count,
        } => {
            let offset = state.offset(slot, position);
            reads::scan(state, call, slot, offset, chunk, count)
        }
        Action::Write { call, slot, length } => files::write(state, call, slot, length),
        Action::WriteAt {
            call,
            slot,
            position,
            length,
            flags,
        } => {
            let offset = state.offset(slot, position);
            files::write_at(state, call, slot, offset, length, flags)
        }
        Action::Seek {
            call,
            slot,
            offset,
            whence,
        } => {
            let number = state.number(slot);
            // SAFETY: no memory is passed.
            outcome(unsafe {
                match call {
                    "lseek" => calls::lseek(number, offset, whence),
                    _ => calls::lseek64(number, offset, whence),
                }
            })
        }
        Action::Truncate { call, slot, length } => {
            let number = state.number(slot);
            // SAFETY: no memory is passed.
            outcome(unsafe {
                match call {
                    "ftruncate" => calls::ftruncate(number, length),
                    _ => calls::ftruncate64(number, length),
                }
            })
        }
        Action::TruncatePath { call, path, length } => {
            // SAFETY: the path is NUL-terminated.
            outcome(unsafe {
                match call {
                    "truncate" => calls::truncate(path_of(path), length),
                    _ => calls::truncate64(path_of(path), length),
                }
            })
        }
        Action::Allocate {
            call,
            slot,
            mode,
            position,
            length,
        } => {
            let offset = state.offset(slot, position);
            files::allocate(state, call, slot, mode, offset, length)
        }
        Action::Sync { call, slot } => {
            let number = state.number(slot);
            // SAFETY: no memory is passed.
            outcome(unsafe {
                match call {
                    "fsync" => calls::fsync(number),
                    _ => calls::fdatasync(number),
                }
            })
        }
        Action::SyncRange {
            slot,
            offset,
            length,
            flags,
        } => {
            // SAFETY: no memory is passed.
            outcome(unsafe { calls::sync_file_range(state.number(slot), offset, length, flags) })
        }
        Action::Advise {
            call,
            slot,
            offset,
            length,
            advice,
        } => files::advise(state, call, slot, offset, length, advice),
        Action::Map {
            call,
            slot,
            mapping,
            protection,
            flags,
            position,
            length,
        } => {
            let offset = state.offset(slot, position);
            let map = if call == "mmap" {
                calls::mmap
            } else {
                calls::mmap64
            };
            unmap(state, mapping);
            set_errno(NO_ERRNO);
            // SAFETY: a new mapping, at an address of the kernel's choice.
            let address = unsafe {
                map(
                    std::ptr::null_mut(),
                    length,
                    protection,
                    flags,
                    state.number(slot),
                    offset,
                )
            };
            if address == libc::MAP_FAILED {
                return outcome(-1);
            }
            state.mappings[mapping] = Some(Mapping {
                address: address.cast(),
                length,
                writable: protection & libc::PROT_WRITE != 0,
            });
            "mapped".into()
        }
        Action::Store {
            mapping,
            offset,
            length,
            by_child,
        } => files::store(state, mapping, offset, length, by_child),
        Action::Load { mapping } => load(state, mapping),
        Action::SyncMapping { mapping } => match state.mappings[mapping] {
            Some(Mapping {
                address, length, ..
            }) => {
                // SAFETY: a mapping of the subject's.
                outcome(unsafe { calls::msync(address.cast(), length, libc::MS_SYNC) })
            }
            None => "no mapping".into(),
        },
        Action::Unmap { mapping } => unmap(state, mapping),
        Action::SendFile {
            call,
            from,
            to,
            offset,
            length,
        } => files::send_file(state, call, from, to, offset, length),
        Action::CopyRange {
            from,
            from_offset,
            to,
            to_offset,
            length,
        } => files::copy_range(state, from, from_offset, to, to_offset, length),
        Action::SpliceOut {
            from,
            offset,
            length,
        } => files::splice_out(state, from, offset, length),
        Action::Link { call, from, to } => files::link(call, from, to),
        Action::LinkDescriptor { slot, to } => {
            // SAFETY: NUL-terminated paths.
            outcome(unsafe {
                calls::linkat(
                    state.number(slot),
                    c"".as_ptr(),
                    libc::AT_FDCWD,
                    path_of(to),
                    libc::AT_EMPTY_PATH,
                )
            })
        }
        Action::Rename {
            call,
            from,
            to,
            flags,
        } => files::rename(call, from, to, flags),
        Action::Unlink { call, path } => {
            // SAFETY: NUL-terminated paths.
            outcome(unsafe {
                match call {
                    "unlink" => calls::unlink(path_of(path)),
                    _ => calls::unlinkat(libc::AT_FDCWD, path_of(path), 0),
                }
            })
        }
        Action::Status { call, slot } => files::status(state, call, slot),
        Action::PathStatus { call, path } => files::path_status(call, path),
        Action::NameSelf { call, name } => {
            let name = NAMES[name].as_ptr();
            // SAFETY: NUL-terminated names.
            let result = unsafe {
                match call {
                    "prctl" => calls::prctl(libc::PR_SET_NAME, name),
                    _ => calls::pthread_setname_np(libc::pthread_self(), name),
                }
            };
            outcome(result) + " " + &own_name()
        }
        Action::NameOther { thread, name } => {
            let handle = state.threads[thread] as libc::pthread_t;
            // SAFETY: the thread lives as long as the program runs.
            outcome(unsafe { calls::pthread_setname_np(handle, NAMES[name].as_ptr()) })
        }
        Action::Fork { scans } => processes::fork(state, scans),
        Action::Elsewhere { path, change } => processes::elsewhere(state, path, change),
        Action::Spawn => processes::spawn(),
        Action::DropPages => {
            for (path, _) in PATHS {
                raw::drop_pages(path);
            }
            "dropped".into()
        }
        Action::Settle => {
            std::thread::sleep(coldstream_testkit::files::REST);
            "settled".into()
        }
    }
}

fn own_name() -> String {
    let mut name = [0_u8; 16];
    // SAFETY: the kernel writes at most 16 bytes.
    unsafe { calls::prctl(libc::PR_GET_NAME, name.as_mut_ptr().cast()) };
    CStr::from_bytes_until_nul(&name)
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn load(state: &State, mapping: usize) -> String {
    let Some(Mapping {
        address, length, ..
    }) = state.mappings[mapping]
    else {
        return "no mapping".into();
    };
    let mut hash = Hash::new();
    let mut pages = 0;
    for offset in (0..length).step_by(4096) {
        let page = address.wrapping_add(offset);
        if raw::readable(page) {
            // SAFETY: the page is mapped and, as just asked, within the file.
            hash.add(unsafe { std::slice::from_raw_parts(page, 4096) });
            pages += 1;
        }
    }
    format!("{pages} pages {hash}")
}

fn unmap(state: &mut State, mapping: usize) -> String {
    match state.mappings[mapping].take() {
        Some(Mapping {
            address, length, ..
        }) => {
            // SAFETY: a mapping of the subject's that nothing uses any more.
            outcome(unsafe { calls::munmap(address.cast(), length) })
        }
        None => "no mapping".into(),
    }
}
