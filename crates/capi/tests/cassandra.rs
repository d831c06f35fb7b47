//! The handover between SSTables that Cassandra's own writer made, through the C interface.

mod common;

use coldstream_sstable::cassandra::{Key, SsTable};
use coldstream_testkit::cassandra::Engine;
use coldstream_testkit::files::REST;
use coldstream_testkit::residency::{cached_pages, drop_pages, resident_pages};
use coldstream_testkit::{directories, skip};
use common::{Linked, compiled, program};
use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Keys of the output. Every other one is of the first input.
const KEYS: &str = "24000";
/// Every so many partitions of the first input is hot.
const HOT_STRIDE: usize = 1200;

#[test]
fn a_handover_follows_the_indexes_of_cassandra() {
    let Some(engine) = Engine::get("5.0.9") else {
        return;
    };
    let directory = directories::on_disk();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/partitions.c");
    let partitions = compiled(&source, directory.path(), Linked::Archive);
    for format in ["big", "bti"] {
        let place = directory.path().join(format);
        let arguments = [&place, Path::new(KEYS), Path::new("merged")];
        let _ = engine.run(directory.path(), format, "WriteTables.java", &arguments);
        for table in ["t", "tnone"] {
            let paths = ["first", "second", "output"].map(|part| data(&place, part, table));
            hand_over(&partitions, &paths, format!("{format}, {table}"));
        }
    }
}

/// Hands over from two inputs to their output, with and without the output's index.
fn hand_over(partitions: &Path, paths: &[PathBuf; 3], name: String) {
    for path in paths {
        let file = File::open(path).unwrap();
        file.sync_all().unwrap();
        drop_pages(&file);
    }
    std::thread::sleep(REST);
    let [first, _, output] = paths;
    let (keys, hot): (Vec<Key>, Vec<Range<u64>>) =
        places(first, |number, _| number % HOT_STRIDE == HOT_STRIDE / 2);
    let hot: Vec<String> = hot
        .iter()
        .flat_map(|range| [range.start, range.end - range.start])
        .map(|number| number.to_string())
        .collect();
    let run = || program(partitions).arguments(paths).arguments(&hot).run();

    // Nothing is handed over to an SSTable that is not finished.
    let index = sibling(
        output,
        if name.starts_with("big") {
            "Index.db"
        } else {
            "Partitions.db"
        },
    );
    let moved = index.with_extension("moved");
    fs::rename(&index, &moved).unwrap();
    assert_eq!(run().well().text(), "limited=0 both=0 hot=0\n", "{name}");
    fs::rename(&moved, &index).unwrap();

    let ended = run().well();
    if cached_pages(&File::open(first).unwrap()) > 100 {
        return skip("direct I/O does not work here");
    }
    assert!(ended.text().starts_with("limited=3 "), "{name}: {ended:?}");
    let resident = resident_pages(&File::open(output).unwrap());
    let (_, expected) = places(output, |_, key| keys.iter().any(|hot| hot.matches(key)));
    let missing = expected
        .iter()
        .filter(|range| !pages(range).all(|page| resident[page]))
        .count();
    let warm = resident.iter().filter(|is_resident| **is_resident).count();
    println!(
        "{name}: {} hot keys, {missing} not warm, {warm} of {} pages warm, {}",
        expected.len(),
        resident.len(),
        ended.text().trim()
    );
    assert_eq!((expected.len(), missing), (10, 0), "{name}");
    assert!(warm * 3 < resident.len(), "{name}: {warm} pages");
}

/// The keys that are wanted, and where they are in the file.
fn places(data: &Path, is_wanted: impl Fn(usize, &Key) -> bool) -> (Vec<Key>, Vec<Range<u64>>) {
    let sstable = SsTable::open(data).unwrap();
    let mut partitions = sstable.partitions().unwrap();
    let mut chunks = sstable.chunks();
    let (mut keys, mut ranges, mut number) = (Vec::new(), Vec::new(), 0);
    while let Some(partition) = partitions.next_partition().unwrap() {
        if is_wanted(number, partition.key) {
            keys.push(partition.key.clone());
            ranges.push(chunks.file_range(partition.uncompressed).unwrap());
        }
        number += 1;
    }
    (keys, ranges)
}

fn pages(range: &Range<u64>) -> Range<usize> {
    (range.start / 4096) as usize..range.end.div_ceil(4096) as usize
}

/// The `Data.db` of a part.
fn data(place: &Path, part: &str, table: &str) -> PathBuf {
    let directory = place.join(part).join("ks").join(table);
    let entries = fs::read_dir(&directory).unwrap();
    let mut paths = entries.map(|entry| entry.unwrap().path());
    let data = paths.find(|path| path.to_str().unwrap().ends_with("-Data.db"));
    data.unwrap_or_else(|| panic!("{}: no SSTable", directory.display()))
}

/// Another file of the SSTable.
fn sibling(data: &Path, component: &str) -> PathBuf {
    data.to_str().unwrap().replace("Data.db", component).into()
}
