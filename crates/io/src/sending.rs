//! Bounds the page cache of a file that the kernel sends (`sendfile(2)`).
//!
//! Only the page cache can feed `sendfile`. So each segment of the file goes through these steps:
//!
//! 1. Take its residency: pages that are resident already belong to others.
//! 2. Read it ahead into the page cache.
//! 3. After it was sent, drop its pages, except those that were resident before.
//!
//! The kernel's own readahead must be off (`FADV_RANDOM`). Pages that it reads ahead would look resident
//! before.

use crate::absent::{self, AbsentPages};
use crate::sys::Descriptor;
use crate::warm::read_ahead;
use std::ops::Range;

/// Bytes that are prepared or dropped at once.
const SEGMENT_BYTES: u64 = 1 << 20;
/// Prepared segments from the one that is being sent on.
const SEGMENTS_AHEAD: u64 = 4;
/// Segments that are kept behind it. The socket still has their pages, and the kernel drops no page that
/// is in use. `net.ipv4.tcp_wmem` allows 4 MiB, and 16 MiB with the value recommended for Cassandra.
const SEGMENTS_BEHIND: u64 = 24;
/// The most segments that are prepared and not yet dropped.
const SEGMENTS: usize = (SEGMENTS_AHEAD + SEGMENTS_BEHIND) as usize;

/// The most bytes of one call. The end of a longer call would not be read ahead.
pub const CALL_BYTES_MAX: u64 = (SEGMENTS_AHEAD - 1) * SEGMENT_BYTES;

const _: () = assert!(SEGMENT_BYTES <= absent::RANGE_BYTES_MAX);

/// What to do with a segment, by its number in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendStep {
    Prepare(u64),
    Drop(u64),
}

/// Which segments are prepared and not dropped: those from `first` to `end`. Pure logic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct PreparedSegments {
    first: u64,
    end: u64,
}

impl PreparedSegments {
    /// Whether a segment is prepared, or is the next one.
    fn is_near(&self, segment: u64) -> bool {
        (self.first..=self.end).contains(&segment)
    }

    /// The end of the segments to prepare before the bytes `call` of a file are sent. A call that
    /// continues the last one will be continued itself; another call may be the only one.
    fn goal(&self, call: &Range<u64>, size_bytes: u64) -> u64 {
        let at = call.start / SEGMENT_BYTES;
        let goal = if self.first < self.end && self.is_near(at) {
            at + SEGMENTS_AHEAD
        } else {
            call.end.div_ceil(SEGMENT_BYTES).min(at + SEGMENTS_AHEAD)
        };
        goal.min(size_bytes.div_ceil(SEGMENT_BYTES))
    }

    /// The next step before bytes from `position` on are sent. `None` when all segments before `goal` are
    /// prepared.
    fn next(&mut self, position: u64, goal: u64) -> Option<SendStep> {
        let at = position / SEGMENT_BYTES;
        let is_sent = !self.is_near(at) || self.first + SEGMENTS_BEHIND <= at;
        if self.first < self.end && is_sent {
            return self.next_drop();
        }
        if self.first == self.end {
            (self.first, self.end) = (at, at);
        }
        (self.end < goal).then(|| {
            self.end += 1;
            SendStep::Prepare(self.end - 1)
        })
    }

    /// The next step when the file is not sent any further.
    fn next_drop(&mut self) -> Option<SendStep> {
        (self.first < self.end).then(|| {
            self.first += 1;
            SendStep::Drop(self.first - 1)
        })
    }
}

/// One file that is sent; all zeros is valid before its first call. Not thread-safe.
#[derive(Debug, Default)]
#[repr(C)]
pub struct SendfileStream {
    prepared: PreparedSegments,
    absent: [AbsentPages; SEGMENTS],
}

impl SendfileStream {
    /// Prepares for a `sendfile` of the bytes `call`, [`CALL_BYTES_MAX`] at most, of a file of
    /// `size_bytes`. Pages whose offset `is_kept` are not dropped. Returns the bytes that the kernel was
    /// asked to drop; it keeps pages that are in use.
    pub fn before_call(
        &mut self,
        descriptor: impl Into<Descriptor>,
        call: Range<u64>,
        size_bytes: u64,
        is_kept: impl Fn(u64) -> bool,
    ) -> u64 {
        let descriptor = descriptor.into();
        let goal = self.prepared.goal(&call, size_bytes);
        let mut dropped_bytes = 0;
        while let Some(step) = self.prepared.next(call.start, goal) {
            dropped_bytes += self.perform(step, descriptor, size_bytes, &is_kept);
        }
        dropped_bytes
    }

