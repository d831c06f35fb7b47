//! `fork(2)`, `execve(2)`, `_exit(2)` and their like, and calls that reach a file inside libc: staged files
//! are drained, and fall back, before.
//!
//! None of them is wrapped. A few instructions save the argument registers, call [`before`] and jump to the
//! next definition. So variadic functions keep their arguments, and `vfork` returns twice into its caller's
//! own frame.

use super::answer::{Failed, report_to_caller};
use super::next::Next;
use super::staged;
use coldstream_control::Counter;
use coldstream_engine::core::errno;
use coldstream_engine::runtime::{self, Runtime};
use coldstream_engine::writes::{Heir, Reach};
use coldstream_io::sys::file;
use libc::c_int;
use std::ffi::{c_char, c_void};

/// Which of a call's arguments names a descriptor.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
enum Scope {
    /// None: every staged file falls back.
    Everything = 0,
    /// The first argument.
    First = 1,
    /// The first argument. The second is a request of `ioctl`. The third may be a descriptor, or a struct with
    /// descriptors.
    Ioctl = 2,
    /// None: every staged file is drained, and stays staged.
    EverythingOnce = 3,
    /// The first argument; the result is a stream.
    FirstOfStream = 4,
    /// None. The process ends: every staged file falls back, also one that another thread takes in now.
    End = 5,
    /// The first argument is a `struct aiocb` that names one.
    Block = 6,
    /// The second argument is a `struct aiocb` that names one, for a sync.
    SecondBlock = 7,
    /// The second argument is a list of pointers to such blocks; the third is their number.
    Blocks = 8,
    /// [`Scope::Child`], and the child may share this process's memory.
    Sharing = 9,
    /// None. A child is made that may write to staged files. They are drained, and their writes are plain calls
    /// afterwards. The wait for that has a bound.
    Child = 10,
    /// None. The process becomes another program, or ends: as before a child, with a longer bound.
    Replacement = 11,
    /// As [`Scope::Program`]. The third argument may be what to do with descriptors before, then as [`Scope::Child`]. The
    /// result is an error's number, not -1 with `errno`.
    Spawn = 12,
    /// The first argument is a path: the staged file of that name is drained, and stays staged.
    Named = 13,
    /// As [`Scope::Named`], with a directory before the path.
    NamedBelow = 14,
    /// None. Another program is started: staged files are drained, and stay staged unless it gets their descriptor.
    Program = 15,
}

/// Requests of `ioctl` that read other files than the first argument's (`include/uapi/linux/fs.h`).
const FICLONE: usize = 0x4004_9409;
const FICLONERANGE: usize = 0x4020_940D;
const FIDEDUPERANGE: usize = 0xC018_9436;

extern "C" fn missing() -> isize {
    errno::set(libc::ENOSYS);
    -1
}

/// As [`missing`], for [`Scope::Spawn`].
extern "C" fn missing_spawn() -> c_int {
    libc::ENOSYS
}

/// Takes the place of a call on a file that could not be drained, or on one of our own descriptors. `errno` is set.
extern "C" fn failed() -> isize {
    -1
}

/// As [`failed`], for a call that returns a stream.
extern "C" fn no_stream() -> *const c_void {
    std::ptr::null()
}

/// Prepares the call. Returns the address to jump to.
extern "C" fn before(
    next: &'static Next,
    scope: Scope,
    first: usize,
    third: usize,
    second: usize,
) -> *const c_void {
    // SAFETY: the application's arguments, which the next definition takes for the same.
    let prepared = unsafe { prepare(scope, [first, second, third]) };
    let address = next.address();
    match (prepared, scope) {
        (Err(Failed), Scope::FirstOfStream) => no_stream as *const c_void,
        (Err(Failed), _) => failed as *const c_void,
        (Ok(()), _) if !address.is_null() => address,
        (Ok(()), Scope::Spawn) => missing_spawn as *const c_void,
        (Ok(()), _) => missing as *const c_void,
    }
}

