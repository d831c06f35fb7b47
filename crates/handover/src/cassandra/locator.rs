//! Finds partitions in the data of a BTI SSTable that is still being written.
//!
//! The output has the partitions of its inputs in their order. Each takes about as many bytes as in
//! all inputs together. So the position of a partition can be estimated. A scan of the chunk there
//! finds partitions, because the data of a partition begins with its key. They correct the estimate.
//!
//! Other bytes may look like a key. For most keys the inputs' indexes hold only a prefix and eight
//! bits of a hash. So a candidate is accepted only under two conditions:
//!
//! - It is in order with all partitions located before.
//! - Its distance from them fits the number of bytes that the inputs have between them.

use super::growing::Growing;
use super::merged::Merged;
use super::positions::{Located, Positions};
use coldstream_sstable::cassandra::each_possible_partition;
use coldstream_sstable::{ReadAt, Result, memory};
use std::ops::Range;

/// Chunks that are scanned for one partition.
const SCANS_MAX: usize = 24;
/// Distances from the expected chunk at which chunks are scanned, in chunks. Within a large partition
/// no chunk says what lies beside it, hence the large steps.
const DISTANCES: [u64; 15] = [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128];
/// Chunks at the beginning that are always scanned, to learn the ratio.
const FIRST_CHUNKS: u64 = 4;
/// Chunks that are scanned at the beginning if all of them belong to one partition.
const FIRST_CHUNKS_MAX: u64 = 64;
/// Bytes before a position, in chunks, that determine the ratio of the output's bytes to the inputs'.
const RATIO_CHUNKS: u64 = 64;
/// Allowed error of a distance, in chunks, in addition to the error of the ratio.
const SLACK_CHUNKS: u64 = 16;
/// Most bytes of an output's partition for one byte of the inputs. Numbers may take more bytes there.
pub(super) const RATIO_MAX: f64 = 1.25;
/// Fewest bytes for one byte of the inputs, until the ratio is known. The rest was overwritten.
const RATIO_MIN: f64 = 1.0 / 16.0;
/// Hot partitions whose expected chunks are read ahead together.
pub(super) const READ_AHEAD: usize = 16;

/// Finds the partitions of all inputs in an output's data.
pub(super) struct Locator<'a, R> {
    data: &'a R,
    pub(super) growing: &'a Growing<'a>,
    /// The inputs' partitions, numbered in their order.
    pub(super) merged: Merged,
    /// Positions of the located partitions.
    positions: Positions,
    /// Chunks that were scanned for all partitions of `merged`, in ascending order.
    scanned: Vec<u64>,
    is_over: &'a dyn Fn() -> bool,
}

impl<'a, R: ReadAt> Locator<'a, R> {
    pub(super) fn new(
        data: &'a R,
        growing: &'a Growing<'a>,
        merged: Merged,
        is_over: &'a dyn Fn() -> bool,
    ) -> Self {
        Self {
            data,
            growing,
            merged,
            positions: Positions::default(),
            scanned: Vec::new(),
            is_over,
        }
    }

    /// Starts from partition `number` at position `start`, and scans the chunks there.
    ///
    /// # Errors
    /// If the data cannot be read.
    pub(super) fn begin(&mut self, number: usize, start: u64) -> Result<()> {
        self.positions.insert(number, start)?;
        for chunk in 0..FIRST_CHUNKS_MAX {
            if chunk >= FIRST_CHUNKS && (self.positions.len() > 1 || (self.is_over)()) {
                break;
            }
            self.scan(start / self.growing.chunk_length() + chunk)?;
        }
        Ok(())
    }

    /// Forgets which chunks were scanned. They may hold partitions that `merged` has only now.
    pub(super) fn allow_rescans(&mut self) {
        self.scanned.clear();
    }

