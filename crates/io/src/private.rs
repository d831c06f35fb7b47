//! Private descriptors: a second opening of the application's file, kept out of its way.

use crate::proc_fd::reopen;
use crate::sys::Errno;
use crate::sys::file::{self, FileStamp};
use std::ffi::CStr;

/// A mark that tells a private descriptor from one of the application that may have got the
/// same number after somebody closed ours unseen: `O_NONBLOCK` has no effect on regular files.
const MARK: i32 = libc::O_NONBLOCK;

/// Keeps the private descriptors of a process: how many there may be, and which numbers they have.
pub trait DescriptorRegistry {
    /// Whether one more private descriptor leaves the application enough of its own, and closing it
    /// can do no harm to file `slot`. Asked with the file's lock held.
    fn may_open(&self, slot: u32) -> bool;
    /// The lowest number that a private descriptor may have. Below it the application's own numbers
    /// stay what they would be without Coldstream.
    fn lowest_descriptor(&self) -> i32;
    /// A private descriptor of file `slot` was opened.
    fn register(&self, descriptor: i32, slot: u32);
    /// The private descriptor is about to be closed.
    fn unregister(&self, descriptor: i32);
}

/// Why there is no private descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// No further descriptor could be opened (`EMFILE`, `ENFILE`, or Coldstream's own limit).
    DescriptorLimit,
    /// The kernel refused for another reason.
    OpenFailed,
    /// The kernel opened another inode than the expected one.
    Identity,
}

/// A descriptor number plus one; zero is none, so that zeroed memory is valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrivateDescriptor(i32);

impl PrivateDescriptor {
    /// The descriptor's number, if there is one.
    pub fn number(self) -> Option<i32> {
        (self.0 > 0).then_some(self.0 - 1)
    }

    /// Opens the inode behind `descriptor` once more, with `extra_flags` (read-only unless they
    /// say otherwise).
    ///
    /// # Errors
    /// Why there is none; nothing is left open then.
    pub fn open<R: DescriptorRegistry>(
        descriptor: i32,
        extra_flags: i32,
        stamp: &FileStamp,
        slot: u32,
        registry: &R,
    ) -> Result<Self, OpenError> {
        let (mut opened, found) =
            Self::keep(|| reopen(descriptor, MARK | extra_flags), slot, registry)?;
        if found.same_inode(stamp) {
            Ok(opened)
        } else {
            opened.close(&found, registry);
            Err(OpenError::Identity)
        }
    }

    /// Opens the file at `path`, read-only, for what has to do with the table in `slot`; also what
    /// was opened.
    ///
    /// # Errors
    /// Why there is none; nothing is left open then.
    pub fn open_path<R: DescriptorRegistry>(
        path: &CStr,
        slot: u32,
        registry: &R,
    ) -> Result<(Self, FileStamp), OpenError> {
        Self::keep(
            || file::open(path, MARK | libc::O_RDONLY, 0),
            slot,
            registry,
        )
    }

    /// Opens, with [`MARK`], and moves the descriptor out of the application's way.
    fn keep<R: DescriptorRegistry>(
        open: impl FnOnce() -> Result<i32, Errno>,
        slot: u32,
        registry: &R,
    ) -> Result<(Self, FileStamp), OpenError> {
        if !registry.may_open(slot) {
            return Err(OpenError::DescriptorLimit);
        }
        let low = open().map_err(error_of)?;
        // The application's next open must get the number it would have got without us.
        let moved = if low < registry.lowest_descriptor() {
            let moved = file::duplicate_above(low, registry.lowest_descriptor());
            let _ = file::close(low);
            moved.map_err(|_| OpenError::DescriptorLimit)?
        } else {
            low
        };
        let Ok(stamp) = file::stamp(moved) else {
            let _ = file::close(moved);
            return Err(OpenError::Identity);
        };
        registry.register(moved, slot);
        Ok((Self(moved + 1), stamp))
    }

    /// Closes it, unless the number belongs to somebody else by now.
    pub fn close<R: DescriptorRegistry>(&mut self, stamp: &FileStamp, registry: &R) {
        let Some(descriptor) = self.number() else {
            return;
        };
        self.0 = 0;
        let ours = file::is_still(descriptor, stamp) && is_marked(descriptor);
        registry.unregister(descriptor);
        if ours {
            let _ = file::close(descriptor);
        }
    }
}

/// Whether the number of a private descriptor still is one: somebody may have put another descriptor there
/// unseen.
pub fn is_marked(descriptor: i32) -> bool {
    file::status_flags(descriptor).is_ok_and(|flags| flags & MARK != 0)
}

fn error_of(errno: Errno) -> OpenError {
    match errno.0 {
        libc::EMFILE | libc::ENFILE => OpenError::DescriptorLimit,
        _ => OpenError::OpenFailed,
    }
}
