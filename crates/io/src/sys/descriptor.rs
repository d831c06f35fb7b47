//! The number of an open file, borrowed for one call.

use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// A borrowed descriptor: the caller keeps it open and closes it.
///
/// It is a number and no proof. An interposed call gets its descriptor as an `i32`, which may name
/// nothing, and another thread may close it at any moment. So this type has no lifetime, unlike
/// [`BorrowedFd`]. The kernel refuses a bad number with `EBADF`, and
/// [`stat::is_same_inode`](super::stat::is_same_inode) finds out whether a number names another file by now.
///
/// The functions of this module take `impl Into<Descriptor>`: a number, a [`BorrowedFd`] or a
/// reference to a [`File`]. The conversion costs nothing.
///
/// ```
/// use coldstream_io::sys::{Descriptor, stat};
///
/// let file = std::fs::File::open("/proc/self/exe")?;
/// let stamp = stat::stamp(&file)?;
/// assert!(stamp.is_regular());
/// assert!(stat::stamp(Descriptor::from(-1)).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Descriptor(RawFd);

impl Descriptor {
    /// The number that the kernel knows it by.
    #[inline]
    pub const fn number(self) -> RawFd {
        self.0
    }

    /// The number as an argument of a system call.
    #[inline]
    pub(super) const fn argument(self) -> usize {
        self.0 as usize
    }
}

impl From<RawFd> for Descriptor {
    #[inline]
    fn from(number: RawFd) -> Self {
        Self(number)
    }
}

impl From<BorrowedFd<'_>> for Descriptor {
    #[inline]
    fn from(descriptor: BorrowedFd<'_>) -> Self {
        Self(descriptor.as_raw_fd())
    }
}

impl From<&File> for Descriptor {
    #[inline]
    fn from(file: &File) -> Self {
        Self(file.as_raw_fd())
    }
}
