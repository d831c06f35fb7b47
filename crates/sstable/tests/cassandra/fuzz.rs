//! Damaged SSTables. A reader must return an error, or partitions that follow each other in the
//! data. It must read an index about once.
//!
//! `COLDSTREAM_LONG=1` makes millions of executions. `COLDSTREAM_SEED=n` repeats a run.

use coldstream_sstable::ReadAt;
use coldstream_sstable::cassandra::{Components, Format, Key, SsTable};

use super::counted::Counted;
use super::long;
use super::synthetic::{self, Choices, Files, Partition, Random, descriptor};

#[derive(Default)]
struct Outcomes {
    executions: u64,
    opened: u64,
    walked: u64,
}

#[test]
fn damaged_tables_are_read_or_declined() {
    let executions = if long() { 3_000_000 } else { 20_000 };
    let seed = std::env::var("COLDSTREAM_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    let mut random = Random::new(seed);
    let mut outcomes = Outcomes::default();
    let mut sstables = Vec::new();
    while outcomes.executions < executions {
        // Each set of SSTables is damaged many times before the next one is written.
        if outcomes.executions.is_multiple_of(2000) {
            sstables = (0..8).map(|_| sstable(&mut random)).collect();
        }
        let mut files = sstables[random.below(sstables.len())].clone();
        let other = &sstables[random.below(sstables.len())];
        for _ in 0..=random.below(3) {
            damage(&mut files, other, &mut random);
        }
        read(&files, &mut random, &mut outcomes);
    }
    let Outcomes { opened, walked, .. } = outcomes;
    eprintln!("seed {seed}: {executions} executions, {opened} opened, {walked} walked to the end");
    assert!(
        opened > executions / 4 && walked > executions / 100,
        "most damage is deep inside"
    );
    assert!(walked < executions * 9 / 10, "most damage is noticed");
}

fn sstable(random: &mut Random) -> Files {
    let count = 1 + random.below(60);
    let partitions = (0..count).map(|_| Partition {
        partition_key: (0..1 + random.below(12))
            .map(|_| [0, 1, random.below(256) as u8][random.below(3)])
            .collect(),
        length: 1 + random.below(20_000) as u64,
        rows: random.below(4) == 0,
    });
    let partitions = synthetic::sorted(partitions.collect());
    let format = [Format::Big, Format::Bti][random.below(2)];
    let mut files = synthetic::write(format, &partitions, random);
    if random.below(3) > 0 {
        synthetic::compress(&mut files, 1 << (8 + random.below(4)), random);
    }
    files
}

fn damage(files: &mut Files, other: &Files, random: &mut Random) {
    let component = random.below(10);
    let (bytes, source) = match component {
        0 => {
            files.data_length = random.below(2 * files.data_length as usize + 1) as u64;
            return;
        }
        1 => (Some(&mut files.statistics), Some(&other.statistics)),
        2 | 3 => (files.rows.as_mut(), other.rows.as_ref()),
        4 => (
            files.compression_info.as_mut(),
            other.compression_info.as_ref(),
        ),
        _ => (Some(&mut files.keys), Some(&other.keys)),
    };
    let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) else {
        return;
    };
    let length = bytes.len();
    // Damage in the footer of a BTI index affects everything else.
    let near_end = random.below(4) == 0;
    let at = if near_end {
        length - 1 - random.below(length.min(64))
    } else {
        random.below(length)
    };
    match random.below(7) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff, random.below(256) as u8][random.below(6)],
        2 => bytes.truncate(at),
        3 => {
            let end = (at + 1 + random.below(16)).min(length);
            bytes.drain(at..end);
        }
        4 => {
            let inserted: Vec<u8> = (0..=random.below(16))
                .map(|_| random.below(256) as u8)
                .collect();
            bytes.splice(at..at, inserted);
        }
        5 => {
            // Bytes from elsewhere in the file have the form that the reader expects.
            let from = random.below(length);
            let copied = (1 + random.below(32)).min(length - from).min(length - at);
            bytes.copy_within(from..from + copied, at);
        }
        _ => {
            let Some(source) = source else {
                return;
            };
            let cut = random.below(source.len() + 1);
            bytes.truncate(at);
            bytes.extend_from_slice(&source[cut..]);
        }
    }
}

