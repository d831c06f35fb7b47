//! How a window is filled.

use crate::alignment::Alignment;

/// The I/O mode of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// Direct I/O with this alignment; asynchronous, ahead of the consumer.
    Direct(Alignment),
    /// `preadv2` with `RWF_DONTCACHE`.
    DontCache,
    /// A buffered read. The pages that it brought in are dropped afterwards.
    DropBehind,
}

impl ReadMode {
    /// Whether the mode is [`ReadMode::Direct`].
    pub(super) fn is_direct(self) -> bool {
        matches!(self, Self::Direct(_))
    }

    /// The alignment of windows.
    pub(super) fn alignment(self) -> Alignment {
        match self {
            Self::Direct(alignment) => alignment,
            Self::DontCache | Self::DropBehind => Alignment::PAGE,
        }
    }
}
