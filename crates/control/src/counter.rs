//! The counters by name. Their order is their place on the page: a new counter
//! goes to the end, and a removed one raises the page's version.

macro_rules! counters {
    ($($(#[doc = $doc:expr])+ $variant:ident = $name:literal,)+) => {
        /// One 64-bit counter of the status page.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(usize)]
        pub enum Counter {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Counter {
            /// All counters in the order of the page.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$variant,)+];
            /// How many there are.
            pub const COUNT: usize = [$($name,)+].len();

            /// The name as it is printed.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }
    };
}

/// The first of [`Counter::DEVICE_READS`] has reads of less than this, in nanoseconds.
pub(crate) const DEVICE_READ_NS: u64 = 64_000;

counters! {
    /// Tables that were opened and are followed.
    TrackedFilesOpened = "tracked_files_opened",
    /// Read calls of background threads on tables.
    BackgroundReads = "background_reads",
    /// Bytes delivered to background threads from tables.
    BackgroundBytes = "background_bytes",
    /// Of these, bytes delivered from directly read windows.
    BytesDirect = "bytes_direct",
    /// Of these, bytes read with `RWF_DONTCACHE`.
    BytesDontcache = "bytes_dontcache",
    /// Of these, bytes read buffered and dropped afterwards.
    BytesWindow = "bytes_window",
    /// Of these, bytes whose window was resident and came from the page cache.
    BytesFromCache = "bytes_from_cache",
    /// Of these, bytes passed through as the application asked for them.
    BytesBuffered = "bytes_buffered",
    /// Bytes that direct I/O moved from the device, read-ahead included.
    DeviceBytesDirect = "device_bytes_direct",
    /// Windows read directly.
    WindowsRead = "windows_read",
    /// Windows for which the consumer had to wait.
    WindowsWaited = "windows_waited",
    /// Bytes read ahead that no one consumed.
    ReadAheadWastedBytes = "read_ahead_wasted_bytes",
    /// `readahead` and `WILLNEED` calls of background threads not passed on.
    AdviceSwallowed = "advice_swallowed",
    /// Memory held by windows now.
    WindowMemoryBytes = "window_memory_bytes",
    /// The most memory that windows ever held.
    WindowMemoryPeakBytes = "window_memory_peak_bytes",
    /// The filesystem cannot do direct I/O.
    FallbackFilesystem = "fallback_filesystem",
    /// Direct I/O is accepted but goes through the page cache all the same.
    FallbackNoEffect = "fallback_no_effect",
    /// No descriptor left for an own open.
    FallbackDescriptorLimit = "fallback_descriptor_limit",
    /// The own open failed.
    FallbackOpenFailed = "fallback_open_failed",
    /// An own read failed.
    FallbackReadFailed = "fallback_read_failed",
    /// The cap for windows was reached.
    FallbackMemoryCap = "fallback_memory_cap",
    /// The file changed less than 20 ms ago.
    FallbackNotSettled = "fallback_not_settled",
    /// The file has a writer or a shared writable mapping.
    FallbackWritten = "fallback_written",
    /// The descriptor is no longer the file that was opened.
    FallbackIdentity = "fallback_identity",
    /// The descriptor's flags ask for something else (`O_DIRECT`, `O_APPEND`, …).
    FallbackDescriptorFlags = "fallback_descriptor_flags",
    /// Too many streams at once.
    FallbackStreamLimit = "fallback_stream_limit",
    /// A call whose bytes cannot be served (`readv`, `read`, a bad buffer, …).
    FallbackCall = "fallback_call",
    /// Asynchronous I/O cannot be had: windows are read when they are needed.
    AioUnavailable = "aio_unavailable",
    /// Bytes that background threads wrote to tables that are treated.
    WriteBytes = "write_bytes",
    /// Of these, bytes written directly.
    WriteBytesDirect = "write_bytes_direct",
    /// Of these, bytes written with `RWF_DONTCACHE`.
    WriteBytesDontcache = "write_bytes_dontcache",
    /// Of these, bytes written buffered, written back early and dropped.
    WriteBytesWindow = "write_bytes_window",
    /// Of these, bytes that went through the page cache and stayed: ends of blocks, small writes.
    WriteBytesBuffered = "write_bytes_buffered",
    /// Tables whose writes were treated.
    StagedFiles = "staged_files",
    /// Write calls that ended in a staging buffer, without a system call.
    StagedWrites = "staged_writes",
    /// Times that staged bytes were brought to the kernel because a call would have missed them.
    Settled = "settled",
    /// Errors of delayed writes that were reported to the application.
    WriteErrors = "write_errors",
    /// A call that the writer does not know: the table is written plainly from then on.
    DemotedCall = "demoted_call",
    /// A write elsewhere than at the end.
    DemotedPosition = "demoted_position",
    /// The descriptor was duplicated, or the file opened once more for writing or unseen.
    DemotedDescriptor = "demoted_descriptor",
    /// A mapping that could show staged bytes.
    DemotedMapping = "demoted_mapping",
    /// The process was forked or ends.
    DemotedProcess = "demoted_process",
    /// The application needed the descriptor number, or a record lock.
    DemotedRoom = "demoted_room",
    /// The application's buffer cannot be read.
    DemotedBuffer = "demoted_buffer",
    /// No memory, descriptor or place for a staging buffer: written as a window.
    FallbackWriteMemory = "fallback_write_memory",
    /// A direct write failed; its bytes went through the page cache.
    FallbackWriteFailed = "fallback_write_failed",
    /// Direct writes go through the page cache all the same: written as a window.
    FallbackWriteNoEffect = "fallback_write_no_effect",
    /// Direct writes are refused on this kernel (Debian #1057843).
    FallbackWriteKernel = "fallback_write_kernel",
    /// Coldstream's own code panicked: everything passes through from then on.
    FallbackPanic = "fallback_panic",
    /// Tables written plainly because what their writer had read was in the page cache: the data
    /// fits in memory, and its successor shall too.
    KeptCached = "kept_cached",
    /// Of the bytes written directly, those that a thread of the library's own wrote while the
    /// application filled the next buffer.
    WriteBytesOverlapped = "write_bytes_overlapped",
    /// Outputs, or parts of them, whose inputs had hot pages.
    HandoverTables = "handover_tables",
    /// Pages of outputs that were expected to be hot.
    HandoverPagesHot = "handover_pages_hot",
    /// Of these, too many to be warmed.
    HandoverPagesLeftOut = "handover_pages_left_out",
    /// Pages that were brought into the page cache before their table was published; those of parts
    /// of BTI tables in which hot partitions were expected, and some were not, among them.
    HandoverPagesWarmed = "handover_pages_warmed",
    /// Blocks, chunks or partitions that are warm since.
    HandoverPlacesWarmed = "handover_places_warmed",
    /// Of these, those that the foreground has read since.
    HandoverPlacesHit = "handover_places_hit",
    /// Tables without handover: a format that is not known.
    HandoverDeclined = "handover_declined",
    /// Tables without handover: malformed, or could not be read.
    HandoverFailed = "handover_failed",
    /// Handovers that warmed nothing because memory was short.
    HandoverShortOfMemory = "handover_short_of_memory",
    /// Handovers that ran out of time, or were switched off.
    HandoverCutShort = "handover_cut_short",
    /// Bytes of indexes, of hot blocks, and of unfinished tables that were read to find places.
    HandoverIndexBytes = "handover_index_bytes",
    /// How long handovers held their threads up, in all.
    HandoverNanoseconds = "handover_nanoseconds",
    /// Handovers that took less than 1 ms.
    HandoverDelay1Ms = "handover_delay_1_ms",
    /// Handovers that took less than 4 ms, but no less than 1 ms.
    HandoverDelay4Ms = "handover_delay_4_ms",
    /// Handovers that took less than 16 ms, but no less than 4 ms.
    HandoverDelay16Ms = "handover_delay_16_ms",
    /// Handovers that took less than 64 ms, but no less than 16 ms.
    HandoverDelay64Ms = "handover_delay_64_ms",
    /// Handovers that took less than 256 ms, but no less than 64 ms.
    HandoverDelay256Ms = "handover_delay_256_ms",
    /// Handovers that took less than 1024 ms, but no less than 256 ms.
    HandoverDelay1024Ms = "handover_delay_1024_ms",
    /// Handovers that took longer.
    HandoverDelayLonger = "handover_delay_longer",
    /// Background reads passed through because reads are switched off.
    FallbackSwitchedOff = "fallback_switched_off",
    /// Writes were switched off while the table was written.
    DemotedSwitchedOff = "demoted_switched_off",
    /// Threads whose nice value or I/O priority was changed when the keeper last looked.
    PriorityThreads = "priority_threads",
    /// Threads whose nice value was left alone because it could not be taken back.
    PriorityRefused = "priority_refused",
    /// Threads left alone because there was no room for more.
    PriorityLimit = "priority_limit",
    /// Requests of `coldstream ctl` that were answered.
    SwitchRequests = "switch_requests",
    /// Bytes that were asked for ahead of range scans.
    ScanBytesAhead = "scan_bytes_ahead",
    /// Bytes that background threads moved while pacing was on.
    PacingBytes = "pacing_bytes",
    /// What background I/O is held to now, in bytes per second; 0 is nothing.
    PacingBytesPerSecond = "pacing_bytes_per_second",
    /// The largest request that it may make now, in bytes; 0 is as configured.
    PacingRequestBytes = "pacing_request_bytes",
    /// Times that a background thread waited.
    PacingWaits = "pacing_waits",
    /// How long background threads waited, in all.
    PacingNanoseconds = "pacing_nanoseconds",
    /// Times that background I/O began to be held back.
    PacingBrakes = "pacing_brakes",
    /// Times that it was let go because compactions fell behind flushes.
    PacingReleases = "pacing_releases",
    /// How far they are behind.
    PacingDebtBytes = "pacing_debt_bytes",
    /// Mean latency of the foreground's device reads without background I/O; 0 is not known.
    PacingIdleNanoseconds = "pacing_idle_nanoseconds",
    /// Bytes of memtables that were written out.
    FlushedBytes = "flushed_bytes",
    /// Foreground reads of tables that were timed.
    ForegroundReadsTimed = "foreground_reads_timed",
    /// Of these, reads that came from the device, as they took 16 µs at least, and less than 64 µs.
    ForegroundDeviceReads64Us = "foreground_device_reads_64_us",
    /// As above, less than 128 µs, but no less than 64 µs.
    ForegroundDeviceReads128Us = "foreground_device_reads_128_us",
    /// As above, less than 256 µs, but no less than 128 µs.
    ForegroundDeviceReads256Us = "foreground_device_reads_256_us",
    /// As above, less than 512 µs, but no less than 256 µs.
    ForegroundDeviceReads512Us = "foreground_device_reads_512_us",
    /// As above, less than 1024 µs, but no less than 512 µs.
    ForegroundDeviceReads1Ms = "foreground_device_reads_1_ms",
    /// As above, less than 2048 µs, but no less than 1024 µs.
    ForegroundDeviceReads2Ms = "foreground_device_reads_2_ms",
    /// As above, less than 4096 µs, but no less than 2048 µs.
    ForegroundDeviceReads4Ms = "foreground_device_reads_4_ms",
    /// As above, less than 8192 µs, but no less than 4096 µs.
    ForegroundDeviceReads8Ms = "foreground_device_reads_8_ms",
    /// As above, less than 16,384 µs, but no less than 8192 µs.
    ForegroundDeviceReads16Ms = "foreground_device_reads_16_ms",
    /// As above, less than 32,768 µs, but no less than 16,384 µs.
    ForegroundDeviceReads32Ms = "foreground_device_reads_32_ms",
    /// As above, less than 65,536 µs, but no less than 32,768 µs.
    ForegroundDeviceReads64Ms = "foreground_device_reads_64_ms",
    /// As above, less than 131,072 µs, but no less than 65,536 µs.
    ForegroundDeviceReads128Ms = "foreground_device_reads_128_ms",
    /// As above, less than 262,144 µs, but no less than 131,072 µs.
    ForegroundDeviceReads256Ms = "foreground_device_reads_256_ms",
    /// As above, longer.
    ForegroundDeviceReadsLonger = "foreground_device_reads_longer",
    /// Times that the thread which drops cold pages woke up to look how much room there is.
    EvictionWakeups = "eviction_wakeups",
    /// Processor time of that thread.
    EvictionNanoseconds = "eviction_nanoseconds",
    /// Cold ranges of tables of which it was asked what of them is in the page cache.
    EvictionRanges = "eviction_ranges",
    /// Bytes that were dropped from the page cache.
    EvictionBytes = "eviction_bytes",
    /// Cold ranges that were left alone because pages of them were dirty or being written.
    EvictionRangesDirty = "eviction_ranges_dirty",
    /// Times that nothing could be dropped because the kernel does not say what is dirty, or gives
    /// the thread no table of descriptors of its own.
    EvictionRefused = "eviction_refused",
    /// What the library takes of the application's heap when a window or a handover last ended.
    HeapBytes = "heap_bytes",
    /// The most that it ever took.
    HeapPeakBytes = "heap_peak_bytes",
    /// Bytes of tables that the kernel sent (`sendfile`) through a window of the page cache.
    SentBytes = "sent_bytes",
    /// Of the page cache, bytes that were read for that and let go again; what the socket still held
    /// stayed.
    SentBytesDropped = "sent_bytes_dropped",
    /// About how many hot ranges of 224 KiB made room for others. A few do so by chance; many where more is
    /// read of tables than `handover.heat_bytes` has room for.
    HeatDisplaced = "heat_displaced",
}

impl Counter {
    /// Handovers by how long they took: each counter has those of less than
    /// [`HANDOVER_DELAY_FACTOR`](Self::HANDOVER_DELAY_FACTOR) times what the one before it has, the
    /// first those of less than 1 ms, the last all others.
    pub const HANDOVER_DELAYS: [Self; 7] = [
        Self::HandoverDelay1Ms,
        Self::HandoverDelay4Ms,
        Self::HandoverDelay16Ms,
        Self::HandoverDelay64Ms,
        Self::HandoverDelay256Ms,
        Self::HandoverDelay1024Ms,
        Self::HandoverDelayLonger,
    ];
    /// From one of them to the next.
    pub const HANDOVER_DELAY_FACTOR: u64 = 4;

    /// The latencies of the foreground's device reads: each counter has those of less than twice
    /// what the one before it has, the first those of less than 64 µs, the last all others.
    pub const DEVICE_READS: [Self; 14] = [
        Self::ForegroundDeviceReads64Us,
        Self::ForegroundDeviceReads128Us,
        Self::ForegroundDeviceReads256Us,
        Self::ForegroundDeviceReads512Us,
        Self::ForegroundDeviceReads1Ms,
        Self::ForegroundDeviceReads2Ms,
        Self::ForegroundDeviceReads4Ms,
        Self::ForegroundDeviceReads8Ms,
        Self::ForegroundDeviceReads16Ms,
        Self::ForegroundDeviceReads32Ms,
        Self::ForegroundDeviceReads64Ms,
        Self::ForegroundDeviceReads128Ms,
        Self::ForegroundDeviceReads256Ms,
        Self::ForegroundDeviceReadsLonger,
    ];

    /// The counter of [`Self::HANDOVER_DELAYS`] for a handover that took so many nanoseconds.
    #[must_use]
    pub fn of_handover_delay(ns: u64) -> Self {
        let steps = (ns / 1_000_000)
            .checked_ilog(Self::HANDOVER_DELAY_FACTOR)
            .map_or(0, |log| log + 1);
        let place = usize::try_from(steps).unwrap_or(usize::MAX);
        let last = Self::HandoverDelayLonger;
        Self::HANDOVER_DELAYS.get(place).copied().unwrap_or(last)
    }

    /// The counter of [`Self::DEVICE_READS`] for a read that took so many nanoseconds.
    #[must_use]
    pub fn of_device_read(ns: u64) -> Self {
        let doublings = (ns / DEVICE_READ_NS)
            .checked_ilog2()
            .map_or(0, |log| log + 1);
        let place = usize::try_from(doublings).unwrap_or(usize::MAX);
        let last = Self::ForegroundDeviceReadsLonger;
        Self::DEVICE_READS.get(place).copied().unwrap_or(last)
    }

    /// The reason that this counter stands for, if it counts fallbacks.
    #[must_use]
    pub fn fallback_reason(self) -> Option<&'static str> {
        if self == Self::AioUnavailable {
            return Some(self.name());
        }
        self.name().strip_prefix("fallback_")
    }

    /// The reason that this counter stands for, if it counts tables that were given up to plain
    /// writes.
    #[must_use]
    pub fn demotion_reason(self) -> Option<&'static str> {
        self.name().strip_prefix("demoted_")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_of_handovers_are_classed_by_milliseconds() {
        for (ms, counter) in [
            (0, Counter::HandoverDelay1Ms),
            (1, Counter::HandoverDelay4Ms),
            (3, Counter::HandoverDelay4Ms),
            (4, Counter::HandoverDelay16Ms),
            (63, Counter::HandoverDelay64Ms),
            (64, Counter::HandoverDelay256Ms),
            (1023, Counter::HandoverDelay1024Ms),
            (1024, Counter::HandoverDelayLonger),
            (u64::MAX / 1_000_000, Counter::HandoverDelayLonger),
        ] {
            assert_eq!(Counter::of_handover_delay(ms * 1_000_000), counter, "{ms}");
        }
    }

    #[test]
    fn order_and_names_are_the_layout() {
        let names: Vec<_> = Counter::ALL.iter().map(|counter| counter.name()).collect();
        assert_eq!(
            names,
            [
                "tracked_files_opened",
                "background_reads",
                "background_bytes",
                "bytes_direct",
                "bytes_dontcache",
                "bytes_window",
                "bytes_from_cache",
                "bytes_buffered",
                "device_bytes_direct",
                "windows_read",
                "windows_waited",
                "read_ahead_wasted_bytes",
                "advice_swallowed",
                "window_memory_bytes",
                "window_memory_peak_bytes",
                "fallback_filesystem",
                "fallback_no_effect",
                "fallback_descriptor_limit",
                "fallback_open_failed",
                "fallback_read_failed",
                "fallback_memory_cap",
                "fallback_not_settled",
                "fallback_written",
                "fallback_identity",
                "fallback_descriptor_flags",
                "fallback_stream_limit",
                "fallback_call",
                "aio_unavailable",
                "write_bytes",
                "write_bytes_direct",
                "write_bytes_dontcache",
                "write_bytes_window",
                "write_bytes_buffered",
                "staged_files",
                "staged_writes",
                "settled",
                "write_errors",
                "demoted_call",
                "demoted_position",
                "demoted_descriptor",
                "demoted_mapping",
                "demoted_process",
                "demoted_room",
                "demoted_buffer",
                "fallback_write_memory",
                "fallback_write_failed",
                "fallback_write_no_effect",
                "fallback_write_kernel",
                "fallback_panic",
                "kept_cached",
                "write_bytes_overlapped",
                "handover_tables",
                "handover_pages_hot",
                "handover_pages_left_out",
                "handover_pages_warmed",
                "handover_places_warmed",
                "handover_places_hit",
                "handover_declined",
                "handover_failed",
                "handover_short_of_memory",
                "handover_cut_short",
                "handover_index_bytes",
                "handover_nanoseconds",
                "handover_delay_1_ms",
                "handover_delay_4_ms",
                "handover_delay_16_ms",
                "handover_delay_64_ms",
                "handover_delay_256_ms",
                "handover_delay_1024_ms",
                "handover_delay_longer",
                "fallback_switched_off",
                "demoted_switched_off",
                "priority_threads",
                "priority_refused",
                "priority_limit",
                "switch_requests",
                "scan_bytes_ahead",
                "pacing_bytes",
                "pacing_bytes_per_second",
                "pacing_request_bytes",
                "pacing_waits",
                "pacing_nanoseconds",
                "pacing_brakes",
                "pacing_releases",
                "pacing_debt_bytes",
                "pacing_idle_nanoseconds",
                "flushed_bytes",
                "foreground_reads_timed",
                "foreground_device_reads_64_us",
                "foreground_device_reads_128_us",
                "foreground_device_reads_256_us",
                "foreground_device_reads_512_us",
                "foreground_device_reads_1_ms",
                "foreground_device_reads_2_ms",
                "foreground_device_reads_4_ms",
                "foreground_device_reads_8_ms",
                "foreground_device_reads_16_ms",
                "foreground_device_reads_32_ms",
                "foreground_device_reads_64_ms",
                "foreground_device_reads_128_ms",
                "foreground_device_reads_256_ms",
                "foreground_device_reads_longer",
                "eviction_wakeups",
                "eviction_nanoseconds",
                "eviction_ranges",
                "eviction_bytes",
                "eviction_ranges_dirty",
                "eviction_refused",
                "heap_bytes",
                "heap_peak_bytes",
                "sent_bytes",
                "sent_bytes_dropped",
                "heat_displaced",
            ]
        );
        for (place, counter) in Counter::ALL.into_iter().enumerate() {
            assert_eq!(counter as usize, place);
        }
    }

    #[test]
    fn device_reads_have_their_counters() {
        for (ns, counter) in [
            (0, Counter::ForegroundDeviceReads64Us),
            (63_999, Counter::ForegroundDeviceReads64Us),
            (64_000, Counter::ForegroundDeviceReads128Us),
            (127_999, Counter::ForegroundDeviceReads128Us),
            (1_000_000, Counter::ForegroundDeviceReads1Ms),
            (262_143_999, Counter::ForegroundDeviceReads256Ms),
            (262_144_000, Counter::ForegroundDeviceReadsLonger),
            (u64::MAX, Counter::ForegroundDeviceReadsLonger),
        ] {
            assert_eq!(Counter::of_device_read(ns), counter, "{ns}");
        }
    }

    #[test]
    fn fallbacks_have_reasons() {
        assert_eq!(
            Counter::FallbackNoEffect.fallback_reason(),
            Some("no_effect")
        );
        assert_eq!(
            Counter::AioUnavailable.fallback_reason(),
            Some("aio_unavailable")
        );
        assert_eq!(Counter::BytesDirect.fallback_reason(), None);
    }
}
