//! Transfers heat to a BTI SSTable that is still being written.
//!
//! Cassandra keeps the upper nodes of its index in memory until the end. So a [`Locator`] searches
//! the data for the hot partitions.

use super::chunks::WHOLE_CHUNKS_MAX;
use super::growing::Growing;
use super::input::Input;
use super::locator::{Locator, RATIO_MAX, READ_AHEAD};
use super::merged::Merged;
use super::output::PartHeat;
use coldstream_sstable::cassandra::{IndexCursor, Key, partition_key_at};
use coldstream_sstable::{ReadAt, Result};
use std::ops::Range;

/// Partitions behind a large one that are searched for, to find its end. Some may be gone.
const NEXT_MAX: usize = 3;
/// Hot partitions in a row that may be missing. Then the search ends: the data is not what the inputs
/// suggest, or no more partitions have been written.
const MISSES_MAX: usize = 32;

/// Transfers the inputs' heat to the part of a BTI SSTable that has been written since `from`.
///
/// It searches `data` for the hot partitions until `is_over` returns true. `read_ahead` gets the
/// ranges of the file that it will probably read next, in bytes. Threads may run it for different
/// outputs at the same time.
///
/// `None` if the part does not begin with a partition of the inputs. Then the output has other
/// inputs, or its compression differs.
///
/// # Errors
/// Those of the inputs' indexes and of `data`.
pub fn transfer_by_search<R: ReadAt>(
    growing: &Growing<'_>,
    data: &R,
    from: IndexCursor,
    inputs: &mut [Input<'_, R>],
    is_over: &dyn Fn() -> bool,
    read_ahead: &dyn Fn(&[Range<u64>]),
) -> Result<Option<PartHeat>> {
    let start = from.position_in_data();
    let part = PartHeat {
        cursor: from,
        position: start,
        ..PartHeat::default()
    };
    let written = growing.written();
    if written < start + growing.chunk_length() {
        return Ok(Some(part));
    }
    let Some(first) = key_at(growing, data, start)? else {
        return Ok(None);
    };
    for input in &mut *inputs {
        input.skip_to(&first)?;
    }
    let mut merged = Merged::default();
    let has_more = merged.extend(inputs, written - start, is_over)?;
    let Some(number) = merged.number_of(&first) else {
        return Ok(None);
    };
    let mut locator = Locator::new(data, growing, merged, is_over);
    locator.begin(number, start)?;
    let mut search = Search {
        locator,
        is_over,
        has_more,
        next_hot: 0,
        resume: 0,
        part,
    };
    search.run(inputs, read_ahead)?;
    search.set_cursor(start);
    Ok(Some(search.part))
}

/// The key of the partition that begins at `position` of the uncompressed data.
fn key_at<R: ReadAt>(growing: &Growing<'_>, data: &R, position: u64) -> Result<Option<Key>> {
    let chunk_length = growing.chunk_length();
    let chunk = growing.chunk(data, position / chunk_length)?;
    match chunk {
        Some(chunk) => partition_key_at(&chunk, (position % chunk_length) as usize),
        None => Ok(None),
    }
}

struct Search<'a, R> {
    locator: Locator<'a, R>,
    is_over: &'a dyn Fn() -> bool,
    /// Whether the inputs have partitions behind those of the locator.
    has_more: bool,
    /// The hot partition to search for next.
    next_hot: usize,
    /// The hot partition behind the last one that was located.
    resume: usize,
    part: PartHeat,
}

