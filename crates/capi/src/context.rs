//! The engine of the process: its start, its options, and its status page.

use crate::guard::{count, guarded, handle};
use coldstream_control::{PageName, PidNamespace};
use coldstream_engine::core::{heap, inherited};
use coldstream_engine::runtime::{self, Runtime};
use coldstream_engine::settings;
use coldstream_engine::thread::Inside;
use coldstream_io::Errno;
use coldstream_policy::SETTINGS;
use coldstream_sstable::memory;
use std::ffi::{CStr, c_char, c_int};
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

/// The engine of this process. Its members are the library's own.
pub struct coldstream {
    runtime: Option<&'static Runtime>,
}

impl coldstream {
    /// The engine; `None` if the configuration has it off.
    pub(crate) fn runtime(&self) -> Option<&'static Runtime> {
        self.runtime
    }
}

/// What became of the first start whose options could be used.
enum Started {
    /// There is an engine with these options.
    With(Options),
    /// There will be none: settings and reservations of a process are made once.
    Failed(i32, &'static str),
}

static STARTED: Mutex<Option<Started>> = Mutex::new(None);

/// Starts the engine of this process, or takes a further reference to it.
///
/// A process has one engine and one status page, which `coldstream ctl`, `top` and `metrics` find. So later calls must
/// give the same options in any order, or none. It is refused in a process that has the preload library too, or this
/// library twice: the archive in one object, and another copy in a second one. `/proc` and `/dev/shm` tell of that.
///
/// After `-EBUSY` because of another copy, `-ENOMEM` or `-ENOSYS` later calls return the same.
///
/// The configuration file and environment variables hold for linked programs too: with a wrong value there is no engine.
///
/// - `options`: NULL, or settings of docs/configuration.md as `reads=direct;writes=direct;handover=on;memory=64MiB`. They
///   win over environment variables and the configuration file. Without them `visible` is `process`, and `log` is
///   `none`.
/// - `context`: gets the reference, or NULL after an error. Give it back by `coldstream_destroy`.
/// - `error`: NULL, or room for `error_bytes`. It gets a text that says what is wrong and what to do. It is always
///   terminated, and empty without an error.
///
/// Returns 0, or:
/// - `-EINVAL`: an argument or an option is wrong;
/// - `-EBUSY`: the engine has other options, or the process has the preload library or a second copy of this one;
/// - `-ENOSYS`: the kernel is older than 4.14;
/// - `-ENOMEM`: no memory, or no address space.
///
/// # Safety
/// The pointers are null or valid, and texts are terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldstream_create(
    options: *const c_char,
    context: *mut *mut coldstream,
    error: *mut c_char,
    error_bytes: usize,
) -> i32 {
    guarded(-libc::EIO, || {
        if context.is_null() {
            // SAFETY: the caller's room.
            unsafe { put_text(b"context: NULL", error, error_bytes) };
            return -libc::EINVAL;
        }
        // SAFETY: the caller's place for the reference.
        unsafe { context.write(std::ptr::null_mut()) };
        let options = match options.is_null() {
            true => None,
            // SAFETY: the caller's text.
            false => Some(unsafe { CStr::from_ptr(options) }.to_bytes()),
        };
        let (created, why) = match create(options) {
            Ok(made) => {
                // SAFETY: as above.
                unsafe { context.write(Box::into_raw(made)) };
                (0, String::new())
            }
            Err((errno, why)) => (-errno.0, why),
        };
        // SAFETY: the caller's room.
        unsafe { put_text(why.as_bytes(), error, error_bytes) };
        created
    })
}

/// Gives a reference back. Close its files and writers before: the reference is no longer there for them.
///
/// Threads, memory and status page of the engine stay until the process ends. An exit by `exit` writes what is left to
/// be written, and removes the page.
///
/// # Safety
/// The context is null, or a reference that was not given back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldstream_destroy(context: *mut coldstream) {
    guarded((), || {
        if !context.is_null() {
            // SAFETY: made by `Box::into_raw`, and given back once.
            drop(unsafe { Box::from_raw(context) });
        }
    });
}

