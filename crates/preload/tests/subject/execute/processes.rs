//! Operations that need another process.

use super::super::machine::{NO_ERRNO, State, set_errno};
use super::super::operations::{Change, PATHS};
use super::super::{calls, raw};
use super::reads::positional;
use coldstream_testkit::files::{Hash, fill};
use std::ffi::c_char;
use std::fmt::Write;

/// Runs `work` in a forked child. It gets a pipe for its output, and returns its exit code. Returns how the
/// child ended, and its output.
pub fn in_child(work: impl FnOnce(i32) -> i32) -> String {
    let [out, into] = raw::pipe();
    // SAFETY: the child only works on memory that it has, and ends by a system call.
    let child = unsafe { libc::fork() };
    if child == 0 {
        raw::close(out);
        let code = work(into);
        raw::exit(code);
    }
    raw::close(into);
    let mut text = vec![0; 1 << 16];
    let length = raw::read_all(out, &mut text);
    raw::close(out);
    let mut status = 0;
    // SAFETY: waits for the child just made.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    format!(
        "child {status:x} {}",
        String::from_utf8_lossy(&text[..length])
    )
}

/// A forked child reads inherited descriptors, and opens and scans SSTables of its own.
pub fn fork(state: &mut State, scans: usize) -> String {
    let (slots, buffer) = (state.slots, state.good);
    let read = move |number: i32, length: usize, offset: i64| {
        set_errno(NO_ERRNO);
        let result = positional("pread64", number, buffer, length, offset, 0);
        // SAFETY: so much has just been delivered.
        let bytes = unsafe { std::slice::from_raw_parts(buffer, result.max(0) as usize) };
        (result, Hash::of(bytes))
    };
    in_child(move |pipe| {
        let mut text = String::new();
        for slot in slots {
            for offset in [0, 1_048_581, raw::size_bytes(slot.number) as i64 - 100] {
                let (result, hash) = read(slot.number, 5000, offset);
                let _ = write!(text, "{result} {hash} ");
            }
        }
        for (path, _) in PATHS.iter().take(scans) {
            // SAFETY: the path is NUL-terminated.
            let number = unsafe { calls::open64(path.as_ptr(), libc::O_RDONLY, 0) };
            let mut hash = Hash::new();
            let mut offset = 0;
            for _ in 0..100 {
                let (result, part) = read(number, 4096, offset);
                if result <= 0 {
                    break;
                }
                hash.add_number(part.0);
                offset += result as i64;
            }
            // SAFETY: no memory is passed.
            let closed = unsafe { calls::close(number) };
            let _ = write!(text, "{number}: {offset} {hash} {closed} ");
        }
        raw::write(pipe, text.as_bytes());
        0
    })
}

/// Another process, without the library, changes a file.
pub fn elsewhere(state: &mut State, path: usize, change: Change) -> String {
    let path = PATHS[path].0;
    let identity = 0x1000 + state.step as u64;
    in_child(move |_| {
        let open = |flags| raw::open(path, flags);
        let content = |length: usize| {
            let mut bytes = vec![0; length];
            fill(identity, 0, &mut bytes);
            bytes
        };
        let done = match change {
            Change::Overwrite { offset, length } => {
                raw::write_at(open(libc::O_WRONLY), &content(length), offset as u64)
            }
            Change::Truncate { length } => raw::truncate(open(libc::O_WRONLY), length as u64) == 0,
            Change::Refill { length } => {
                let file = open(libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC);
                raw::write_at(file, &content(length), 0)
            }
            Change::OverwriteDirect { block, blocks } => {
                let length = blocks * 4096;
                let memory = raw::map_anonymous(length, libc::PROT_READ | libc::PROT_WRITE);
                // SAFETY: just mapped, with that length.
                let memory = unsafe { std::slice::from_raw_parts_mut(memory, length) };
                fill(identity, 0, memory);
                raw::write_at(
                    open(libc::O_WRONLY | libc::O_DIRECT),
                    memory,
                    block as u64 * 4096,
                )
            }
            Change::OverwriteMapped { page, pages } => raw::write_mapped(
                open(libc::O_RDWR),
                page as u64 * 4096,
                &content(pages * 4096),
            ),
            Change::Clone {
                from,
                block,
                blocks,
            } => {
                let from = raw::open(PATHS[from].0, libc::O_RDONLY);
                raw::clone_range(
                    from,
                    open(libc::O_WRONLY),
                    block as u64 * 4096,
                    blocks as u64 * 4096,
                )
            }
            Change::PunchHole { offset, length } => {
                raw::punch_hole(open(libc::O_WRONLY), offset, length) == 0
            }
        };
        i32::from(!done)
    })
}

/// Starts a program, like a database that runs a hook.
pub fn spawn() -> String {
    let mut child = 0;
    let arguments = [c"true".as_ptr().cast_mut(), std::ptr::null_mut()];
    let mut status = 0;
    // SAFETY: NUL-terminated strings in a NULL-terminated vector; libc's own environment.
    unsafe {
        unsafe extern "C" {
            static environ: *const *mut c_char;
        }
        let spawned = libc::posix_spawn(
            &raw mut child,
            c"/bin/true".as_ptr(),
            std::ptr::null(),
            std::ptr::null(),
            arguments.as_ptr(),
            environ,
        );
        if spawned != 0 {
            return format!("spawn {spawned}");
        }
        libc::waitpid(child, &raw mut status, 0);
    }
    format!("spawned, status {status:x}")
}
