//! SSTables that Cassandra wrote.

use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use coldstream_sstable::ReadAt;
use coldstream_sstable::cassandra::{Component, Components, Descriptor, Format, Key, SsTable};

use super::counted::Counted;
use super::dump::{Dumped, dump, name};
use super::synthetic::walk;
use super::{long, lz4};
use coldstream_testkit::cassandra::Engine;
use coldstream_testkit::skip;

/// Names of the CQL tables that `WriteTables.java` writes, and the number of their partitions.
const TABLES: [(&str, usize); 5] = [
    ("small", 20_000),
    ("wide", 300),
    ("widenone", 300),
    ("blobs", 3_000),
    ("composite", 2_000),
];

#[test]
fn keys_have_the_form_that_cassandra_gives_them() {
    let Some(engine) = Engine::get("5.0.9") else {
        return;
    };
    let scratch = scratch();
    let printed = engine.run(scratch.path(), "big", "PrintKeys.java", &[]);
    let mut count = 0;
    for line in printed.lines() {
        let words: Vec<Vec<u8>> = line.split(' ').map(unhex).collect();
        let [key, form, hash] = &words[..] else {
            panic!("not three words: {line}");
        };
        let key = Key::from_partition_key(key);
        assert_eq!(key.bytes(), form);
        assert_eq!(key.filter_hash(), hash.first().copied());
        count += 1;
    }
    assert_eq!(count, 3000);
}

#[test]
fn tables_of_cassandra_4_1() {
    if long() {
        compare_tables("4.1.10", &[Format::Big]);
    } else {
        skip("COLDSTREAM_LONG is not set");
    }
}

#[test]
fn tables_of_cassandra_5_0() {
    compare_tables("5.0.9", &[Format::Big, Format::Bti]);
}

#[test]
fn tables_of_cassandra_6_0() {
    if long() {
        compare_tables("6.0-alpha2", &[Format::Big, Format::Bti]);
    } else {
        skip("COLDSTREAM_LONG is not set");
    }
}

/// An index that is far larger than a reader's memory is read once by a walk of all partitions. If
/// the walk passes over partitions of a BTI index, it reads only a small part.
#[test]
fn large_tables_are_read_once() {
    if !long() {
        skip("COLDSTREAM_LONG is not set");
        return;
    }
    let Some(engine) = Engine::get("5.0.9") else {
        return;
    };
    let scratch = scratch();
    for format in [Format::Big, Format::Bti] {
        let directory = scratch.path().join(format!("{format:?}"));
        let arguments = [&directory, Path::new("400000")];
        let _ = engine.run(scratch.path(), name(format), "WriteTables.java", &arguments);
        check_read_once(format, &data_file(&directory.join("large")));
    }
}

fn check_read_once(format: Format, data: &Path) {
    let name = data.file_name().and_then(|name| name.to_str());
    let descriptor = Descriptor::parse(name.expect("a name")).expect("an SSTable's");
    let read = |component| {
        let path = data.with_file_name(descriptor.file_name(component));
        fs::read(path).expect("a file of the SSTable")
    };
    let (keys, rows) = match format {
        Format::Big => (read(Component::Index), None),
        Format::Bti => (read(Component::Partitions), Some(read(Component::Rows))),
    };
    let compression_info = read(Component::CompressionInfo);
    let statistics = read(Component::Statistics);
    let (keys, rows) = (Counted::new(&keys), rows.as_deref().map(Counted::new));
    let compression_info = Counted::new(&compression_info);
    let components = Components {
        keys: &keys,
        rows: rows.as_ref(),
        compression_info: Some(&compression_info),
        statistics: &Counted::new(&statistics),
        data_length: fs::metadata(data).expect("the data").len(),
    };
    let sstable = SsTable::new(&descriptor, components).expect("an SSTable");
    let before = keys.read();
    let walked = walk(&sstable).expect("a whole index");
    let read_once = keys.read() - before;
    let size = keys.size().expect("memory has a size");
    assert!(
        size > 3 << 20 && read_once <= size,
        "{read_once} of {size} bytes"
    );
    // These partitions lie close together: only their part of the index is read.
    let mut partitions = sstable.partitions().expect("an index");
    for (key, range) in walked.iter().skip(walked.len() / 2).step_by(100).take(100) {
        partitions.skip_to_key(key).expect("an index");
        let found = partitions
            .next_partition()
            .expect("an index")
            .expect("in the SSTable");
        assert_eq!((found.key, &found.uncompressed), (key, range));
    }
    let read_partly = keys.read() - before - read_once;
    assert!(
        format == Format::Big || read_partly < size / 10,
        "{read_partly}"
    );
    let mut chunks = sstable.chunks();
    let before = compression_info.read();
    for (_, range) in &walked {
        chunks.file_range(range.clone()).expect("a chunk");
    }
    let read_of_chunks = compression_info.read() - before;
    eprintln!(
        "{format:?}: {} partitions: {read_once} of {size} bytes for all, {read_partly} for \
         100 neighbours; {read_of_chunks} bytes of offsets",
        walked.len(),
    );
    // Blocks of offsets overlap by one.
    assert!(read_of_chunks <= compression_info.size().expect("memory has a size") + 64);
}

