//! Where partitions of a BTI table lie while it is being written.
//!
//! The upper nodes of its index are in Cassandra's memory until the end, but its data is there. It
//! holds its inputs' partitions in their order, and about as many bytes of each as they have
//! together; so it is known where about a partition must be, and what is found there tells how far
//! it is off: a partition's data begins with its key.
//!
//! Other bytes may look like a key, and of most keys the inputs' indexes tell a beginning and eight
//! bits of a hash only. So what is found must be in the order of all else that was found, and not far
//! from where it is expected.

use super::growing::Growing;
use super::merged::Merged;
use super::output::Carried;
use super::{Input, WHOLE_CHUNKS_MAX};
use coldstream_sstable::cassandra::{IndexCursor, each_possible_partition, partition_key_at};
use coldstream_sstable::{ReadAt, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Chunks that are looked at for one partition.
const LOOKS_MAX: usize = 24;
/// How far from the expected chunk they may be, in chunks: in a large partition nothing tells what
/// lies beside it.
const DISTANCES: [u64; 15] = [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128];
/// Chunks at the beginning that are looked at in any case: they tell the ratio. More of them if they
/// are all one partition's.
const FIRST_CHUNKS: u64 = 4;
const FIRST_CHUNKS_MAX: u64 = 64;
/// Chunks before a place from which the ratio of the output's bytes to the inputs' is told.
const RATIO_CHUNKS: u64 = 64;
/// How far off a partition may be, in chunks, beside what the ratio makes of the distance.
const SLACK_CHUNKS: u64 = 16;
/// An output's partition has no more bytes than the inputs have of it, but for some that numbers take.
const RATIO_MAX: f64 = 1.25;
/// The least that it may have until its ratio to the inputs is known: so much is overwritten.
const RATIO_MIN: f64 = 1.0 / 16.0;
/// Partitions behind one that are looked for to know where it ends: some may be gone.
const NEXT_MAX: usize = 3;
/// Hot partitions whose expected chunks are read at once.
const READ_AHEAD: usize = 16;
/// After so many partitions in a row that were not found, something is wrong, or no more are there.
const MISSES_MAX: usize = 32;

/// A partition's number, and where it begins in the uncompressed data.
type Found = (usize, u64);

/// Hands the inputs' heat over to the part of a BTI table that has been written since `from`, as far
/// as it is found in `data` before it `is_over`. `read_ahead` is told the bytes of the file that
/// will be read next, most probably. `None` if it does not begin with a partition of the
/// inputs: then it is not made of these, or is compressed in another way.
///
/// # Errors
/// Those of the inputs' indexes and of `data`.
pub fn carry_found<R: ReadAt>(
    growing: &Growing<'_>,
    data: &R,
    from: IndexCursor,
    inputs: &mut [Input<'_, R>],
    is_over: &dyn Fn() -> bool,
    read_ahead: &dyn Fn(&[Range<u64>]),
) -> Result<Option<Carried>> {
    let start = from.position_in_data();
    let chunk_length = growing.chunk_length();
    let written = growing.written();
    let mut carried = Carried {
        cursor: from,
        position: start,
        ..Carried::default()
    };
    if written < start + chunk_length {
        return Ok(Some(carried));
    }
    let Some(chunk) = growing.chunk(data, start / chunk_length)? else {
        return Ok(None);
    };
    let Some(first) = partition_key_at(&chunk, (start % chunk_length) as usize) else {
        return Ok(None);
    };
    for input in &mut *inputs {
        input.skip_to(&first)?;
    }
    let mut search = Search {
        data,
        growing,
        merged: Merged::default(),
        places: BTreeMap::new(),
        scanned: BTreeSet::new(),
        is_over,
    };
    let mut has_more = (search.merged).extend(inputs, written - start, is_over)?;
    let Some(number) = search.merged.number_of(&first) else {
        return Ok(None);
    };
    search.places.insert(number, start);
    for chunk in 0..FIRST_CHUNKS_MAX {
        if chunk >= FIRST_CHUNKS && (search.places.len() > 1 || is_over()) {
            break;
        }
        search.scan(start / chunk_length + chunk)?;
    }
    // The first hot partition that is not behind the search.
    let mut resume = 0;
    let mut next_hot = 0;
    loop {
        let (reached, _) = search.last_place();
        while next_hot < search.merged.hot.len() && next_hot - resume < MISSES_MAX && !is_over() {
            if next_hot.is_multiple_of(READ_AHEAD) {
                read_ahead(&search.expected_ranges(next_hot));
            }
            let was_found = search.give(next_hot, &mut carried)?;
            next_hot += 1;
            if was_found {
                resume = next_hot;
            }
        }
        if next_hot == search.merged.hot.len() {
            search.find_last()?;
        }
        let (number, position) = search.last_place();
        let left = written.saturating_sub(position);
        let is_done = left <= 2 * chunk_length || number == reached;
        if is_done || !has_more || next_hot < search.merged.hot.len() {
            break;
        }
        let ahead = search.merged.bytes_between(0, number) as f64;
        let goal = (ahead + left as f64 / search.ratio()) as u64;
        has_more = search.merged.extend(inputs, goal, is_over)?;
        // What was looked at may hold partitions that are known only now.
        search.scanned.clear();
    }
    let hot = &search.merged.hot;
    let gave_up = next_hot - resume >= MISSES_MAX;
    let is_behind = next_hot == hot.len() && !gave_up && !is_over();
    let goes_on_at = hot.get(resume).filter(|_| !is_behind);
    let end = goes_on_at.map_or(usize::MAX, |hot| hot.number);
    let found = |end| search.places.range(..=end).next_back().map(|(_, at)| *at);
    let mut position = found(end);
    if gave_up && position.is_none_or(|position| position <= start) {
        // They would be missed once more.
        position = found(usize::MAX);
    }
    if let Some(position) = position {
        carried.cursor = IndexCursor::in_data(position);
        carried.position = position;
    }
    Ok(Some(carried))
}

struct Search<'a, R> {
    data: &'a R,
    growing: &'a Growing<'a>,
    merged: Merged,
    /// Where partitions lie that were found, by their numbers.
    places: BTreeMap<usize, u64>,
    /// Chunks in which all partitions were looked for.
    scanned: BTreeSet<u64>,
    is_over: &'a dyn Fn() -> bool,
}

impl<R: ReadAt> Search<'_, R> {
    /// Looks for a hot partition and gives it its heat; whether it was found.
    fn give(&mut self, hot: usize, carried: &mut Carried) -> Result<bool> {
        let Some(number) = self.merged.hot.get(hot).map(|hot| hot.number) else {
            return Ok(false);
        };
        let Some(position) = self.find(number)? else {
            return Ok(false);
        };
        let length = self.merged.bytes_between(number, number + 1).max(1);
        if length > self.growing.chunk_length() {
            // Where a large one ends is worth knowing.
            let known = self.merged.keys().len();
            for next in (number + 1..known).take(NEXT_MAX) {
                if self.find(next)?.is_some() {
                    break;
                }
            }
        }
        let (_, next) = neighbours(&self.merged, &self.places, number);
        let end = next.map_or(self.growing.written(), |(_, position)| position);
        let ratio = match next {
            Some((next, end)) if next <= number + NEXT_MAX => {
                (end.saturating_sub(position) as f64 / length as f64).min(RATIO_MAX)
            }
            _ => self.ratio().max(1.0),
        };
        // The less is left of what the inputs had, the more of it is what was read.
        let is_read_in_parts = length.div_ceil(self.growing.chunk_length()) > WHOLE_CHUNKS_MAX;
        let left = if is_read_in_parts {
            ratio.clamp(0.05, 1.0) as f32
        } else {
            1.0
        };
        let there = |bytes: u64| (position + (bytes as f64 * ratio).ceil() as u64).min(end);
        let parts = self.merged.hot.get(hot).map_or(&[][..], |hot| &hot.parts);
        for (part, heat) in parts {
            let range = there(part.start)..there(part.end);
            if let Some(stored) = self.growing.file_range(&range) {
                carried.add(&stored, (*heat / left).min(f32::from(u8::MAX)));
            }
        }
        Ok(true)
    }

    /// The bytes of the file in which the next hot partitions are expected.
    fn expected_ranges(&self, hot: usize) -> Vec<Range<u64>> {
        let next = self.merged.hot.iter().skip(hot).take(READ_AHEAD);
        let ranges = next.filter_map(|hot| {
            let (before, after) = neighbours(&self.merged, &self.places, hot.number);
            let expected = self.expected(hot.number, before?, after);
            let length = self.merged.bytes_between(hot.number, hot.number + 1);
            // Of a large one no more than its key is looked for.
            let length = length.min(self.growing.chunk_length());
            self.growing.file_range(&(expected..expected + length))
        });
        ranges.collect()
    }

    /// Where a partition is expected, between two that were found.
    fn expected(&self, number: usize, before: Found, after: Option<Found>) -> u64 {
        let (before, low) = before;
        let bytes = self.merged.bytes_between(before, number) as f64;
        let ratio = match after {
            Some((after, high)) => {
                let all = self.merged.bytes_between(before, after).max(1);
                high.saturating_sub(low) as f64 / all as f64
            }
            None => self.ratio(),
        };
        low + (bytes * ratio) as u64
    }

    /// Where a partition begins in the uncompressed data; `None` if it is not found.
    fn find(&mut self, number: usize) -> Result<Option<u64>> {
        for _ in 0..LOOKS_MAX {
            if let Some(position) = self.places.get(&number) {
                return Ok(Some(*position));
            }
            let (before, after) = neighbours(&self.merged, &self.places, number);
            let Some(before) = before else {
                return Ok(None);
            };
            let expected = self.expected(number, before, after);
            let high = after.map_or(self.growing.written(), |(_, high)| high + 1);
            if (self.is_over)() {
                return Ok(None);
            }
            if let Some(chunk) = self.chunk_to_look_at(expected, before.1, high) {
                self.scan(chunk)?;
                continue;
            }
            // Both of its neighbours were found: its key lies where one chunk ends and the next
            // begins, or it is gone, and there is no room for it.
            let is_between =
                before.0 + 1 == number && after.is_some_and(|(after, _)| after == number + 1);
            let by_ratio = self.expected(number, before, None);
            return Ok((is_between && by_ratio + 3 < high).then_some(by_ratio));
        }
        Ok(self.places.get(&number).copied())
    }

    /// Looks for the last partition that has been written, of those that are known.
    fn find_last(&mut self) -> Result<()> {
        let last = self.merged.keys().len().saturating_sub(1);
        let (mut sought, reached) = (last, self.last_place().0);
        // Beyond what is known nothing is recognised.
        while self.find(sought)?.is_none() && self.last_place().0 == reached && sought > reached + 1
        {
            sought = reached + (sought - reached) / 2;
        }
        if sought < last {
            self.find(last)?;
        }
        Ok(())
    }

    /// The nearest chunk to the one with the byte `expected`, among those with bytes of `low..high`,
    /// that has not been looked at.
    fn chunk_to_look_at(&self, expected: u64, low: u64, high: u64) -> Option<u64> {
        let length = self.growing.chunk_length();
        let (first, last) = (low / length, high.checked_sub(1)? / length);
        let middle = (expected / length).clamp(first, last.max(first));
        DISTANCES
            .into_iter()
            .flat_map(|distance| [middle.checked_add(distance), middle.checked_sub(distance)])
            .flatten()
            .find(|chunk| (first..=last).contains(chunk) && !self.scanned.contains(chunk))
    }

    /// Notes the places of all partitions that begin in a chunk.
    fn scan(&mut self, number: u64) -> Result<()> {
        self.scanned.insert(number);
        let chunk_length = self.growing.chunk_length();
        // Of one place no ratio can be told.
        let ratio = if self.places.len() > 1 {
            self.ratio().min(1.0)
        } else {
            RATIO_MIN
        };
        let slack = (SLACK_CHUNKS * chunk_length) as f64;
        let Self { merged, places, .. } = self;
        let (Some(first), Some(last)) = (merged.keys().first(), merged.keys().last()) else {
            return Ok(());
        };
        let Some(chunk) = self.growing.chunk(self.data, number)? else {
            return Ok(());
        };
        let start = number * chunk_length;
        let fits = |one: Found, other: Found| {
            let bytes = merged.bytes_between(one.0, other.0) as f64;
            let there = other.1.saturating_sub(one.1) as f64;
            there > 0.0
                && there <= RATIO_MAX * bytes + slack
                && bytes * ratio <= 4.0 * there + slack
        };
        each_possible_partition(&chunk, &(first..=last), |at, key| {
            let Some(number) = merged.number_of(key).filter(|it| !places.contains_key(it)) else {
                return;
            };
            let own = (number, start + at as u64);
            let (before, after) = neighbours(merged, places, number);
            let is_there = before.is_none_or(|before| fits(before, own))
                && after.is_none_or(|after| fits(own, after));
            if is_there {
                places.insert(own.0, own.1);
            }
        });
        Ok(())
    }

    /// The last partition that was found, and where it is.
    fn last_place(&self) -> Found {
        let last = self.places.last_key_value();
        last.map_or((0, 0), |(number, position)| (*number, *position))
    }

    /// Bytes of the output for one of the inputs, as it was last.
    fn ratio(&self) -> f64 {
        let (last, end) = self.last_place();
        let chunk_length = self.growing.chunk_length();
        let from = self.merged.number_before(last, RATIO_CHUNKS * chunk_length);
        let lately = self.places.range(..=from).next_back();
        let lately = lately.or_else(|| self.places.first_key_value());
        let (first, start) = lately.map_or((last, end), |(number, place)| (*number, *place));
        let bytes = self.merged.bytes_between(first, last);
        if bytes < chunk_length {
            return 1.0;
        }
        (end.saturating_sub(start) as f64 / bytes as f64).max(0.01)
    }
}

