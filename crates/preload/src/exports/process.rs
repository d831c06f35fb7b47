//! Calls that copy, replace or end the process, or reach a file by ways of libc's own: whatever is
//! staged goes to the kernel before, for good.
//!
//! None of them is wrapped: a few instructions save the argument registers, call [`before`] and
//! jump to the next definition, so that variadic functions keep their arguments and `vfork`
//! returns twice into its caller's own frame.

use super::staged;
use crate::books;
use crate::next::Next;
use coldstream_control::Counter;
use std::ffi::c_void;

/// What of a call's arguments names a descriptor.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
enum Scope {
    /// Nothing does: every staged table is concerned.
    Everything = 0,
    /// The first argument is one.
    First = 1,
    /// The first argument is one, the second a request of `ioctl`, and the third may be one or name
    /// some.
    Ioctl = 2,
    /// Every staged table, which may go on being staged.
    EverythingOnce = 3,
    /// The first argument is one, and the result a stream.
    FirstOfStream = 4,
    /// The process ends: every staged table, and those too that another thread begins meanwhile.
    End = 5,
}

/// Requests of `ioctl` that read other files than the first argument's (`include/uapi/linux/fs.h`).
const FICLONE: usize = 0x4004_9409;
const FICLONERANGE: usize = 0x4020_940D;
const FIDEDUPERANGE: usize = 0xC018_9436;

extern "C" fn missing() -> isize {
    crate::errno::set(libc::ENOSYS);
    -1
}

/// Instead of a call that would see or change a table of which not everything is in the kernel.
extern "C" fn failed() -> isize {
    -1
}

/// The same of one that returns a stream.
extern "C" fn no_stream() -> *const c_void {
    std::ptr::null()
}

/// Brings to the kernel what the call would miss; returns where to jump to.
extern "C" fn before(
    next: &'static Next,
    scope: usize,
    first: i32,
    third: i32,
    second: usize,
) -> *const c_void {
    if scope == Scope::End as usize {
        if let Some(books) = books::get() {
            books.close_staging();
        }
    } else if let Some(books) = staged::any() {
        if scope == Scope::Everything as usize {
            // Of whom it would be told is gone, or is not concerned.
            let _ = books.settle_all(Some(Counter::DemotedProcess));
        } else if scope == Scope::EverythingOnce as usize {
            let _ = books.settle_all(None);
        } else {
            let errno = crate::errno::get();
            let mut given_up = staged::give_up(first, Counter::DemotedCall);
            if scope == Scope::Ioctl as usize {
                given_up = given_up.and(match second {
                    FICLONE => staged::give_up(third, Counter::DemotedCall),
                    FICLONERANGE | FIDEDUPERANGE => {
                        staged::told(books.settle_all(Some(Counter::DemotedCall)))
                    }
                    _ => Ok(()),
                });
            }
            if given_up.is_err() {
                return if scope == Scope::FirstOfStream as usize {
                    no_stream as *const c_void
                } else {
                    failed as *const c_void
                };
            }
            crate::errno::set(errno);
        }
    }
    let address = next.address();
    if address.is_null() {
        missing as *const c_void
    } else {
        address
    }
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

        $crate::next::symbols!($($name),*);
    };
}

before_jump! {
    fork: Everything,
    _Fork: Everything,
    vfork: Everything,
    posix_spawn: Everything,
    posix_spawnp: Everything,
    system: Everything,
    popen: Everything,
    execl: Everything,
    execle: Everything,
    execlp: Everything,
    execv: Everything,
    execve: Everything,
    execvp: Everything,
    execvpe: Everything,
    execveat: Everything,
    fexecve: Everything,
    // These fork, and the first ends the parent, by libc's internals.
    daemon: Everything,
    forkpty: Everything,
    clone: Everything,
    abort: End,
    _exit: End,
    _Exit: End,
    quick_exit: End,
    sync: EverythingOnce,
    // Writes and reads of libc's own, which nobody follows.
    fdopen: FirstOfStream,
    dprintf: First,
    vdprintf: First,
    __dprintf_chk: First,
    __vdprintf_chk: First,
    ioctl: Ioctl,
    // What is written later would have a later time than the one that is set.
    futimens: First,
    futimes: First,
    utimensat: EverythingOnce,
    utimes: EverythingOnce,
    utime: EverythingOnce,
    aio_read: Everything,
    aio_read64: Everything,
    aio_write: Everything,
    aio_write64: Everything,
    aio_fsync: Everything,
    aio_fsync64: Everything,
    lio_listio: Everything,
    lio_listio64: Everything,
}
