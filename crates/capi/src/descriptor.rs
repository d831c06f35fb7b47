//! A descriptor that the library opens for a handle, and its plain calls.

use crate::context::coldstream;
use coldstream_engine::core::errno;
use coldstream_engine::runtime::Runtime;
use coldstream_engine::settings;
use coldstream_io::Errno;
use coldstream_io::sys::file;
use coldstream_policy::FileKind;
use std::ffi::CStr;

/// A descriptor, and the engine that tracks it. It is closed when it is dropped.
pub(crate) struct OpenFile {
    pub(crate) runtime: Option<&'static Runtime>,
    pub(crate) number: i32,
    /// Its slot in the engine's map of files, if there was room. A look-up for each cached read would cost 10 ns.
    pub(crate) slot: Option<u32>,
}

impl OpenFile {
    /// Opens a file, and tracks it.
    pub(crate) fn open(
        context: &coldstream,
        path: &CStr,
        kind: FileKind,
        flags: i32,
        mode: u32,
    ) -> Result<Self, Errno> {
        let runtime = context.runtime();
        let engine = runtime.zip(settings::get());
        if let Some((runtime, settings)) = engine {
            runtime.before_linked_open(settings)?;
        }
        let open = || file::open(path, flags | libc::O_CLOEXEC, mode);
        let number = match open() {
            // Those of the engine's own are given back first.
            Err(Errno(libc::EMFILE)) if runtime.is_some_and(Runtime::free_descriptors) => open(),
            other => other,
        }?;
        let mut opened = Self {
            runtime,
            number,
            slot: None,
        };
        match engine {
            Some((runtime, settings)) => {
                opened.slot = runtime.track_linked(settings, number, kind, flags)?;
            }
            _ if file::stamp(number)?.is_regular() => {}
            _ => return Err(Errno(libc::EINVAL)),
        }
        Ok(opened)
    }

    /// Closes it now.
    ///
    /// # Errors
    /// That of a delayed write, or of `close`.
    pub(crate) fn close(self) -> Result<(), Errno> {
        let closed = self.close_by_number();
        std::mem::forget(self);
        closed
    }

    fn close_by_number(&self) -> Result<(), Errno> {
        let drained = match self.runtime {
            Some(runtime) => runtime.before_linked_close(self.number),
            None => Ok(()),
        };
        drained.and(file::close(self.number))
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let _ = self.close_by_number();
    }
}

/// The result of a system call, in the manner of libc: what the engine expects of plain calls.
pub(crate) fn as_libc(result: Result<usize, Errno>) -> isize {
    match result {
        Ok(count) => count as isize,
        Err(Errno(error)) => {
            errno::set(error);
            -1
        }
    }
}

/// The other way round.
pub(crate) fn from_libc(result: isize) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| Errno(errno::get()))
}

/// Calls again while a signal interrupts.
pub(crate) fn uninterrupted<T>(call: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno(libc::EINTR)) => {}
            other => return other,
        }
    }
}
