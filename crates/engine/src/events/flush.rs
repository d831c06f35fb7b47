//! What a memtable flush writes: whether it goes around the page cache, and how much it is.

use crate::runtime::Runtime;
use crate::settings;
use crate::thread;
use crate::writes::Opening;
use coldstream_policy::{FileKind, FlushOutput, Role};

impl Runtime {
    /// Whether what the calling thread writes to an SSTable that it has opened goes around the page cache.
    pub(super) fn goes_around(&self, opening: &Opening<'_>) -> bool {
        let role = thread::role();
        match opening.settings.config.flush {
            _ if role != Role::Flush => role.is_background_writer(),
            FlushOutput::Cached => false,
            FlushOutput::Bypass => true,
            // Where memory is short was measured with RocksDB only.
            FlushOutput::Auto => {
                opening.is_new()
                    && opening.tracked.kind == FileKind::RocksDbSsTable
                    && self.flushes.go_around(&self.core, &self.heat)
            }
        }
    }

    /// The calling thread is about to close an SSTable that it wrote: counts a flush.
    pub(super) fn record_flush(&self, descriptor: i32) {
        self.background.record_flush(&self.core, descriptor);
        let is_judged = settings::get().is_some_and(|it| it.config.flush == FlushOutput::Auto);
        if is_judged && thread::role() == Role::Flush {
            self.flushes.record(&self.core, descriptor);
        }
    }
}
