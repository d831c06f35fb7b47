//! Writeback of a buffered appender: starts it early and drops written pages. So the dirty and cached pages
//! of the file stay bounded.

/// Bytes of one step.
pub const STEP_BYTES: u64 = 1 << 20;
/// Distance in bytes behind the writer at which pages are dropped. It is long enough for the device to
/// write them meanwhile.
pub const LAG_BYTES: u64 = 4 << 20;

/// What to do with a range of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritebackStep {
    /// Start writeback of the range.
    Start {
        /// First byte.
        offset: u64,
        /// Length in bytes.
        length_bytes: u64,
    },
    /// Wait for the writeback of the range, then drop its pages.
    Drop {
        /// First byte.
        offset: u64,
        /// Length in bytes.
        length_bytes: u64,
    },
}

/// How far writeback was started, and how far pages were dropped. All zeros at the start of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct WritebackProgress {
    started_to: u64,
    dropped_to: u64,
}

impl WritebackProgress {
    /// The next step for a file that is written up to `end`. `None` if there is nothing to do yet.
    pub fn next(&mut self, end: u64) -> Option<WritebackStep> {
        if end.saturating_sub(self.started_to) >= STEP_BYTES {
            let offset = self.started_to;
            self.started_to += STEP_BYTES;
            return Some(WritebackStep::Start {
                offset,
                length_bytes: STEP_BYTES,
            });
        }
        if self.started_to.saturating_sub(self.dropped_to) >= LAG_BYTES {
            let offset = self.dropped_to;
            self.dropped_to += STEP_BYTES;
            return Some(WritebackStep::Drop {
                offset,
                length_bytes: STEP_BYTES,
            });
        }
        None
    }

    /// Keeps the pages of all bytes before `end`.
    pub fn keep_to(&mut self, end: u64) {
        self.dropped_to = self.dropped_to.max(end);
    }

    /// Skips all bytes before `end`: they are on the device, and have no pages.
    pub fn skip_to(&mut self, end: u64) {
        self.started_to = self.started_to.max(end);
        self.dropped_to = self.dropped_to.max(end);
    }

    /// The last step, once all bytes before `end` are on the device.
    pub fn rest(&mut self, end: u64) -> Option<WritebackStep> {
        let offset = self.dropped_to;
        let length_bytes = end.checked_sub(offset).filter(|length| *length > 0)?;
        self.started_to = end;
        self.dropped_to = end;
        Some(WritebackStep::Drop {
            offset,
            length_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn kept_bytes_are_started_and_not_dropped() {
        let mut behind = WritebackProgress::default();
        behind.keep_to(3 << 20);
        let end = 8 << 20;
        let mut steps = Vec::new();
        while let Some(step) = behind.next(end) {
            steps.push(step);
        }
        let dropped: Vec<u64> = (steps.iter())
            .filter_map(|step| match step {
                WritebackStep::Drop { offset, .. } => Some(*offset >> 20),
                WritebackStep::Start { .. } => None,
            })
            .collect();
        assert_eq!((steps.len() - dropped.len(), dropped), (8, vec![3, 4]));
    }

    proptest! {
        #[test]
        fn every_byte_is_started_once_and_dropped_once_after(
            writes in proptest::collection::vec(1_u64..3 << 20, 1..60)
        ) {
            let mut behind = WritebackProgress::default();
            let (mut end, mut started, mut dropped) = (0, 0, 0);
            for length in writes {
                end += length;
                while let Some(step) = behind.next(end) {
                    match step {
                        WritebackStep::Start { offset, length_bytes } => {
                            prop_assert_eq!(offset, started);
                            started += length_bytes;
                            prop_assert!(started <= end);
                        }
                        WritebackStep::Drop { offset, length_bytes } => {
                            prop_assert_eq!(offset, dropped);
                            dropped += length_bytes;
                            prop_assert!(dropped <= started);
                        }
                    }
                }
                prop_assert!(end - started < STEP_BYTES && started - dropped < LAG_BYTES);
            }
            if let Some(WritebackStep::Drop { offset, length_bytes }) = behind.rest(end) {
                prop_assert_eq!(offset, dropped);
                prop_assert_eq!(offset + length_bytes, end);
            }
            prop_assert_eq!(behind.rest(end), None);
        }
    }
}
