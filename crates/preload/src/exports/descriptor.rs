//! Closing and duplicating: the books follow descriptors, and hide Coldstream's own.

use super::with_room;
use crate::books::{self, Visible};
use crate::errno::{self, ErrnoGuard};
use crate::next::interpose;
use libc::{c_int, c_uint};

fn note_duplicate(descriptor: c_int, duplicate: c_int) -> c_int {
    if duplicate >= 0
        && let Some(books) = books::get()
    {
        let _errno = ErrnoGuard::new();
        books.note_duplicate(descriptor, duplicate);
    }
    duplicate
}

/// `dup2` and `dup3` close what their target was: Coldstream gives the number up before.
fn before_target_is_taken(descriptor: c_int, target: c_int) {
    if target >= 0
        && target != descriptor
        && let Some(books) = books::get()
    {
        let _errno = ErrnoGuard::new();
        books.before_range_is_taken(target as c_uint, target as c_uint, false);
    }
}

fn before_range_is_closed(first: c_uint, last: c_uint) {
    if let Some(books) = books::get() {
        let _errno = ErrnoGuard::new();
        books.before_range_is_taken(first, last, true);
    }
}

/// Of `fcntl`'s commands those that make descriptors, or change how one reads.
fn after_fcntl(descriptor: c_int, command: c_int, argument: usize, result: c_int) -> c_int {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => note_duplicate(descriptor, result),
        libc::F_SETFL if result == 0 => {
            if let Some(books) = books::get() {
                let _errno = ErrnoGuard::new();
                books.note_flags(descriptor, argument as c_int);
            }
            result
        }
        _ => result,
    }
}

interpose! {
    fn close(descriptor: c_int) -> c_int |next| {
        match books::get().map(|books| books.before_close(descriptor)) {
            Some(Visible::No) => {
                errno::set(libc::EBADF);
                -1
            }
            Some(Visible::Yes) | None => next(),
        }
    }
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int |next| {
        // CLOSE_RANGE_CLOEXEC only marks; CLOSE_RANGE_UNSHARE makes the table ours alone first.
        if flags & libc::CLOSE_RANGE_CLOEXEC as c_int == 0 {
            before_range_is_closed(first, last);
        }
        next()
    }
    fn dup(descriptor: c_int) -> c_int |next| {
        note_duplicate(descriptor, with_room(next))
    }
    fn dup2(descriptor: c_int, target: c_int) -> c_int |next| {
        before_target_is_taken(descriptor, target);
        note_duplicate(descriptor, next())
    }
    fn dup3(descriptor: c_int, target: c_int, flags: c_int) -> c_int |next| {
        before_target_is_taken(descriptor, target);
        note_duplicate(descriptor, next())
    }
    fn fcntl(descriptor: c_int, command: c_int, argument: usize) -> c_int |next| {
        after_fcntl(descriptor, command, argument, with_room(next))
    }
    fn fcntl64(descriptor: c_int, command: c_int, argument: usize) -> c_int |next| {
        after_fcntl(descriptor, command, argument, with_room(next))
    }
}

/// `closefrom`, which returns nothing.
mod closefrom {
    use crate::next::Next;
    use libc::{c_int, c_uint};

    static NEXT: Next = Next::new(c"closefrom");

    #[unsafe(no_mangle)]
    unsafe extern "C" fn closefrom(first: c_int) {
        super::before_range_is_closed(first.max(0) as c_uint, c_uint::MAX);
        let address = NEXT.address();
        if !address.is_null() {
            // SAFETY: the next definition of the same function; the application vouches for
            // its argument.
            unsafe {
                std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn(c_int)>(address)(
                    first,
                )
            }
        }
    }
}