impl<R: ReadAt> Search<'_, R> {
    /// Locates hot partitions until the end of the written data, the deadline, or too many misses.
    fn run(
        &mut self,
        inputs: &mut [Input<'_, R>],
        read_ahead: &dyn Fn(&[Range<u64>]),
    ) -> Result<()> {
        let written = self.locator.growing.written();
        let chunk_length = self.locator.growing.chunk_length();
        loop {
            let (reached, _) = self.locator.last_located();
            while self.next_hot < self.locator.merged.hot.len()
                && self.next_hot - self.resume < MISSES_MAX
                && !(self.is_over)()
            {
                if self.next_hot.is_multiple_of(READ_AHEAD) {
                    read_ahead(&self.locator.expected_ranges(self.next_hot)?);
                }
                let is_located = self.transfer_to(self.next_hot)?;
                self.next_hot += 1;
                if is_located {
                    self.resume = self.next_hot;
                }
            }
            let has_hot = self.next_hot < self.locator.merged.hot.len();
            if !has_hot {
                self.locator.locate_last()?;
            }
            let (number, position) = self.locator.last_located();
            let left = written.saturating_sub(position);
            let is_done = left <= 2 * chunk_length || number == reached;
            if is_done || !self.has_more || has_hot {
                return Ok(());
            }
            let ahead = self.locator.merged.bytes_between(0, number) as f64;
            let goal = (ahead + left as f64 / self.locator.ratio()) as u64;
            self.has_more = (self.locator.merged).extend(inputs, goal, self.is_over)?;
            self.locator.allow_rescans();
        }
    }

    /// Sets where the next part begins: before the first hot partition that was not reached.
    fn set_cursor(&mut self, start: u64) {
        let hot = &self.locator.merged.hot;
        let has_given_up = self.next_hot - self.resume >= MISSES_MAX;
        let is_complete = self.next_hot == hot.len() && !has_given_up && !(self.is_over)();
        let next = hot.get(self.resume).filter(|_| !is_complete);
        let end = next.map_or(usize::MAX, |hot| hot.number);
        let mut position = self.locator.position_up_to(end);
        if has_given_up && position.is_none_or(|position| position <= start) {
            // The next part would miss the same partitions again.
            position = self.locator.position_up_to(usize::MAX);
        }
        if let Some(position) = position {
            self.part.cursor = IndexCursor::in_data(position);
            self.part.position = position;
        }
    }

    /// Locates a hot partition and gives it its heat. Returns whether it was located.
    fn transfer_to(&mut self, hot: usize) -> Result<bool> {
        let Some(number) = self.locator.merged.hot.get(hot).map(|hot| hot.number) else {
            return Ok(false);
        };
        let Some(position) = self.locator.locate(number)? else {
            return Ok(false);
        };
        let growing = self.locator.growing;
        let length = (self.locator.merged.bytes_between(number, number + 1)).max(1);
        if length > growing.chunk_length() {
            // The end of a large partition is worth a search.
            let known = self.locator.merged.keys().len();
            for next in (number + 1..known).take(NEXT_MAX) {
                if self.locator.locate(next)?.is_some() {
                    break;
                }
            }
        }
        let (_, next) = self.locator.neighbours(number);
        let end = next.map_or(growing.written(), |(_, position)| position);
        let ratio = match next {
            Some((next, end)) if next <= number + NEXT_MAX => {
                (end.saturating_sub(position) as f64 / length as f64).min(RATIO_MAX)
            }
            _ => self.locator.ratio().max(1.0),
        };
        // Overwritten bytes are gone. What is left of the partition gets the whole heat.
        let is_read_in_parts = length.div_ceil(growing.chunk_length()) > WHOLE_CHUNKS_MAX;
        let share_left = if is_read_in_parts {
            ratio.clamp(0.05, 1.0) as f32
        } else {
            1.0
        };
        let in_output = |bytes: u64| (position + (bytes as f64 * ratio).ceil() as u64).min(end);
        let parts = (self.locator.merged.hot.get(hot)).map_or(&[][..], |hot| &hot.parts);
        for (part, heat) in parts {
            let range = in_output(part.start)..in_output(part.end);
            if let Some(stored) = growing.file_range(&range) {
                let heat = (*heat / share_left).min(f32::from(u8::MAX));
                self.part.add(&stored, heat)?;
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldstream_sstable::cassandra::{Components, Descriptor, SsTable};
    use proptest::prelude::*;
    use proptest::sample::Index;
    use std::collections::BTreeSet;

    const PAGE: u64 = 4096;

    /// A partition: its key, and its bytes in each of the inputs and in the output.
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
                // Overwritten rows are gone, and time stamps take other numbers of bytes.
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

    /// The files of a BIG SSTable without compression, and its hot pages.
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

        fn sstable(&self) -> SsTable<&[u8]> {
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

    /// The output's data, and the ranges of its hot partitions.
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
            let sstables = [files[0].sstable(), files[1].sstable()];
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
                for (sstable, heat) in sstables.iter().zip(&heats) {
                    inputs.push(Input::new(sstable, IndexCursor::default(), heat).unwrap());
                }
                let growing = Growing::Plain(end);
                let result = transfer_by_search(&growing, &&data[..], cursor, &mut inputs, &|| false, &|_| {});
                let Some(part) = result.unwrap() else {
                    prop_assert!(end < cursor.position_in_data() + 600, "nothing was found");
                    continue;
                };
                for piece in part.pieces {
                    prop_assert!(piece.offset + piece.length <= end);
                    warm.extend(piece.offset / PAGE..(piece.offset + piece.length).div_ceil(PAGE));
                }
                cursor = part.cursor;
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
