//! Several compactions in a row, and nobody reads between them. What was hot before the first one is warm after each
//! of them, and not much else. Heat that nobody uses fades.

mod table;

use coldstream_handover::rocksdb::Output;
use coldstream_handover::{Heirs, Limits, Plan, SHARE_MIN};
use coldstream_policy::heat::{GROUP_WORDS, Heat};
use coldstream_sstable::rocksdb::SsTable;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use table::{Layout, Table};

const COMPARATOR: &str = "leveldb.BytewiseComparator";
const PAGE_BYTES: u64 = 4096;
const BLOCK_BYTES: u64 = 4000;

const KEYS: u32 = 60_000;
/// One key of so many is hot.
const STRIDE: u32 = 997;
/// Keys of an SSTable.
const TABLE_KEYS: usize = 16_000;

/// An SSTable, its number in the sketch of heat, and the pages that were warmed.
struct Stored {
    table: Table,
    number: u64,
    warm: BTreeSet<u64>,
}

impl Stored {
    fn pages_of(&self, block: usize) -> std::ops::Range<u64> {
        let blocks = &self.table.blocks;
        let start = blocks[block].offset;
        // Without a next block, one of about the usual size.
        let end = (blocks.get(block + 1)).map_or(start + BLOCK_BYTES, |next| next.offset);
        start / PAGE_BYTES..end.div_ceil(PAGE_BYTES)
    }
}

/// A database, and the heat of its SSTables.
struct Database<'m> {
    heat: Heat<'m>,
    epoch: u16,
    tables: Vec<Stored>,
    numbers: u64,
}

impl Database<'_> {
    fn add(&mut self, keys: &[Vec<u8>], layout: Layout) {
        let table = Table::new(COMPARATOR, keys, layout);
        self.numbers += 1;
        self.tables.push(Stored {
            table,
            number: self.numbers,
            warm: BTreeSet::new(),
        });
    }

    /// The foreground reads a key. The newest SSTable is the first.
    fn read(&self, key: &Vec<u8>, has_filter: bool) {
        for stored in &self.tables {
            let blocks = &stored.table.blocks;
            let has_key = stored.table.block_of(key).is_some();
            let at = blocks.partition_point(|block| block.keys.last() < Some(key));
            if let Some(block) = blocks.get(at).filter(|_| has_key || !has_filter) {
                self.heat
                    .touch(stored.number, block.offset, BLOCK_BYTES, self.epoch);
            }
            if has_key {
                break;
            }
        }
    }

    /// Rewrites all SSTables.
    fn compact(&mut self, layout: Layout) {
        let inputs = std::mem::take(&mut self.tables);
        let blocks = inputs.iter().flat_map(|input| &input.table.blocks);
        let keys: BTreeSet<&Vec<u8>> = blocks.flat_map(|block| &block.keys).collect();
        let keys: Vec<_> = keys.into_iter().cloned().collect();
        let mut left: Vec<&Stored> = inputs.iter().collect();
        for keys in keys.chunks(TABLE_KEYS) {
            self.add(keys, layout);
            let output = self.tables.last_mut().unwrap();
            let bytes = &output.table.bytes[..];
            let opened = SsTable::open(&bytes).unwrap();
            let mut reading = Output::read(&opened, &|| false).unwrap();
            left.retain(|input| {
                let bytes = &input.table.bytes[..];
                let opened = SsTable::open(&bytes).unwrap();
                let heat = |offset| self.heat.of_hot(input.number, offset, self.epoch);
                !reading.take_over(&opened, &heat, &|| false).unwrap()
            });
            let pieces = reading.pieces().unwrap();
            let limits = Limits {
                heat_min: SHARE_MIN,
                pages_max: usize::MAX,
            };
            let plan = Plan::choose(pieces.iter().copied(), limits).unwrap();
            output.warm = plan.pages.iter().map(|page| page.number).collect();
            let heirs = Heirs::of(&plan, &pieces).unwrap();
            let _ = heirs.record(self.heat, output.number, self.epoch, u64::MAX);
        }
    }

    fn found(&self) -> Found {
        let mut found = Found::default();
        for stored in &self.tables {
            let mut hot_pages = BTreeSet::new();
            for (number, block) in stored.table.blocks.iter().enumerate() {
                if block.keys.iter().any(|key| is_hot(key)) {
                    let pages = stored.pages_of(number);
                    found.blocks += 1;
                    found.warm_blocks +=
                        usize::from(pages.clone().all(|page| stored.warm.contains(&page)));
                    hot_pages.extend(pages);
                }
            }
            found.pages += hot_pages.len();
            found.warm_pages += stored.warm.len();
        }
        found
    }
}

