//! The handover between SSTables of RocksDB in each order of keys. The comparators have names that the reader
//! does not know, so the order must be seen.

mod table;

use coldstream_handover::rocksdb::Output;
use coldstream_sstable::Error;
use coldstream_sstable::rocksdb::{Order, SsTable};
use proptest::prelude::*;
use std::collections::BTreeSet;
use table::{Block, Layout, Table};

/// The heat of a hot block.
const HOT: u8 = 200;

/// The blocks of `output` that have heat, by number, after all hot blocks of `inputs` were taken over. An input
/// that ends within the output is left out of later ones: it becomes `None`.
fn warmed(
    output: &Table,
    inputs: &mut [Option<&Table>],
    hot: &BTreeSet<Vec<u8>>,
) -> BTreeSet<usize> {
    let bytes = &output.bytes[..];
    let opened = SsTable::open(&bytes).unwrap();
    let mut reading = Output::read(&opened, &|| false).unwrap();
    for slot in inputs {
        let Some(input) = *slot else { continue };
        let bytes = &input.bytes[..];
        let opened = SsTable::open(&bytes).unwrap();
        assert!(reading.has_comparator_of(&opened));
        let heat = |offset| {
            let block = input.blocks.iter().find(|block| block.offset == offset);
            let is_hot = |block: &Block| block.keys.iter().any(|key| hot.contains(key));
            if block.is_some_and(is_hot) { HOT } else { 0 }
        };
        if reading.take_over(&opened, &heat, &|| false).unwrap() {
            *slot = None;
        }
    }
    let pieces = reading.pieces().unwrap();
    let number = |offset| {
        output
            .blocks
            .iter()
            .position(|block| block.offset == offset)
    };
    pieces
        .iter()
        .map(|piece| number(piece.offset).unwrap())
        .collect()
}

/// Compacts `keys`, which have `order`, from several inputs into several outputs. Checks that blocks of hot keys
/// are warmed, and no others but those that share an input's block.
fn check(comparator: &str, order: Order, keys: &[Vec<u8>], sizes: [usize; 4], hot_one_in: usize) {
    let [runs, outputs, input_block, output_block] = sizes;
    let hot: BTreeSet<Vec<u8>> = keys.iter().step_by(hot_one_in).cloned().collect();
    let inputs: Vec<Table> = (0..runs)
        .map(|run| {
            let keys: Vec<_> = keys.iter().skip(run).step_by(runs).cloned().collect();
            Table::new(comparator, &keys, input_block)
        })
        .collect();
    let mut left: Vec<Option<&Table>> = inputs.iter().map(Some).collect();
    // The first output has one key only.
    let (first, rest) = keys.split_at(1);
    let rest = rest.chunks(rest.len().div_ceil(outputs).max(1));
    for keys in std::iter::once(first).chain(rest) {
        let output = Table::new(comparator, keys, output_block);
        let got = warmed(&output, &mut left, &hot);
        let mut expected = BTreeSet::new();
        for block in inputs.iter().flat_map(|input| &input.blocks) {
            if block.keys.iter().any(|key| hot.contains(key)) {
                expected.extend(block.keys.iter().filter_map(|key| output.block_of(key)));
            }
        }
        assert!(
            expected.is_subset(&got),
            "{order:?}: {got:?} without {expected:?}"
        );
        // Keys of a hot block may lie before or behind the output.
        let ends = BTreeSet::from([0, output.blocks.len() - 1]);
        let others: BTreeSet<_> = got.difference(&expected).copied().collect();
        assert!(
            others.is_subset(&ends),
            "{order:?}: {got:?}, not {expected:?}"
        );
    }
}

fn sorted(mut keys: Vec<Vec<u8>>, order: Order) -> Vec<Vec<u8>> {
    keys.sort_by(|one, other| order.compare(one, other));
    keys.dedup();
    keys
}

fn keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let key = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..12),
        prop::collection::vec(prop_oneof![Just(0_u8), Just(0xff), Just(b'a')], 0..6),
        any::<u32>().prop_map(|number| format!("user{number}").into_bytes()),
        any::<u16>().prop_map(|number| [&[0; 10][..], &number.to_be_bytes()].concat()),
    ];
    prop::collection::vec(key, 1..120)
}

proptest! {
    #[test]
    fn hot_keys_are_found_in_an_order_that_no_name_tells(
        keys in keys(),
        sizes in [1..4_usize, 1..4_usize, 1..6_usize, 1..6_usize],
        hot_one_in in 1..30_usize,
    ) {
        for order in [Order::Bytewise, Order::ReverseBytewise] {
            check("an application's", order, &sorted(keys.clone(), order), sizes, hot_one_in);
        }
    }

    #[test]
    fn hot_keys_with_timestamps_are_found(
        keys in keys(),
        times in prop::collection::vec(0..4_u64, 120),
        sizes in [1..4_usize, 1..4_usize, 1..6_usize, 1..6_usize],
        hot_one_in in 1..30_usize,
    ) {
        let mut stamped = Vec::new();
        for (key, time) in keys.iter().zip(times) {
            for time in 0..=time {
                stamped.push([&key[..], &((time << 8) | (3 - time)).to_le_bytes()].concat());
            }
        }
        for (name, order) in [
            ("leveldb.BytewiseComparator.u64ts", Order::BytewiseTimestamped),
            ("rocksdb.ReverseBytewiseComparator.u64ts", Order::ReverseBytewiseTimestamped),
        ] {
            check(name, order, &sorted(stamped.clone(), order), sizes, hot_one_in);
        }
    }
}

