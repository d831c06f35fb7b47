//! `close(2)`, `dup(2)`, `fcntl(2)` and their like: the runtime follows descriptors, and hides Coldstream's own.

use super::answer::{Failed, report_to_caller, unless_failed, unless_private, with_room};
use super::next::{Next, interpose};
use super::staged;
use coldstream_control::Counter;
use coldstream_engine::core::errno::{self, ErrnoGuard};
use coldstream_engine::events::{Taking, Visible};
use coldstream_engine::runtime;
use coldstream_io::Errno;
use coldstream_io::sys::file;
use libc::{FILE, c_int, c_uint, off64_t};

/// Commands of `fcntl` that neither see nor change a staged file.
const HARMLESS_COMMANDS: [c_int; 7] = [
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    // `F_GET_RW_HINT` to `F_SET_FILE_RW_HINT` (`include/uapi/linux/fcntl.h`): RocksDB gives the expected
    // lifetime of an SSTable.
    1035,
    1036,
    1037,
    1038,
];

/// To be called before a call that makes two descriptors share one position. A staged file falls back. The
/// error of a delayed write fails the call.
fn before_duplicate(descriptor: c_int) -> Result<(), Failed> {
    staged::fall_back(descriptor, Counter::StagingEndedDescriptor)
}

fn duplicated(descriptor: c_int, duplicate: c_int) -> c_int {
    if duplicate >= 0
        && let Some(runtime) = runtime::get()
    {
        let _errno = ErrnoGuard::new();
        runtime.duplicated(descriptor, duplicate);
    }
    duplicate
}

/// To be called before `dup2` and `dup3`, which close their target. Frees what Coldstream has by that number.
/// The call fails if the target has the error of a delayed write, which could not be reported later.
fn before_target_is_taken(descriptor: c_int, target: c_int) -> Result<(), Failed> {
    if target >= 0
        && target != descriptor
        && let Some(runtime) = runtime::get()
    {
        if let Some((runtime, tracked)) = staged::find(target) {
            report_to_caller(
                runtime
                    .writes
                    .drain_before_close(&runtime.core, tracked, target),
            )?;
        }
        let _errno = ErrnoGuard::new();
        let _ = runtime.before_range_is_taken(target as c_uint, target as c_uint, Taking::Replace);
    }
    Ok(())
}

/// Makes `dup2`, or `dup3` with flags that the kernel accepts. A call that the kernel refuses must not end the
/// target's staging.
fn call_dup2(descriptor: c_int, target: c_int, next: impl FnOnce() -> c_int) -> c_int {
    if staged::find(target).is_some() && file::status_flags(descriptor).is_err() {
        return next();
    }
    let before =
        before_duplicate(descriptor).and_then(|()| before_target_is_taken(descriptor, target));
    unless_failed(before, || duplicated(descriptor, next()))
}

/// To be called before a range of descriptors is closed. Returns the error of a delayed write of one of them.
fn before_range_is_closed(first: c_uint, last: c_uint) -> Result<(), Errno> {
    runtime::get().map_or(Ok(()), |runtime| {
        let _errno = ErrnoGuard::new();
        runtime.before_range_is_taken(first, last, Taking::Close)
    })
}

/// Whether the kernel will carry the call out. If an old kernel or a filter refuses it, the descriptors stay
/// open and must stay tracked.
fn closes_ranges(first: c_uint, last: c_uint, flags: c_int) -> bool {
    let known = (libc::CLOSE_RANGE_UNSHARE | libc::CLOSE_RANGE_CLOEXEC) as c_int;
    first <= last && flags & !known == 0 && file::may_close_ranges()
}

/// To be called before `fcntl`; acts on the commands that take record locks.
fn before_fcntl(descriptor: c_int, command: c_int) {
    if matches!(command, libc::F_SETLK | libc::F_SETLKW)
        && let Some(runtime) = runtime::get()
    {
        let _errno = ErrnoGuard::new();
        runtime.before_lock(descriptor);
    }
}

/// To be called before `fcntl`; acts on the commands that name a lowest number. Frees Coldstream's numbers
/// there. So the kernel finds the same number as without Coldstream.
fn before_number_is_chosen(command: c_int, argument: usize) {
    if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC)
        && let Some(runtime) = runtime::get()
    {
        let _errno = ErrnoGuard::new();
        runtime.before_number_is_chosen(argument as c_int);
    }
}

fn call_fcntl(
    descriptor: c_int,
    command: c_int,
    argument: usize,
    next: impl Fn() -> c_int,
) -> c_int {
    let before = if HARMLESS_COMMANDS.contains(&command) {
        Ok(())
    } else {
        before_duplicate(descriptor)
    };
    unless_failed(before, || {
        before_fcntl(descriptor, command);
        before_number_is_chosen(command, argument);
        after_fcntl(descriptor, command, with_room(next))
    })
}