fn read(files: &Files, random: &mut Random, outcomes: &mut Outcomes) {
    outcomes.executions += 1;
    let statistics = Counted::new(&files.statistics);
    let keys = Counted::new(&files.keys);
    let rows = files.rows.as_deref().map(Counted::new);
    let compression_info = files.compression_info.as_deref().map(Counted::new);
    let components = Components {
        keys: &keys,
        rows: rows.as_ref(),
        compression_info: compression_info.as_ref(),
        statistics: &statistics,
        data_length: files.data_length,
    };
    let Ok(sstable) = SsTable::new(&descriptor(files.format), components) else {
        return;
    };
    outcomes.opened += 1;
    let opened = keys.read();
    outcomes.walked += u64::from(walk_to_the_end(&sstable, || {
        let size = files.keys.len() as u64;
        assert!(keys.read() - opened <= size, "each byte is read once");
    }));
    skip_about(&sstable, random);
    look_up_chunks(&sstable, files.data_length, random);
}

/// Walks all partitions and checks their order. Returns whether there was no error. Calls
/// `check_reads` after the last partition.
fn walk_to_the_end<R: ReadAt>(sstable: &SsTable<R>, check_reads: impl FnOnce()) -> bool {
    let end = sstable.uncompressed().end;
    let mut partitions = sstable.partitions().expect("memory has a size");
    let mut before: Option<(Key, u64)> = None;
    let is_finished = loop {
        match partitions.next_partition() {
            Ok(Some(partition)) => {
                let range = partition.uncompressed;
                assert!(range.start < range.end && range.end <= end);
                if let Some((key, end)) = &before {
                    assert_eq!(range.start, *end, "no gap and no overlap");
                    assert!(key.compare(partition.key).is_lt(), "in order");
                }
                before = Some((partition.key.clone(), range.end));
            }
            Ok(None) => break true,
            Err(_) => break false,
        }
    };
    check_reads();
    if is_finished && let Some((_, last)) = before {
        assert_eq!(last, end, "the last partition goes to the end");
    } else {
        assert_eq!(
            partitions.next_partition().ok(),
            Some(None),
            "nothing after an error"
        );
    }
    is_finished
}

/// Skips to random positions and keys. What follows must lie in the data.
fn skip_about<R: ReadAt>(sstable: &SsTable<R>, random: &mut Random) {
    let end = sstable.uncompressed().end;
    let mut partitions = sstable.partitions().expect("memory has a size");
    for _ in 0..4 {
        let position = random.below(end as usize + 1) as u64;
        let key: Vec<u8> = (0..random.below(6))
            .map(|_| random.below(256) as u8)
            .collect();
        let skipped = match random.below(2) {
            0 => partitions.skip_to_position(position),
            _ => partitions.skip_to_key(&Key::from_partition_key(&key)),
        };
        if skipped.is_err() {
            assert_eq!(
                partitions.next_partition().ok(),
                Some(None),
                "nothing after an error"
            );
            break;
        }
        if let Ok(Some(partition)) = partitions.next_partition() {
            let range = partition.uncompressed;
            assert!(range.start < range.end && range.end <= end);
        }
    }
}

/// Looks up random ranges. The result must lie in `Data.db`.
fn look_up_chunks<R: ReadAt>(sstable: &SsTable<R>, data_length: u64, random: &mut Random) {
    let end = sstable.uncompressed().end;
    let mut chunks = sstable.chunks();
    for _ in 0..4 {
        let start = random.below(end as usize + 1) as u64;
        let range = start..start.saturating_add(1 + random.below(100_000) as u64);
        if let Ok(file_range) = chunks.file_range(range) {
            assert!(file_range.start <= file_range.end && file_range.end <= data_length);
        }
    }
}
