//! How many pages a handover may still warm, by memory and settings.

use crate::core::{Core, host_memory};
use coldstream_control::Counter;
use coldstream_handover::MEMORY_SHARE;
use coldstream_io::alignment::PAGE_BYTES;
use std::cell::Cell;

/// Nothing is warmed while memory stalls all tasks for more than this, in percent.
const PRESSURE_MAX: f32 = 10.0;

/// How many pages one handover may still warm.
pub(super) struct PagesLeft<'b> {
    core: &'b Core,
    bytes_max: u64,
    /// `None` before memory was looked at: most outputs are cold.
    pages: Cell<Option<usize>>,
}

impl<'b> PagesLeft<'b> {
    /// All of `bytes_max`, as far as memory allows.
    pub(super) fn within(core: &'b Core, bytes_max: u64) -> Self {
        Self {
            core,
            bytes_max,
            pages: Cell::new(None),
        }
    }

    /// How many are left.
    pub(super) fn get(&self) -> usize {
        let pages = self.pages.get().unwrap_or_else(|| self.at_first());
        self.pages.set(Some(pages));
        pages
    }

    /// So many were warmed.
    pub(super) fn take(&self, pages: u64) {
        let pages = usize::try_from(pages).unwrap_or(usize::MAX);
        self.pages.set(Some(self.get().saturating_sub(pages)));
    }

    fn at_first(&self) -> usize {
        let bytes = self
            .bytes_max
            .min(host_memory::limit_bytes() / MEMORY_SHARE);
        if is_memory_short() {
            self.core.count(Counter::HandoverShortOfMemory, 1);
            return 0;
        }
        (bytes / PAGE_BYTES) as usize
    }
}

/// Whether memory is too short to warm anything.
pub(super) fn is_memory_short() -> bool {
    host_memory::pressure().is_some_and(|pressure| pressure > PRESSURE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_warmed_is_not_left() {
        let (core, _) = Core::with_file(3);
        let pages = PagesLeft::within(&core, 10 * PAGE_BYTES + 1);
        pages.pages.set(Some(10));
        pages.take(4);
        assert_eq!(pages.get(), 6);
        pages.take(u64::MAX);
        assert_eq!(pages.get(), 0);
    }

    #[test]
    fn no_more_than_a_share_of_the_memory() {
        let (core, _) = Core::with_file(3);
        // Where memory is short now, it is nothing.
        assert!(PagesLeft::within(&core, 10 * PAGE_BYTES).get() <= 10);
        let most = host_memory::limit_bytes() / MEMORY_SHARE / PAGE_BYTES;
        assert!(PagesLeft::within(&core, u64::MAX).get() as u64 <= most);
    }
}