/// To be called after `fcntl`; acts on the commands that duplicate descriptors.
fn after_fcntl(descriptor: c_int, command: c_int, result: c_int) -> c_int {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => duplicated(descriptor, result),
        _ => result,
    }
}

/// To be called before a call that closes a stream, whose descriptor libc closes unseen. Nothing is staged there: the
/// staging ended when the stream was made.
///
/// # Safety
/// `stream` must be a stream of libc's, or null.
pub(super) unsafe fn before_stream_is_closed(stream: *mut FILE) {
    if !stream.is_null()
        && let Some(runtime) = runtime::get()
    {
        let _errno = ErrnoGuard::new();
        // SAFETY: passed on.
        let descriptor = unsafe { libc::fileno(stream) };
        let _ = runtime.before_close(descriptor);
    }
}

interpose! {
    fn fclose(stream: *mut FILE) -> c_int |next| {
        // SAFETY: the application's argument.
        unsafe { before_stream_is_closed(stream) };
        next()
    }
    fn close(descriptor: c_int) -> c_int |next| {
        match runtime::get().map(|runtime| runtime.before_close(descriptor)) {
            Some(Visible::No) => {
                errno::set(libc::EBADF);
                -1
            }
            Some(Visible::Yes) | None => next(),
            Some(Visible::Failed(failed)) => {
                let result = next();
                if result == 0 {
                    errno::set(failed.0);
                }
                -1
            }
        }
    }
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int |next| {
        // CLOSE_RANGE_CLOEXEC only marks descriptors. CLOSE_RANGE_UNSHARE first gives the caller a descriptor
        // table of its own.
        if flags & libc::CLOSE_RANGE_CLOEXEC as c_int != 0 || !closes_ranges(first, last, flags) {
            return next();
        }
        let ended = before_range_is_closed(first, last);
        let result = next();
        if result == 0 && report_to_caller(ended).is_err() {
            return -1;
        }
        result
    }
    fn dup(descriptor: c_int) -> c_int |next| {
        unless_private(descriptor, || {
            unless_failed(before_duplicate(descriptor), || {
                duplicated(descriptor, with_room(next))
            })
        })
    }
    fn dup2(descriptor: c_int, target: c_int) -> c_int |next| {
        unless_private(descriptor, || {
            call_dup2(descriptor, target, next)
        })
    }
    fn dup3(descriptor: c_int, target: c_int, flags: c_int) -> c_int |next| {
        unless_private(descriptor, || {
            if flags & !libc::O_CLOEXEC != 0 || descriptor == target {
                return next();
            }
            call_dup2(descriptor, target, next)
        })
    }
    fn fcntl | fcntl64(descriptor: c_int, command: c_int, argument: usize) -> c_int |next| {
        unless_private(descriptor, || {
            call_fcntl(descriptor, command, argument, next)
        })
    }
    fn lockf | lockf64(descriptor: c_int, command: c_int, length: off64_t) -> c_int |next| {
        // A file that cannot be drained would keep our descriptor, and its close would take the lock away.
        unless_failed(before_duplicate(descriptor), || {
            before_fcntl(descriptor, libc::F_SETLK);
            next()
        })
    }
}

/// Closes all descriptors from `first` on, as `closefrom` of glibc 2.34 does.
///
/// # Safety
/// As for `close`: the application gives them up.
unsafe fn close_all_from(first: c_int) {
    // SAFETY: passed on.
    if unsafe { libc::syscall(libc::SYS_close_range, first, c_uint::MAX, 0) } == 0 {
        return;
    }
    // Before Linux 5.9. A limit may be a thousand million: not so many calls.
    const LAST: c_int = 1 << 20;
    // SAFETY: a system call without pointers.
    let last = unsafe { libc::sysconf(libc::_SC_OPEN_MAX) };
    for descriptor in first..c_int::try_from(last).map_or(LAST, |last| last.min(LAST)) {
        // SAFETY: passed on.
        unsafe { libc::syscall(libc::SYS_close, descriptor) };
    }
}

/// The next definition of `closefrom`, which returns nothing.
static NEXT_CLOSEFROM: Next = Next::new(c"closefrom");

#[unsafe(no_mangle)]
unsafe extern "C" fn closefrom(first: c_int) {
    let _ = before_range_is_closed(first.max(0) as c_uint, c_uint::MAX);
    let address = NEXT_CLOSEFROM.address();
    if address.is_null() {
        // glibc before 2.34 has none. Who asked for it by `dlsym` has found this one.
        // SAFETY: the application wants these closed.
        unsafe { close_all_from(first.max(0)) };
    } else {
        // SAFETY: the next definition of the same function; the application vouches for its argument.
        unsafe {
            std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn(c_int)>(address)(
                first,
            )
        }
    }
}
