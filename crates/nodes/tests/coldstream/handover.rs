//! One node. After a compaction the chunks of hot partitions are in the page cache before the first read, and
//! few others are.

use crate::client::Client;
use crate::files::{self, KEYSPACE};
use crate::operations::{LZ4_4, LZ4_16, NONE};
use crate::program::{self, Counters};
use crate::rows;
use crate::scene::{self, Scene, nodetool};
use crate::writers;
use coldstream_io::residency;
use coldstream_nodes::{Node, Settings, SstableFormat, Version};
use coldstream_sstable::cassandra::{Key, SsTable};
use scylla::statement::Consistency;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use tokio::task::JoinSet;

const PARTITIONS: i64 = 12_000;
const VALUE_BYTES: usize = 1000;
/// Requests at the same time.
const WRITERS: i64 = 12;
/// One partition in this number is hot.
const HOT_EVERY: i64 = 20;
const PAGE_BYTES: u64 = 4096;
/// Pages beside the hot ones that opening or finishing an SSTable leaves in the page cache.
const OTHER_PAGES: usize = 64;
/// The most CQL tables to try. A machine with proactive reclaim may drop pages before they are counted.
const TRIES: usize = 3;

const STCS: &str = "'SizeTieredCompactionStrategy'";
/// Several outputs in sequence.
const LCS: &str = "'LeveledCompactionStrategy', 'sstable_size_in_mb': 4";
const UCS: &str = "'UnifiedCompactionStrategy', 'min_sstable_size': '2MiB'";

/// The storage and the compaction of a CQL table.
const LAYOUTS: [(&str, &str, &str); 6] = [
    ("lz4_4", LZ4_4, STCS),
    ("lz4_16", LZ4_16, STCS),
    ("none", NONE, STCS),
    ("lcs", LZ4_4, LCS),
    ("lcs_none", NONE, LCS),
    ("ucs", LZ4_16, UCS),
];

/// The layouts of BTI SSTables in the short form.
const SHORT: [&str; 3] = ["lz4_4", "lcs_none", "ucs"];

/// Pages in the page cache of SSTables before the first read.
#[derive(Debug, Default)]
pub struct Warm {
    tables: usize,
    pub hot_partitions: usize,
    warm_partitions: usize,
    hot_pages: usize,
    wasted_pages: usize,
}

impl Warm {
    fn add(&mut self, other: &Self) {
        self.tables += other.tables;
        self.hot_partitions += other.hot_partitions;
        self.warm_partitions += other.warm_partitions;
        self.hot_pages += other.hot_pages;
        self.wasted_pages += other.wasted_pages;
    }

    fn is_warm(&self) -> bool {
        self.warm_partitions * 100 >= self.hot_partitions * 95
    }

    pub fn assert_exact(&self) {
        assert!(self.is_warm(), "{self:?}");
        assert!(
            self.wasted_pages <= 2 * self.hot_pages + self.tables * OTHER_PAGES,
            "{self:?}"
        );
    }
}

#[test]
fn hot_partitions_are_warm_after_a_compaction() {
    for version in scene::versions() {
        let Some(scene) = Scene::of(version) else {
            return;
        };
        compact(scene, SstableFormat::Big);
        if version >= Version::V5_0 {
            let scene = Scene::of(version).expect("the release was there");
            compact(scene, SstableFormat::Bti);
        }
    }
}

fn compact(scene: Scene, format: SstableFormat) {
    let settings = Settings {
        format,
        ..scene::settings()
    };
    let mut node = scene.start(1, &settings, &program::launch_without_guard());
    let client = Client::connect(&node.cql(), Consistency::One);
    client.create_keyspace(1);
    let mut layouts = LAYOUTS.to_vec();
    if format == SstableFormat::Bti && !scene::long() {
        layouts.retain(|(layout, ..)| SHORT.contains(layout));
    }
    let mut handovers = 0;
    for &(layout, compression, strategy) in &layouts {
        if strategy == UCS && scene.version() < Version::V5_0 {
            continue;
        }
        let mut tries = 0;
        let warm = loop {
            tries += 1;
            let name = format!("{layout}_{tries}");
            client.create_table(
                &name,
                &format!(
                    "compression = {compression} AND compaction = \
                     {{'class': {strategy}, 'enabled': false}}"
                ),
            );
            // Two SSTables, each with every other partition.
            for half in 0..2 {
                write(&client, &name, half);
                nodetool(&mut node, &["flush", KEYSPACE, &name]);
            }
            files::make_cold(&files::data(&node, Some(&name)));
            for _ in 0..3 {
                read_hot(&client, &name);
            }
            let before = Counters::of(node.process_id()).get("handover_sstables");
            let warm = compact_and_look(&mut node, &name);
            if warm.is_warm() || tries == TRIES {
                read_hot(&client, &name);
                handovers += Counters::of(node.process_id()).get("handover_sstables") - before;
                break warm;
            }
            eprintln!("{name}: once more: {warm:?}");
        };
        let who = format!("{} {format:?} {layout}: {warm:?}", scene.version());
        Counters::of(node.process_id()).report(&who);
        assert_eq!(warm.hot_partitions, hot_partitions());
        assert_eq!(warm.tables > 1, strategy != STCS, "{warm:?}");
        warm.assert_exact();
    }
    let counters = Counters::of(node.process_id());
    counters.assert_at_work("the node");
    assert!(counters.get("handover_pages_warmed") > 0);
    if scene.version() < Version::V6_0 {
        // In parts, while they were written, and at the end.
        assert!(handovers > 2 * layouts.len() as u64);
    }
    assert_eq!(counters.get("handover_failed"), 0);
    scene::assert_log_clean(&node.log());
}

