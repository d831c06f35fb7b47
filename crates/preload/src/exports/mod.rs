//! The interposed symbols, one file a topic of the man pages. Each parses its arguments, tells the runtime
//! what happens, and answers: mostly with the next definition in line.
//!
//! Which helper a call needs:
//!
//! | the call | helper |
//! |---|---|
//! | names a descriptor, whose number may be Coldstream's own | [`answer::unless_private`], around the helper below |
//! | reports the file's size | [`staged::observe`] |
//! | sees content, times or position of the file | [`staged::with_drained`], with an `Operation` of `io/append/rules.rs` |
//! | changes the file, and no `Operation` describes how | [`change::with_fallen_back`], which refuses Coldstream's own numbers itself |
//! | returns twice or not at all, or reaches files inside libc or through a structure | `before_jump!` in `process.rs`, with a `Scope`; it refuses Coldstream's own numbers itself |
//! | does none of these | plain: no line here; if the random programs make it, one in `PLAIN` of `tests/subject/calls.rs` |
//!
//! Calls that open, close, duplicate, read, write or map have an event of their own in `events/`.
//!
//! C's variadic functions are declared with the arguments that the kernel can see: on both supported
//! architectures these travel in the same registers.
//!
//! Not seen: closes inside libc other than those of a stream, `syscall(2)`, and io_uring. Each served read, and each
//! write of our own, checks which file its descriptor names. The effect of such a call on a staged file is
//! not known (docs/limits.md).

mod advice;
mod answer;
mod change;
mod create;
mod credentials;
mod delete;
mod descriptor;
mod lock;
mod map;
mod metadata;
mod name;
mod next;
mod open;
mod process;
mod read;
mod staged;
mod stand_ins;
mod sync;
mod transfer;

use coldstream_engine::core::{heap, inherited, leak_sanitizer};
use coldstream_engine::{report, runtime, settings};
use std::ffi::c_int;

/// Whether this library's engine is in force. A linked one (`crates/capi`) asks, and does not start beside it.
#[unsafe(no_mangle)]
extern "C" fn coldstream_preloaded() -> c_int {
    runtime::get().is_some().into()
}

/// Runs before the application's `main`, and before most other constructors.
extern "C" fn construct() {
    advice::resolve();
    change::resolve();
    create::resolve();
    credentials::resolve();
    delete::resolve();
    descriptor::resolve();
    lock::resolve();
    map::resolve();
    metadata::resolve();
    name::resolve();
    open::resolve();
    process::resolve();
    read::resolve();
    sync::resolve();
    transfer::resolve();
    // SAFETY: the name is NUL-terminated, and that symbol has no other meaning.
    unsafe {
        let ignore = libc::dlsym(libc::RTLD_DEFAULT, c"__lsan_ignore_object".as_ptr());
        leak_sanitizer::set(ignore);
        // A name that was not found is no error of the program's.
        let _ = libc::dlerror();
    }
    let _ = std::panic::catch_unwind(|| {
        // A panic of this library's own code is counted, and not printed.
        #[expect(
            clippy::disallowed_methods,
            reason = "it has no size, and takes no memory"
        )]
        std::panic::set_hook(Box::new(|_| {}));
        coldstream_sstable::memory::set_working_memory(heap::with_reserve);
        let is_read = heap::with_reserve(settings::MEMORY_BYTES, &mut || {
            if let Err(why) = settings::load() {
                report::log_refusal(why);
            }
        });
        if !is_read {
            report::log_refusal("no address space for its configuration (see `ulimit -v`)");
        }
    });
    if settings::get().is_some() {
        // SAFETY: the handler makes raw system calls only. If it cannot be registered, children inherit descriptors.
        unsafe { libc::pthread_atfork(None, None, Some(inherited::close_in_child)) };
    }
    if settings::get().is_some()
        && let Err(errno) = runtime::create()
    {
        match errno.0 {
            libc::EINVAL => report::log_refusal("needs Linux 4.14 (MADV_WIPEONFORK)"),
            _ => report::log_refusal(format_args!(
                "no address space for its state: {errno} (see `ulimit -v`)"
            )),
        }
    }
}

/// Runs when the process ends by `exit` or by returning from `main`.
extern "C" fn conclude() {
    if let (Some(settings), Some(runtime)) = (settings::get(), runtime::get()) {
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            runtime.end(settings);
        }));
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCT: extern "C" fn() = construct;

#[used]
#[unsafe(link_section = ".fini_array")]
static CONCLUDE: extern "C" fn() = conclude;