/// Blocks with hot keys, and their pages.
#[derive(Debug, Default)]
struct Found {
    blocks: usize,
    warm_blocks: usize,
    pages: usize,
    warm_pages: usize,
}

fn key(number: u32) -> Vec<u8> {
    format!("key{number:013}").into_bytes()
}

fn is_hot(key: &[u8]) -> bool {
    let number: u32 = std::str::from_utf8(&key[3..]).unwrap().parse().unwrap();
    number.is_multiple_of(STRIDE)
}

fn memory() -> Vec<AtomicU64> {
    (0..4096 * GROUP_WORDS).map(|_| AtomicU64::new(0)).collect()
}

/// Reads the hot keys of `runs` interleaved SSTables, once each.
fn database(memory: &[AtomicU64], runs: u32, layout: Layout) -> Database<'_> {
    let mut database = Database {
        heat: Heat::new(memory).unwrap(),
        epoch: 0,
        tables: Vec::new(),
        numbers: 0,
    };
    for run in 0..runs {
        let keys: Vec<_> = (0..KEYS).filter(|it| it % runs == run).map(key).collect();
        database.add(&keys, layout);
    }
    for number in (0..KEYS).step_by(STRIDE as usize) {
        database.read(&key(number), layout.has_filter);
    }
    database
}

/// Blocks of about 4,000 bytes.
const LAYOUT: Layout = Layout {
    block: 18,
    value_bytes: 192,
    has_filter: true,
    has_dictionary: false,
};

#[test]
fn hot_blocks_stay_warm_through_compactions_in_a_row() {
    for (runs, has_filter) in [(1, true), (2, true), (2, false), (3, true)] {
        let layout = Layout {
            has_filter,
            ..LAYOUT
        };
        let memory = memory();
        let mut database = database(&memory, runs, layout);
        let mut of_first = 0;
        for pass in 1..=5 {
            database.compact(layout);
            let found = database.found();
            println!("{runs} runs, filter {has_filter}, pass {pass}: {found:?}");
            if pass == 1 {
                of_first = found.warm_pages;
            }
            assert!(found.warm_blocks * 100 >= found.blocks * 99);
            // Each hot block of a run becomes so many blocks, and one more at its edge.
            assert!(found.warm_pages <= found.pages * (runs as usize + 1));
            assert!(found.warm_pages * 100 <= of_first * 103);
        }
    }
}

/// Each pass has other blocks.
#[test]
fn hot_blocks_stay_warm_where_their_edges_move() {
    let memory = memory();
    let mut database = database(&memory, 1, LAYOUT);
    for block in [17, 15, 18, 16] {
        database.compact(Layout { block, ..LAYOUT });
        let found = database.found();
        println!("blocks of {block} keys: {found:?}");
        assert!(found.warm_blocks * 100 >= found.blocks * 99);
        assert!(found.warm_pages * 2 <= found.pages * 5);
    }
}

/// Others read, and the clock of heat goes on.
#[test]
fn heat_that_nobody_uses_fades() {
    let memory = memory();
    let mut database = database(&memory, 2, LAYOUT);
    database.compact(LAYOUT);
    assert!(database.found().warm_pages > 0);
    for _ in 0..4 {
        database.epoch += 1;
        database.compact(LAYOUT);
        println!("epoch {}: {:?}", database.epoch, database.found());
    }
    assert_eq!(database.found().warm_pages, 0);
}
