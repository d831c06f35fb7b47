//! Heat from before this process. A restart forgets the heat, but the page cache stays: what the process before has read
//! often is there still.

use super::lineage::Input;
use super::transfer::Transfer;
use crate::core::inode_map;
use coldstream_control::Counter;
use coldstream_io::residency;
use coldstream_policy::heat::{Origin, TOUCH};

/// Bytes that are examined at a time; the time limit is checked between.
const STEP_BYTES: u64 = 64 << 20;

/// Pages in a row that are in the page cache.
#[derive(Default)]
struct Run {
    /// The last one, and whether there is one before it.
    last: Option<(u64, bool)>,
}

impl Run {
    /// Takes the next page. Returns the page before it, if a read began there or covered it.
    ///
    /// The last of several pages has the end of what was read. What begins there was read by nobody.
    fn begin_of_read(&mut self, offset: u64, is_resident: bool) -> Option<u64> {
        let before = self.last.take();
        if is_resident {
            self.last = Some((offset, before.is_some()));
        }
        let (before, follows) = before?;
        (is_resident || !follows).then_some(before)
    }
}

impl Transfer<'_> {
    /// Gives the heat of one read to the pages of an input that are in the page cache and have none, if the input is
    /// older than the heat, and little was read since.
    ///
    /// Of an SSTable that this process wrote each read was counted: what has no heat there is cold.
    pub(super) fn recall(&self, input: &Input) {
        let size_bytes = input.stamp.size_bytes;
        let is_older = (self.counted_since_ns).is_some_and(|since| input.stamp.changed_ns < since);
        if !is_older || input.recalled_to.get() >= size_bytes {
            return;
        }
        // Once: what fails now would fail again.
        let Ok(file) = self.open_input(input) else {
            input.recalled_to.set(u64::MAX);
            return;
        };
        while input.recalled_to.get() < size_bytes && !self.is_search_over() {
            let start = input.recalled_to.get();
            let length_bytes = STEP_BYTES.min(size_bytes - start);
            self.recall_step(input, file.number(), start, length_bytes);
            input.recalled_to.set(start + length_bytes);
        }
    }

    /// Examines a part of an input. Where most of it is there, it was written or scanned through the page cache, and this
    /// tells nothing about reads. So it is where the kernel does not say the truth: then all is there.
    fn recall_step(&self, input: &Input, descriptor: i32, start: u64, length_bytes: u64) {
        let Ok(found) = residency::of_range(descriptor, start, length_bytes) else {
            return;
        };
        if found.resident_pages == 0 || found.resident_pages * 2 > found.pages {
            return;
        }
        let (heat, epoch) = (self.present.heat, self.present.epoch);
        let key = inode_map::key_of(&input.stamp);
        let (mut run, mut pages) = (Run::default(), 0);
        let _ = residency::each_page(descriptor, start, length_bytes, |offset, is_resident| {
            if let Some(offset) = run.begin_of_read(offset, is_resident)
                && heat.of(key, offset, epoch) == 0
            {
                heat.set(key, offset, TOUCH, Origin::Estimated, epoch);
                pages += 1;
            }
        });
        self.core.count(Counter::HandoverPagesRecalled, pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_read_is_no_beginning() {
        let mut run = Run::default();
        let resident = [
            false, true, false, true, true, false, true, true, true, false,
        ];
        let pages = resident.iter().zip(0..);
        let found: Vec<_> = pages
            .filter_map(|(is_resident, page)| run.begin_of_read(page, *is_resident))
            .collect();
        assert_eq!(found, [1, 3, 6, 7]);
    }
}