fn compact_and_look(node: &mut Node, name: &str) -> Warm {
    // The kernel may have read ahead the rest of uncompressed SSTables. Output from cached inputs stays
    // cached. So only reads count.
    let inputs = files::data(node, Some(name));
    files::make_cold(&inputs);
    nodetool(node, &["compact", KEYSPACE, name]);
    let mut outputs = files::data(node, Some(name));
    outputs.retain(|output| !inputs.contains(output));
    let mut all = Warm::default();
    for output in &outputs {
        all.add(&warm(output));
    }
    all
}

pub fn hot_partitions() -> usize {
    (0..PARTITIONS).filter(|p| is_hot(*p)).count()
}

fn is_hot(p: i64) -> bool {
    // Neither all in one of the two SSTables nor in one chunk.
    rows::mixed(p.cast_unsigned()).is_multiple_of(HOT_EVERY.cast_unsigned())
}

pub fn write(client: &Client, table: &str, half: i64) {
    let insert = client.prepare(&format!(
        "INSERT INTO {KEYSPACE}.{table} (p, c, round, value) VALUES (?, 0, 0, ?)"
    ));
    let mut tasks = JoinSet::new();
    for part in 0..WRITERS {
        let (session, insert) = (client.session(), insert.clone());
        let work = async move {
            for p in (half + 2 * part..PARTITIONS).step_by(2 * WRITERS as usize) {
                let mut value = Vec::new();
                for number in 0..VALUE_BYTES as u64 / 8 {
                    value.extend(rows::mixed(p.cast_unsigned() << 16 | number).to_le_bytes());
                }
                let done = session.execute_unpaged(&insert, (p, value)).await;
                done.unwrap_or_else(|error| panic!("writing {p}: {error}"));
            }
        };
        tasks.spawn_on(work, client.runtime().handle());
    }
    writers::joined(client, tasks);
}

pub fn read_hot(client: &Client, table: &str) {
    let select = client.prepare(&format!("SELECT value FROM {KEYSPACE}.{table} WHERE p = ?"));
    let session = client.session();
    client.runtime().block_on(async {
        for p in (0..PARTITIONS).filter(|p| is_hot(*p)) {
            let answer = session.execute_unpaged(&select, (p,)).await;
            let answer = answer.unwrap_or_else(|error| panic!("reading {p}: {error}"));
            let rows = answer.into_rows_result().expect("rows");
            assert_eq!(rows.rows_num(), 1, "partition {p}");
        }
    });
}

pub fn warm(data: &Path) -> Warm {
    let file = File::open(data).expect("open");
    let bytes = file.metadata().expect("fstat").len();
    let mut resident = BTreeSet::new();
    residency::each_page(file.as_raw_fd(), 0, bytes, |offset, is_there| {
        if is_there {
            resident.insert(offset / PAGE_BYTES);
        }
    })
    .expect("mincore");
    let table = SsTable::open(data).expect("a table");
    let mut chunks = table.chunks();
    let mut hot: Vec<Key> = (0..PARTITIONS)
        .filter(|p| is_hot(*p))
        .map(|p| Key::from_partition_key(&p.to_be_bytes()))
        .collect();
    hot.sort_by(Key::compare);
    let mut partitions = table.partitions().expect("index");
    let mut warm = Warm {
        tables: 1,
        ..Warm::default()
    };
    let mut hot_pages = BTreeSet::new();
    for key in &hot {
        let Some(place) = partitions.find(key).expect("index") else {
            continue;
        };
        let stored = chunks.file_range(place).expect("chunks");
        let pages = stored.start / PAGE_BYTES..stored.end.div_ceil(PAGE_BYTES);
        warm.hot_partitions += 1;
        warm.warm_partitions += usize::from(pages.clone().all(|page| resident.contains(&page)));
        hot_pages.extend(pages);
    }
    warm.hot_pages = hot_pages.len();
    warm.wasted_pages = resident.difference(&hot_pages).count();
    warm
}