/// Drains the staged files that the call would miss. Fails if that fails, or if the call names one of our own descriptors.
///
/// # Safety
/// The arguments must be what [`Scope`] says.
unsafe fn prepare(scope: Scope, named: [usize; 3]) -> Result<(), Failed> {
    if scope == Scope::Sharing {
        runtime::before_sharing();
    }
    // SAFETY: passed on.
    if unsafe { names_private(scope, named) } {
        errno::set(libc::EBADF);
        return Err(Failed);
    }
    let [first, ..] = named;
    if scope == Scope::FirstOfStream
        && let Some(runtime) = runtime::get()
        && let Some(tracked) = runtime.core.tracked(first as c_int)
    {
        runtime.before_sequential_read(tracked, first as c_int);
    }
    match (scope, staged::any()) {
        (Scope::End, _) => {
            if let Some(runtime) = runtime::get() {
                runtime.writes.close_for_good(&runtime.core);
                runtime.core.remove_page();
            }
            Ok(())
        }
        (_, None) => Ok(()),
        (Scope::Child | Scope::Sharing, Some(runtime)) => {
            (runtime.writes).drain_before(&runtime.core, Heir::Child);
            Ok(())
        }
        (Scope::Program, Some(runtime)) => {
            (runtime.writes).drain_before(&runtime.core, Heir::Program);
            Ok(())
        }
        (Scope::Spawn, Some(runtime)) => {
            // Actions may duplicate a descriptor for the program. What they say is libc's secret.
            let [.., actions] = named;
            let heir = if actions == 0 {
                Heir::Program
            } else {
                Heir::Child
            };
            (runtime.writes).drain_before(&runtime.core, heir);
            Ok(())
        }
        (Scope::Replacement, Some(runtime)) => {
            (runtime.writes).drain_before(&runtime.core, Heir::Nobody);
            Ok(())
        }
        (Scope::Everything, Some(runtime)) => {
            // No error is reported: the caller ends, or the error belongs to another file.
            let _ = runtime
                .writes
                .drain_all(&runtime.core, Reach::Changes(Counter::StagingEndedProcess));
            Ok(())
        }
        (Scope::EverythingOnce, Some(runtime)) => {
            let _ = runtime.writes.drain_all(&runtime.core, Reach::Sees);
            Ok(())
        }
        (Scope::Named, Some(runtime)) => {
            // SAFETY: passed on.
            unsafe { drain_at(runtime, libc::AT_FDCWD, first as *const c_char) };
            Ok(())
        }
        (Scope::NamedBelow, Some(runtime)) => {
            let [_, path, _] = named;
            // SAFETY: passed on.
            unsafe { drain_at(runtime, first as c_int, path as *const c_char) };
            Ok(())
        }
        // SAFETY: passed on.
        (_, Some(runtime)) => unsafe { fall_back_named(runtime, scope, named) },
    }
}

/// Whether the call names one of our own descriptors, which look as if they were not open. A list of blocks is left to
/// the kernel.
///
/// # Safety
/// The arguments must be what [`Scope`] says.
unsafe fn names_private(scope: Scope, [first, second, _]: [usize; 3]) -> bool {
    let descriptor = match scope {
        Scope::First | Scope::Ioctl | Scope::FirstOfStream => first as c_int,
        // SAFETY: passed on.
        Scope::Block => unsafe { descriptor_of_block(first as *const c_int) },
        // SAFETY: passed on.
        Scope::SecondBlock => unsafe { descriptor_of_block(second as *const c_int) },
        Scope::Everything
        | Scope::EverythingOnce
        | Scope::End
        | Scope::Blocks
        | Scope::Sharing
        | Scope::Child
        | Scope::Replacement
        | Scope::Spawn
        | Scope::Program
        | Scope::Named
        | Scope::NamedBelow => return false,
    };
    runtime::get().is_some_and(|runtime| runtime.core.is_private(descriptor))
}

