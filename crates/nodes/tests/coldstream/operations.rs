//! One node: everything that rewrites tables, in every layout.

use crate::client::{Client, Found};
use crate::files::{self, KEYSPACE, Pages};
use crate::program::{self, Counters};
use crate::rows::Shape;
use crate::scene::{self, Scene, nodetool};
use coldstream_nodes::{Node, Settings, SstableFormat, Version};
use scylla::statement::Consistency;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const LZ4_4: &str = "{'class': 'LZ4Compressor', 'chunk_length_in_kb': 4}";
const LZ4_16: &str = "{'class': 'LZ4Compressor', 'chunk_length_in_kb': 16}";
const NONE: &str = "{'enabled': false}";

const COMPRESSIONS: [(&str, &str); 3] = [("lz4_4", LZ4_4), ("lz4_16", LZ4_16), ("none", NONE)];
const STRATEGIES: [(&str, &str); 4] = [
    (
        "lcs",
        "{'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': 4}",
    ),
    ("stcs", "{'class': 'SizeTieredCompactionStrategy'}"),
    ("twcs", "{'class': 'TimeWindowCompactionStrategy'}"),
    (
        "ucs",
        "{'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'T4', \
         'min_sstable_size': '2MiB'}",
    ),
];

/// What the short form tests of them: each compression and three strategies once.
const SHORT: [&str; 3] = ["lz4_4_stcs", "none_lcs", "lz4_16_ucs"];

/// A table and what it should hold.
struct Table {
    name: String,
    options: String,
}

fn tables(version: Version) -> Vec<Table> {
    let mut tables = Vec::new();
    for (compression_name, compression) in COMPRESSIONS {
        for (strategy_name, strategy) in STRATEGIES {
            let name = format!("{compression_name}_{strategy_name}");
            let known = strategy_name != "ucs" || version >= Version::V5_0;
            if known && (scene::long() || SHORT.contains(&name.as_str())) {
                // Deleted rows may go at the first opportunity: there is one replica.
                let options = format!(
                    "compression = {compression} AND compaction = {strategy} AND \
                     gc_grace_seconds = 0"
                );
                tables.push(Table { name, options });
            }
        }
    }
    tables
}

/// A node under Coldstream and what it should hold.
struct Subject {
    node: Node,
    client: Client,
    tables: Vec<Table>,
    shape: Shape,
    rounds: i32,
    who: String,
}

impl Subject {
    fn tool(&mut self, words: &[&str]) -> String {
        nodetool(&mut self.node, words)
    }

    fn write_rounds(&mut self, rounds: i32) {
        for _ in 0..rounds {
            for table in &self.tables {
                self.client
                    .write_round(&table.name, self.shape, self.rounds);
            }
            self.rounds += 1;
            self.tool(&["flush", KEYSPACE]);
        }
    }

    fn make_cold(&self) {
        files::make_cold(&files::data(&self.node, None));
    }

    /// Reads everything back, from the device.
    fn check(&self, after: &str) {
        self.make_cold();
        let mut all = Found::default();
        for table in &self.tables {
            let found = self.client.check(&table.name, self.shape, self.rounds);
            all.rows += found.rows;
            all.partitions += found.partitions;
            all.bytes += found.bytes;
        }
        eprintln!("{}: after {after}: {all:?}", self.who);
    }

    fn verify(&mut self) {
        self.tool(&["verify", "--force", "--extended-verify", KEYSPACE]);
        scene::assert_log_clean(&self.node.log());
    }

    /// A major compaction of cold tables, table by table: neither what it reads nor what it
    /// writes comes into the page cache.
    fn compact_cold(&mut self) {
        for index in 0..self.tables.len() {
            let table = self.tables[index].name.clone();
            let inputs = files::data(&self.node, Some(&table));
            files::make_cold(&inputs);
            let before = Pages::of(&inputs);
            let done = AtomicBool::new(false);
            let most = thread::scope(|scope| {
                let watcher = scope.spawn(|| {
                    let mut most = Pages::default();
                    while !done.load(Ordering::Relaxed) {
                        let now = Pages::of(&inputs);
                        if now.resident > most.resident {
                            most = now;
                        }
                        thread::sleep(Duration::from_millis(2));
                    }
                    most
                });
                self.tool(&["compact", KEYSPACE, &table]);
                done.store(true, Ordering::Relaxed);
                watcher.join().expect("watcher")
            });
            // Inputs that overlap with nothing stay, and others are removed a little later.
            let mut outputs = files::data(&self.node, Some(&table));
            outputs.retain(|output| !inputs.contains(output));
            assert!(!outputs.is_empty(), "{table}: nothing was compacted");
            let after = Pages::of(&outputs);
            eprintln!(
                "{} {table}: {} inputs {before:?}, at most {most:?}; {} outputs {after:?}",
                self.who,
                inputs.len(),
                outputs.len()
            );
        }
    }
}

#[test]
fn what_was_written_is_read_back_after_everything_that_rewrites_tables() {
    let versions = if scene::long() {
        Version::ALL.to_vec()
    } else {
        vec![Version::V5_0]
    };
    for version in versions {
        let bti = scene::long() && version >= Version::V5_0;
        let formats = [SstableFormat::Big, SstableFormat::Bti];
        for format in formats.into_iter().take(1 + usize::from(bti)) {
            let Some(scene) = Scene::of(version) else {
                return;
            };
            rewrite(&scene, format);
        }
    }
}

fn rewrite(scene: &Scene, format: SstableFormat) {
    let settings = Settings {
        format,
        ..scene::settings()
    };
    let node = scene.start(1, &settings, &program::launch());
    let client = Client::connect(&node.cql(), Consistency::One);
    let mut subject = Subject {
        node,
        client,
        tables: tables(scene.version()),
        shape: Shape { partitions: 600 },
        rounds: 0,
        who: format!("{} {format:?}", scene.version()),
    };
    subject.client.create_keyspace(1);
    for table in &subject.tables {
        subject.client.create_table(&table.name, &table.options);
    }
    subject.tool(&["disableautocompaction", KEYSPACE]);
    subject.write_rounds(3);
    subject.compact_cold();
    subject.check("compaction");
    Counters::of(&subject.node).assert_at_work(&subject.who);
    subject.verify();
}
