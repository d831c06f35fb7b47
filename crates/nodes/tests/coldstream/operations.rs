//! One node: all operations that rewrite SSTables, in every layout.

use crate::client::{Client, Found};
use crate::files::{self, KEYSPACE, Pages};
use crate::program::{self, Counters};
use crate::rows::Shape;
use crate::scene::{self, Scene, nodetool};
use coldstream_nodes::{Node, Settings, SstableFormat, Version};
use scylla::statement::Consistency;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

pub const LZ4_4: &str = "{'class': 'LZ4Compressor', 'chunk_length_in_kb': 4}";
pub const LZ4_16: &str = "{'class': 'LZ4Compressor', 'chunk_length_in_kb': 16}";
pub const NONE: &str = "{'enabled': false}";

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

/// The layouts of the short form: each compression and three strategies once.
const SHORT: [&str; 3] = ["lz4_4_stcs", "none_lcs", "lz4_16_ucs"];

/// A CQL table and its expected content.
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
                // Deleted rows may be purged at once: there is one replica.
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

/// A node under Coldstream and its expected content.
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

    /// Reads everything from the device.
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

    /// A major compaction of cold SSTables, one CQL table at a time. Its inputs and outputs stay out of the
    /// page cache, except for hot ones.
    fn compact_cold(&mut self) {
        for index in 0..self.tables.len() {
            let table = self.tables[index].name.clone();
            let inputs = files::data(&self.node, Some(&table));
            files::make_cold(&inputs);
            let warmed_before = Counters::of(self.node.process_id()).get("handover_pages_warmed");
            let read = while_watching(&inputs, || self.tool(&["compact", KEYSPACE, &table]));
            // Inputs without overlap stay. Others are removed a little later.
            let mut outputs = files::data(&self.node, Some(&table));
            outputs.retain(|output| !inputs.contains(output));
            assert!(!outputs.is_empty(), "{table}: nothing was compacted");
            let written = Pages::of(&outputs);
            eprintln!(
                "{} {table}: pages in the page cache: {read} of {} inputs, {written} of {} outputs",
                self.who,
                inputs.len(),
                outputs.len()
            );
            assert!(read.resident <= READ_IN_FOREGROUND * inputs.len() as u64);
            let warmed = Counters::of(self.node.process_id()).get("handover_pages_warmed");
            let others = written.resident.saturating_sub(warmed - warmed_before);
            assert!(others <= READ_IN_FOREGROUND * outputs.len() as u64);
        }
    }

    /// The files of a snapshot stay intact when their sources are compacted and removed.
    fn keep_a_snapshot(&mut self) {
        self.tool(&["snapshot", "-t", "kept", KEYSPACE]);
        let snapshot = files::of_snapshot(&self.node, "kept");
        assert!(snapshot.len() >= self.tables.len());
        files::assert_digests(&snapshot);
        self.write_rounds(1);
        self.tool(&["compact", KEYSPACE]);
        files::assert_digests(&snapshot);
        self.tool(&["clearsnapshot", "--all"]);
    }
}

/// Pages of a `Data.db` that come into the page cache without compaction. Opening reads one or two chunks,
/// with the kernel's readahead (16 pages were observed). The tail is written through the page cache.
const READ_IN_FOREGROUND: u64 = 64;

/// Samples the page cache while `work` runs. Returns the maximum.
fn while_watching(paths: &[PathBuf], work: impl FnOnce() -> String) -> Pages {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut most = Pages::of(paths);
            while !done.load(Ordering::Relaxed) {
                let now = Pages::of(paths);
                if now.resident > most.resident {
                    most = now;
                }
                // Often enough: pages that were not dropped would still be there at the end.
                thread::sleep(Duration::from_millis(2));
            }
            most
        });
        work();
        done.store(true, Ordering::Relaxed);
        watcher.join().expect("watcher")
    })
}

#[test]
fn what_was_written_is_read_back_after_everything_that_rewrites_tables() {
    for version in scene::versions() {
        let Some(scene) = Scene::of(version) else {
            return;
        };
        rewrite(scene, SstableFormat::Big);
        if scene::long() && version >= Version::V5_0 {
            let scene = Scene::of(version).expect("the release was there");
            rewrite(scene, SstableFormat::Bti);
        }
    }
}

fn rewrite(scene: Scene, format: SstableFormat) {
    let mut settings = Settings {
        format,
        ..scene::settings()
    };
    let node = scene.start(1, &settings, &program::launch());
    program::assert_doctor_is_content(node.process_id(), scene.version());
    let client = Client::connect(&node.cql(), Consistency::One);
    let mut subject = Subject {
        node,
        client,
        tables: tables(scene.version()),
        shape: Shape { partitions: 400 },
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

    subject.tool(&["enableautocompaction", KEYSPACE]);
    subject.write_rounds(if scene::long() { 6 } else { 2 });
    subject.keep_a_snapshot();
    for command in ["scrub", "garbagecollect", "cleanup"] {
        subject.make_cold();
        subject.tool(&[command, KEYSPACE]);
    }
    subject.check("scrub, garbagecollect and cleanup");
    subject.verify();
    Counters::of(subject.node.process_id()).assert_at_work(&subject.who);

    let Subject {
        node,
        client,
        tables,
        shape,
        rounds,
        who,
    } = subject;
    drop(client);
    node.stop().unwrap_or_else(|error| panic!("{error}"));
    // Everything is rewritten again, in the other format where there is one.
    if scene.version() >= Version::V5_0 {
        settings.format = SstableFormat::Bti;
    }
    let node = scene.start(1, &settings, &program::launch());
    let client = Client::connect(&node.cql(), Consistency::One);
    let mut subject = Subject {
        node,
        client,
        tables,
        shape,
        rounds,
        who: format!("{who}, restarted"),
    };
    subject.check("a restart");
    subject.make_cold();
    subject.tool(&["upgradesstables", "--include-all-sstables", KEYSPACE]);
    subject.check("upgradesstables");
    subject.verify();
    Counters::of(subject.node.process_id()).assert_at_work(&subject.who);
    subject
        .node
        .stop()
        .unwrap_or_else(|error| panic!("{error}"));
}
