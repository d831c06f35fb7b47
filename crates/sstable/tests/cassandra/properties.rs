//! SSTables of any keys in any layout.

use coldstream_sstable::cassandra::{Format, Key};
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use super::synthetic::{self, Choices, Files, Partition, Random, walk};

/// Keys of a few bytes that are often zero. So some keys are prefixes of others.
fn partition_key() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0), Just(0xff), 0_u8..4, any::<u8>()];
    let long = (any::<u8>(), 20_usize..3000).prop_map(|(byte, length)| vec![byte; length]);
    prop_oneof![19 => vec(byte, 1..20), 1 => long]
}

/// Most SSTables are small, but positions take up to eight bytes.
fn length() -> impl Strategy<Value = u64> {
    prop_oneof![9 => 1_u64..100_000, 1 => 1_u64 << 30..1 << 54]
}

fn partitions() -> impl Strategy<Value = Vec<Partition>> {
    let partition = (partition_key(), length(), prop::bool::weighted(0.2));
    vec(partition, 1..200).prop_map(|partitions| {
        let partition = |(partition_key, length, rows)| Partition {
            partition_key,
            length,
            rows,
        };
        synthetic::sorted(partitions.into_iter().map(partition).collect())
    })
}

fn both(partitions: &[Partition], seed: u64) -> [Files; 2] {
    let mut random = Random::new(seed);
    [Format::Big, Format::Bti].map(|format| synthetic::write(format, partitions, &mut random))
}

