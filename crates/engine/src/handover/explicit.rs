//! A handover that the program asks for: it names the output, and mostly the inputs too. Its format or the program's
//! own mapping tells which parts belong together.

use super::lineage::{self, Input, Output, Work};
use super::means::Means;
use super::mechanism::Handover;
use super::refused::Refused;
use super::transfer::{Bounds, Done, OutputFile, Transfer};
use crate::core::descriptor_map::TrackedFile;
use crate::core::errno::ErrnoGuard;
use coldstream_handover::Piece;
use coldstream_handover::rocksdb::READ_HEAT;
use coldstream_io::Errno;
use coldstream_io::alignment::PAGE_BYTES;
use coldstream_io::sys::file;
use coldstream_io::sys::process;
use coldstream_policy::FileKind;
use coldstream_sstable::cassandra::IndexCursor;
use coldstream_sstable::memory::TryVec;
use std::cell::Cell;

/// The inputs of a handover.
#[derive(Clone, Copy)]
pub enum Inputs<'a> {
    /// Those that the calling thread has read in the background.
    OfThread,
    /// The files behind these descriptors.
    Given(&'a [i32]),
}

/// A part of an input, and the part of the output that has its content.
#[derive(Clone, Copy, Debug)]
pub struct Mapped {
    /// Number of the input.
    pub input: usize,
    /// Where the part begins in the input.
    pub input_offset: u64,
    /// Its length there.
    pub input_bytes: u64,
    /// Where it begins in the output.
    pub output_offset: u64,
    /// Its length there.
    pub output_bytes: u64,
}

/// How hot parts of the inputs become parts of the output.
pub enum Way<I> {
    /// By the indexes of the files.
    Indexes,
    /// By the program's mapping.
    Mapping(I),
}

fn push<T>(list: &mut Vec<T>, item: T) -> Result<(), Errno> {
    list.try_push(item).map_err(|_| Errno(libc::ENOMEM))
}

/// After so many pages the clock is looked at.
const PARTS_BETWEEN_LOOKS: usize = 1024;

/// An output of which nothing was handed over yet.
fn finished_output(stamp: &file::FileStamp, descriptor: i32) -> Output {
    Output {
        stamp: *stamp,
        descriptor,
        cursor: IndexCursor::default(),
        end: 0,
        is_incomplete: false,
        is_declined: false,
    }
}

/// The work of a thread that has read these files as a whole.
fn given(thread: i32, descriptors: &[i32]) -> Result<Work, Errno> {
    let mut work = Work::none(thread);
    for descriptor in descriptors {
        let path = lineage::path_of(*descriptor).ok_or(Errno(libc::ENOMEM))?;
        let input = Input::new(file::stamp(*descriptor)?, path, 0);
        // Made anew for each output: to look at all of them each time would take too long.
        input.recalled_to.set(u64::MAX);
        push(&mut work.inputs, input)?;
    }
    Ok(work)
}

impl Handover {
    /// Hands over to the file behind `descriptor` at once. Does nothing where handovers are off.
    ///
    /// # Errors
    /// `ENOMEM`; the kernel's, of the inputs or the output.
    pub fn hand_over<I: Iterator<Item = Mapped>>(
        &self,
        means: Means<'_>,
        (tracked, descriptor): (TrackedFile, i32),
        inputs: Inputs<'_>,
        way: Way<I>,
        bounds: Bounds,
    ) -> Result<Done, Errno> {
        let core = means.core;
        let Some(kept) = Self::kept_now(means) else {
            return Ok(Done::default());
        };
        let _errno = ErrnoGuard::new();
        let stamp = file::stamp(descriptor)?;
        let output = OutputFile {
            slot: tracked.slot,
            descriptor,
            stamp,
        };
        let switched_off = Cell::new(false);
        let mut transfer = Transfer::begin(
            means,
            kept,
            &self.warming_time,
            output,
            bounds,
            &switched_off,
        );
        transfer.is_frugal = self.frugality.judge(core, means.heat);
        let started_ns = process::monotonic_ns();
        let thread = process::thread_id();
        let mut work = match inputs {
            Inputs::Given(descriptors) => given(thread, descriptors)?,
            Inputs::OfThread => self.lineage.take(thread).unwrap_or(Work::none(thread)),
        };
        if tracked.kind == FileKind::CassandraData {
            push(&mut work.outputs, finished_output(&stamp, descriptor))?;
        }
        let attempt = core.protect(|| match way {
            Way::Mapping(mapping) => transfer.to_mapped(&work, mapping),
            Way::Indexes if tracked.kind == FileKind::CassandraData => {
                transfer.to_partitions(&mut work)
            }
            Way::Indexes => transfer.to_blocks(&mut work),
        });
        if matches!(inputs, Inputs::OfThread) {
            work.outputs.retain(|it| !it.stamp.same_inode(&stamp));
            work.last_handover = transfer.ended();
            self.lineage.give_back(work);
        }
        if let Some(Err(refused)) = &attempt {
            transfer.count_refused(refused);
        }
        core.publish_memory();
        Ok(Done {
            ns: process::monotonic_ns().saturating_sub(started_ns),
            ..transfer.done.get()
        })
    }
}

