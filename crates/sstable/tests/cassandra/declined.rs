//! Files that are not supported or malformed, each in its own way.

use std::fs;
use std::io;
use std::path::Path;

use coldstream_sstable::cassandra::{Component, Format, Key, SsTable};
use coldstream_sstable::{Error, Result};

use super::synthetic::{self, Files, Partition, Random, descriptor, walk};

fn partition(partition_key: &[u8], rows: bool) -> Partition {
    Partition {
        partition_key: partition_key.to_vec(),
        length: 10_000,
        rows,
    }
}

/// An SSTable of three partitions. The last one has an index of its rows.
fn small(format: Format) -> Files {
    let keys = [b"one".as_slice(), b"two", b"three"];
    let mut partitions = synthetic::sorted(keys.map(|key| partition(key, false)).to_vec());
    partitions[2].rows = true;
    synthetic::write(format, &partitions, &mut Random::new(1))
}

/// Walks an SSTable that `change` has damaged. Returns the number of partitions.
fn changed(format: Format, change: impl FnOnce(&mut Files)) -> Result<usize> {
    let mut files = small(format);
    change(&mut files);
    Ok(walk(&files.open()?)?.len())
}

fn assert_malformed(result: Result<usize>, expected: &str) {
    match result {
        Err(Error::Malformed { what, .. }) => assert_eq!(what, expected),
        other => panic!("{expected}: {other:?}"),
    }
}

/// Replaces a number of eight bytes. `from_end` counts such numbers from the end of the file.
fn set_footer(files: &mut Files, from_end: usize, value: u64) {
    let at = files.keys.len() - 8 * from_end;
    files.keys[at..at + 8].copy_from_slice(&value.to_be_bytes());
}

#[test]
fn what_is_not_changed_is_read() {
    assert_eq!(changed(Format::Big, |_| {}).expect("whole"), 3);
    assert_eq!(changed(Format::Bti, |_| {}).expect("whole"), 3);
}

#[test]
fn other_partitioners() {
    for name in [
        "RandomPartitioner",
        "Murmur3Partitioner2",
        "LocalPartitioner",
    ] {
        let name = format!("org.apache.cassandra.dht.{name}");
        let read = changed(Format::Big, |files| {
            files.statistics = synthetic::statistics(&name)
        });
        match read {
            Err(Error::Unsupported(what)) => assert_eq!(what, format!("partitioner {name}")),
            other => panic!("{other:?}"),
        }
    }
    assert_malformed(
        changed(Format::Big, |files| files.statistics[11] = 1),
        "no component names the partitioner",
    );
    assert_malformed(
        changed(Format::Big, |files| files.statistics.truncate(30)),
        "the file ends too early",
    );
    assert_malformed(
        changed(Format::Big, |files| files.statistics[0] = 0x80),
        "a negative length",
    );
}

#[test]
fn a_bti_table_without_rows() {
    let read = changed(Format::Bti, |files| files.rows = None);
    assert!(matches!(read, Err(Error::Unsupported(_))), "{read:?}");
}

#[test]
fn an_index_that_ends_early_gives_what_is_before() {
    let whole = small(Format::Big);
    let walked = walk(&whole.open().expect("an SSTable")).expect("whole");
    // Each of the first two entries has the lengths, a key and a position of two bytes.
    let second_ends = whole
        .keys
        .iter()
        .position(|&byte| byte == 0xaa)
        .expect("rows");
    for length in second_ends - 5..whole.keys.len() {
        let mut files = whole.clone();
        files.keys.truncate(length);
        let sstable = files.open().expect("an SSTable");
        let mut partitions = sstable.partitions().expect("an index");
        let first = partitions
            .next_partition()
            .expect("whole")
            .expect("there is one");
        assert_eq!(
            (first.key, first.uncompressed),
            (&walked[0].0, walked[0].1.clone())
        );
        let second = partitions
            .next_partition()
            .map(|second| usize::from(second.is_some()));
        assert_malformed(second, "the file ends too early");
        assert_eq!(partitions.next_partition().expect("no more"), None);
    }
}

