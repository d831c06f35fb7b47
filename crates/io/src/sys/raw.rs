//! The system-call instruction: [`syscall(2)`](https://man7.org/linux/man-pages/man2/syscall.2.html).
//!
//! Only for x86-64 and aarch64. Their C calling convention passes variadic arguments like fixed ones,
//! and the preload library relies on that.

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("Coldstream supports x86_64 and aarch64 Linux");

use super::avoid;

/// Issues system call `number` with `N` arguments, six at most. Returns the kernel's raw result: an
/// error is `-errno`.
///
/// # Safety
/// The arguments must be valid for this system call. Pointers that the kernel reads or writes must be
/// good for that. The call must not break an invariant of live Rust values.
#[inline]
pub unsafe fn syscall<const N: usize>(number: i64, arguments: [usize; N]) -> isize {
    const { assert!(N <= 6, "a system call has six arguments at most") };
    if avoid::is_avoided(number) {
        return -libc::ENOSYS as isize;
    }
    // The kernel does not look at arguments that a call does not have. No slice is copied here: that would
    // call libc's `memcpy`.
    let argument = |number: usize| if number < N { arguments[number] } else { 0 };
    let result: isize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller vouches for the call; the instruction clobbers rcx and r11.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") argument(0),
            in("rsi") argument(1),
            in("rdx") argument(2),
            in("r10") argument(3),
            in("r8") argument(4),
            in("r9") argument(5),
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the caller vouches for the call; only x0 changes.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") argument(0) => result,
            in("x1") argument(1),
            in("x2") argument(2),
            in("x3") argument(3),
            in("x4") argument(4),
            in("x5") argument(5),
            options(nostack),
        );
    }
    result
}

/// Issues [`clone(2)`](https://man7.org/linux/man-pages/man2/clone.2.html) for a thread of this
/// process. The caller gets the kernel's raw result; the new thread runs `entry(argument)` on its own
/// stack. `id` is where the kernel keeps the thread's id, if `flags` say so.
///
/// # Safety
/// - `flags` must make a thread that shares the memory.
/// - `id` must be 0 without such flags, and else the address of a word that lives as long as the process.
/// - `stack_end` must be the end of a stack that nobody else uses, aligned to 16 bytes.
/// - `entry` must be sound to run there with `argument`.
pub(super) unsafe fn clone_thread(
    flags: usize,
    stack_end: usize,
    entry: unsafe extern "C" fn(usize) -> !,
    argument: usize,
    id: usize,
) -> isize {
    if avoid::is_avoided(libc::SYS_clone) {
        return -libc::ENOSYS as isize;
    }
    let result: isize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller vouches for the call. The new thread never leaves this block, and has
    // nothing of the caller's stack.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone as isize => result,
            in("rdi") flags,
            in("rsi") stack_end,
            in("rdx") id,
            in("r10") id,
            in("r8") 0,
            in("r12") argument,
            in("r13") entry,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x30, xzr",
            "mov x0, x10",
            "blr x9",
            "brk #1",
            "2:",
            in("x8") libc::SYS_clone,
            inlateout("x0") flags => result,
            in("x1") stack_end,
            in("x2") id,
            in("x3") 0,
            in("x4") id,
            in("x9") entry,
            in("x10") argument,
        );
    }
    result
}