    /// The bytes of the file where the next hot partitions are expected.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(super) fn expected_ranges(&self, hot: usize) -> Result<Vec<Range<u64>>> {
        let next = self.merged.hot.iter().skip(hot).take(READ_AHEAD);
        let ranges = next.filter_map(|hot| {
            let (before, after) = self.neighbours(hot.number);
            let expected = self.expected(hot.number, before?, after);
            let length = self.merged.bytes_between(hot.number, hot.number + 1);
            // Of a large partition only the key is searched for.
            let length = length.min(self.growing.chunk_length());
            self.growing.file_range(&(expected..expected + length))
        });
        Ok(memory::collected(ranges)?)
    }

    /// The expected position of a partition between two located ones.
    fn expected(&self, number: usize, before: Located, after: Option<Located>) -> u64 {
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

    /// The position of a partition in the uncompressed data. `None` if it is not found.
    ///
    /// # Errors
    /// If the data cannot be read.
    pub(super) fn locate(&mut self, number: usize) -> Result<Option<u64>> {
        for _ in 0..SCANS_MAX {
            if let Some(position) = self.positions.get(number) {
                return Ok(Some(position));
            }
            let (before, after) = self.neighbours(number);
            let Some(before) = before else {
                return Ok(None);
            };
            let expected = self.expected(number, before, after);
            let high = after.map_or(self.growing.written(), |(_, high)| high + 1);
            if (self.is_over)() {
                return Ok(None);
            }
            if let Some(chunk) = self.chunk_to_scan(expected, before.1, high) {
                self.scan(chunk)?;
                continue;
            }
            // Both neighbours are located and nothing is left to scan. Either the key crosses the
            // boundary of two chunks, or the partition is gone and there is no room for it.
            let is_between =
                before.0 + 1 == number && after.is_some_and(|(after, _)| after == number + 1);
            let by_ratio = self.expected(number, before, None);
            return Ok((is_between && by_ratio + 3 < high).then_some(by_ratio));
        }
        Ok(self.positions.get(number))
    }

    /// Searches for the last partition that has been written, among those of `merged`.
    ///
    /// # Errors
    /// If the data cannot be read.
    pub(super) fn locate_last(&mut self) -> Result<()> {
        let last = self.merged.keys().len().saturating_sub(1);
        let (mut target, reached) = (last, self.last_located().0);
        // Data behind the last partition of `merged` is not recognised, so halve the distance.
        while self.locate(target)?.is_none()
            && self.last_located().0 == reached
            && target > reached + 1
        {
            target = reached + (target - reached) / 2;
        }
        if target < last {
            self.locate(last)?;
        }
        Ok(())
    }

    /// The chunk to scan next: the nearest to position `expected` that was not scanned yet, among
    /// those with bytes of `low..high`.
    fn chunk_to_scan(&self, expected: u64, low: u64, high: u64) -> Option<u64> {
        let length = self.growing.chunk_length();
        let (first, last) = (low / length, high.checked_sub(1)? / length);
        let middle = (expected / length).clamp(first, last.max(first));
        DISTANCES
            .into_iter()
            .flat_map(|distance| [middle.checked_add(distance), middle.checked_sub(distance)])
            .flatten()
            .find(|chunk| {
                (first..=last).contains(chunk) && self.scanned.binary_search(chunk).is_err()
            })
    }

    /// Records the positions of all partitions that begin in a chunk.
    fn scan(&mut self, number: u64) -> Result<()> {
        if let Err(at) = self.scanned.binary_search(&number) {
            self.scanned.try_reserve(1)?;
            #[expect(clippy::disallowed_methods, reason = "there is room")]
            self.scanned.insert(at, number);
        }
        let chunk_length = self.growing.chunk_length();
        // A ratio needs two located partitions.
        let ratio = if self.positions.len() > 1 {
            self.ratio().min(1.0)
        } else {
            RATIO_MIN
        };
        let slack = (SLACK_CHUNKS * chunk_length) as f64;
        let Self {
            merged, positions, ..
        } = self;
        let (Some(first), Some(last)) = (merged.keys().first(), merged.keys().last()) else {
            return Ok(());
        };
        let Some(chunk) = self.growing.chunk(self.data, number)? else {
            return Ok(());
        };
        let start = number * chunk_length;
        let fits = |one: Located, other: Located| {
            let bytes = merged.bytes_between(one.0, other.0) as f64;
            let distance = other.1.saturating_sub(one.1) as f64;
            distance > 0.0
                && distance <= RATIO_MAX * bytes + slack
                && bytes * ratio <= 4.0 * distance + slack
        };
        each_possible_partition(&chunk, &(first..=last), |at, key| {
            let number = merged.number_of(key);
            let Some(number) = number.filter(|it| positions.get(*it).is_none()) else {
                return Ok(());
            };
            let own = (number, start + at as u64);
            let (before, after) = neighbours(merged, positions, number);
            let is_plausible = before.is_none_or(|before| fits(before, own))
                && after.is_none_or(|after| fits(own, after));
            if is_plausible {
                positions.insert(own.0, own.1)?;
            }
            Ok(())
        })
    }

    /// The last located partition.
    pub(super) fn last_located(&self) -> Located {
        self.positions.last().unwrap_or_default()
    }

    /// The position of the last located partition up to `number`, including it.
    pub(super) fn position_up_to(&self, number: usize) -> Option<u64> {
        let last = self.positions.last_up_to(number);
        last.map(|(_, position)| position)
    }

    /// Bytes of the output for one byte of the inputs, before the last located partition.
    pub(super) fn ratio(&self) -> f64 {
        let (last, end) = self.last_located();
        let chunk_length = self.growing.chunk_length();
        let from = self.merged.number_before(last, RATIO_CHUNKS * chunk_length);
        let recent = self.positions.last_up_to(from);
        let (first, start) = recent.or(self.positions.first()).unwrap_or((last, end));
        let bytes = self.merged.bytes_between(first, last);
        if bytes < chunk_length {
            return 1.0;
        }
        (end.saturating_sub(start) as f64 / bytes as f64).max(0.01)
    }

    /// The nearest located partitions that are certainly before and behind partition `number`.
    pub(super) fn neighbours(&self, number: usize) -> (Option<Located>, Option<Located>) {
        neighbours(&self.merged, &self.positions, number)
    }
}

/// As [`Locator::neighbours`].
fn neighbours(
    merged: &Merged,
    positions: &Positions,
    number: usize,
) -> (Option<Located>, Option<Located>) {
    let is_certain = |other: &&Located| merged.is_order_certain(other.0, number);
    let (before, _) = positions.split(number);
    let (_, after) = positions.split(number + 1);
    let before = before.iter().rev().find(is_certain);
    (before.copied(), after.iter().find(is_certain).copied())
}