/// Compares every partition of every SSTable with `sstabledump` and with the data itself. Looks up
/// the keys of each format in the other.
fn compare_tables(version: &'static str, formats: &[Format]) {
    let Some(engine) = Engine::get(version) else {
        return;
    };
    let scratch = scratch();
    let mut partitions = HashMap::new();
    for &format in formats {
        let directory = scratch.path().join(format!("{format:?}"));
        let program = "WriteTables.java";
        let _ = engine.run(scratch.path(), name(format), program, &[&directory]);
        for (name, count) in TABLES {
            let data = data_file(&directory.join(name));
            let dumped = dump(&engine, scratch.path(), format, &data);
            assert_eq!(dumped.len(), count, "the tool shows all of {name}");
            let keys = compare_with_dump(version, name, &data, &dumped);
            let other: Option<(PathBuf, Vec<Key>)> = partitions.remove(name);
            if let Some((other, other_keys)) = other {
                look_for(&keys, &other);
                look_for(&other_keys, &data);
            }
            partitions.insert(name, (data, keys));
        }
    }
}

/// Returns the keys of the index.
fn compare_with_dump(version: &str, name: &str, data: &Path, dumped: &[Dumped]) -> Vec<Key> {
    let sstable = SsTable::open(data).expect("an SSTable");
    let walked = walk(&sstable).expect("a whole index");
    assert_eq!(walked.len(), dumped.len(), "{}", data.display());
    let (chunks, uncompressed) = chunks_and_data(&sstable, data);
    let mut looked_up = sstable.chunks();
    let mut complete = 0;
    let mut end = 0;
    for ((key, range), dumped) in walked.iter().zip(dumped) {
        let partition_key = stored_key(name, &dumped.key);
        assert!(key.matches(&Key::from_partition_key(&partition_key)));
        complete += usize::from(key.is_complete());
        assert_eq!(range.start, end, "partitions follow each other");
        end = range.end;
        // In the data, a partition begins with its key.
        let stored = &uncompressed[range.start as usize..range.end as usize];
        let length = u16::try_from(partition_key.len())
            .expect("short")
            .to_be_bytes();
        assert!(stored.starts_with(&[&length[..], &partition_key].concat()));
        if version.starts_with("4.") {
            assert_eq!(dumped.position, range.start);
        } else if name.starts_with("wide") {
            // The tool has read the static row as well.
            assert!(range.contains(&dumped.position));
        } else {
            // The tool has read the key, and a byte that says that nothing is deleted.
            assert_eq!(
                dumped.position,
                range.start + 2 + partition_key.len() as u64 + 1
            );
        }
        let holds = |chunk: &&Chunk| {
            chunk.uncompressed.start < range.end && range.start < chunk.uncompressed.end
        };
        let first = chunks.iter().find(holds);
        let last = chunks.iter().rfind(holds);
        let expected = match (first, last) {
            (Some(first), Some(last)) => first.file.start..last.file.end,
            _ => range.clone(),
        };
        assert_eq!(
            looked_up.file_range(range.clone()).expect("a chunk"),
            expected
        );
    }
    assert_eq!(end, uncompressed.len() as u64);
    // The partitions of more than 64 KiB have an index of their rows in both formats.
    let wide = walked
        .iter()
        .filter(|(_, range)| range.end - range.start > 64 << 10);
    assert_eq!(wide.count() >= 30, name.starts_with("wide"));
    eprintln!(
        "{version} {}: {} partitions, {complete} with complete keys, {} chunks",
        data.file_name().expect("a name").display(),
        walked.len(),
        chunks.len(),
    );
    skip_to_positions(&sstable, &walked);
    walked.into_iter().map(|(key, _)| key).collect()
}