#[test]
fn skipping_that_was_ended_goes_on_the_next_time() {
    let partitions = (0_u32..5000).map(|number| Partition {
        partition_key: number.to_be_bytes().to_vec(),
        length: 100,
        rows: false,
    });
    let partitions = synthetic::sorted(partitions.collect());
    for (files, stops) in both(&partitions, 1).iter().zip([4, 0]) {
        let sstable = files.open().unwrap();
        let walked = walk(&sstable).unwrap();
        let last = &walked.last().unwrap().0;
        let mut cursor = sstable.partitions().unwrap();
        let mut times = 0;
        while !cursor.skip_to_key_within(last, &|| true).unwrap() {
            times += 1;
        }
        assert_eq!(times, stops, "{:?}", files.format);
        let found = cursor.next_partition().unwrap().expect("in the SSTable");
        assert!(found.key.matches(last));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn every_partition_is_found_with_its_key_and_range(
        partitions in partitions(),
        seed in any::<u64>(),
    ) {
        for files in both(&partitions, seed) {
            let walked = walk(&files.open().unwrap()).unwrap();
            prop_assert_eq!(walked.len(), partitions.len());
            let mut start = 0;
            for (partition, (key, range)) in partitions.iter().zip(walked) {
                let complete = Key::from_partition_key(&partition.partition_key);
                prop_assert!(key.matches(&complete) && complete.matches(&key));
                prop_assert!(complete.bytes().starts_with(key.bytes()));
                let known = files.format == Format::Big || partition.rows;
                prop_assert_eq!(key.is_complete(), known);
                prop_assert_eq!(key.bytes() == complete.bytes(), known);
                prop_assert_eq!(range, start..start + partition.length);
                start += partition.length;
            }
        }
    }

    #[test]
    fn skipping_to_positions_gives_the_partitions_that_hold_them(
        partitions in partitions(),
        seed in any::<u64>(),
        shares in btree_set(0_u64..1000, 1..20),
    ) {
        for files in both(&partitions, seed) {
            let sstable = files.open().unwrap();
            let walked = walk(&sstable).unwrap();
            let mut cursor = sstable.partitions().unwrap();
            let mut next = 0;
            let some = shares.iter().map(|share| &walked[*share as usize * walked.len() / 1000].1);
            let positions = some.flat_map(|range| [range.start, range.end - 1]);
            let of_all = shares.iter().map(|share| files.data_length / 1000 * share);
            let beyond = [files.data_length - 1, files.data_length, u64::MAX];
            let mut positions: Vec<u64> = positions.chain(of_all).chain(beyond).collect();
            positions.sort();
            for position in positions {
                let holding = walked.iter().position(|(_, range)| range.contains(&position));
                // It never goes back.
                next = next.max(holding.unwrap_or(walked.len()));
                cursor.skip_to_position(position).unwrap();
                let found = cursor.next_partition().unwrap();
                let found = found.map(|found| (found.key.clone(), found.uncompressed));
                prop_assert_eq!(found.as_ref(), walked.get(next));
                next += 1;
            }
        }
    }

    #[test]
    fn skipping_to_keys_gives_their_partitions(
        partitions in partitions(),
        seed in any::<u64>(),
        stride in 1_usize..50,
        complete in any::<bool>(),
    ) {
        let sstables = both(&partitions, seed);
        for (searched, keys_of) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let keys = walk(&sstables[keys_of].open().unwrap()).unwrap();
            let sstable = sstables[searched].open().unwrap();
            let walked = walk(&sstable).unwrap();
            let mut cursor = sstable.partitions().unwrap();
            for index in (0..partitions.len()).step_by(stride) {
                let key = if complete {
                    Key::from_partition_key(&partitions[index].partition_key)
                } else {
                    keys[index].0.clone()
                };
                cursor.skip_to_key(&key).unwrap();
                let found = cursor.next_partition().unwrap().expect("in the SSTable");
                prop_assert!(found.key.matches(&key));
                prop_assert_eq!(&found.uncompressed, &walked[index].1);
            }
        }
    }

    #[test]
    fn an_incomplete_key_finds_its_partition_in_a_larger_table(
        partitions in partitions(),
        seed in any::<u64>(),
        share in 2_usize..10,
    ) {
        let input: Vec<Partition> = partitions.iter().step_by(share).cloned().collect();
        let input = synthetic::write(Format::Bti, &input, &mut Random::new(seed));
        let keys = walk(&input.open().unwrap()).unwrap();
        for output in both(&partitions, seed) {
            let sstable = output.open().unwrap();
            let walked = walk(&sstable).unwrap();
            for ((key, _), (_, range)) in keys.iter().zip(walked.iter().step_by(share)) {
                let mut cursor = sstable.partitions().unwrap();
                cursor.skip_to_key(key).unwrap();
                let mut found = false;
                while let Some(partition) = cursor.next_partition().unwrap()
                    && partition.key.compare(key).is_eq()
                {
                    found |= partition.key.matches(key) && partition.uncompressed == *range;
                }
                prop_assert!(found);
            }
        }
    }

    #[test]
    fn a_key_of_another_table_is_not_found_in_a_complete_index(
        partitions in partitions(),
        other in partition_key(),
        seed in any::<u64>(),
    ) {
        prop_assume!(partitions.iter().all(|partition| partition.partition_key != other));
        let key = Key::from_partition_key(&other);
        for files in both(&partitions, seed) {
            let sstable = files.open().unwrap();
            let walked = walk(&sstable).unwrap();
            let mut cursor = sstable.partitions().unwrap();
            cursor.skip_to_key(&key).unwrap();
            let found = cursor.next_partition().unwrap();
            let found = found.map(|found| (found.key.clone(), found.uncompressed));
            // The first partition that is not before the key. Its prefix may match the key.
            let first = walked.iter().find(|(other, _)| other.compare(&key).is_ge());
            prop_assert_eq!(found.as_ref(), first);
            if let Some((found, _)) = found {
                let other_hash = found.filter_hash().is_some_and(|hash| Some(hash) != key.filter_hash());
                if found.is_complete() || other_hash {
                    prop_assert!(!found.matches(&key) && !key.matches(&found));
                }
            }
        }
    }

    #[test]
    fn chunks_hold_the_positions_that_they_are_asked_for(
        length in 1_u64..1_000_000,
        chunk_length_log2 in 6_u32..14,
        dictionary in prop::option::of(0_usize..100),
        seed in any::<u64>(),
    ) {
        let mut random = Random::new(seed);
        let partition = Partition { partition_key: vec![1], length, rows: false };
        let mut files = synthetic::write(Format::Big, &[partition], &mut random);
        let chunk_length = 1_u64 << chunk_length_log2;
        let offsets = synthetic::compress(&mut files, chunk_length as u32, &mut random);
        if let Some(dictionary) = dictionary {
            let info = files.compression_info.as_mut().unwrap();
            info.extend([1, 0, 0, 0, 0, 0, 0, 0, 9]);
            info.extend((dictionary as u32).to_be_bytes());
            info.extend(vec![7; dictionary + 4]);
        }
        let sstable = files.open().unwrap();
        prop_assert_eq!(sstable.uncompressed(), 0..length);
        let mut chunks = sstable.chunks();
        for _ in 0..10 {
            let mut cut = || {
                let cut = random.below(length as usize + 100) as u64;
                // Every other one lies at the end of a chunk.
                cut - random.below(2) as u64 * (cut % chunk_length)
            };
            let (one, another) = (cut(), cut());
            let range = one.min(another)..one.max(another);
            let expected = if range.start >= length || range.is_empty() {
                0..0
            } else {
                let last = (range.end.min(length) - 1) / chunk_length;
                offsets[(range.start / chunk_length) as usize]..offsets[last as usize + 1]
            };
            let file_range = chunks.file_range(range.clone()).unwrap();
            prop_assert_eq!(&file_range, &expected);
        }
        prop_assert_eq!(chunks.file_range(5..5).unwrap(), 0..0);
    }
}