/// Drains the file at `path`, below the directory `at`, if it is staged. No error is reported: the call changes no byte
/// of it.
///
/// # Safety
/// As for [`file::stamp_at`].
unsafe fn drain_at(runtime: &Runtime, at: c_int, path: *const c_char) {
    let stamp = if path.is_null() {
        // `futimesat` takes the descriptor itself then.
        file::stamp(at)
    } else {
        // SAFETY: passed on.
        unsafe { file::stamp_at(at, path) }
    };
    if let Ok(stamp) = stamp {
        let identity = (stamp.device, stamp.inode);
        let _ = (runtime.writes).drain_identity(&runtime.core, identity, Reach::Sees);
    }
}

/// The files that a call's arguments name fall back. Leaves errno alone unless that fails.
///
/// # Safety
/// The arguments must be what [`Scope`] says.
unsafe fn fall_back_named(
    runtime: &Runtime,
    scope: Scope,
    [first, second, third]: [usize; 3],
) -> Result<(), Failed> {
    let errno = errno::get();
    let fall_back = |descriptor| staged::fall_back(descriptor, Counter::StagingEndedCall);
    // SAFETY: passed on.
    let named_by = |block| unsafe { descriptor_of_block(block as *const c_int) };
    match scope {
        Scope::Block => fall_back(named_by(first))?,
        Scope::SecondBlock => staged::before_unfollowed_sync(named_by(second))?,
        Scope::Blocks => {
            let list = second as *const *const c_int;
            // SAFETY: the list has that many pointers, each null or to a block.
            let mut named = (0..third as c_int as isize)
                .map(|number| unsafe { descriptor_of_block(*list.offset(number)) });
            named.try_for_each(fall_back)?;
        }
        _ => fall_back(first as c_int)?,
    }
    match (scope, second) {
        (Scope::Ioctl, FICLONE) => fall_back(third as c_int)?,
        (Scope::Ioctl, FICLONERANGE | FIDEDUPERANGE) => {
            report_to_caller(
                runtime
                    .writes
                    .drain_all(&runtime.core, Reach::Changes(Counter::StagingEndedCall)),
            )?;
        }
        _ => {}
    }
    errno::set(errno);
    Ok(())
}

/// The descriptor that a `struct aiocb` names by its first member (`/usr/include/aio.h`); -1 without a block.
///
/// # Safety
/// Null, or a block.
unsafe fn descriptor_of_block(block: *const c_int) -> c_int {
    if block.is_null() {
        return -1;
    }
    // SAFETY: passed on.
    unsafe { *block }
}

