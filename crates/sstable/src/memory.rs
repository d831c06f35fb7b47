//! Memory that may be refused. The process is a database's, and must not end for want of memory.
//!
//! Rust's own `push`, `collect`, `format!` and their like end the process if they get no memory. These
//! functions return an error.

use std::collections::TryReserveError;
use std::fmt::{self, Write};
use std::sync::OnceLock;

/// A vector that grows only if there is memory for it.
pub trait TryVec<T> {
    /// As [`Vec::push`].
    ///
    /// # Errors
    /// There is no memory.
    fn try_push(&mut self, item: T) -> Result<(), TryReserveError>;

    /// As [`Extend::extend`].
    ///
    /// # Errors
    /// There is no memory for all items. Some may have been added.
    fn try_extend(&mut self, items: impl IntoIterator<Item = T>) -> Result<(), TryReserveError>;

    /// As [`Vec::resize`].
    ///
    /// # Errors
    /// There is no memory.
    fn try_resize(&mut self, length: usize, item: T) -> Result<(), TryReserveError>
    where
        T: Clone;
}

impl<T> TryVec<T> for Vec<T> {
    #[inline]
    fn try_push(&mut self, item: T) -> Result<(), TryReserveError> {
        self.try_reserve(1)?;
        #[expect(clippy::disallowed_methods, reason = "there is room")]
        self.push(item);
        Ok(())
    }

    fn try_extend(&mut self, items: impl IntoIterator<Item = T>) -> Result<(), TryReserveError> {
        let items = items.into_iter();
        self.try_reserve(items.size_hint().0)?;
        for item in items {
            self.try_push(item)?;
        }
        Ok(())
    }

    fn try_resize(&mut self, length: usize, item: T) -> Result<(), TryReserveError>
    where
        T: Clone,
    {
        self.try_reserve(length.saturating_sub(self.len()))?;
        #[expect(clippy::disallowed_methods, reason = "there is room")]
        self.resize(length, item);
        Ok(())
    }
}

/// As `vec![item; length]`.
///
/// # Errors
/// There is no memory.
pub fn filled<T: Clone>(length: usize, item: T) -> Result<Vec<T>, TryReserveError> {
    let mut items = Vec::new();
    items.try_reserve_exact(length)?;
    items.try_resize(length, item)?;
    Ok(items)
}

/// As [`Iterator::collect`].
///
/// # Errors
/// There is no memory.
pub fn collected<T>(items: impl IntoIterator<Item = T>) -> Result<Vec<T>, TryReserveError> {
    let mut collected = Vec::new();
    collected.try_extend(items)?;
    Ok(collected)
}

/// Replaces the contents of `into` by a copy of `bytes`. Reuses its memory.
///
/// # Errors
/// There is no memory. `into` is empty then.
pub fn copy(bytes: &[u8], into: &mut Vec<u8>) -> Result<(), TryReserveError> {
    into.clear();
    append(bytes, into)
}

/// As [`Vec::extend_from_slice`].
///
/// # Errors
/// There is no memory.
#[inline]
pub fn append(bytes: &[u8], into: &mut Vec<u8>) -> Result<(), TryReserveError> {
    into.try_reserve(bytes.len())?;
    #[expect(clippy::disallowed_methods, reason = "there is room")]
    into.extend_from_slice(bytes);
    Ok(())
}

/// As [`slice::to_vec`].
///
/// # Errors
/// There is no memory.
pub fn copied(bytes: &[u8]) -> Result<Vec<u8>, TryReserveError> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len())?;
    append(bytes, &mut copy)?;
    Ok(copy)
}

/// As `format!`. `None` if there is no memory.
#[must_use]
pub fn formatted(text: fmt::Arguments<'_>) -> Option<String> {
    struct Formatted(String);

    impl Write for Formatted {
        fn write_str(&mut self, part: &str) -> fmt::Result {
            self.0.try_reserve(part.len()).map_err(|_| fmt::Error)?;
            #[expect(clippy::disallowed_methods, reason = "there is room")]
            self.0.push_str(part);
            Ok(())
        }
    }

    let mut formatted = Formatted(String::new());
    formatted.write_fmt(text).ok().map(|()| formatted.0)
}

/// Runs work that allocates by other people's code, which ends the process if it gets no memory.
///
/// The first argument is the most memory that the work takes, in bytes. If that much is not there, the work
/// must not run, and the answer is false. Nothing that the work allocates may outlive it.
pub type WorkingMemory = fn(usize, &mut dyn FnMut()) -> bool;

static WORKING_MEMORY: OnceLock<WorkingMemory> = OnceLock::new();

/// From now on `provide` runs all decompression that needs memory of its own. Only the first one counts.
pub fn set_working_memory(provide: WorkingMemory) {
    let _ = WORKING_MEMORY.set(provide);
}

/// Runs `work`, which takes at most `bytes` of memory. `None` if there is no memory.
pub(crate) fn with_working_memory<T>(bytes: usize, work: impl FnOnce() -> T) -> Option<T> {
    let (mut work, mut result) = (Some(work), None);
    let mut run = || result = work.take().map(|work| work());
    match WORKING_MEMORY.get() {
        Some(provide) => {
            provide(bytes, &mut run);
        }
        None => run(),
    }
    result
}
