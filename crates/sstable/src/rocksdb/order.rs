//! Orders of user keys, and which of them fit the keys that were seen.
//!
//! A comparator is code of the application. An SSTable has only its name. So the order is seen from
//! the keys themselves, and the names that are known here are a shortcut.
//!
//! Two neighbours that fit an order are no proof of it. All neighbours of an SSTable are: an order is
//! transitive. Orders that all fit sort these keys in the same way.
//!
//! Source: `util/comparator.cc` of RocksDB, `storage/rocksdb/rdb_comparator.h` of MyRocks.

use std::cmp::Ordering;

/// Bytes of a user-defined timestamp behind a user key: a little-endian number.
const TIMESTAMP_BYTES: usize = 8;

/// An order of user keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Order {
    /// The bytes ascend. A prefix comes before the longer key.
    Bytewise,
    /// The opposite of [`Order::Bytewise`].
    ReverseBytewise,
    /// The bytes before the timestamp ascend. Of one key the newest timestamp comes first.
    BytewiseTimestamped,
    /// The bytes before the timestamp descend. Of one key the newest timestamp comes first.
    ReverseBytewiseTimestamped,
}

impl Order {
    /// All orders, the simplest first.
    pub const ALL: [Self; 4] = [
        Self::Bytewise,
        Self::ReverseBytewise,
        Self::BytewiseTimestamped,
        Self::ReverseBytewiseTimestamped,
    ];

    /// The order of a well-known comparator.
    pub(super) fn of_comparator(name: &[u8]) -> Option<Self> {
        match name {
            b"leveldb.BytewiseComparator" | b"RocksDB_SE_v3.10" => Some(Self::Bytewise),
            b"rocksdb.ReverseBytewiseComparator" | b"rev:RocksDB_SE_v3.10" => {
                Some(Self::ReverseBytewise)
            }
            b"leveldb.BytewiseComparator.u64ts" => Some(Self::BytewiseTimestamped),
            b"rocksdb.ReverseBytewiseComparator.u64ts" => Some(Self::ReverseBytewiseTimestamped),
            _ => None,
        }
    }

    /// The order of keys whose timestamps were left out.
    pub(super) fn without_timestamps(self) -> Self {
        match self {
            Self::Bytewise | Self::BytewiseTimestamped => Self::Bytewise,
            Self::ReverseBytewise | Self::ReverseBytewiseTimestamped => Self::ReverseBytewise,
        }
    }

    /// Compares two user keys. Only equal bytes are equal.
    #[must_use]
    #[inline]
    pub fn compare(self, one: &[u8], other: &[u8]) -> Ordering {
        match self {
            Self::Bytewise => one.cmp(other),
            Self::ReverseBytewise => other.cmp(one),
            Self::BytewiseTimestamped | Self::ReverseBytewiseTimestamped => {
                let ((key, time), (other_key, other_time)) = (split(one), split(other));
                self.without_timestamps()
                    .compare(key, other_key)
                    .then_with(|| other_time.cmp(&time))
                    // Only a key too short for a timestamp gets here with other bytes.
                    .then_with(|| one.cmp(other))
            }
        }
    }

    /// Whether a key can have this order at all.
    fn admits(self, key: &[u8]) -> bool {
        self == self.without_timestamps() || key.len() >= TIMESTAMP_BYTES
    }
}

/// A key and its timestamp. A key that is too short for one has the oldest.
fn split(key: &[u8]) -> (&[u8], u64) {
    match key.split_last_chunk::<TIMESTAMP_BYTES>() {
        Some((key, timestamp)) => (key, u64::from_le_bytes(*timestamp)),
        None => (key, 0),
    }
}

/// A set of orders: those that fit what was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orders(u8);

impl Orders {
    /// Nothing was seen yet.
    pub const ALL: Self = Self((1 << Order::ALL.len()) - 1);
    /// Nothing fits.
    pub const NONE: Self = Self(0);

    /// One order alone.
    #[must_use]
    pub const fn only(order: Order) -> Self {
        Self(1 << order as u8)
    }

    /// Whether `order` is one of them.
    #[must_use]
    #[inline]
    pub const fn contains(self, order: Order) -> bool {
        self.0 & Self::only(order).0 != 0
    }

    /// Whether nothing fits.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether exactly one fits.
    #[must_use]
    pub const fn is_one(self) -> bool {
        self.0.is_power_of_two()
    }

    /// The simplest of them.
    #[must_use]
    pub fn first(self) -> Option<Order> {
        Order::ALL.into_iter().find(|order| self.contains(*order))
    }

    /// All of them but `order`.
    #[must_use]
    pub const fn without(self, order: Order) -> Self {
        Self(self.0 & !Self::only(order).0)
    }

