//! A snapshot as one line of a log, for a person and for a log shipper.
//!
//! One sentence says what went around the page cache. `key=value` pairs follow: the key is the
//! counter's name, the value has its unit and no space. Counters that are zero are left out.
//! Nothing here allocates: the library writes this line inside the database.

use std::fmt;

use coldstream_policy::DisplayBytes;

use crate::counter::{Counter, Unit};
use crate::snapshot::Snapshot;

/// The counters of the line, in its order. The problems come before these, so that a line that is
/// cut off still has them.
const SHOWN: [Counter; 35] = [
    Counter::BytesDirect,
    Counter::BytesDontcache,
    Counter::BytesDropBehind,
    Counter::BytesFromCache,
    Counter::BytesBuffered,
    Counter::BytesEngineDirect,
    Counter::WindowsRead,
    Counter::WindowsWaited,
    Counter::StagedFiles,
    Counter::WriteBytesDirect,
    Counter::WriteBytesOverlapped,
    Counter::WriteBytesDontcache,
    Counter::WriteBytesDropBehind,
    Counter::WriteBytesBuffered,
    Counter::WriteBytesEngineDirect,
    Counter::StagedWrites,
    Counter::Drains,
    Counter::DrainsLate,
    Counter::KeptCached,
    Counter::FlushesBypassed,
    Counter::HandoverSsTables,
    Counter::HandoverNanoseconds,
    Counter::HandoverPagesWarmed,
    Counter::HandoverPagesWarmedLate,
    Counter::HandoverRangesWarmed,
    Counter::HandoverRangesHit,
    Counter::HandoversFrugal,
    Counter::HandoverBlockCacheBytes,
    Counter::HandoverPagesRecalled,
    Counter::SendfileBytes,
    Counter::SendfileBytesDropped,
    Counter::PacingBrakes,
    Counter::PacingNanoseconds,
    Counter::PacingReleases,
    Counter::EvictionBytes,
];

/// The memory of the library itself, at the end of the line.
const MEMORY: [Counter; 2] = [Counter::WindowMemoryPeakBytes, Counter::HeapPeakBytes];

impl Snapshot {
    /// One sentence without its full stop: what background I/O moved around the page cache.
    pub fn headline(&self) -> impl fmt::Display {
        Headline {
            read: self.read_around_cache_bytes(),
            written: self.written_around_cache_bytes(),
        }
    }

    /// Bytes that background threads read and that did not stay in the page cache.
    #[must_use]
    pub fn read_around_cache_bytes(&self) -> u64 {
        self.sum([
            Counter::BytesDirect,
            Counter::BytesDontcache,
            Counter::BytesDropBehind,
        ])
    }

    /// Bytes that background threads wrote and that did not stay in the page cache.
    #[must_use]
    pub fn written_around_cache_bytes(&self) -> u64 {
        self.sum([
            Counter::WriteBytesDirect,
            Counter::WriteBytesDontcache,
            Counter::WriteBytesDropBehind,
        ])
    }

    /// The page may hold any numbers: the sum does not overflow.
    fn sum(&self, counters: [Counter; 3]) -> u64 {
        let values = counters.map(|counter| self.get(counter));
        values.into_iter().fold(0, u64::saturating_add)
    }

    /// The counters of the log line as ` key=value ` pairs, each after a space.
    pub fn totals(&self) -> impl fmt::Display + '_ {
        Totals(self)
    }
}

/// The sentence and the pairs.
impl fmt::Display for Snapshot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.headline(), self.totals())
    }
}

struct Headline {
    read: u64,
    written: u64,
}

impl fmt::Display for Headline {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (read, written) = (DisplayBytes(self.read), DisplayBytes(self.written));
        match (self.read, self.written) {
            (0, 0) => formatter.write_str("no background I/O went around the page cache"),
            (_, 0) => write!(formatter, "{read} were read around the page cache"),
            (0, _) => write!(formatter, "{written} were written around the page cache"),
            _ => write!(
                formatter,
                "{read} were read and {written} written around the page cache"
            ),
        }
    }
}

struct Totals<'a>(&'a Snapshot);

impl fmt::Display for Totals<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems = (Counter::ALL.into_iter()).filter(|counter| counter.is_irregular());
        for counter in problems.chain(SHOWN).chain(MEMORY) {
            let value = self.0.get(counter);
            if value != 0 {
                pair(formatter, counter, value)?;
            }
        }
        Ok(())
    }
}

/// ` key=value` in the counter's unit. Nanoseconds become milliseconds, in the key too.
fn pair(formatter: &mut fmt::Formatter<'_>, counter: Counter, value: u64) -> fmt::Result {
    let name = counter.name();
    match counter.unit() {
        Unit::Bytes | Unit::BytesPerSecond => {
            write!(formatter, " {name}={:#}", DisplayBytes(value))
        }
        Unit::Nanoseconds => {
            let what = name.strip_suffix("_nanoseconds").unwrap_or(name);
            write!(formatter, " {what}_ms={}", value / 1_000_000)
        }
        Unit::Count => write!(formatter, " {name}={value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::tests::snapshot;

    #[test]
    fn the_line_of_a_quiet_process() {
        assert_eq!(
            snapshot(&[]).to_string(),
            "no background I/O went around the page cache."
        );
    }

    #[test]
    fn the_line_of_a_busy_process() {
        let busy = snapshot(&[
            (Counter::BytesDirect, (1 << 30) + (1 << 28)),
            (Counter::BytesDropBehind, 4096),
            (Counter::BytesFromCache, 3 << 20),
            (Counter::WindowsRead, 200),
            (Counter::WindowsWaited, 7),
            (Counter::WriteBytesDirect, 5 << 20),
            (Counter::FallbackFilesystem, 3),
            (Counter::AioUnavailable, 1),
            (Counter::PacingBrakes, 2),
            (Counter::PacingNanoseconds, 3_400_000),
            (Counter::HeapPeakBytes, 1536),
        ]);
        assert_eq!(
            busy.to_string(),
            "1.2 GiB were read and 5 MiB written around the page cache. fallback_filesystem=3 \
             aio_unavailable=1 bytes_direct=1.2GiB bytes_drop_behind=4KiB bytes_from_cache=3MiB \
             windows_read=200 windows_waited=7 write_bytes_direct=5MiB pacing_brakes=2 pacing_ms=3 \
             heap_peak_bytes=1.5KiB"
        );
    }

    #[test]
    fn forged_counters_do_not_overflow_the_headline() {
        let forged = snapshot(&[
            (Counter::BytesDirect, u64::MAX),
            (Counter::BytesDropBehind, u64::MAX),
        ]);
        assert_eq!(forged.read_around_cache_bytes(), u64::MAX);
    }
}
