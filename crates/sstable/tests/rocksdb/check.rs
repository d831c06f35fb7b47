//! Checks that the reader agrees with the engine about an SSTable.

use std::cell::RefCell;
use std::io;
use std::ops::{Bound, Range};

use coldstream_sstable::rocksdb::{Blocks, DataBlock, Order, Orders, SsTable};
use coldstream_sstable::{Error, ReadAt};

use crate::data_block;
use crate::dump::{self, Dump};
use crate::engines::EngineSsTable;

/// A file that records its reads.
pub struct Watched<'b> {
    bytes: &'b [u8],
    reads: RefCell<Vec<(u64, usize)>>,
}

impl<'b> Watched<'b> {
    pub fn new(bytes: &'b [u8]) -> Self {
        Self {
            bytes,
            reads: RefCell::default(),
        }
    }

    pub fn bytes_read(&self) -> usize {
        self.reads.borrow().iter().map(|read| read.1).sum()
    }

    /// The ranges of the file that were read, in bytes.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        let reads = self.reads.borrow().clone();
        reads
            .into_iter()
            .map(|(offset, length)| offset as usize..offset as usize + length)
    }

    fn assert_read_once_in_small_pieces(&self) {
        let mut reads = self.reads.borrow().clone();
        reads.sort_unstable();
        for pair in reads.windows(2) {
            assert!(
                pair[0].0 + pair[0].1 as u64 <= pair[1].0,
                "read twice: {pair:?}"
            );
        }
        assert!(reads.iter().all(|read| read.1 <= 1 << 20));
    }
}

impl ReadAt for Watched<'_> {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.reads.borrow_mut().push((offset, buffer.len()));
        self.bytes.read_exact_at(buffer, offset)
    }

    fn size(&self) -> io::Result<u64> {
        self.bytes.size()
    }
}

/// An owned [`DataBlock`].
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    pub offset: u64,
    pub length: u64,
    pub lower: Bound<Vec<u8>>,
    pub separator: Vec<u8>,
    pub first_key: Option<Vec<u8>>,
}

impl Kept {
    fn of(block: DataBlock<'_>) -> Self {
        Self {
            offset: block.offset,
            length: block.length,
            lower: block.lower.map(<[u8]>::to_vec),
            separator: block.separator.to_vec(),
            first_key: block.first_key.map(<[u8]>::to_vec),
        }
    }

    fn admits(&self, key: &[u8], order: Order) -> bool {
        let above = match &self.lower {
            Bound::Unbounded => true,
            Bound::Included(lower) => order.compare(lower, key).is_le(),
            Bound::Excluded(lower) => order.compare(lower, key).is_lt(),
        };
        above && order.compare(key, &self.separator).is_le()
    }
}

pub fn kept(blocks: &mut Blocks<'_>) -> coldstream_sstable::Result<Option<Kept>> {
    Ok(blocks.next()?.map(Kept::of))
}

pub fn all(sstable: &SsTable<'_>) -> coldstream_sstable::Result<Vec<Kept>> {
    Ok(all_and_orders(sstable)?.0)
}

/// All blocks, and the orders that fit them.
pub fn all_and_orders(sstable: &SsTable<'_>) -> coldstream_sstable::Result<(Vec<Kept>, Orders)> {
    let mut blocks = sstable.blocks();
    let mut all = Vec::new();
    while let Some(block) = kept(&mut blocks)? {
        all.push(block);
    }
    Ok((all, blocks.orders()))
}

/// Figures for the report of a test.
#[derive(Debug, Default)]
pub struct Checked {
    pub sstables: usize,
    pub blocks: usize,
    /// Entries whose block is known from the engine's dump or from the block itself.
    pub keys: usize,
    /// Keys that the reader itself found in data blocks.
    pub read_keys: usize,
    pub seeks: usize,
    /// Blocks that begin with the last user key of the block before.
    pub continued: usize,
}

impl Checked {
    pub fn add(&mut self, other: &Self) {
        self.sstables += other.sstables;
        self.blocks += other.blocks;
        self.keys += other.keys;
        self.read_keys += other.read_keys;
        self.seeks += other.seeks;
        self.continued += other.continued;
    }
}

pub fn check(engine: &EngineSsTable) -> Checked {
    let name = &engine.name;
    let source = Watched::new(&engine.bytes);
    let sstable = SsTable::open(&source).unwrap_or_else(|error| panic!("{name}: {error}"));
    let (blocks, orders) =
        all_and_orders(&sstable).unwrap_or_else(|error| panic!("{name}: {error}"));
    let order = orders.first().expect("an order");
    source.assert_read_once_in_small_pieces();

    let properties = sstable.properties();
    if let Some(count) = properties.data_blocks {
        assert_eq!(blocks.len() as u64, count, "{name}");
    }
    let dump = engine.dump.as_deref().map(dump::parse);
    if let Some(dump) = &dump {
        assert_eq!(properties.entries, Some(dump.entries), "{name}");
        assert_eq!(properties.data_blocks, Some(dump.data_blocks), "{name}");
        assert_eq!(properties.data_bytes, Some(dump.data_bytes), "{name}");
    }
    let keys = check_keys(engine, &blocks, dump.as_ref(), order);
    let read_keys = check_data_blocks(engine, &sstable, &blocks, &keys);
    let seeks = check_seeks(name, &sstable, &blocks, &keys, order);
    let ends = keys
        .windows(2)
        .filter(|pair| pair[0].last() == pair[1].first());
    Checked {
        sstables: 1,
        blocks: blocks.len(),
        keys: keys.iter().map(Vec::len).sum(),
        read_keys,
        seeks,
        continued: ends.filter(|pair| !pair[0].is_empty()).count(),
    }
}