    /// Those that are in both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those that fulfil a condition.
    #[must_use]
    #[inline]
    pub fn that(self, fits: impl Fn(Order) -> bool) -> Self {
        let mut fitting = Self::NONE;
        for order in Order::ALL {
            if self.contains(order) && fits(order) {
                fitting.0 |= Self::only(order).0;
            }
        }
        fitting
    }

    /// Those in which `one` does not come behind `next`.
    #[must_use]
    pub fn seen(self, one: &[u8], next: &[u8]) -> Self {
        self.admitting(one)
            .admitting(next)
            .that(|order| order.compare(one, next).is_le())
    }

    /// Those in which there can be such a key.
    #[must_use]
    #[inline]
    pub(super) fn admitting(self, key: &[u8]) -> Self {
        self.that(|order| order.admits(key))
    }

    /// Whether some of them ascend and others descend.
    #[must_use]
    pub fn have_both_directions(self) -> bool {
        let direction = |order: Order| !self.that(|it| it.without_timestamps() == order).is_empty();
        direction(Order::Bytewise) && direction(Order::ReverseBytewise)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What `FindShortestSeparator` of RocksDB's two comparators does to the last key of a block.
    fn shortened(order: Order, last: &[u8], next: &[u8]) -> Vec<u8> {
        let common = last
            .iter()
            .zip(next)
            .take_while(|(one, other)| one == other);
        let at = common.count();
        if at == last.len().min(next.len()) {
            return last.to_vec();
        }
        let mut short = last[..=at].to_vec();
        match order {
            Order::Bytewise if at + 1 < next.len() || last[at] + 1 < next[at] => short[at] += 1,
            Order::Bytewise => {
                let Some(rest) = last[at + 1..].iter().position(|byte| *byte < 0xff) else {
                    return last.to_vec();
                };
                short = last[..=at + 1 + rest].to_vec();
                short[at + 1 + rest] += 1;
            }
            Order::ReverseBytewise => {}
            // With timestamps nothing is shortened.
            Order::BytewiseTimestamped | Order::ReverseBytewiseTimestamped => return last.to_vec(),
        }
        short
    }

    /// Orders that no two keys contradict, and the separators of blocks of `block` keys.
    fn seen_from_separators(order: Order, keys: &[Vec<u8>], block: usize) -> Orders {
        let mut separators = Vec::new();
        let mut blocks = keys.chunks(block).peekable();
        while let Some(keys) = blocks.next() {
            let last = keys.last().unwrap();
            separators.push(match blocks.peek() {
                Some(next) => shortened(order, last, &next[0]),
                None => last.clone(),
            });
        }
        seen_from_keys(&separators)
    }

    fn seen_from_keys(keys: &[Vec<u8>]) -> Orders {
        let orders = Orders::ALL;
        keys.windows(2)
            .fold(orders, |orders, pair| orders.seen(&pair[0], &pair[1]))
    }

    /// Keys as applications make them: with common prefixes, prefixes of each other, and of any length. The last
    /// eight bytes are a timestamp, which has few values.
    fn keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let part = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..12),
            prop::collection::vec(prop_oneof![Just(0_u8), Just(0xff), Just(b'a')], 0..5),
            any::<u32>().prop_map(|number| number.to_be_bytes().to_vec()),
            "[a-c]{0,4}".prop_map(String::into_bytes),
        ];
        let key = (any::<bool>(), part, 0..4_u64).prop_map(|(prefixed, part, time)| {
            let prefix: &[u8] = if prefixed { b"a common prefix" } else { b"" };
            let time = ((time << 8) | (3 - time)).to_le_bytes();
            [prefix, &part, &time].concat()
        });
        prop::collection::vec(key, 1..60)
    }

    proptest! {
        #[test]
        fn each_order_is_seen_from_shortened_separators(mut keys in keys(), block in 1_usize..6) {
            for order in Order::ALL {
                keys.sort_by(|one, other| order.compare(one, other));
                keys.dedup();
                let seen = seen_from_separators(order, &keys, block);
                prop_assert!(seen.contains(order), "{order:?}: {seen:?}");
                // Whatever is chosen sorts what was seen in the same way.
                let exact = seen_from_keys(&keys);
                for other in Order::ALL.into_iter().filter(|other| exact.contains(*other)) {
                    let sorted = keys.is_sorted_by(|one, next| other.compare(one, next).is_le());
                    prop_assert!(sorted, "{order:?} as {other:?}");
                }
            }
        }

        #[test]
        fn what_is_in_no_order_is_seen_as_such(keys in keys()) {
            let seen = seen_from_keys(&keys);
            for order in Order::ALL {
                let sorted = keys.is_sorted_by(|one, next| order.compare(one, next).is_le());
                prop_assert_eq!(seen.contains(order), sorted, "{:?}", order);
            }
        }

        #[test]
        fn comparisons_are_an_order(keys in keys(), short in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 3)) {
            let keys: Vec<_> = keys.into_iter().take(6).chain(short).collect();
            for order in Order::ALL {
                for one in &keys {
                    for other in &keys {
                        let compared = order.compare(one, other);
                        prop_assert_eq!(compared.reverse(), order.compare(other, one));
                        prop_assert_eq!(compared.is_eq(), one == other);
                        for third in &keys {
                            if compared.is_le() && order.compare(other, third).is_le() {
                                prop_assert!(order.compare(one, third).is_le());
                            }
                        }
                    }
                }
            }
        }
    }

    /// Orders that applications have: none of them is taken for one that is known.
    #[test]
    fn orders_of_other_comparators_are_none() {
        let numbers = (0..2000_u32).map(|at| at.wrapping_mul(2_654_435_761));
        let little_endian =
            |one: &Vec<u8>, other: &Vec<u8>| one.iter().rev().cmp(other.iter().rev());
        let by_length =
            |one: &Vec<u8>, other: &Vec<u8>| one.len().cmp(&other.len()).then(one.cmp(other));
        let by_number = |one: &Vec<u8>, other: &Vec<u8>| {
            let number = |key: &Vec<u8>| {
                std::str::from_utf8(&key[4..])
                    .unwrap()
                    .parse::<u32>()
                    .unwrap()
            };
            number(one).cmp(&number(other))
        };
        let ignoring_case = |one: &Vec<u8>, other: &Vec<u8>| {
            one.to_ascii_lowercase().cmp(&other.to_ascii_lowercase())
        };
        // A version behind the key, the newest first, as CockroachDB's and TiKV's stores had them.
        let newest_first = |one: &Vec<u8>, other: &Vec<u8>| {
            let (key, version) = one.split_at(4);
            let (other_key, other_version) = other.split_at(4);
            key.cmp(other_key).then(other_version.cmp(version))
        };
        type Compare<'c> = &'c dyn Fn(&Vec<u8>, &Vec<u8>) -> Ordering;
        let orders: [(&str, Compare<'_>, Vec<Vec<u8>>); 5] = [
            (
                "little-endian",
                &little_endian,
                numbers
                    .clone()
                    .map(|it| it.to_le_bytes().to_vec())
                    .collect(),
            ),
            (
                "by length",
                &by_length,
                numbers
                    .clone()
                    .map(|it| format!("key{it}").into_bytes())
                    .collect(),
            ),
            (
                "by number",
                &by_number,
                numbers
                    .clone()
                    .map(|it| format!("user{it}").into_bytes())
                    .collect(),
            ),
            (
                "ignoring case",
                &ignoring_case,
                numbers
                    .clone()
                    .map(|it| {
                        let letter = if it & 1 == 0 { b'a' } else { b'A' };
                        [&[letter + (it >> 27) as u8 % 26][..], &it.to_be_bytes()].concat()
                    })
                    .collect(),
            ),
            (
                "newest first",
                &newest_first,
                numbers
                    .map(|it| [&(it >> 22).to_be_bytes()[..], &it.to_be_bytes()].concat())
                    .collect(),
            ),
        ];
        for (name, compare, mut keys) in orders {
            keys.sort_by(compare);
            assert_eq!(seen_from_keys(&keys), Orders::NONE, "{name}");
        }
    }

    #[test]
    fn one_key_fits_every_order_and_a_second_one_tells_the_direction() {
        let seen = seen_from_keys(&[b"a key of some length".to_vec()]);
        assert_eq!(seen, Orders::ALL);
        assert!(seen.have_both_directions());
        assert_eq!(seen.first(), Some(Order::Bytewise));
        let seen = Orders::ALL.seen(b"key 2, version 1", b"key 1, version 1");
        assert!(!seen.have_both_directions());
        assert_eq!(seen.first(), Some(Order::ReverseBytewise));
        assert_eq!(Orders::ALL.seen(b"a", b"b"), Orders::only(Order::Bytewise));
    }

    #[test]
    fn timestamps_descend_in_both_directions() {
        let key = |name: &str, time: u64| [name.as_bytes(), &time.to_le_bytes()].concat();
        let newer_first = [key("key", 0x0302), key("key", 0x0201), key("key", 7)];
        let seen = |first: &str, last: &str| {
            let around = [
                vec![key(first, 5)],
                newer_first.to_vec(),
                vec![key(last, 5)],
            ];
            seen_from_keys(&around.concat())
        };
        assert_eq!(seen("ka", "kz"), Orders::only(Order::BytewiseTimestamped));
        assert_eq!(
            seen("kz", "ka"),
            Orders::only(Order::ReverseBytewiseTimestamped)
        );
    }
}