impl Transfer<'_> {
    /// Hands over by the program's mapping.
    pub(super) fn to_mapped(
        &self,
        work: &Work,
        mapping: impl Iterator<Item = Mapped>,
    ) -> Result<(), Refused> {
        let size_bytes = self.output.stamp.size_bytes;
        self.present.heat.forget(self.key(), 0..size_bytes);
        let mut pieces = Vec::new();
        for mapped in mapping {
            let Some(input) = work.inputs.get(mapped.input) else {
                continue;
            };
            let heat_of = self.heat_of(input);
            let parts = mapped.parts(input.stamp.size_bytes);
            for (number, (part, offset, length)) in parts.enumerate() {
                if number % PARTS_BETWEEN_LOOKS == 0 && self.is_search_over() {
                    break;
                }
                let heat = heat_of(part);
                if heat > 0 {
                    pieces.try_push(Piece {
                        offset,
                        length,
                        heat: f32::from(heat),
                        is_one_of_few: f32::from(heat) >= READ_HEAT,
                    })?;
                }
            }
        }
        self.finish(&self.open_output()?, &pieces, size_bytes)
    }
}

impl Mapped {
    /// Its pages in an input of `size_bytes`, by an offset in each, and where each begins in the output, and how long it
    /// is there.
    fn parts(self, size_bytes: u64) -> impl Iterator<Item = (u64, u64, u64)> {
        let end = (self.input_offset.saturating_add(self.input_bytes)).min(size_bytes);
        // Widened: the product of two lengths needs more than 64 bits.
        let place = move |offset: u64| {
            let part = u128::from(offset - self.input_offset) * u128::from(self.output_bytes);
            let part = part.checked_div(u128::from(self.input_bytes)).unwrap_or(0);
            self.output_offset.saturating_add(part as u64)
        };
        let mut at = self.input_offset;
        std::iter::from_fn(move || {
            let start = at;
            (start < end).then(|| {
                at = (start / PAGE_BYTES + 1).saturating_mul(PAGE_BYTES).min(end);
                let (from, to) = (place(start), place(at));
                (start, from, (to - from).max(1))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_an_input_have_their_share_of_the_output() {
        let mapped = Mapped {
            input: 0,
            input_offset: 1000,
            input_bytes: 8192,
            output_offset: 50_000,
            output_bytes: 4096,
        };
        let parts: Vec<_> = mapped.parts(1 << 20).collect();
        assert_eq!(
            parts,
            [
                (1000, 50_000, 1548),
                (4096, 51_548, 2048),
                (8192, 53_596, 500)
            ]
        );
        let nothing = Mapped {
            input_bytes: 0,
            ..mapped
        };
        assert_eq!(nothing.parts(1 << 20).count(), 0);
        let beyond = Mapped {
            input_bytes: u64::MAX - 1000,
            ..mapped
        };
        assert_eq!(beyond.parts(8192).count(), 2, "no more than the input has");
    }
}