/// The nearest ones that were found and are before and behind a partition for certain.
fn neighbours(
    merged: &Merged,
    places: &BTreeMap<usize, u64>,
    number: usize,
) -> (Option<Found>, Option<Found>) {
    let found = |(number, position): (&usize, &u64)| (*number, *position);
    let is_certain = |other: &Found| merged.is_certain(other.0, number);
    let before = places.range(..number).rev().map(found).find(is_certain);
    let after = places.range(number + 1..).map(found).find(is_certain);
    (before, after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldstream_sstable::cassandra::{Components, Descriptor, Key, SsTable};
    use proptest::prelude::*;
    use proptest::sample::Index;

    const PAGE: u64 = 4096;

    /// A partition: its key, and what each of the inputs and the output have of it.
    #[derive(Clone, Debug)]
    struct Partition {
        key: Vec<u8>,
        inputs: [Option<usize>; 2],
        output: Option<usize>,
        is_hot: bool,
    }

    fn partition() -> impl Strategy<Value = Partition> {
        let bytes = prop_oneof![9 => 100..3000_usize, 1 => 5000..30_000_usize];
        let key = prop::collection::vec(any::<u8>(), 4..40);
        let share = prop_oneof![3 => Just(1.0), 1 => 0.5..1.0_f64];
        (key, bytes, 0..5, share, 0..20, 0..15).prop_map(
            |(key, bytes, holders, share, hot, gone)| {
                let bytes = bytes + key.len();
                let inputs = match holders {
                    0 => [Some(bytes), Some(bytes)],
                    1 | 2 => [Some(bytes), None],
                    _ => [None, Some(bytes)],
                };
                let all = inputs.iter().flatten().sum::<usize>() as f64;
                // Overwritten rows go, and time stamps take other bytes.
                let kept = (all * share) as usize + bytes % 3;
                Partition {
                    output: (gone > 0).then_some(kept.max(key.len() + 2)),
                    key,
                    inputs,
                    is_hot: hot == 0,
                }
            },
        )
    }

    fn partitions() -> impl Strategy<Value = Vec<Partition>> {
        prop::collection::vec(partition(), 2..600).prop_map(|mut partitions| {
            partitions.sort_by_cached_key(|it| Key::from_partition_key(&it.key).bytes().to_vec());
            partitions.dedup_by(|one, other| one.key == other.key);
            if let Some(first) = partitions.first_mut() {
                first.output = first.output.or(Some(first.key.len() + 2));
            }
            partitions
        })
    }

    /// The files of a BIG table without compression, and its hot pages.
    #[derive(Default)]
    struct Files {
        index: Vec<u8>,
        statistics: Vec<u8>,
        length: u64,
        hot_pages: BTreeSet<u64>,
    }

    impl Files {
        fn of(partitions: &[Partition], input: usize) -> Self {
            let mut files = Self::default();
            for partition in partitions {
                let Some(bytes) = partition.inputs[input] else {
                    continue;
                };
                files
                    .index
                    .extend((partition.key.len() as u16).to_be_bytes());
                files.index.extend(&partition.key);
                files.index.push(0xff);
                files.index.extend(files.length.to_be_bytes());
                files.index.push(0);
                let end = files.length + bytes as u64;
                if partition.is_hot {
                    files
                        .hot_pages
                        .extend(files.length / PAGE..end.div_ceil(PAGE));
                }
                files.length = end;
            }
            let name = b"org.apache.cassandra.dht.Murmur3Partitioner";
            let header = [1_u32, 0, 0, 16].map(u32::to_be_bytes);
            files.statistics.extend(header.as_flattened());
            files.statistics.extend((name.len() as u16).to_be_bytes());
            files.statistics.extend(name);
            files
        }

        fn table(&self) -> SsTable<&[u8]> {
            let components = Components {
                keys: &self.index[..],
                rows: None,
                compression_info: None,
                statistics: &self.statistics[..],
                data_length: self.length,
            };
            SsTable::new(&Descriptor::parse("nb-1-big-Data.db").unwrap(), components).unwrap()
        }
    }

    /// The output's data, and where its hot partitions lie.
    fn output(partitions: &[Partition]) -> (Vec<u8>, Vec<std::ops::Range<u64>>) {
        let (mut data, mut hot) = (Vec::new(), Vec::new());
        for partition in partitions {
            let Some(bytes) = partition.output else {
                continue;
            };
            let start = data.len();
            data.extend((partition.key.len() as u16).to_be_bytes());
            data.extend(&partition.key);
            let mut filler = start as u32;
            while data.len() < start + bytes {
                filler = filler.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                data.push((filler >> 24) as u8);
            }
            if partition.is_hot {
                hot.push(start as u64..data.len() as u64);
            }
        }
        (data, hot)
    }

    proptest! {
        #[test]
        fn hot_partitions_are_found_in_what_has_been_written(
            partitions in partitions(),
            parts in prop::collection::vec(any::<Index>(), 0..4),
        ) {
            let files = [0, 1].map(|input| Files::of(&partitions, input));
            let tables = [files[0].table(), files[1].table()];
            let (data, hot) = output(&partitions);
            let mut ends: Vec<u64> = parts.iter().map(|it| it.index(data.len()) as u64).collect();
            ends.push(data.len() as u64);
            ends.sort_unstable();
            let mut cursor = IndexCursor::default();
            let mut warm = BTreeSet::new();
            for end in ends {
                let heats = [0, 1].map(|input: usize| {
                    let pages = &files[input].hot_pages;
                    move |offset: u64| u8::from(pages.contains(&(offset / PAGE))) * 200
                });
                let mut inputs = Vec::new();
                for (table, heat) in tables.iter().zip(&heats) {
                    inputs.push(Input::new(table, IndexCursor::default(), heat).unwrap());
                }
                let growing = Growing::Plain(end);
                let found = carry_found(&growing, &&data[..], cursor, &mut inputs, &|| false, &|_| {});
                let Some(carried) = found.unwrap() else {
                    prop_assert!(end < cursor.position_in_data() + 600, "nothing was found");
                    continue;
                };
                for piece in carried.pieces {
                    prop_assert!(piece.offset + piece.length <= end);
                    warm.extend(piece.offset / PAGE..(piece.offset + piece.length).div_ceil(PAGE));
                }
                cursor = carried.cursor;
            }
            let behind = cursor.position_in_data();
            let passed: Vec<_> = hot.iter().filter(|range| range.end <= behind).collect();
            let missing = passed.iter().filter(|range| {
                (range.start / PAGE..range.end.div_ceil(PAGE)).any(|page| !warm.contains(&page))
            });
            let missing = missing.count();
            prop_assert!(missing * 20 <= passed.len() + 59, "{missing} of {}", passed.len());
            prop_assert!(data.len() as u64 - behind < 250_000, "{behind} of {}", data.len());
        }
    }
}
