//! Why there is no handover, to an output or from an input.

use coldstream_control::Counter;
use coldstream_io::private::OpenError;
use coldstream_sstable::Error;
use std::borrow::Cow;
use std::collections::TryReserveError;
use std::io;

/// Why there is no handover.
pub(super) enum Refused {
    /// An SSTable that the index readers do not know, and what they do not know about it.
    Declined(Cow<'static, str>),
    /// A damaged SSTable, or one that cannot be read.
    Failed,
    /// The file was replaced or deleted, or given up before its end was written: a database is closed in a compaction.
    Gone,
    /// There is no memory for it.
    OutOfMemory,
    /// The process may open no more files. [`SsTableFile`](super::sstable_file::SsTableFile) has counted that.
    NoDescriptor,
    /// It took longer than a handover may: a block of many MiB on a slow device.
    OutOfTime,
}

impl Refused {
    /// What counts it, unless something else has, or nothing is wrong.
    pub(super) fn counter(&self) -> Option<Counter> {
        match self {
            Self::Declined(_) => Some(Counter::HandoverDeclined),
            Self::Failed => Some(Counter::HandoverFailed),
            Self::OutOfMemory => Some(Counter::HandoverShortOfMemory),
            Self::OutOfTime => Some(Counter::HandoverCutShort),
            Self::Gone | Self::NoDescriptor => None,
        }
    }
}

impl From<TryReserveError> for Refused {
    fn from(_: TryReserveError) -> Self {
        Self::OutOfMemory
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        match error {
            Error::Unsupported(what) => Self::Declined(Cow::Owned(what)),
            Error::Unfinished => Self::Gone,
            Error::Io(error) if error.kind() == io::ErrorKind::TimedOut => Self::OutOfTime,
            Error::Malformed { .. } | Error::Io(_) => Self::Failed,
            Error::OutOfMemory => Self::OutOfMemory,
        }
    }
}

impl From<OpenError> for Refused {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Identity | OpenError::OpenFailed => Self::Gone,
            OpenError::DescriptorLimit => Self::NoDescriptor,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_took_too_long_is_no_damage() {
        let of = |error: Error| Refused::from(error).counter();
        let late = Error::Io(io::ErrorKind::TimedOut.into());
        assert_eq!(of(late), Some(Counter::HandoverCutShort));
        let failed = Error::Io(io::ErrorKind::Other.into());
        assert_eq!(of(failed), Some(Counter::HandoverFailed));
        assert_eq!(of(Error::Unfinished), None);
    }
}
