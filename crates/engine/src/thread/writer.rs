//! What a thread lately read, and what it writes: this tells a compaction from a flush, and cached inputs
//! from cold ones.

use coldstream_policy::Role;
use std::cell::Cell;

/// "Lately" is the last 16 to 32 MiB.
const LATELY_BYTES: u64 = 16 << 20;

pub(super) struct Writer {
    /// Bytes of SSTables that windows lately delivered to this thread.
    served_bytes: Cell<u64>,
    /// Of these, bytes that had been in the page cache.
    cached_bytes: Cell<u64>,
    /// The descriptor whose opening made this thread a background thread; -1 is none.
    written_descriptor: Cell<i32>,
    /// Bytes read in the background since an SSTable was last opened for writing.
    bytes_read: Cell<u64>,
}

impl Writer {
    pub(super) const fn none() -> Self {
        Self {
            served_bytes: Cell::new(0),
            cached_bytes: Cell::new(0),
            written_descriptor: Cell::new(-1),
            bytes_read: Cell::new(0),
        }
    }

    /// A background read was served: `cached_bytes` of its bytes came out of the page cache.
    pub(super) fn record_served(&self, bytes: u64, cached_bytes: u64) {
        let (mut served, mut cached) = (self.served_bytes.get(), self.cached_bytes.get());
        if served > LATELY_BYTES {
            served /= 2;
            cached /= 2;
        }
        self.served_bytes.set(served + bytes);
        self.cached_bytes.set(cached + cached_bytes);
    }

    /// Whether most bytes that this thread lately read came from the page cache. A few bytes are enough:
    /// RocksDB opens its first output after one block of each input.
    pub(super) fn reads_what_is_cached(&self) -> bool {
        self.cached_bytes.get() * 2 > self.served_bytes.get()
    }

    /// An SSTable was opened for writing. `role` is the writer's role as the file's name tells it.
    pub(super) fn open(&self, descriptor: i32, role: Option<Role>) {
        self.bytes_read.set(0);
        if role.is_some_and(Role::is_background_reader) {
            self.written_descriptor.set(descriptor);
        }
    }

    /// This thread closes a descriptor.
    pub(super) fn close(&self, descriptor: i32) {
        if self.written_descriptor.get() == descriptor {
            self.written_descriptor.set(-1);
        }
    }

    /// Whether a file that this thread writes makes it a background thread.
    #[inline]
    pub(super) fn is_background(&self) -> bool {
        self.written_descriptor.get() >= 0
    }

    /// Bytes of SSTables were read in the background.
    pub(super) fn record_read(&self, bytes: u64) {
        self.bytes_read
            .set(self.bytes_read.get().saturating_add(bytes));
    }

    /// Whether a thread of this role writes the data that it reads: no flush. A compaction thread does if it
    /// has read SSTables since it opened its output.
    pub(super) fn writes_what_it_read(&self, role: Role) -> bool {
        match role {
            Role::Compaction => self.bytes_read.get() > 0,
            Role::Streaming => true,
            Role::Foreground | Role::Flush | Role::Validation => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_while_it_writes_does_not_flush() {
        let writer = Writer::none();
        assert!(!writer.writes_what_it_read(Role::Foreground));
        assert!(!writer.writes_what_it_read(Role::Compaction));
        writer.record_read(1);
        assert!(writer.writes_what_it_read(Role::Compaction));
        writer.open(7, None);
        assert!(
            !writer.writes_what_it_read(Role::Compaction),
            "its next SSTable"
        );
    }

    #[test]
    fn a_written_file_makes_a_background_thread_until_it_is_closed() {
        let writer = Writer::none();
        writer.open(7, Some(Role::Flush));
        assert!(!writer.is_background());
        writer.open(7, Some(Role::Compaction));
        writer.close(8);
        assert!(writer.is_background());
        writer.close(7);
        assert!(!writer.is_background());
    }

    #[test]
    fn what_was_read_long_ago_fades() {
        let writer = Writer::none();
        assert!(!writer.reads_what_is_cached());
        writer.record_served(LATELY_BYTES + 1, LATELY_BYTES + 1);
        assert!(writer.reads_what_is_cached());
        (0..3).for_each(|_| writer.record_served(LATELY_BYTES, 0));
        assert!(!writer.reads_what_is_cached());
    }
}