/// The keys of each block, if they can be read.
fn check_keys(
    engine: &EngineSsTable,
    blocks: &[Kept],
    dump: Option<&Dump>,
    order: Order,
) -> Vec<Vec<Vec<u8>>> {
    let name = &engine.name;
    let keys: Option<Vec<Vec<Vec<u8>>>> = match dump {
        Some(dump) => {
            assert_eq!(blocks.len(), dump.blocks.len(), "{name}");
            for (block, dumped) in blocks.iter().zip(&dump.blocks) {
                assert_eq!(block.offset, dumped.offset, "{name}");
                assert_eq!(block.length, dumped.size + 5, "{name}");
                assert_eq!(block.separator, dumped.separator, "{name}");
            }
            Some(
                dump.blocks
                    .iter()
                    .map(|dumped| dumped.keys.clone())
                    .collect(),
            )
        }
        None => {
            let stored =
                |block: &Kept| &engine.bytes[block.offset as usize..][..block.length as usize];
            blocks
                .iter()
                .map(|block| data_block::user_keys(stored(block)))
                .collect()
        }
    };
    if let Some(keys) = &keys {
        for (block, keys) in blocks.iter().zip(keys) {
            for key in keys {
                assert!(block.admits(key, order), "{name}: {key:?} in {block:?}");
            }
            if let Some(first_key) = &block.first_key {
                assert_eq!(Some(first_key), keys.first(), "{name}");
            }
        }
    }
    if let Some(expected) = &engine.keys {
        match &keys {
            Some(keys) => {
                let mut found = keys.concat();
                found.dedup();
                assert!(found == *expected, "{name}: other keys than the engine's");
            }
            // Compressed data blocks: at least, some block must admit each key.
            None => {
                for key in expected {
                    assert!(
                        blocks.iter().any(|block| block.admits(key, order)),
                        "{name}: {key:?}"
                    );
                }
            }
        }
    }
    keys.unwrap_or_default()
}

/// The reader must find all keys of the data blocks. Returns their number.
fn check_data_blocks(
    engine: &EngineSsTable,
    sstable: &SsTable<'_>,
    blocks: &[Kept],
    keys: &[Vec<Vec<u8>>],
) -> usize {
    let name = &engine.name;
    let mut all: Vec<Vec<u8>> = Vec::new();
    for (number, block) in blocks.iter().enumerate() {
        let mut found = Vec::new();
        match sstable.user_keys(block.offset, block.length, |key| found.push(key.to_vec())) {
            Ok(()) => {}
            Err(Error::Unsupported(_)) => return 0,
            Err(error) => panic!("{name}: {error}"),
        }
        if let Some(known) = keys.get(number) {
            let mut known = known.clone();
            known.dedup();
            assert_eq!(found, known, "{name}");
        }
        all.extend(found);
    }
    let count = all.len();
    all.dedup();
    if let Some(expected) = &engine.keys {
        assert!(all == *expected, "{name}: other keys than the engine's");
    }
    count
}

/// A seek must return the same blocks as a walk from the beginning.
fn check_seeks(
    name: &str,
    sstable: &SsTable<'_>,
    blocks: &[Kept],
    keys: &[Vec<Vec<u8>>],
    order: Order,
) -> usize {
    let mut targets = vec![Vec::new(), vec![0], vec![0xff; 64]];
    for key in keys
        .iter()
        .flatten()
        .chain(blocks.iter().map(|block| &block.separator))
        .step_by(7)
    {
        targets.push(key.clone());
        targets.push([&key[..], &[0]].concat());
        targets.push(key[..key.len().saturating_sub(1)].to_vec());
    }
    // In random order: in sorted order seeks would only go forward.
    shuffle(&mut targets);
    let mut cursor = sstable.blocks_in(Orders::only(order));
    for target in &targets {
        cursor
            .seek(target)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let is_behind = |block: &Kept| order.compare(&block.separator, target).is_ge();
        let expected = blocks.iter().position(is_behind);
        expect_from(name, &mut cursor, blocks, expected);
        if let Some(first) = keys.iter().position(|keys| keys.contains(target)) {
            assert_eq!(expected, Some(first), "{name}: {target:?}");
        }
    }
    targets.len()
}

fn expect_from(name: &str, cursor: &mut Blocks<'_>, blocks: &[Kept], from: Option<usize>) {
    let from = from.unwrap_or(blocks.len());
    for expected in (from..from + 3).map(|at| blocks.get(at)) {
        assert_eq!(kept(cursor).unwrap().as_ref(), expected, "{name}");
    }
}

fn shuffle<T>(items: &mut [T]) {
    let mut random = crate::random::Random::new(1);
    for at in (1..items.len()).rev() {
        items.swap(at, random.below(at + 1));
    }
}