/// 40 keys with five timestamps each.
fn versions(order: Order) -> Vec<Vec<u8>> {
    let key = |number: u64| {
        [
            &(number / 5).to_be_bytes()[..],
            &(number % 5 * 255).to_le_bytes(),
        ]
        .concat()
    };
    sorted((0..200).map(key).collect(), order)
}

#[test]
fn timestamps_are_seen_under_a_name_that_is_not_known() {
    for order in [
        Order::BytewiseTimestamped,
        Order::ReverseBytewiseTimestamped,
    ] {
        check("an application's", order, &versions(order), [2, 2, 3, 2], 7);
    }
}

/// The output's keys fit bytewise order, and so do those of one input. A second input shows that the keys have
/// timestamps.
#[test]
fn an_input_corrects_what_the_output_shows() {
    let key = |number: u8, time: u64| [&[number; 4][..], &time.to_le_bytes()].concat();
    let newest: Vec<_> = (0..20).map(|number| key(number, 0x0109)).collect();
    let with_versions: Vec<_> = (0..20)
        .flat_map(|number| [key(number, 0x0109), key(number, 9)])
        .collect();
    let with_versions = sorted(with_versions, Order::BytewiseTimestamped);
    let output = Table::new("an application's", &newest, 2);
    let inputs = [
        Table::new("an application's", &newest, 3),
        Table::new("an application's", &with_versions, 3),
    ];
    let hot = BTreeSet::from([key(13, 0x0109), key(6, 9)]);
    let got = warmed(&output, &mut [Some(&inputs[0]), Some(&inputs[1])], &hot);
    for hot in [key(13, 0x0109), key(6, 0x0109)] {
        assert!(got.contains(&output.block_of(&hot).unwrap()), "{got:?}");
    }
}

#[test]
fn another_order_is_declined_and_so_is_an_input_in_another_order() {
    let keys: Vec<Vec<u8>> = (0..256_u32).map(|it| it.to_le_bytes().to_vec()).collect();
    let ascending = sorted(keys.clone(), Order::Bytewise);
    let by_number = (0..1000_u32)
        .map(|it| it.to_le_bytes().to_vec())
        .collect::<Vec<_>>();
    let declined = |table: &Table| {
        let bytes = &table.bytes[..];
        Output::read(&SsTable::open(&bytes).unwrap(), &|| false).err()
    };
    let says = |error: Option<Error>| match error {
        Some(Error::Unsupported(text)) => assert!(text.contains("by number"), "{text}"),
        other => panic!("{other:?}"),
    };
    says(declined(&Table::new("by number", &by_number, 10)));
    // One block: only its keys show it.
    says(declined(&Table::new("by number", &by_number, 1000)));
    assert!(declined(&Table::new("by number", &ascending, 10)).is_none());

    let output = Table::new("by number", &ascending, 3);
    let bytes = &output.bytes[..];
    let opened = SsTable::open(&bytes).unwrap();
    let mut reading = Output::read(&opened, &|| false).unwrap();
    let mut reversed = ascending.clone();
    reversed.reverse();
    for other in [&by_number, &reversed] {
        let other = Table::new("by number", other, 3);
        let bytes = &other.bytes[..];
        let other = SsTable::open(&bytes).unwrap();
        says(reading.take_over(&other, &|_| HOT, &|| false).err());
    }
    let same = Table::new("by number", &ascending, 5);
    let bytes = &same.bytes[..];
    let same = SsTable::open(&bytes).unwrap();
    assert!(reading.take_over(&same, &|_| HOT, &|| false).unwrap());
    assert_eq!(reading.pieces().unwrap().len(), output.blocks.len());

    let stranger = Table::new("of another column family", &ascending, 3);
    let bytes = &stranger.bytes[..];
    let output = Output::read(&opened, &|| false).unwrap();
    assert!(!output.has_comparator_of(&SsTable::open(&bytes).unwrap()));
}

#[test]
fn an_output_whose_blocks_cannot_be_read_gets_no_heat_of_keys_before_it() {
    let keys: Vec<Vec<u8>> = (0..1000)
        .map(|number| format!("key {number:04}").into_bytes())
        .collect();
    let layout = Layout {
        has_dictionary: true,
        ..Layout::from(5)
    };
    let input = Table::new("any", &keys, layout);
    let output = Table::new("any", &keys[500..700], layout);
    let hot = |numbers: [usize; 2]| numbers.map(|number| keys[number].clone()).into();
    let none = warmed(&output, &mut [Some(&input)], &hot([100, 490]));
    assert_eq!(none, BTreeSet::new());
    let some = warmed(&output, &mut [Some(&input)], &hot([501, 603]));
    assert_eq!(some, BTreeSet::from([0, 20]));
}
