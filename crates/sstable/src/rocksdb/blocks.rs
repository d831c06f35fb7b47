//! Moving through the data blocks of a table by its index alone.

use std::ops::Bound;

use super::index::{IndexBlockCursor, IndexValue, Separator};
use super::sstable::SsTable;
use crate::Result;

/// Where a data block lies, and which user keys it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataBlock<'b> {
    /// Bytes from the beginning of the file.
    pub offset: u64,
    /// Bytes, with the 5 of compression type and checksum behind the block. Blocks never overlap,
    /// but there may be padding between them.
    pub length: u64,
    /// Every user key of the block lies within this bound. It is the separator of the block before,
    /// excluded; *included*, if this block may begin with older versions of the very user key with
    /// which the block before ended; and [`Bound::Unbounded`] for the first block of the table.
    pub lower: Bound<&'b [u8]>,
    /// Every user key of the block is less than this or equal. It need not be a key of the table.
    pub separator: &'b [u8],
    /// The first user key of the block itself, if the index has it (`kBinarySearchWithFirstKey`).
    pub first_key: Option<&'b [u8]>,
}

/// The data blocks of a table, in the order of their keys, which is that of their offsets. Holds one
/// block of the index in memory: at most 64 MiB, and as much again while it is being decompressed.
///
/// Together the blocks' bounds cover all keys that the table may have: a user key can be in no other
/// blocks than those whose `lower` and `separator` admit it. Deletions of ranges are not in data
/// blocks, and not covered.
pub struct Blocks<'t> {
    table: &'t SsTable<'t>,
    /// The partition whose entries are being read, with its number.
    loaded: Option<(usize, IndexBlockCursor)>,
    /// The partition to be read when there is none, or when it has ended.
    next_partition: usize,
    /// The last separator before the next entry, as it is stored.
    lower: Option<Vec<u8>>,
    /// Where the block before the next entry ends, in bytes of the file.
    end: u64,
    /// An entry that was read but not given away yet.
    pending: Option<IndexValue>,
}

impl SsTable<'_> {
    /// Its data blocks in the order of their keys, which is that of their offsets.
    #[must_use]
    pub fn blocks(&self) -> Blocks<'_> {
        Blocks::new(self)
    }
}

impl<'t> Blocks<'t> {
    fn new(table: &'t SsTable<'t>) -> Self {
        Self {
            table,
            loaded: None,
            next_partition: 0,
            lower: None,
            end: 0,
            pending: None,
        }
    }