/// A chunk of compressed data.
struct Chunk {
    uncompressed: Range<u64>,
    file: Range<u64>,
}

/// The chunks and the uncompressed data. An SSTable without compression has no chunks.
fn chunks_and_data(sstable: &SsTable<fs::File>, data: &Path) -> (Vec<Chunk>, Vec<u8>) {
    let file = fs::read(data).expect("the data");
    let mut lookup = sstable.chunks();
    let compressed = data
        .to_str()
        .is_some_and(|path| Path::new(&path.replace("-Data.db", "-CompressionInfo.db")).exists());
    if !compressed {
        return (Vec::new(), file);
    }
    let chunk_length = sstable.compression().expect("compressed").chunk_length();
    let mut chunks = Vec::new();
    let mut uncompressed = Vec::new();
    let mut file_end = 0;
    while (uncompressed.len() as u64) < sstable.uncompressed().end {
        let at = uncompressed.len() as u64;
        let file_range = lookup.file_range(at..at + 1).expect("a chunk");
        assert_eq!(file_range.start, file_end, "chunks follow each other");
        file_end = file_range.end;
        let range = at..(at + chunk_length).min(sstable.uncompressed().end);
        let bytes = &file[file_range.start as usize..file_range.end as usize];
        uncompressed.extend(lz4::chunk(bytes, (range.end - range.start) as usize));
        chunks.push(Chunk {
            uncompressed: range,
            file: file_range,
        });
    }
    assert_eq!(file_end, file.len() as u64);
    (chunks, uncompressed)
}

fn skip_to_positions(sstable: &SsTable<fs::File>, walked: &[(Key, Range<u64>)]) {
    let mut cursor = sstable.partitions().expect("an index");
    for (key, range) in walked.iter().step_by(17) {
        let middle = range.start + (range.end - range.start) / 2;
        cursor.skip_to_position(middle).expect("an index");
        let found = cursor
            .next_partition()
            .expect("an index")
            .expect("in the SSTable");
        assert_eq!((found.key, &found.uncompressed), (key, range));
    }
}

/// `keys` must be those of the SSTable's partitions, in their order.
fn look_for(keys: &[Key], data: &Path) {
    let sstable = SsTable::open(data).expect("an SSTable");
    let walked = walk(&sstable).expect("a whole index");
    assert_eq!(keys.len(), walked.len());
    let mut cursor = sstable.partitions().expect("an index");
    for (target, (key, range)) in keys.iter().zip(&walked) {
        assert!(target.matches(key));
        cursor.skip_to_key(target).expect("an index");
        let found = cursor
            .next_partition()
            .expect("an index")
            .expect("in the SSTable");
        assert_eq!((found.key, &found.uncompressed), (key, range));
    }
}

/// A partition key of a CQL table, as SSTables store it.
fn stored_key(cql_table: &str, columns: &[String]) -> Vec<u8> {
    match (cql_table, columns) {
        ("small", [text]) => text.as_bytes().to_vec(),
        ("wide" | "widenone", [number]) => {
            let number: i64 = number.parse().expect("a number");
            number.to_be_bytes().to_vec()
        }
        ("blobs", [hex]) => unhex(hex),
        ("composite", [text, number]) => {
            let number: i32 = number.parse().expect("a number");
            let mut key = Vec::new();
            for column in [text.as_bytes(), &number.to_be_bytes()] {
                key.extend((column.len() as u16).to_be_bytes());
                key.extend(column);
                key.push(0);
            }
            key
        }
        _ => panic!("{cql_table} has other columns than {columns:?}"),
    }
}

fn data_file(directory: &Path) -> PathBuf {
    let entries = fs::read_dir(directory).expect("a directory");
    let mut files = entries.map(|entry| entry.expect("an entry").path());
    let data = files.find(|path| path.to_str().is_some_and(|path| path.ends_with("-Data.db")));
    data.expect("an SSTable")
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a digit") as u8;
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("scratch directory")
}
