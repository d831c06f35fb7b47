//! The engine's counters. docs/counters.md explains them.

use crate::context::coldstream;
use crate::guard::{guarded, handle, status};
use coldstream_control::Counter;
use coldstream_io::Errno;
use std::ffi::{CStr, c_char};

/// The longest name, with its end.
const NAME_BYTES: usize = 64;

/// The names with their ends, so that C can read them.
static NAMES: [[u8; NAME_BYTES]; Counter::COUNT] = {
    let mut names = [[0; NAME_BYTES]; Counter::COUNT];
    let mut index = 0;
    while index < Counter::COUNT {
        let name = Counter::ALL[index].name().as_bytes();
        let mut at = 0;
        while at < name.len() {
            names[index][at] = name[at];
            at += 1;
        }
        assert!(at < NAME_BYTES);
        index += 1;
    }
    names
};

/// The number of counters.
#[unsafe(no_mangle)]
pub extern "C" fn coldstream_counter_count() -> usize {
    Counter::COUNT
}

/// The name of a counter, by its index. The text is static. NULL: there is no such counter.
#[unsafe(no_mangle)]
pub extern "C" fn coldstream_counter_name(index: usize) -> *const c_char {
    NAMES
        .get(index)
        .map_or(std::ptr::null(), |name| name.as_ptr().cast())
}

/// Reads a counter of this process, by its name. With the engine off all are 0.
///
/// Returns 0, or `-EINVAL`: an argument is wrong, or there is no such counter.
///
/// # Safety
/// The pointers are valid, and the name is terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldstream_counter(
    context: *const coldstream,
    name: *const c_char,
    value: *mut u64,
) -> i32 {
    status(|| {
        // SAFETY: passed on.
        let context = unsafe { handle(context) }?;
        if name.is_null() || value.is_null() {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: the caller's text.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        let counter = Counter::ALL.iter().find(|it| it.name().as_bytes() == name);
        let counter = *counter.ok_or(Errno(libc::EINVAL))?;
        let page = context.runtime().and_then(|runtime| runtime.core.page());
        // SAFETY: the caller's place for the value.
        unsafe { *value = page.map_or(0, |page| page.get(counter)) };
        Ok(())
    })
}

/// Whether the engine works in this process: 1, or 0 if its configuration has it off.
///
/// # Safety
/// The context is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldstream_is_on(context: *const coldstream) -> i32 {
    guarded(0, || {
        // SAFETY: passed on.
        let context = unsafe { handle(context) };
        context.is_ok_and(|it| it.runtime().is_some()).into()
    })
}
