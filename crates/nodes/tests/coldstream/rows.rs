//! Rows that are a function of their key and of the round that wrote them. A reader needs no record of the
//! writes.

/// Partitions of a data set are numbered from 0.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub partitions: i64,
}

/// One partition in this number has [`WIDE_ROWS`] small rows. The others have a few rows of any size.
const WIDE_EVERY: i64 = 8;
const WIDE_ROWS: i32 = 60;
const NARROW_ROWS: i32 = 3;

const VALUE_BYTES_MIN: u64 = 100;
const WIDE_VALUE_BYTES_MAX: u64 = 1200;
const NARROW_VALUE_BYTES_MAX: u64 = 64 << 10;

/// The change of a row by a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Write,
    Delete,
}

/// The finaliser of SplitMix64.
pub fn mixed(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

fn hash(p: i64, c: i32, round: i32, purpose: u64) -> u64 {
    let key = mixed(p.cast_unsigned() ^ purpose << 56) ^ u64::from(c.cast_unsigned());
    mixed(mixed(key) ^ u64::from(round.cast_unsigned()) << 32)
}

/// The possible rows of a partition.
pub fn rows_of(p: i64) -> i32 {
    if p % WIDE_EVERY == 0 {
        WIDE_ROWS
    } else {
        NARROW_ROWS
    }
}

/// Whether a round deletes the whole partition first.
pub fn deletes_partition(p: i64, round: i32) -> bool {
    round > 0 && hash(p, 0, round, 1).is_multiple_of(24)
}

/// The first round writes nearly everything. Later ones change a part.
pub fn change(p: i64, c: i32, round: i32) -> Option<Change> {
    match (round, hash(p, c, round, 2) % 16) {
        (0, 0) => None,
        (0, _) | (_, 0..=4) => Some(Change::Write),
        (_, 5) => Some(Change::Delete),
        _ => None,
    }
}

/// Incompressible, from 100 bytes to 64 KiB; most are small.
pub fn value(p: i64, c: i32, round: i32) -> Vec<u8> {
    let most = if p % WIDE_EVERY == 0 {
        WIDE_VALUE_BYTES_MAX
    } else {
        NARROW_VALUE_BYTES_MAX
    };
    // A product of two uniform distributions: all sizes, small ones more often.
    let of = |purpose| hash(p, c, round, purpose) % (1 << 16);
    let length = VALUE_BYTES_MIN + (((most - VALUE_BYTES_MIN) * of(3)) >> 16) * of(4) / (1 << 16);
    let mut state = hash(p, c, round, 5);
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default() + 8);
    while (bytes.len() as u64) < length {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        bytes.extend_from_slice(&mixed(state).to_le_bytes());
    }
    bytes.truncate(usize::try_from(length).unwrap_or_default());
    bytes
}

/// Rows of a partition after rounds `0..rounds`, in clustering order: `(c, the round that wrote it)`.
pub fn surviving(p: i64, rounds: i32) -> Vec<(i32, i32)> {
    let deleted = (0..rounds).rev().find(|&round| deletes_partition(p, round));
    let since = deleted.unwrap_or(0);
    let last = |c| {
        let changes = (since..rounds).rev();
        changes
            .filter_map(|round| Some((round, change(p, c, round)?)))
            .next()
    };
    (0..rows_of(p))
        .filter_map(|c| match last(c)? {
            (round, Change::Write) => Some((c, round)),
            (_, Change::Delete) => None,
        })
        .collect()
}
