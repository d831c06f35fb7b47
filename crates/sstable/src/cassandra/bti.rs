//! `Partitions.db` and `Rows.db` of the BTI format: a trie of all partitions' keys.
//!
//! `Partitions.db` ends with:
//!
//! - the first and the last partition key, each behind its length in two bytes;
//! - three numbers of 8 bytes: where these keys begin, the number of partitions, the root.
//!
//! A partition with an index of its rows has an entry in `Rows.db`. The entry begins with the length
//! of the key in two bytes, the key, and the partition's position in the uncompressed data. The
//! reader ignores the rest.
//!
//! Source, the same in Cassandra 5.0.9 and 6.0-alpha2, in `io/sstable/format/bti/`:
//! `PartitionIndex.java` (`load`), `PartitionIndexBuilder.java` (`addEntry`, `complete`),
//! `BtiTableWriter.java` (`IndexWriter.append`), `TrieIndexEntry.java` (`serialize`).

use super::byte_comparable::LONGEST;
use super::forward::ForwardReader;
use super::key::Key;
use super::pages::Pages;
use super::trie::{Node, Payload, Target};
use crate::memory::TryVec;
use crate::{Error, ReadAt, Result};

const FOOTER_BYTES: u64 = 3 * 8;

/// Bytes of one read of `Rows.db`. Its entries are far apart, hence a small number.
const ROWS_PIECE: usize = 512;

/// The end of `Partitions.db`.
#[derive(Debug)]
pub(super) struct Footer {
    first: Key,
    last: Key,
    /// Where the trie ends, in bytes from the beginning of the file.
    trie_end: u64,
    count: u64,
    root: u64,
}

impl Footer {
    pub(super) fn read<R: ReadAt>(partitions: &R) -> Result<Self> {
        let size = partitions.size()?;
        let malformed = |what, offset| Err(Error::Malformed { what, offset });
        let mut reader = ForwardReader::new(partitions, size, 512);
        let Some(footer_at) = size.checked_sub(FOOTER_BYTES) else {
            return malformed("no room for a footer", 0);
        };
        reader.seek(footer_at)?;
        let trie_end = reader.long_length()?;
        let count = reader.long_length()?;
        let root = reader.long_length()?;
        // The node of a partition has at least two bytes.
        if trie_end > footer_at || count == 0 || count > trie_end / 2 || root >= trie_end {
            return malformed("the footer does not fit the file", footer_at);
        }
        reader.seek(trie_end)?;
        let mut read_key = || {
            let mut bytes = Vec::new();
            let length = reader.u16()?;
            reader.read(length, &mut bytes)?;
            Ok::<_, Error>(Key::try_from_partition_key(&bytes)?)
        };
        let (first, last) = (read_key()?, read_key()?);
        if reader.position() != footer_at {
            return malformed("the first and the last key do not fit the file", trie_end);
        }
        Ok(Self {
            first,
            last,
            trie_end,
            count,
            root,
        })
    }
}

/// The entries in the order of the keys. The data has the same order.
pub(super) struct Entries<'a, R> {
    footer: &'a Footer,
    nodes: Nodes<'a, R>,
    /// The nodes from the root to the current one.
    path: Vec<Step>,
    /// The bytes of the key from the root to the current node.
    prefix: Vec<u8>,
    /// Number of entries returned. `None` after a seek: then the footer's count is not comparable.
    returned: Option<u64>,
}

struct Step {
    position: u64,
    /// Whether the walk has handled the node's own entry.
    entered: bool,
    /// The first child slot that the walk has not visited.
    next_slot: usize,
}

impl<'a, R: ReadAt> Entries<'a, R> {
    pub(super) fn new(footer: &'a Footer, partitions: &'a R, rows: &'a R) -> Result<Self> {
        let mut entries = Self {
            footer,
            nodes: Nodes {
                pages: Pages::new(partitions, footer.trie_end)?,
                rows: ForwardReader::new(rows, rows.size()?, ROWS_PIECE),
                partition_key: Vec::new(),
                steps_left: 0,
            },
            path: Vec::new(),
            prefix: Vec::new(),
            returned: Some(0),
        };
        entries.step_to(footer.root)?;
        Ok(entries)
    }

    /// Sets `key` to the next entry's, and returns its position in the uncompressed data.
    pub(super) fn advance(&mut self, key: &mut Key) -> Result<Option<u64>> {
        while let Some(step) = self.path.last_mut() {
            let node = self.nodes.get(step.position)?;
            let child = if std::mem::replace(&mut step.entered, true) {
                node.child_from(step.next_slot)?
            } else if let Some(payload) = node.payload()? {
                let position = self.nodes.resolve(&self.prefix, payload, key)?;
                self.check_against_footer(key)?;
                return Ok(Some(position));
            } else {
                Some(node.first_child()?)
            };
            match child {
                Some(child) => {
                    step.next_slot = child.slot + 1;
                    self.prefix.try_push(child.transition)?;
                    self.step_to(child.position)?;
                }
                None => {
                    self.path.pop();
                    self.prefix.pop();
                }
            }
        }
        if (self.returned).is_some_and(|returned| returned != self.footer.count) {
            return Err(self.wrong_count());
        }
        Ok(None)
    }

