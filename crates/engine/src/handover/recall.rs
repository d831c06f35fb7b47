//! Heat from before this process. A restart forgets the heat, but the page cache stays: what the process before has read
//! often is there still.

use super::lineage::Input;
use super::refused::Refused;
use super::sstable_file::SsTableFile;
use super::transfer::Transfer;
use crate::core::inode_map;
use coldstream_control::Counter;
use coldstream_io::alignment::PAGE_BYTES;
use coldstream_io::residency;
use coldstream_io::sys::file;
use coldstream_policy::heat::TOUCH;
use std::ops::Range;

/// Bytes that are examined at a time; the time limit is checked between.
const STEP_BYTES: u64 = 64 << 20;
/// More pages in a row were written, scanned or read ahead. This tells nothing about reads of keys. Also, all pages seem
/// to be there where the kernel does not say the truth.
const RUN_BYTES_MAX: u64 = 256 << 10;

/// Pages in a row that are in the page cache.
#[derive(Default)]
struct Run {
    pages: Range<u64>,
}

impl Run {
    /// Takes the next page, by its offset. Returns the pages of the run that it ends in which reads began.
    fn next(&mut self, offset: u64, is_resident: bool) -> Range<u64> {
        if is_resident {
            if self.pages.is_empty() {
                self.pages.start = offset;
            }
            self.pages.end = offset + PAGE_BYTES;
            return 0..0;
        }
        self.end()
    }

    /// The run ends. The last of several pages has the end of what was read. What begins there was read by nobody.
    fn end(&mut self) -> Range<u64> {
        let Range { start, end } = std::mem::take(&mut self.pages);
        match end - start {
            PAGE_BYTES => start..end,
            length if length > RUN_BYTES_MAX => 0..0,
            _ => start..end.saturating_sub(PAGE_BYTES),
        }
    }
}

impl Transfer<'_> {
    /// Gives the heat of one read to the pages of an input that are in the page cache and have none, if the input is
    /// older than the heat, and little was read since.
    ///
    /// Of an SSTable that this process wrote each read was counted: what has no heat there is cold.
    pub(super) fn recall(&self, input: &Input) {
        let Some(since_ns) = self.counted_since_ns else {
            return;
        };
        if input.recalled_to.get() >= input.stamp.size_bytes || self.is_recall_over() {
            return;
        }
        self.spending.recall(|| match self.open_input(input) {
            Ok(opened) if is_older(input, &opened, since_ns) => self.look(input, opened.number()),
            Ok(_) | Err(Refused::Gone) => input.recalled_to.set(u64::MAX),
            // There may be a descriptor, or memory, the next time.
            Err(_) => {}
        });
    }

    /// Looks which pages of an input are there, from where the last look ended.
    fn look(&self, input: &Input, descriptor: i32) {
        let size_bytes = input.stamp.size_bytes;
        let (mut run, mut pages) = (Run::default(), 0);
        while input.recalled_to.get() < size_bytes && !self.is_recall_over() {
            let start = input.recalled_to.get();
            let length_bytes = STEP_BYTES.min(size_bytes - start);
            input.recalled_to.set(start + length_bytes);
            let found = residency::of_range_for_certain(descriptor, start, length_bytes);
            if found.is_ok_and(|found| found.resident_pages == 0) {
                pages += self.guess(input, run.end());
                continue;
            }
            let _ = residency::each_page(descriptor, start, length_bytes, |offset, is_resident| {
                pages += self.guess(input, run.next(offset, is_resident));
            });
        }
        pages += self.guess(input, run.end());
        if pages > 0 {
            input.cold_until_ns.set(0);
        }
        self.core.count(Counter::HandoverPagesRecalled, pages);
    }

    /// Gives these pages the heat of one read, unless they have heat. Returns how many got it.
    fn guess(&self, input: &Input, pages: Range<u64>) -> u64 {
        let (heat, epoch) = (self.present.heat, self.present.epoch);
        let key = inode_map::key_of(&input.stamp);
        let offsets = pages.step_by(PAGE_BYTES as usize);
        let guessed = offsets.filter(|offset| heat.guess(key, *offset, TOUCH, epoch));
        guessed.count() as u64
    }
}

/// Whether an input was written before `since_ns`. A hard link changes the change time: of a snapshot, a checkpoint, a backup.
fn is_older(input: &Input, opened: &SsTableFile<'_>, since_ns: i128) -> bool {
    let is_modified_before = || {
        let modified_ns = file::modified_ns(opened.number());
        modified_ns.is_ok_and(|modified_ns| modified_ns < since_ns)
    };
    input.stamp.changed_ns < since_ns || is_modified_before()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(resident: &[bool]) -> Vec<u64> {
        let mut run = Run::default();
        let mut found = Vec::new();
        for (is_resident, page) in resident.iter().zip(0..) {
            found.push(run.next(page * PAGE_BYTES, *is_resident));
        }
        found.push(run.end());
        let offsets = found
            .into_iter()
            .flat_map(|pages| pages.step_by(PAGE_BYTES as usize));
        offsets.map(|offset| offset / PAGE_BYTES).collect()
    }

    #[test]
    fn the_end_of_a_read_is_no_beginning() {
        let resident = [0, 1, 0, 1, 1, 0, 1, 1, 1, 0, 1].map(|it| it == 1);
        assert_eq!(begun(&resident), [1, 3, 6, 7, 10]);
    }

    #[test]
    fn what_was_scanned_tells_nothing() {
        assert_eq!(begun(&[true; 64]).len(), 63);
        assert_eq!(begun(&[true; 65]), []);
    }
}