#[test]
fn entries_that_do_not_fit_the_data() {
    for format in [Format::Big, Format::Bti] {
        assert_malformed(
            changed(format, |files| files.data_length = 20_000),
            "a partition beyond the end of the data",
        );
    }
    let mut keys = small(Format::Big).keys;
    let first_length = 2 + usize::from(keys[1]) + 1 + 1;
    // Twice the same entry.
    keys.splice(0..0, keys[..first_length].to_vec());
    assert_malformed(
        changed(Format::Big, |files| files.keys = keys),
        "partitions are not in the order of their positions",
    );
    assert_malformed(
        // Another first key, whose token is not the lowest one.
        changed(Format::Big, |files| {
            files.keys[2..5].copy_from_slice(b"zzz")
        }),
        "partitions are not in the order of their keys",
    );
    assert_malformed(
        changed(Format::Big, |files| {
            let position_at = first_length - 2;
            let negative = [0xff; 9];
            files.keys.splice(position_at..position_at + 1, negative);
        }),
        "a negative number",
    );
}

#[test]
fn footers_that_do_not_fit_the_file() {
    assert_malformed(
        changed(Format::Bti, |files| files.keys.truncate(23)),
        "no room for a footer",
    );
    let size = small(Format::Bti).keys.len() as u64;
    for (from_end, value) in [(3, size), (2, 0), (2, 1000), (1, size), (1, size - 25)] {
        assert_malformed(
            changed(Format::Bti, |files| set_footer(files, from_end, value)),
            "the footer does not fit the file",
        );
    }
    assert_malformed(
        changed(Format::Bti, |files| set_footer(files, 1, u64::MAX)),
        "a negative length",
    );
    assert_malformed(
        changed(Format::Bti, |files| {
            let footer_at = files.keys.len() - 24;
            files.keys.insert(footer_at, 0);
        }),
        "the first and the last key do not fit the file",
    );
    for count in [2, 4] {
        assert_malformed(
            changed(Format::Bti, |files| set_footer(files, 2, count)),
            match count {
                2 => "the first or the last key is not the one of the footer",
                _ => "the number of partitions is not the one of the footer",
            },
        );
    }
    // The first byte of the first key, the last one of the last.
    let files = small(Format::Bti);
    let footer_at = files.keys.len() - 24;
    let (keys_at, _) = files.keys[footer_at..]
        .split_first_chunk()
        .expect("a footer");
    for at in [u64::from_be_bytes(*keys_at) as usize + 2, footer_at - 1] {
        assert_malformed(
            changed(Format::Bti, |files| files.keys[at] ^= 1),
            "the first or the last key is not the one of the footer",
        );
    }
}

#[test]
fn entries_of_rows_that_belong_to_another_key() {
    assert_malformed(
        changed(Format::Bti, |files| {
            let rows = files.rows.as_mut().expect("a BTI SSTable");
            let at = rows.len() - 14 - 3 - 1;
            rows[at] ^= 1;
        }),
        "an entry of Rows.db that belongs to another key",
    );
    assert_malformed(
        changed(Format::Bti, |files| {
            files.rows.as_mut().expect("a BTI SSTable").clear()
        }),
        "the file ends too early",
    );
}

/// A BTI SSTable with the trie `nodes`. Its root is the last node, at `root`.
fn with_trie(nodes: &[u8], root: usize, count: u64, partition_key: &[u8]) -> Files {
    let mut files = small(Format::Bti);
    files.keys = nodes.to_vec();
    for _ in 0..2 {
        files
            .keys
            .extend((partition_key.len() as u16).to_be_bytes());
        files.keys.extend(partition_key);
    }
    for number in [nodes.len() as u64, count, root as u64] {
        files.keys.extend(number.to_be_bytes());
    }
    files.data_length = 1 << 40;
    files
}

