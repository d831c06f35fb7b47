//! The result of a read.

use crate::private::OpenError;

/// Why the caller makes the plain call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// The file changed less than [`CHANGED_RECENTLY_NS`](super::CHANGED_RECENTLY_NS) ago.
    ChangedRecently,
    /// There are too many descriptors: `EMFILE`, `ENFILE`, or the registry's limit.
    DescriptorLimit,
    /// The private descriptor could not be opened for another reason.
    OpenFailed,
    /// The private descriptor names another file: the application closed it.
    Identity,
    /// The read failed, or was short.
    ReadFailed,
    /// The cap of window memory is reached.
    MemoryCap,
    /// All streams are in use.
    StreamLimit,
    /// The destination is not writable: the plain call gives the kernel's error.
    BadBuffer,
}

impl From<OpenError> for Fallback {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::DescriptorLimit => Self::DescriptorLimit,
            OpenError::OpenFailed => Self::OpenFailed,
            OpenError::Identity => Self::Identity,
        }
    }
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The scanner delivered what the system call would have delivered.
    Served {
        /// Bytes delivered.
        bytes: usize,
        /// Bytes among them that were resident, and came out of the page cache.
        cached_bytes: usize,
    },
    /// The scanner delivered nothing. The caller must make the plain call.
    Plain(Fallback),
}