/// Writes the path of the process's status page, terminated; 64 bytes are enough. Where `/dev/shm` cannot be used, there is no such file.
///
/// Returns the length of the path, or `-EINVAL`, `-ENOENT` (the engine is off), `-ERANGE` (no room).
///
/// # Safety
/// The context is valid, and there is room for `path_bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldstream_status_path(
    context: *const coldstream,
    path: *mut c_char,
    path_bytes: usize,
) -> i64 {
    count(|| {
        // SAFETY: passed on.
        let runtime = unsafe { handle(context) }?.runtime();
        let runtime = runtime.ok_or(Errno(libc::ENOENT))?;
        let text = runtime.core.status.path();
        let text = text.as_c_str().ok_or(Errno(libc::ENOENT))?.to_bytes();
        if path.is_null() || text.len() >= path_bytes {
            return Err(Errno(libc::ERANGE));
        }
        // SAFETY: there is room.
        unsafe { put_text(text, path, path_bytes) };
        Ok(text.len() as u64)
    })
}

/// Writes a text, cut off to the room, with its end.
///
/// # Safety
/// The room is null, or writable for `room_bytes`.
unsafe fn put_text(text: &[u8], room: *mut c_char, room_bytes: usize) {
    let Some(last) = room_bytes.checked_sub(1).filter(|_| !room.is_null()) else {
        return;
    };
    let length = text.len().min(last);
    // SAFETY: both are valid for the length, and the room has one byte more.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), room.cast(), length);
        *room.add(length) = 0;
    }
}

type Refusal = (Errno, String);

fn create(options: Option<&[u8]>) -> Result<Box<coldstream>, Refusal> {
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    match (&*started, options) {
        (None, _) if is_preloaded() => {
            return Err(refusal(
                libc::EBUSY,
                "the preload library is in this process, too: take libcoldstream.so out of LD_PRELOAD",
            ));
        }
        (None, _) => {
            let options = options.unwrap_or_default();
            let mut result = Err(refusal(libc::ENOMEM, "no memory for the options"));
            heap::with_reserve(settings::MEMORY_BYTES, &mut || result = start(options));
            let now = started.insert(result?);
            if let Started::Failed(errno, why) = now {
                return Err(refusal(*errno, why));
            }
        }
        (Some(Started::Failed(errno, why)), _) => return Err(refusal(*errno, why)),
        (Some(Started::With(first)), Some(options)) => {
            let mut result = Err(refusal(libc::ENOMEM, "no memory for the options"));
            heap::with_reserve(settings::MEMORY_BYTES, &mut || {
                result = Options::of(options).map(|given| first.permits(&given));
            });
            if !result? {
                return Err(refusal(
                    libc::EBUSY,
                    "the engine of this process has other options: give the same ones, or NULL",
                ));
            }
        }
        (Some(Started::With(_)), None) => {}
    }
    let runtime = settings::get().and_then(|_| runtime::get());
    // A child of `fork` has none of the parent's threads and pages.
    if !is_started(runtime) {
        return Err(refusal(libc::ENOMEM, NO_WINDOWS));
    }
    heap::boxed(coldstream { runtime }).ok_or_else(|| refusal(libc::ENOMEM, "no memory"))
}

/// Starts the engine, unless it is started in this process or switched off.
fn is_started(runtime: Option<&'static Runtime>) -> bool {
    let (Some(runtime), Some(settings)) = (runtime, settings::get()) else {
        return true;
    };
    let mut is_started = runtime.is_started();
    if is_started {
        return true;
    }
    heap::with_reserve(settings::MEMORY_BYTES, &mut || {
        let _inside = Inside::enter();
        is_started = runtime.start(settings);
    });
    is_started
}

const NO_WINDOWS: &str = "no memory for windows: start the process again with less `memory`";

