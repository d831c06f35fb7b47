//! What a thread lately read, and what it writes: this tells a compaction from a flush, and cached inputs
//! from cold ones.

use coldstream_policy::{FileKind, Role};
use std::cell::Cell;

/// A new SSTable of RocksDB that a foreground thread has open for writing. While it has one, it is inside of the engine:
/// in a flush at the start, in `CompactFiles`, or in the copy of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnTable {
    /// Its descriptor. Another thread may have closed it by now.
    pub descriptor: i32,
    /// Its slot in the inode map.
    pub slot: u32,
}

/// "Lately" is the last 16 to 32 MiB.
const LATELY_BYTES: u64 = 16 << 20;

pub(super) struct Writer {
    /// Bytes of SSTables that windows lately delivered to this thread.
    served_bytes: Cell<u64>,
    /// Of these, bytes that had been in the page cache.
    cached_bytes: Cell<u64>,
    /// The descriptor whose opening made this thread a background thread, until this thread closes it; -1 is none.
    /// LevelDB closes a new SSTable in the thread that made it (`db/db_impl.cc`, `FinishCompactionOutputFile`).
    written_descriptor: Cell<i32>,
    /// Bytes read in the background since an SSTable was last opened for writing.
    bytes_read: Cell<u64>,
    /// The engine of the last SSTable that was opened for writing has threads of their own for flushes.
    flushes_elsewhere: Cell<bool>,
    own_table: Cell<Option<OwnTable>>,
    /// The descriptor of a new blob file that this foreground thread has open for writing; -1 is none.
    own_blob: Cell<i32>,
}

impl Writer {
    pub(super) const fn none() -> Self {
        Self {
            served_bytes: Cell::new(0),
            cached_bytes: Cell::new(0),
            written_descriptor: Cell::new(-1),
            bytes_read: Cell::new(0),
            flushes_elsewhere: Cell::new(false),
            own_table: Cell::new(None),
            own_blob: Cell::new(-1),
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
    pub(super) fn open(&self, descriptor: i32, kind: FileKind, role: Option<Role>) {
        self.bytes_read.set(0);
        self.flushes_elsewhere.set(kind == FileKind::CassandraData);
        if role.is_some_and(Role::is_background_reader) {
            self.written_descriptor.set(descriptor);
        }
    }

    /// This foreground thread has made a new SSTable of RocksDB.
    pub(super) fn open_own_table(&self, descriptor: i32, slot: u32) {
        self.own_table.set(Some(OwnTable { descriptor, slot }));
    }

    /// This foreground thread has made a new blob file. RocksDB's writes of clients may make one, and stay in the
    /// foreground. So it alone says nothing.
    pub(super) fn open_own_blob(&self, descriptor: i32) {
        self.own_blob.set(descriptor);
    }

    /// The new SSTable that this foreground thread writes.
    #[inline]
    pub(super) fn own_table(&self) -> Option<OwnTable> {
        self.own_table.get()
    }

    /// Whether this foreground thread compacts into the file: it is one that it has made, and the thread has read
    /// SSTables since.
    pub(super) fn compacts_into(&self, descriptor: i32) -> bool {
        self.bytes_read.get() > 0
            && self.own_table.get().is_some_and(|own| {
                own.descriptor == descriptor || self.own_blob.get() == descriptor
            })
    }

    /// This thread closes a descriptor.
    pub(super) fn close(&self, descriptor: i32) {
        if (self.own_table.get()).is_some_and(|own| own.descriptor == descriptor) {
            self.own_table.set(None);
        }
        if self.own_blob.get() == descriptor {
            self.own_blob.set(-1);
        }
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
    /// has read SSTables since it opened its output. Cassandra's does in any case: reads by mappings are not seen.
    pub(super) fn writes_what_it_read(&self, role: Role) -> bool {
        match role {
            Role::Compaction => self.flushes_elsewhere.get() || self.bytes_read.get() > 0,
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
        writer.open(7, FileKind::RocksDbSsTable, None);
        assert!(
            !writer.writes_what_it_read(Role::Compaction),
            "its next SSTable"
        );
        writer.open(7, FileKind::CassandraData, None);
        assert!(
            writer.writes_what_it_read(Role::Compaction),
            "mapped inputs"
        );
        assert!(!writer.writes_what_it_read(Role::Flush));
    }

    #[test]
    fn a_written_file_makes_a_background_thread_until_it_is_closed() {
        let writer = Writer::none();
        writer.open(7, FileKind::LevelDbSsTable, Some(Role::Flush));
        assert!(!writer.is_background());
        writer.open(7, FileKind::LevelDbSsTable, Some(Role::Compaction));
        writer.close(8);
        assert!(writer.is_background());
        writer.close(7);
        assert!(!writer.is_background());
    }

    #[test]
    fn who_reads_while_it_has_a_new_sstable_compacts_into_it() {
        let writer = Writer::none();
        writer.open_own_blob(6);
        writer.record_read(1);
        assert!(!writer.compacts_into(6), "a blob file alone says nothing");
        writer.open_own_table(7, 3);
        assert!(writer.compacts_into(6) && writer.compacts_into(7));
        assert!(!writer.compacts_into(8));
        writer.open(7, FileKind::RocksDbSsTable, None);
        assert!(!writer.compacts_into(7), "nothing was read since");
        writer.record_read(1);
        writer.close(7);
        assert!(!writer.compacts_into(7) && writer.own_table().is_none());
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
