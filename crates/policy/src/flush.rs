//! Whether memtable flushes go around the page cache.
//!
//! What a flush writes is the newest data, so it is best left in the page cache. Where memory is short, each of its pages
//! drives out another one, and few of them are ever read. Evicted pages come back then, and each is a miss.
//!
//! For how long tasks wait for memory says nothing here. Writers and flushes wait most. Where the newest data is read,
//! it was a fifth of the time, and the p99 of reads was 4 to 10 times lower with the flushes in the page cache.

/// Where the pages go that a memtable flush writes.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::VariantNames,
)]
#[strum(serialize_all = "kebab-case")]
pub enum FlushOutput {
    /// They stay in the page cache, but for RocksDB's while memory is short.
    Auto,
    /// They stay in the page cache.
    #[default]
    Cached,
    /// They go around the page cache, like those of a compaction.
    Bypass,
}

/// As many refaults beside flushed pages show that hot pages go. A few happen always.
const REFAULT_SHARE: u64 = 32;
/// How long flushes go around the page cache before the next try. It doubles while a try fails.
const HOLD_MILLISECONDS_MIN: u64 = 60_000;
const HOLD_MILLISECONDS_MAX: u64 = 16 * 60_000;
/// A try has failed if memory is short so soon.
const TRY_MILLISECONDS: u64 = 30_000;

/// What happened since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlushInterval {
    /// Pages of files that were evicted, and read again; 0 if that is not known.
    pub refaulted_pages: u64,
    /// Pages that flushes wrote.
    pub flushed_pages: u64,
    /// Of the pages of the last flushes, the percentage that the foreground has read. The flush that was read most counts.
    pub read_percent: u64,
    /// Whether nothing more fits in the page cache without an eviction.
    pub is_full: bool,
}

impl FlushInterval {
    /// Whether what flushes leave in the page cache costs more than it gives. A page that is read spares one miss, and a
    /// refault is one.
    fn is_short(&self) -> bool {
        let read_pages = self.flushed_pages * self.read_percent / 100;
        self.is_full
            && self.flushed_pages > 0
            && self.refaulted_pages > read_pages.max(self.flushed_pages / REFAULT_SHARE)
    }
}

/// Decides from look to look. All-zero memory is a new one.
#[derive(Debug, Default)]
pub struct FlushWatch {
    goes_around: bool,
    changed_milliseconds: u64,
    hold_milliseconds: u64,
}

impl FlushWatch {
    /// Whether the next flushes go around the page cache, at this time of a clock that never stands at 0.
    pub fn look(&mut self, now_milliseconds: u64, seen: &FlushInterval) -> bool {
        let since_milliseconds = now_milliseconds.saturating_sub(self.changed_milliseconds);
        if self.goes_around {
            if since_milliseconds >= self.hold_milliseconds {
                self.change(false, now_milliseconds);
            }
        } else if seen.is_short() {
            let has_failed = self.hold_milliseconds > 0 && since_milliseconds < TRY_MILLISECONDS;
            self.hold_milliseconds = match has_failed {
                true => (2 * self.hold_milliseconds).min(HOLD_MILLISECONDS_MAX),
                false => HOLD_MILLISECONDS_MIN,
            };
            self.change(true, now_milliseconds);
        }
        self.goes_around
    }

    fn change(&mut self, goes_around: bool, now_milliseconds: u64) {
        self.goes_around = goes_around;
        self.changed_milliseconds = now_milliseconds;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flushes of 12 MiB, a tenth of them read, where hardly anything comes back.
    const CALM: FlushInterval = FlushInterval {
        refaulted_pages: 3,
        flushed_pages: 3072,
        read_percent: 10,
        is_full: true,
    };
    /// The same where hot pages go.
    const SHORT: FlushInterval = FlushInterval {
        refaulted_pages: 2500,
        ..CALM
    };

    #[test]
    fn memory_is_short_where_more_pages_come_back_than_flushed_ones_are_read() {
        assert!(!CALM.is_short());
        assert!(SHORT.is_short());
        let with = |read_percent, refaulted_pages| FlushInterval {
            read_percent,
            refaulted_pages,
            ..SHORT
        };
        for (name, calm) in [
            ("the newest is read", with(90, 2500)),
            ("few come back", with(0, 90)),
            (
                "there is room",
                FlushInterval {
                    is_full: false,
                    ..SHORT
                },
            ),
            (
                "nothing was flushed",
                FlushInterval {
                    flushed_pages: 0,
                    ..SHORT
                },
            ),
        ] {
            assert!(!calm.is_short(), "{name}");
        }
    }

    #[test]
    fn each_try_that_fails_waits_twice_as_long() {
        let mut watch = FlushWatch::default();
        let mut now = 1_000_000;
        assert!(!watch.look(now, &CALM));
        for hold in [60_000, 120_000, 240_000, 480_000, 960_000, 960_000] {
            now += 1000;
            assert!(watch.look(now, &SHORT), "{hold}");
            assert!(watch.look(now + hold - 1, &CALM), "{hold}");
            now += hold;
            assert!(!watch.look(now, &SHORT), "a try");
        }
        assert!(
            !watch.look(now + TRY_MILLISECONDS, &CALM),
            "it has not failed"
        );
        now += TRY_MILLISECONDS + 1;
        assert!(watch.look(now, &SHORT));
        assert!(!watch.look(now + HOLD_MILLISECONDS_MIN, &CALM));
    }
}