    /// The next data block, `None` behind the last one. What it borrows is gone with the next call.
    ///
    /// # Errors
    /// Those of reading the index. Behind an error there is no further block.
    #[expect(
        clippy::should_implement_trait,
        reason = "an Iterator cannot lend its items"
    )]
    pub fn next(&mut self) -> Result<Option<DataBlock<'_>>> {
        let value = match self.pending.take() {
            Some(value) => value,
            None => match self.fuse(Self::step)? {
                Some(value) => value,
                None => return Ok(None),
            },
        };
        let Some((_, cursor)) = &self.loaded else {
            return Ok(None);
        };
        Ok(Some(DataBlock {
            offset: value.handle.offset,
            length: self.end - value.handle.offset,
            lower: self.lower_bound(),
            separator: cursor.separator()?.user_key,
            first_key: value.first_key.map(|range| cursor.slice(range)),
        }))
    }

    /// Moves, forward or back, so that [`Self::next`] gives the first block that may have
    /// `user_key`: the first one whose separator is not less. If that key is there in several
    /// versions, the blocks behind may have it too; their `lower` tells. Partitions between are not
    /// read.
    ///
    /// # Errors
    /// Those of reading the index. Behind an error there is no further block.
    pub fn seek(&mut self, user_key: &[u8]) -> Result<()> {
        let table = self.table;
        let partition = table.partitions.partition_point(|partition| {
            separator_of(partition.last_key.as_deref(), table)
                .is_some_and(|last| last.user_key < user_key)
        });
        self.fuse(|blocks| {
            blocks.jump(partition)?;
            blocks.skip(|separator| separator.user_key < user_key)
        })
    }

    /// To before the first entry of `partition`; to the end if there is no such partition.
    fn jump(&mut self, partition: usize) -> Result<()> {
        self.pending = None;
        self.end = 0;
        let before = partition
            .checked_sub(1)
            .and_then(|at| self.table.partitions.get(at));
        self.lower = before
            .and_then(|before| before.last_key.as_deref())
            .map(<[u8]>::to_vec);
        match &mut self.loaded {
            Some((loaded, cursor)) if *loaded == partition => cursor.rewind(),
            _ => self.load(partition)?,
        }
        Ok(())
    }

    fn load(&mut self, partition: usize) -> Result<()> {
        self.loaded = None;
        self.next_partition = partition;
        if let Some(found) = self.table.partitions.get(partition) {
            let block = self.table.storage.read(found.handle)?;
            self.loaded = Some((partition, IndexBlockCursor::new(block, self.table.index)));
            self.next_partition = partition + 1;
        }
        Ok(())
    }

    /// From the beginning of a partition to the first entry that is not `before`, which is then
    /// pending.
    fn skip(&mut self, before: impl Fn(&Separator<'_>) -> bool) -> Result<()> {
        if let Some((_, cursor)) = &mut self.loaded {
            cursor.skip(&before)?;
        }
        while let Some(value) = self.step()? {
            let Some((_, cursor)) = &self.loaded else {
                break;
            };
            if !before(&cursor.separator()?) {
                self.pending = Some(value);
                break;
            }
        }
        Ok(())
    }

    /// The next entry, verified against the one before.
    fn step(&mut self) -> Result<Option<IndexValue>> {
        loop {
            let Some((partition, cursor)) = &mut self.loaded else {
                if self.next_partition >= self.table.partitions.len() {
                    return Ok(None);
                }
                self.load(self.next_partition)?;
                continue;
            };
            if let Some(key) = cursor.stored_key() {
                key.clone_into(self.lower.get_or_insert_default());
            }
            if let Some(value) = cursor.step()? {
                let lower = separator_of(self.lower.as_deref(), self.table);
                self.end = verified_end(self.table, cursor, &value, lower, self.end)?;
                return Ok(Some(value));
            }
            let last_key = self.table.partitions[*partition].last_key.as_deref();
            if last_key.is_some_and(|last_key| cursor.stored_key() != Some(last_key)) {
                return Err(cursor.malformed("a partition that ends elsewhere than its top says"));
            }
            self.loaded = None;
        }
    }

    fn lower_bound(&self) -> Bound<&[u8]> {
        match separator_of(self.lower.as_deref(), self.table) {
            None => Bound::Unbounded,
            Some(lower) if lower.may_continue() => Bound::Included(lower.user_key),
            Some(lower) => Bound::Excluded(lower.user_key),
        }
    }

    /// Nothing more is given away behind an error.
    fn fuse<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let result = work(self);
        if result.is_err() {
            self.loaded = None;
            self.pending = None;
            self.next_partition = self.table.partitions.len();
        }
        result
    }
}

fn separator_of<'k>(stored_key: Option<&'k [u8]>, table: &SsTable<'_>) -> Option<Separator<'k>> {
    Separator::decode(stored_key?, table.index.user_keys)
}

/// Where the block of `value` ends, in bytes of the file.
fn verified_end(
    table: &SsTable<'_>,
    cursor: &IndexBlockCursor,
    value: &IndexValue,
    lower: Option<Separator<'_>>,
    previous_end: u64,
) -> Result<u64> {
    let separator = cursor.separator()?;
    if lower.is_some_and(|lower| !lower.may_precede(separator)) {
        return Err(cursor.malformed("separators in disorder"));
    }
    if let Some(first_key) = value.first_key.clone().map(|range| cursor.slice(range)) {
        let below = lower.is_some_and(|lower| match lower.may_continue() {
            true => first_key < lower.user_key,
            false => first_key <= lower.user_key,
        });
        if below || first_key > separator.user_key {
            return Err(cursor.malformed("a first key outside the bounds of its block"));
        }
    }
    match value.handle.end() {
        Some(end) if value.handle.offset >= previous_end && end <= table.storage.footer.offset => {
            Ok(end)
        }
        _ => Err(cursor.malformed("a data block that overlaps another or the footer")),
    }
}
