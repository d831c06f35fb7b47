//! Private descriptors: Coldstream's own descriptors of the application's files.
//!
//! The application must not notice them. So their numbers are above those that it gets, and a registry
//! counts and hides them. Somebody may close one without a call that Coldstream sees, and its number may
//! then be the application's. So each has a mark, and nothing is closed without a look at it.

use crate::proc_fd::reopen;
use crate::sys::stat::FileStamp;
use crate::sys::{Descriptor, Errno, close, fcntl, open, stat};
use std::ffi::CStr;

/// Marks a private descriptor: `O_NONBLOCK` has no effect on regular files. The application may have got
/// the same number after somebody closed ours; its descriptor has no mark.
const MARK: i32 = libc::O_NONBLOCK;

/// Limits and lists the private descriptors of a process. Called by any thread.
pub trait DescriptorRegistry {
    /// Whether one more private descriptor of file `slot` may be opened: the application must keep enough
    /// numbers, and closing it must drop no record lock. Called with the file's lock held.
    fn may_open(&self, slot: u32) -> bool;

    /// Whether there is room for one that stays open as long as the application reads the file. Asked besides
    /// [`Self::may_open`].
    fn has_room_to_keep(&self) -> bool {
        true
    }

    /// The lowest number that a private descriptor may have. Below it the application gets the numbers
    /// that it would get without Coldstream.
    fn lowest_descriptor(&self) -> i32;
    /// Adds a private descriptor on behalf of file `slot`, after it was opened. `stamp` is of the file that it names.
    fn register(&self, descriptor: Descriptor, slot: u32, stamp: &FileStamp);
    /// Removes a private descriptor, before it is closed.
    fn unregister(&self, descriptor: Descriptor);
}

/// Why there is no private descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// There are too many descriptors: `EMFILE`, `ENFILE`, or the registry's limit.
    DescriptorLimit,
    /// The kernel refused for another reason.
    OpenFailed,
    /// The kernel opened another inode than the expected one.
    Identity,
}

/// A private descriptor, or none. It is not closed when it is dropped: see [`PrivateDescriptor::close`].
///
/// It holds the number plus one, so that zeroed memory is valid: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrivateDescriptor(i32);

impl PrivateDescriptor {
    /// The descriptor, if there is one.
    pub fn get(self) -> Option<Descriptor> {
        (self.0 > 0).then(|| Descriptor::from(self.0 - 1))
    }

    /// Opens the inode of `descriptor` once more, for file `slot`. It is read-only unless `extra_flags` say
    /// otherwise. It must still be the inode of `stamp`.
    ///
    /// # Errors
    /// The reason why there is none. Nothing is left open then.
    pub fn open<R: DescriptorRegistry>(
        descriptor: impl Into<Descriptor>,
        extra_flags: i32,
        stamp: &FileStamp,
        slot: u32,
        registry: &R,
    ) -> Result<Self, OpenError> {
        let descriptor = descriptor.into();
        let (mut opened, found) =
            Self::open_and_register(|| reopen(descriptor, MARK | extra_flags), slot, registry)?;
        if found.same_inode(stamp) {
            Ok(opened)
        } else {
            opened.close(&found, registry);
            Err(OpenError::Identity)
        }
    }

    /// Opens the file at `path` read-only, on behalf of file `slot`. Returns its stamp, too.
    ///
    /// # Errors
    /// The reason why there is none. Nothing is left open then.
    pub fn open_path<R: DescriptorRegistry>(
        path: &CStr,
        slot: u32,
        registry: &R,
    ) -> Result<(Self, FileStamp), OpenError> {
        Self::open_and_register(
            || open::open(path, MARK | libc::O_RDONLY, 0),
            slot,
            registry,
        )
    }

    /// Opens by `open`, which sets [`MARK`], and moves the descriptor above the application's numbers.
    fn open_and_register<R: DescriptorRegistry>(
        open: impl FnOnce() -> Result<i32, Errno>,
        slot: u32,
        registry: &R,
    ) -> Result<(Self, FileStamp), OpenError> {
        if !registry.may_open(slot) {
            return Err(OpenError::DescriptorLimit);
        }
        let low = open().map_err(error_of)?;
        // The application's next open must get the number that it would get without Coldstream.
        let number = if low < registry.lowest_descriptor() {
            let duplicate = fcntl::duplicate_above(low, registry.lowest_descriptor());
            let _ = close::close(low);
            duplicate.map_err(|_| OpenError::DescriptorLimit)?
        } else {
            low
        };
        let Ok(stamp) = stat::stamp(number) else {
            let _ = close::close(number);
            return Err(OpenError::Identity);
        };
        registry.register(number.into(), slot, &stamp);
        Ok((Self(number + 1), stamp))
    }

    /// Closes it, unless the number names another file or the application's descriptor by now.
    pub fn close<R: DescriptorRegistry>(&mut self, stamp: &FileStamp, registry: &R) {
        let Some(descriptor) = self.get() else {
            return;
        };
        self.0 = 0;
        let ours = stat::is_same_inode(descriptor, stamp) && is_marked(descriptor);
        registry.unregister(descriptor);
        if ours {
            let _ = close::close(descriptor);
        }
    }
}

/// Whether the number of a private descriptor still names one. Somebody may have put another descriptor
/// there without a call that Coldstream sees.
pub fn is_marked(descriptor: impl Into<Descriptor>) -> bool {
    fcntl::status_flags(descriptor).is_ok_and(|flags| flags & MARK != 0)
}

fn error_of(errno: Errno) -> OpenError {
    match errno.0 {
        libc::EMFILE | libc::ENFILE => OpenError::DescriptorLimit,
        _ => OpenError::OpenFailed,
    }
}