/// Long, because it is a list of cases.
#[test]
fn nodes_that_the_format_forbids() {
    let read = |nodes: &[u8], root| {
        let files = with_trie(nodes, root, 1, b"key");
        Ok(walk(&files.open()?)?.len())
    };
    let leaf = [0x01, 0xff];
    let under = |parent: &[u8]| [&leaf[..], parent].concat();
    for (nodes, root, expected) in [
        // A leaf without payload, a dense node without any child.
        (
            under(&[0x00]),
            2,
            "a node without children that is no partition",
        ),
        (
            under(&[0xb0, 0x40, 0, 0, 0]),
            2,
            "a node without children that is no partition",
        ),
        (
            under(&[0x50, 0]),
            2,
            "a node without children that is no partition",
        ),
        // Its own child, and one before the file.
        (
            under(&[0x10, 0x40]),
            2,
            "a node that is not after its child",
        ),
        (
            under(&[0x20, 0x40, 3]),
            2,
            "a node that is not after its child",
        ),
        (
            under(&[0x50, 2, 0x40, 0x40, 2, 2]),
            2,
            "a node whose children are not in order",
        ),
        (
            under(&[0xb0, 0xff, 1, 0, 0, 0, 2]),
            2,
            "a node with children beyond the last byte",
        ),
        (
            under(&[0x22, 0x40, 2, 0, 0]),
            2,
            "a partition's node that has children",
        ),
        (
            under(&[0x20, 0x40]),
            2,
            "a node crosses the boundary of a page",
        ),
        (
            under(&[0x0f, 1, 2, 3]),
            2,
            "a node crosses the boundary of a page",
        ),
        (
            under(&[0xf0, 0]),
            2,
            "a node crosses the boundary of a page",
        ),
    ] {
        assert_malformed(read(&nodes, root), expected);
    }
    // The second byte of a node is in the next page.
    let mut nodes = vec![0; 4100];
    nodes[4093..4097].copy_from_slice(&[0x01, 0xff, 0x12, 0x40]);
    assert_malformed(read(&nodes, 4095), "a node crosses the boundary of a page");
}

#[test]
fn a_key_longer_than_any() {
    let mut nodes = vec![0x01, 0xff];
    for _ in 0..110_000 {
        nodes.extend([0x12, 0x40]);
    }
    let files = with_trie(&nodes, nodes.len() - 2, 1, b"key");
    let read = files.open().and_then(|sstable| walk(&sstable));
    assert_malformed(
        read.map(|read| read.len()),
        "a key is longer than the longest one",
    );
}

#[test]
fn nodes_with_two_parents_do_not_multiply() {
    // Each node has two pointers to the node before it: 2 to the power of 60 paths.
    let mut nodes = vec![0x00, 0x00, 0x00, 0x00];
    for _ in 0..60 {
        let distance = if nodes.len() == 4 { 4 } else { 6 };
        nodes.extend([0x50, 2, 0x40, 0x41, distance, distance]);
    }
    let files = with_trie(&nodes, nodes.len() - 6, 1, b"key");
    let read = files.open().and_then(|sstable| walk(&sstable));
    let expected = "a node without children that is no partition";
    assert_malformed(read.map(|read| read.len()), expected);
}

#[test]
fn looking_for_a_position_ends_among_nodes_with_two_parents() {
    // Each node on the path to the first key also leads to the same long path. No byte of the key
    // may be 0xff: the pointer to the long path must sort behind it.
    let partition_key = (0..=255).map(|byte| [byte; 600]);
    let way = partition_key.map(|key| (key, Key::from_partition_key(&key).bytes().to_vec()));
    let mut way = way.filter(|(_, bytes)| !bytes.contains(&0xff));
    let (partition_key, way) = way.next().expect("such a key");
    // The long path: 1000 nodes of 2 bytes to a partition at 1000000.
    let mut nodes = vec![0x03];
    nodes.extend(&(!1_000_000_i32).to_be_bytes()[1..]);
    for step in 0..1000 {
        nodes.extend([if step == 0 { 0x14 } else { 0x12 }, 0x40]);
    }
    let long_way = nodes.len() - 2;
    // Two partitions at 0 and 10, and the path to them.
    let leaves = nodes.len();
    nodes.extend([0x01, !0, 0x01, !10]);
    let mut children = [leaves, leaves + 2];
    for &byte in way[..500].iter().rev() {
        let position = nodes.len();
        nodes.extend([0x70, 2, byte, 0xff]);
        for child in children {
            nodes.extend(((position - child) as u16).to_be_bytes());
        }
        children = [position, long_way];
    }
    let files = with_trie(&nodes, children[0], 3, &partition_key);
    let sstable = files.open().expect("a footer that fits");
    let mut partitions = sstable.partitions().expect("an index");
    let skipped = partitions.skip_to_position(500).map(|()| 0);
    assert_malformed(skipped, "nodes of the trie have more than one parent");
    // A walk has no limit of steps: a limit for a whole walk would have to grow with the trie.
    let mut partitions = sstable.partitions().expect("an index");
    let first = partitions
        .next_partition()
        .expect("before the damage")
        .expect("there is one");
    assert_eq!(first.uncompressed, 0..10);
}