/// Whether the preload library is loaded, and not switched off. Two engines would disagree on one process's files.
fn is_preloaded() -> bool {
    // SAFETY: the name is terminated.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"coldstream_preloaded".as_ptr()) };
    if symbol.is_null() {
        return false;
    }
    // SAFETY: the preload library alone has a symbol of this name, with this signature.
    let ask: extern "C" fn() -> c_int = unsafe { std::mem::transmute(symbol) };
    ask() != 0
}

fn refusal(errno: i32, why: &str) -> Refusal {
    let mut text = String::new();
    if text.try_reserve(why.len()).is_ok() {
        let _ = text.write_str(why);
    }
    (Errno(errno), text)
}

/// Whether another copy of the library has its status page in this process. Its engine and this one's would not know of
/// each other. The page of a program that was replaced by `exec` is a file, and is not mapped any more.
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "there is a reserve"
)]
fn has_another_copy() -> bool {
    let name = PageName {
        pid: std::process::id(),
        namespace: PidNamespace::own(),
    };
    let name = format!("/{name}");
    // Names of other files may be no text.
    let maps = std::fs::read("/proc/self/maps").unwrap_or_default();
    maps.split(|&byte| byte == b'\n').any(|mapping| {
        let path = mapping.strip_suffix(b" (deleted)").unwrap_or(mapping);
        let directory = path.strip_suffix(name.as_bytes()).unwrap_or_default();
        let user = directory.iter().rposition(|byte| !byte.is_ascii_digit());
        user.is_some_and(|last| directory[..=last].ends_with(b" /dev/shm/coldstream-"))
    })
}

/// Starts the engine. Rust's own allocation is used here, so there is a reserve behind it.
///
/// An error may be mended by other options.
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "there is a reserve"
)]
fn start(options: &[u8]) -> Result<Started, Refusal> {
    let options = Options::of(options)?;
    settings::load_from(|variable| options.value_of(variable)).map_err(|why| {
        let why = options.named_by(&why);
        (
            Errno(libc::EINVAL),
            format!("{why} (see docs/configuration.md)"),
        )
    })?;
    if settings::get().is_none() {
        return Ok(Started::With(options));
    }
    if has_another_copy() {
        return Ok(Started::Failed(
            libc::EBUSY,
            "the process has another copy of Coldstream, perhaps the RocksDB plugin's: build both with libcoldstream_io.so",
        ));
    }
    // A panic of this library's own code is counted, and not printed.
    std::panic::set_hook(Box::new(|_| {}));
    memory::set_working_memory(heap::with_reserve);
    if let Err(errno) = runtime::create() {
        return Ok(match errno.0 {
            libc::EINVAL => Started::Failed(libc::ENOSYS, "needs Linux 4.14 (MADV_WIPEONFORK)"),
            _ => Started::Failed(libc::ENOMEM, "no address space (see `ulimit -v`)"),
        });
    }
    // SAFETY: both functions stay in memory: the library is never unloaded. The first makes raw system calls only.
    unsafe {
        libc::pthread_atfork(None, None, Some(inherited::close_in_child));
        libc::atexit(conclude);
    }
    if is_started(runtime::get()) {
        Ok(Started::With(options))
    } else {
        Ok(Started::Failed(libc::ENOMEM, NO_WINDOWS))
    }
}

/// Runs when the process ends by `exit`.
extern "C" fn conclude() {
    if let (Some(settings), Some(runtime)) = (settings::get(), runtime::get()) {
        guarded((), || runtime.end(settings));
    }
}

/// What the program gave.
struct Options(Vec<Given>);

/// An option: the variable of its setting, and its name and value as they were given.
struct Given {
    variable: &'static str,
    name: String,
    value: String,
}

impl Options {
    fn of(text: &[u8]) -> Result<Self, Refusal> {
        Self::parse(text).map_err(|why| (Errno(libc::EINVAL), why))
    }