    /// Goes to the first entry that may be the one of `key`.
    pub(super) fn seek_key(&mut self, key: &Key) -> Result<()> {
        self.restart()?;
        while let (Some(step), Some(&byte)) =
            (self.path.last_mut(), key.bytes().get(self.prefix.len()))
        {
            let node = self.nodes.get(step.position)?;
            if node.payload()?.is_some() {
                break;
            }
            step.entered = true;
            let Some(child) = node.child_from_byte(byte)? else {
                // All entries below this node are before the key.
                step.next_slot = usize::MAX;
                break;
            };
            step.next_slot = child.slot;
            if child.transition > byte {
                break;
            }
            step.next_slot += 1;
            self.prefix.try_push(child.transition)?;
            self.step_to(child.position)?;
        }
        Ok(())
    }

    /// Goes to the last entry that is not after `position` of the uncompressed data. Goes to the
    /// first one if all are after it.
    pub(super) fn seek_position(&mut self, position: u64) -> Result<()> {
        self.restart()?;
        // Limit of the steps below: no two paths share a node, and a node has at least two bytes.
        self.nodes.steps_left = self.footer.trie_end / 2;
        let mut children = Vec::new();
        while let Some(step) = self.path.last_mut() {
            let node = self.nodes.get(step.position)?;
            if node.payload()?.is_some() {
                break;
            }
            children.clear();
            children.try_push(node.first_child()?)?;
            while let Some(child) = node.child_from(children[children.len() - 1].slot + 1)? {
                children.try_push(child)?;
            }
            // Binary search: the child is in from..to.
            let (mut from, mut to) = (0, children.len());
            while to - from > 1 {
                let middle = from + (to - from) / 2;
                if self.nodes.first_data_position(children[middle].position)? <= position {
                    from = middle;
                } else {
                    to = middle;
                }
            }
            let child = children[from];
            step.entered = true;
            step.next_slot = child.slot + 1;
            self.prefix.try_push(child.transition)?;
            self.step_to(child.position)?;
        }
        Ok(())
    }

    /// Where the current node begins in the index.
    pub(super) fn offset(&self) -> u64 {
        self.path.last().map_or(0, |step| step.position)
    }

    fn restart(&mut self) -> Result<()> {
        self.path.clear();
        self.prefix.clear();
        self.returned = None;
        self.step_to(self.footer.root)
    }

    fn step_to(&mut self, position: u64) -> Result<()> {
        if self.path.len() > LONGEST {
            return Err(Error::Malformed {
                what: "a key is longer than the longest one",
                offset: position,
            });
        }
        self.path.try_push(Step {
            position,
            entered: false,
            next_slot: 0,
        })?;
        Ok(())
    }

    /// Counts an entry. Without a seek, the first and the last key must be those of the footer.
    fn check_against_footer(&mut self, key: &Key) -> Result<()> {
        let Some(returned) = &mut self.returned else {
            return Ok(());
        };
        *returned += 1;
        let returned = *returned;
        if returned > self.footer.count {
            return Err(self.wrong_count());
        }
        let is_wrong = (returned == 1 && !key.matches(&self.footer.first))
            || (returned == self.footer.count && !key.matches(&self.footer.last));
        if is_wrong {
            return Err(Error::Malformed {
                what: "the first or the last key is not the one of the footer",
                offset: self.offset(),
            });
        }
        Ok(())
    }

    fn wrong_count(&self) -> Error {
        Error::Malformed {
            what: "the number of partitions is not the one of the footer",
            offset: self.offset(),
        }
    }
}

/// Reads nodes of `Partitions.db` and entries of `Rows.db`.
struct Nodes<'a, R> {
    pages: Pages<'a, R>,
    rows: ForwardReader<'a, R>,
    /// The key that was read last; its memory is reused.
    partition_key: Vec<u8>,
    /// Limits a search for a position in a damaged trie, where nodes have several parents. A walk
    /// needs no limit: it stops with an error at the first partition that comes twice.
    steps_left: u64,
}

impl<R: ReadAt> Nodes<'_, R> {
    fn get(&mut self, position: u64) -> Result<Node<'_>> {
        Node::parse(position, self.pages.from(position)?)
    }

    /// Sets `key` to that of the entry with this payload. Returns its position in the data.
    fn resolve(&mut self, prefix: &[u8], payload: Payload, key: &mut Key) -> Result<u64> {
        key.set_prefix(prefix, payload.filter_hash)?;
        match payload.target {
            Target::Data(position) => Ok(position),
            Target::Rows(entry) => {
                let position = self.read_rows_entry(entry)?;
                let complete = Key::try_from_partition_key(&self.partition_key)?;
                if !key.matches(&complete) {
                    return Err(Error::Malformed {
                        what: "an entry of Rows.db that belongs to another key",
                        offset: entry,
                    });
                }
                *key = complete;
                Ok(position)
            }
        }
    }

    /// Reads the key at `entry` of `Rows.db`. Returns its partition's position in the data.
    fn read_rows_entry(&mut self, entry: u64) -> Result<u64> {
        self.rows.seek(entry)?;
        let length = self.rows.u16()?;
        self.rows.read(length, &mut self.partition_key)?;
        self.rows.variable_length()
    }

    /// Position in the data of the first partition below the node at `position`.
    fn first_data_position(&mut self, mut position: u64) -> Result<u64> {
        loop {
            let Some(left) = self.steps_left.checked_sub(1) else {
                return Err(Error::Malformed {
                    what: "nodes of the trie have more than one parent",
                    offset: position,
                });
            };
            self.steps_left = left;
            let node = self.get(position)?;
            if let Some(payload) = node.payload()? {
                return match payload.target {
                    Target::Data(position) => Ok(position),
                    Target::Rows(entry) => self.read_rows_entry(entry),
                };
            }
            position = node.first_child()?.position;
        }
    }
}