#[test]
fn chunks_that_do_not_fit_the_data() {
    let compressed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut files = small(Format::Big);
        synthetic::compress(&mut files, 4096, &mut Random::new(2));
        change(files.compression_info.as_mut().expect("compressed"));
        let sstable = files.open()?;
        sstable
            .chunks()
            .file_range(sstable.uncompressed())
            .map(|_| 0)
    };
    compressed(&|_| {}).expect("whole");
    // The header: 2 + 13 for the compressor, 4 + 2 + 19 + 2 + 4 for its option.
    let header = 46;
    let with = |at: usize, bytes: &'static [u8]| {
        move |info: &mut Vec<u8>| info[at..at + bytes.len()].copy_from_slice(bytes)
    };
    for (change, expected) in [
        (
            with(header, &[0, 0, 0x10, 1]),
            "the length of a chunk is not a power of two",
        ),
        (
            with(header, &[0, 0, 0, 0]),
            "the length of a chunk is not a power of two",
        ),
        (with(header, &[0x80, 0, 0, 0]), "a negative length"),
        (with(header + 8, &[0xff]), "a negative length"),
        (
            with(header + 14, &[0xf5, 0]),
            "fewer chunks than the data takes",
        ),
        (
            with(header + 16, &[0, 0, 0, 0]),
            "fewer chunks than the data takes",
        ),
        (with(15, &[0, 0, 0, 2]), "the file ends too early"),
        (
            with(15, &[0x7f, 0xff, 0xff, 0xff]),
            "the file ends too early",
        ),
        (
            with(header + 20 + 8, &[0x70]),
            "the chunks' offsets are not ascending up to the length of the data",
        ),
        (
            with(header + 20 + 8, &[0, 0, 0, 0, 0, 0, 0, 0]),
            "the chunks' offsets are not ascending up to the length of the data",
        ),
    ] {
        assert_malformed(compressed(&change), expected);
    }
    assert_malformed(
        compressed(&|info| info.truncate(info.len() - 1)),
        "the file ends too early",
    );
    assert_malformed(
        compressed(&|info| info.extend([1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 2, 7, 7, 1, 1, 1])),
        "what follows the chunks is not a dictionary",
    );
}

#[test]
fn no_chunks_for_no_data() {
    let mut files = small(Format::Big);
    synthetic::compress(&mut files, 4096, &mut Random::new(2));
    let info = files.compression_info.as_mut().expect("compressed");
    info.truncate(46 + 20);
    info[46 + 8..].fill(0);
    assert_malformed(files.open().map(|_| 0), "fewer chunks than the data takes");
}

#[test]
fn tables_in_a_directory() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("scratch directory");
    for format in [Format::Big, Format::Bti] {
        let mut files = small(format);
        let offsets = synthetic::compress(&mut files, 4096, &mut Random::new(3));
        let descriptor = descriptor(format);
        let path = |component| directory.path().join(descriptor.file_name(component));
        let write = |component, bytes: &[u8]| fs::write(path(component), bytes).expect("write");
        let keys = match format {
            Format::Big => Component::Index,
            Format::Bti => Component::Partitions,
        };
        write(keys, &files.keys);
        files
            .rows
            .iter()
            .for_each(|rows| write(Component::Rows, rows));
        write(Component::Data, &vec![0; files.data_length as usize]);
        write(
            Component::CompressionInfo,
            files.compression_info.as_ref().expect("compressed"),
        );

        // Statistics.db is missing as long as the SSTable is being written.
        let opened = SsTable::open(&path(keys)).map(|_| 0);
        assert!(
            matches!(&opened, Err(Error::Io(error)) if error.kind() == io::ErrorKind::NotFound)
        );
        write(Component::Statistics, &files.statistics);
        for component in [keys, Component::Data, Component::Statistics] {
            let sstable = SsTable::open(&path(component)).expect("an SSTable");
            assert_eq!(walk(&sstable).expect("whole").len(), 3);
            let first_chunk = sstable.chunks().file_range(0..1).expect("a chunk");
            assert_eq!(first_chunk, offsets[0]..offsets[1]);
        }
        fs::remove_file(path(Component::CompressionInfo)).expect("remove");
        let sstable = SsTable::open(&path(keys)).expect("an SSTable without compression");
        assert_eq!(sstable.chunks().file_range(3..4).expect("no chunk"), 3..4);
    }
    let opened = SsTable::open(Path::new("/")).map(|_| 0);
    assert!(matches!(opened, Err(Error::Unsupported(_))));
}