    /// Whether an engine with these options may be asked for with `later`: with none, or with the same in any order.
    fn permits(&self, later: &Self) -> bool {
        let covers = |one: &Self, other: &Self| {
            other.0.iter().all(|given| {
                let last = other.last(given.variable).unwrap_or(given);
                one.last(given.variable)
                    .is_some_and(|it| it.value == last.value)
            })
        };
        later.0.is_empty() || covers(self, later) && covers(later, self)
    }

    #[expect(
        clippy::disallowed_methods,
        clippy::disallowed_macros,
        reason = "there is a reserve"
    )]
    fn parse(text: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(text).map_err(|_| "options: not UTF-8".to_string())?;
        let mut options = Vec::new();
        for option in text.split(';').map(str::trim).filter(|it| !it.is_empty()) {
            let (name, value) = option
                .split_once('=')
                .ok_or_else(|| format!("option \"{option}\": write name=value"))?;
            let (name, value) = (name.trim(), value.trim());
            let variable = variable_of(name).ok_or_else(|| {
                format!("option \"{name}\": there is none of this name (see docs/configuration.md)")
            })?;
            options.push(Given {
                variable,
                name: name.to_string(),
                value: value.to_string(),
            });
        }
        Ok(Self(options))
    }

    /// The last option for a variable.
    fn last(&self, variable: &str) -> Option<&Given> {
        self.0.iter().rev().find(|given| given.variable == variable)
    }

    /// A text that begins with a variable, by the name of the option that gave its value.
    #[expect(
        clippy::disallowed_methods,
        clippy::disallowed_macros,
        reason = "there is a reserve"
    )]
    fn named_by(&self, why: &str) -> String {
        let given = why
            .split_once(' ')
            .and_then(|(variable, rest)| Some((self.last(variable)?, rest)));
        match given {
            Some((given, rest)) => format!("option \"{}\" {rest}", given.name),
            None => why.to_string(),
        }
    }

    /// The value of a variable: the last option of its name, or the environment's.
    #[expect(clippy::disallowed_methods, reason = "there is a reserve")]
    fn value_of(&self, variable: &str) -> Option<String> {
        match self.last(variable) {
            Some(given) => Some(given.value.clone()),
            None if settings::is_privileged() => None,
            None => settings::variable(variable).or_else(|| {
                let own = match variable {
                    // Nobody reads a file while this interface writes it.
                    "COLDSTREAM_VISIBLE" => "process",
                    // Standard error is the program's.
                    "COLDSTREAM_LOG" => "none",
                    _ => return None,
                };
                Some(own.to_string())
            }),
        }
    }
}

/// The variable of a setting, by the name that an option may have: the variable's own without its prefix, that of
/// `coldstream run`, or the key in the configuration file.
fn variable_of(name: &str) -> Option<&'static str> {
    let is_it = |text: &str| {
        text.len() == name.len()
            && text.bytes().zip(name.bytes()).all(|(one, other)| {
                let plain = |byte: u8| {
                    if byte == b'-' {
                        b'_'
                    } else {
                        byte.to_ascii_lowercase()
                    }
                };
                plain(one) == plain(other)
            })
    };
    let found = SETTINGS.iter().find(|setting| {
        let own = setting.variable.strip_prefix("COLDSTREAM_");
        own.is_some_and(is_it) || setting.option().is_some_and(is_it) || is_it(setting.key)
    });
    found.map(|setting| setting.variable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_options_are_none_or_the_same_in_any_order() {
        let parsed = |text: &str| Options::parse(text.as_bytes()).unwrap();
        let first = parsed("reads=direct;pacing=off");
        for same in [
            "",
            "pacing=off; reads=direct",
            "PACING=off;reads=auto;reads=direct",
        ] {
            assert!(first.permits(&parsed(same)), "{same}");
        }
        for other in [
            "reads=direct",
            "reads=direct;pacing=on",
            "reads=direct;pacing=off;writes=direct",
        ] {
            assert!(!first.permits(&parsed(other)), "{other}");
        }
    }
}
