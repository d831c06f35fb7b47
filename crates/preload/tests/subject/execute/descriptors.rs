//! Opening, closing and duplicating.

use super::super::calls;
use super::super::machine::{NO_ERRNO, State, set_errno};
use super::super::operations::{Closing, ClosingAll, DESCRIPTOR_LIMIT, Duplication, Target};
use super::super::raw;
use super::{outcome, path_of};

/// Mode of created files.
const MODE: u32 = 0o644;

pub fn open(state: &mut State, call: &str, path: usize, flags: i32, slot: usize) -> String {
    let path = path_of(path);
    let at = libc::AT_FDCWD;
    // SAFETY: the path is NUL-terminated.
    let number = unsafe {
        match call {
            "open" => calls::open(path, flags, MODE),
            "open64" => calls::open64(path, flags, MODE),
            "openat" => calls::openat(at, path, flags, MODE),
            "openat64" => calls::openat64(at, path, flags, MODE),
            "creat" => calls::creat(path, MODE),
            "creat64" => calls::creat64(path, MODE),
            "__open_2" => calls::__open_2(path, flags),
            "__open64_2" => calls::__open64_2(path, flags),
            "__openat_2" => calls::__openat_2(at, path, flags),
            "__openat64_2" => calls::__openat64_2(at, path, flags),
            _ => unreachable!("{call}"),
        }
    };
    let text = outcome(number);
    if number >= 0 {
        state.set(slot, number);
    }
    text
}

pub fn close(state: &mut State, how: Closing, slot: usize) -> String {
    let number = state.number(slot);
    let was_open = state.slots[slot].open;
    state.slots[slot].open = false;
    // SAFETY: closing a number is memory-safe; the stream is used once.
    unsafe {
        match how {
            Closing::Close => outcome(calls::close(number)),
            // A negative number would mean a range up to the highest.
            Closing::Range if number >= 0 => {
                outcome(calls::close_range(number as u32, number as u32, 0))
            }
            Closing::Stream if was_open => {
                let stream = calls::fdopen(number, c"r".as_ptr());
                if stream.is_null() {
                    return "no stream ".to_string() + &outcome(calls::close(number));
                }
                format!("stream {}", calls::fclose(stream))
            }
            Closing::Range | Closing::Stream | Closing::Raw => outcome(raw::close(number)),
        }
    }
}

pub fn close_all(state: &mut State, how: ClosingAll) -> String {
    for slot in &mut state.slots {
        slot.open = false;
    }
    // SAFETY: the subject itself needs no descriptor.
    unsafe {
        match how {
            ClosingAll::Range => outcome(calls::close_range(3, u32::MAX, 0)),
            ClosingAll::From => {
                calls::closefrom(3);
                outcome(0)
            }
            ClosingAll::Loop => {
                let closed = (3..DESCRIPTOR_LIMIT as i32)
                    .filter(|number| calls::close(*number) == 0)
                    .count();
                format!("{closed} closed")
            }
        }
    }
}

pub fn duplicate(
    state: &mut State,
    how: Duplication,
    from: usize,
    to: usize,
    target: Target,
) -> String {
    let number = state.number(from);
    let target = match target {
        Target::Variable if state.number(to) >= 0 => state.number(to),
        Target::Variable => 50 + to as i32,
        Target::Number(number) => number,
    };
    // SAFETY: no memory is passed.
    let new = unsafe {
        match how {
            Duplication::Dup => calls::dup(number),
            Duplication::Dup2 => calls::dup2(number, target),
            Duplication::Dup3 => calls::dup3(number, target, libc::O_CLOEXEC),
            Duplication::Fcntl { lowest } => calls::fcntl(number, libc::F_DUPFD, lowest.into()),
            Duplication::FcntlCloexec { lowest } => {
                calls::fcntl64(number, libc::F_DUPFD_CLOEXEC, lowest.into())
            }
            Duplication::Raw => raw::duplicate_to(number, target, 0),
        }
    };
    let text = outcome(new);
    if new >= 0 {
        let from_open = state.slots[from].open;
        state.set(to, new);
        // `dup2` of a number to itself changes nothing.
        if new == number {
            state.slots[from].open = from_open;
        }
    }
    text
}

pub fn status_flags(state: &State, call: &str, slot: usize, flags: i32) -> String {
    let number = state.number(slot);
    let control = if call == "fcntl" { fcntl } else { fcntl64 };
    let set = control(number, libc::F_SETFL, flags.into());
    let text = outcome(set);
    set_errno(NO_ERRNO);
    let got = control(number, libc::F_GETFL, 0);
    text + " flags " + &outcome(got)
}

fn fcntl(number: i32, command: i32, argument: i64) -> i32 {
    // SAFETY: commands with integer arguments only.
    unsafe { calls::fcntl(number, command, argument) }
}

fn fcntl64(number: i32, command: i32, argument: i64) -> i32 {
    // SAFETY: as above.
    unsafe { calls::fcntl64(number, command, argument) }
}