macro_rules! before_jump {
    ($($name:ident: $scope:ident,)*) => {
        $(
            #[doc(hidden)]
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            pub unsafe extern "C" fn $name() {
                #[cfg(target_arch = "x86_64")]
                std::arch::naked_asm!(
                    "push rdi",
                    "push rsi",
                    "push rdx",
                    "push rcx",
                    "push r8",
                    "push r9",
                    "push rax",
                    "sub rsp, 128",
                    "movups [rsp], xmm0",
                    "movups [rsp + 16], xmm1",
                    "movups [rsp + 32], xmm2",
                    "movups [rsp + 48], xmm3",
                    "movups [rsp + 64], xmm4",
                    "movups [rsp + 80], xmm5",
                    "movups [rsp + 96], xmm6",
                    "movups [rsp + 112], xmm7",
                    "mov r8, rsi",
                    "mov rcx, rdx",
                    "mov rdx, rdi",
                    "lea rdi, [rip + {next}]",
                    "mov esi, {scope}",
                    "call {before}",
                    "mov r11, rax",
                    "movups xmm0, [rsp]",
                    "movups xmm1, [rsp + 16]",
                    "movups xmm2, [rsp + 32]",
                    "movups xmm3, [rsp + 48]",
                    "movups xmm4, [rsp + 64]",
                    "movups xmm5, [rsp + 80]",
                    "movups xmm6, [rsp + 96]",
                    "movups xmm7, [rsp + 112]",
                    "add rsp, 128",
                    "pop rax",
                    "pop r9",
                    "pop r8",
                    "pop rcx",
                    "pop rdx",
                    "pop rsi",
                    "pop rdi",
                    "jmp r11",
                    next = sym symbols::$name,
                    scope = const Scope::$scope as usize,
                    before = sym before,
                );
                #[cfg(target_arch = "aarch64")]
                std::arch::naked_asm!(
                    "stp x29, x30, [sp, #-16]!",
                    "stp x0, x1, [sp, #-16]!",
                    "stp x2, x3, [sp, #-16]!",
                    "stp x4, x5, [sp, #-16]!",
                    "stp x6, x7, [sp, #-16]!",
                    "stp q0, q1, [sp, #-32]!",
                    "stp q2, q3, [sp, #-32]!",
                    "stp q4, q5, [sp, #-32]!",
                    "stp q6, q7, [sp, #-32]!",
                    "mov x4, x1",
                    "mov x3, x2",
                    "mov x2, x0",
                    "adrp x0, {next}",
                    "add x0, x0, :lo12:{next}",
                    "mov x1, {scope}",
                    "bl {before}",
                    "mov x16, x0",
                    "ldp q6, q7, [sp], #32",
                    "ldp q4, q5, [sp], #32",
                    "ldp q2, q3, [sp], #32",
                    "ldp q0, q1, [sp], #32",
                    "ldp x6, x7, [sp], #16",
                    "ldp x4, x5, [sp], #16",
                    "ldp x2, x3, [sp], #16",
                    "ldp x0, x1, [sp], #16",
                    "ldp x29, x30, [sp], #16",
                    "br x16",
                    next = sym symbols::$name,
                    scope = const Scope::$scope as usize,
                    before = sym before,
                );
            }
        )*

        $crate::exports::next::symbols!($($name),*);
    };
}

before_jump! {
    fork: Child,
    _Fork: Child,
    vfork: Sharing,
    posix_spawn: Spawn,
    posix_spawnp: Spawn,
    // From glibc 2.39 on. A child of theirs is made inside libc, past the two above.
    pidfd_spawn: Spawn,
    pidfd_spawnp: Spawn,
    system: Program,
    popen: Program,
    execl: Replacement,
    execle: Replacement,
    execlp: Replacement,
    execv: Replacement,
    execve: Replacement,
    execvp: Replacement,
    execvpe: Replacement,
    execveat: Replacement,
    fexecve: Replacement,
    // These fork inside libc, and the first ends the parent.
    daemon: Replacement,
    forkpty: Child,
    clone: Sharing,
    abort: End,
    _exit: End,
    _Exit: End,
    quick_exit: End,
    sync: EverythingOnce,
    // Writes and reads inside libc, which are not followed.
    fdopen: FirstOfStream,
    dprintf: First,
    vdprintf: First,
    __dprintf_chk: First,
    __vdprintf_chk: First,
    ioctl: Ioctl,
    // These look at sizes, and open a file, inside libc.
    ftw: Everything,
    ftw64: Everything,
    nftw: Everything,
    nftw64: Everything,
    fts_open: EverythingOnce,
    fts64_open: EverythingOnce,
    fts_children: EverythingOnce,
    fts64_children: EverythingOnce,
    fts_read: EverythingOnce,
    fts64_read: EverythingOnce,
    open_by_handle_at: Everything,
    // A later write would set a later time.
    futimens: First,
    futimes: First,
    utimensat: NamedBelow,
    utimes: Named,
    lutimes: Named,
    futimesat: NamedBelow,
    utime: Named,
    aio_read: Block,
    aio_read64: Block,
    aio_write: Block,
    aio_write64: Block,
    aio_fsync: SecondBlock,
    aio_fsync64: SecondBlock,
    lio_listio: Blocks,
    lio_listio64: Blocks,
}
