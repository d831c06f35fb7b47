//! `Partitions.db` and `Rows.db` of the BTI format: a trie of all partitions' keys.
//!
//! Source: `io/sstable/format/bti/PartitionIndex.java` (`load`), `PartitionIndexBuilder.java`
//! (`addEntry`, `complete`), `BtiTableWriter.java` (`IndexWriter.append`) and `TrieIndexEntry.java`
//! (`serialize`), the same in Cassandra 5.0.9 and 6.0-alpha2. `Partitions.db` ends with the first
//! and the last partition key, each with its length in two bytes, and 8 bytes each for where these
//! keys begin, the number of partitions and the root of the trie. A partition with an index of its
//! rows has an entry in `Rows.db`: its key with its length in two bytes, its position in the
//! uncompressed data, and more that is of no use here.

use super::byte_comparable::LONGEST;
use super::forward::ForwardReader;
use super::key::Key;
use super::pages::Pages;
use super::trie::{Node, Payload, Target};
use crate::{Error, ReadAt, Result};

const FOOTER_BYTES: u64 = 3 * 8;

/// Bytes that are read of `Rows.db` at a time: its entries are far apart.
const ROWS_PIECE: usize = 512;

/// What the end of `Partitions.db` says.
#[derive(Debug)]
pub(super) struct Footer {
    first: Key,
    last: Key,
    /// Where the trie ends.
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
        // Each partition's node has two bytes at least.
        if trie_end > footer_at || count == 0 || count > trie_end / 2 || root >= trie_end {
            return malformed("the footer does not fit the file", footer_at);
        }
        reader.seek(trie_end)?;
        let mut read_key = || {
            let mut bytes = Vec::new();
            let length = reader.u16()?;
            reader.read(length, &mut bytes)?;
            Ok::<_, Error>(Key::from_partition_key(&bytes))
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

/// The entries in the order of the keys, which is that of the data.
pub(super) struct Entries<'a, R> {
    footer: &'a Footer,
    nodes: Nodes<'a, R>,
    /// The nodes from the root to the current one.
    path: Vec<Step>,
    /// The bytes on the way from the root to the current node.
    prefix: Vec<u8>,
    /// Number of entries given, if none was passed over.
    given: Option<u64>,
}

struct Step {
    position: u64,
    /// Whether the node's own entry is behind the walk.
    entered: bool,
    /// The first of the node's places that are before the walk.
    next_slot: usize,
}

impl<'a, R: ReadAt> Entries<'a, R> {
    pub(super) fn new(footer: &'a Footer, partitions: &'a R, rows: &'a R) -> Result<Self> {
        let mut entries = Self {
            footer,
            nodes: Nodes {
                pages: Pages::new(partitions, footer.trie_end),
                rows: ForwardReader::new(rows, rows.size()?, ROWS_PIECE),
                partition_key: Vec::new(),
                steps_left: 0,
            },
            path: Vec::new(),
            prefix: Vec::new(),
            given: Some(0),
        };
        entries.step_to(footer.root)?;
        Ok(entries)
    }

    /// The next entry's key and position in the uncompressed data.
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
                    self.prefix.push(child.transition);
                    self.step_to(child.position)?;
                }
                None => {
                    self.path.pop();
                    self.prefix.pop();
                }
            }
        }
        if self.given.is_some_and(|given| given != self.footer.count) {
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
                // All below is before the key.
                step.next_slot = usize::MAX;
                break;
            };
            step.next_slot = child.slot;
            if child.transition > byte {
                break;
            }
            step.next_slot += 1;
            self.prefix.push(child.transition);
            self.step_to(child.position)?;
        }
        Ok(())
    }

    /// Goes to the last entry that is not after `position` of the uncompressed data; to the first
    /// one if all are after it.
    pub(super) fn seek_position(&mut self, position: u64) -> Result<()> {
        self.restart()?;
        // No two of the ways below meet, and each node has two bytes at least.
        self.nodes.steps_left = self.footer.trie_end / 2;
        let mut children = Vec::new();
        while let Some(step) = self.path.last_mut() {
            let node = self.nodes.get(step.position)?;
            if node.payload()?.is_some() {
                break;
            }
            children.clear();
            children.push(node.first_child()?);
            while let Some(child) = node.child_from(children[children.len() - 1].slot + 1)? {
                children.push(child);
            }
            // The child is in from..to.
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
            self.prefix.push(child.transition);
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
        self.given = None;
        self.step_to(self.footer.root)
    }

    fn step_to(&mut self, position: u64) -> Result<()> {
        if self.path.len() > LONGEST {
            return Err(Error::Malformed {
                what: "a key is longer than the longest one",
                offset: position,
            });
        }
        self.path.push(Step {
            position,
            entered: false,
            next_slot: 0,
        });
        Ok(())
    }

    /// The first and the last entry must be those which the footer says, if none is passed over.
    fn check_against_footer(&mut self, key: &Key) -> Result<()> {
        let Some(given) = &mut self.given else {
            return Ok(());
        };
        *given += 1;
        let given = *given;
        if given > self.footer.count {
            return Err(self.wrong_count());
        }
        let wrong = (given == 1 && !key.matches(&self.footer.first))
            || (given == self.footer.count && !key.matches(&self.footer.last));
        if wrong {
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

/// Both files of the index.
struct Nodes<'a, R> {
    pages: Pages<'a, R>,
    rows: ForwardReader<'a, R>,
    /// Space to read a key into.
    partition_key: Vec<u8>,
    /// Ends a search for a position in a damaged trie, in which nodes have more than one parent.
    /// A walk through such a trie ends when it comes to a partition again.
    steps_left: u64,
}

impl<R: ReadAt> Nodes<'_, R> {
    fn get(&mut self, position: u64) -> Result<Node<'_>> {
        Node::parse(position, self.pages.from(position)?)
    }

    /// Sets the key of the entry with this payload and gives its position in the data.
    fn resolve(&mut self, prefix: &[u8], payload: Payload, key: &mut Key) -> Result<u64> {
        key.set_prefix(prefix, payload.filter_hash);
        match payload.target {
            Target::Data(position) => Ok(position),
            Target::Rows(entry) => {
                let position = self.read_rows_entry(entry)?;
                let complete = Key::from_partition_key(&self.partition_key);
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

    /// Reads the key at `entry` of `Rows.db` and gives its partition's position in the data.
    fn read_rows_entry(&mut self, entry: u64) -> Result<u64> {
        self.rows.seek(entry)?;
        let length = self.rows.u16()?;
        self.rows.read(length, &mut self.partition_key)?;
        self.rows.variable_length()
    }

    /// Position in the data of the first partition below a node.
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