    /// Drops what is left: the file is not sent any further. Returns as [`SendfileStream::before_call`].
    pub fn finish(
        &mut self,
        descriptor: impl Into<Descriptor>,
        is_kept: impl Fn(u64) -> bool,
    ) -> u64 {
        let descriptor = descriptor.into();
        let mut dropped_bytes = 0;
        while let Some(step) = self.prepared.next_drop() {
            dropped_bytes += self.perform(step, descriptor, 0, &is_kept);
        }
        dropped_bytes
    }

    fn perform(
        &mut self,
        step: SendStep,
        descriptor: Descriptor,
        size_bytes: u64,
        is_kept: impl Fn(u64) -> bool,
    ) -> u64 {
        let (SendStep::Prepare(segment) | SendStep::Drop(segment)) = step;
        let start = segment * SEGMENT_BYTES;
        let Some(absent) = self.absent.get_mut((segment % SEGMENTS as u64) as usize) else {
            return 0;
        };
        match step {
            SendStep::Prepare(_) => {
                let length_bytes = size_bytes.saturating_sub(start).min(SEGMENT_BYTES);
                *absent = AbsentPages::of(descriptor, start, length_bytes);
                read_ahead(descriptor, start, length_bytes);
                0
            }
            SendStep::Drop(_) => absent.drop_again(descriptor, start, is_kept),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: u64 = 100 * SEGMENT_BYTES + 1;

    fn steps(prepared: &mut PreparedSegments, start: u64, length: u64) -> Vec<SendStep> {
        let goal = prepared.goal(&(start..start + length), SIZE);
        std::iter::from_fn(|| prepared.next(start, goal)).collect()
    }

    #[test]
    fn a_file_is_prepared_ahead_and_dropped_behind() {
        let mut prepared = PreparedSegments::default();
        let preparing = |segments: Range<u64>| segments.map(SendStep::Prepare).collect::<Vec<_>>();
        assert_eq!(
            steps(&mut prepared, 7, 9),
            preparing(0..1),
            "as far as asked"
        );
        assert_eq!(steps(&mut prepared, 16, 9), preparing(1..SEGMENTS_AHEAD));
        assert!(steps(&mut prepared, SEGMENT_BYTES - 1, 9).is_empty());
        let at = SEGMENTS_BEHIND;
        for segment in 1..at {
            let next = SEGMENTS_AHEAD + segment - 1;
            let expected = preparing(next..next + 1);
            assert_eq!(steps(&mut prepared, segment * SEGMENT_BYTES, 9), expected);
        }
        let next = SendStep::Prepare(at + SEGMENTS_AHEAD - 1);
        let expected = [SendStep::Drop(0), next];
        assert_eq!(steps(&mut prepared, at * SEGMENT_BYTES, 9), expected);
        assert_eq!(prepared.next_drop(), Some(SendStep::Drop(1)));
    }

    #[test]
    fn a_jump_drops_the_old_segments() {
        let mut prepared = PreparedSegments::default();
        let _ = steps(&mut prepared, 0, 1);
        let call = 50 * SEGMENT_BYTES + 1;
        let expected: Vec<_> = [SendStep::Drop(0)]
            .into_iter()
            .chain((50..54).map(SendStep::Prepare))
            .collect();
        assert_eq!(steps(&mut prepared, call, CALL_BYTES_MAX), expected);
    }

    proptest! {
        #[test]
        fn each_prepared_segment_is_dropped_once(
            jumps in proptest::collection::vec(0..SIZE, 1..50),
            steps in proptest::collection::vec(0..3 * SEGMENT_BYTES, 1..100),
        ) {
            let mut prepared = PreparedSegments::default();
            let mut held = std::collections::BTreeSet::new();
            let mut at = 0;
            let jumps = jumps.into_iter().map(Ok);
            for step in steps.into_iter().map(Err).chain(jumps) {
                at = match step {
                    Ok(position) => position,
                    Err(length) => (at + length).min(SIZE - 1),
                };
                let call = at..(at + CALL_BYTES_MAX).min(SIZE);
                let goal = prepared.goal(&call, SIZE);
                while let Some(step) = prepared.next(at, goal) {
                    match step {
                        SendStep::Prepare(segment) => {
                            prop_assert!(segment * SEGMENT_BYTES < SIZE);
                            prop_assert!(held.insert(segment));
                        }
                        SendStep::Drop(segment) => prop_assert!(held.remove(&segment)),
                    }
                    prop_assert!(held.len() <= SEGMENTS);
                }
                for segment in call.start / SEGMENT_BYTES..call.end.div_ceil(SEGMENT_BYTES) {
                    prop_assert!(held.contains(&segment));
                }
            }
            while let Some(SendStep::Drop(segment)) = prepared.next_drop() {
                prop_assert!(held.remove(&segment));
            }
            prop_assert!(held.is_empty());
        }
    }
}
