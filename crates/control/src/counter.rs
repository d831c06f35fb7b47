//! The counters: one list holds name, explanation, group, kind and unit of each.
//!
//! `docs/counters.md` is made of it: a test says how to renew it.
//!
//! The order of the list is the layout of the page. A new counter goes to the end, here and in
//! `counter_layout.txt`. A counter that is removed raises the page's version. A counter that gets
//! another name keeps the old one for one version (`formerly`): `ctl status --json` prints both.

/// The part of Coldstream that a counter belongs to. The order is the one in which users see them; the
/// names are the headings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum CounterGroup {
    /// Background reads.
    #[strum(serialize = "background reads")]
    Reads,
    /// Background writes.
    #[strum(serialize = "background writes")]
    Writes,
    /// Plain calls instead of a mechanism, by reason; and files whose staging ended, by reason.
    Fallbacks,
    /// Handover, and the heat that it needs.
    Handover,
    /// Pacing of background I/O.
    Pacing,
    /// Latency of foreground reads.
    #[strum(serialize = "foreground reads")]
    Foreground,
    /// Readahead of SSTables.
    Readahead,
    /// Files that the kernel sends (`sendfile`).
    Sending,
    /// Eviction of cold pages.
    Eviction,
    /// Priorities of background threads.
    Priority,
    /// Requests of `coldstream ctl`.
    Control,
    /// The library's own memory.
    Memory,
}

impl CounterGroup {
    /// All groups, in the order in which users see them.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The heading of the group.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.into()
    }
}

/// What the number of a counter measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Things or events.
    Count,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes per second.
    BytesPerSecond,
}

/// How a counter changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CounterKind {
    /// A sum since the process started: it only grows.
    Total,
    /// The value at this moment: it grows and falls.
    Gauge,
    /// The largest value since the process started.
    Peak,
}

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal:
        $group:ident, $kind:ident($unit:ident) $(, formerly $former:literal)?;)+) => {
        /// One 64-bit counter of the status page.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(usize)]
        pub enum Counter {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Counter {
            /// All counters in the order of the page.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$variant,)+];
            /// The number of counters.
            pub const COUNT: usize = [$($name,)+].len();

            /// The name as it is printed.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The name that this counter had in the version before; JSON prints both.
            #[must_use]
            pub const fn former_name(self) -> Option<&'static str> {
                match self {
                    $($(Self::$variant => Some($former),)?)+
                    _ => None,
                }
            }

            /// The explanation for users: one or two sentences in Markdown.
            #[must_use]
            pub const fn explanation(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+).trim_ascii(),)+ }
            }

            /// The part of Coldstream that this counter belongs to.
            #[must_use]
            pub const fn group(self) -> CounterGroup {
                match self { $(Self::$variant => CounterGroup::$group,)+ }
            }

            /// What the number measures.
            #[must_use]
            pub const fn unit(self) -> Unit {
                match self { $(Self::$variant => Unit::$unit,)+ }
            }

            /// Whether the number is a sum, a present value or a largest value.
            #[must_use]
            pub const fn kind(self) -> CounterKind {
                match self { $(Self::$variant => CounterKind::$kind,)+ }
            }
        }
    };
}

counters! {
    /// SSTables that were opened and are tracked.
    TrackedFilesOpened = "tracked_files_opened": Reads, Total(Count);
    /// Read calls of background threads on SSTables.
    BackgroundReads = "background_reads": Reads, Total(Count);
    /// Bytes that background threads read from SSTables.
    BackgroundBytes = "background_bytes": Reads, Total(Bytes);
    /// Part of `background_bytes`: read around the page cache, with direct I/O.
    BytesDirect = "bytes_direct": Reads, Total(Bytes);
    /// Part of `background_bytes`: read with `RWF_DONTCACHE`.
    BytesDontcache = "bytes_dontcache": Reads, Total(Bytes);
    /// Part of `background_bytes`: read buffered, and dropped from the page cache afterwards.
    BytesDropBehind = "bytes_drop_behind": Reads, Total(Bytes), formerly "bytes_window";
    /// Part of `background_bytes`: in the page cache already, and served from there.
    BytesFromCache = "bytes_from_cache": Reads, Total(Bytes);
    /// Part of `background_bytes`: read by plain calls, through the page cache. The `fallback_` counters give the reasons.
    /// With `coldstream attach`: what compactions brought in, and what stays though no reader has used it.
    BytesBuffered = "bytes_buffered": Reads, Total(Bytes);
    /// Bytes that direct reads moved from the device, read-ahead included.
    DeviceBytesDirect = "device_bytes_direct": Reads, Total(Bytes);
    /// Windows read from the device.
    WindowsRead = "windows_read": Reads, Total(Count);
    /// Windows that a background thread had to wait for.
    WindowsWaited = "windows_waited": Reads, Total(Count);
    /// Bytes read ahead that no thread used.
    ReadAheadWastedBytes = "read_ahead_wasted_bytes": Reads, Total(Bytes);
    /// `readahead` and `WILLNEED` calls of background threads that were not passed to the kernel.
    ReadaheadAdviceSkipped = "readahead_advice_skipped": Readahead, Total(Count),
        formerly "advice_swallowed";
    /// Memory of windows and staging buffers now.
    WindowMemoryBytes = "window_memory_bytes": Memory, Gauge(Bytes);
    /// The most memory that windows and staging buffers ever had.
    WindowMemoryPeakBytes = "window_memory_peak_bytes": Memory, Peak(Bytes);
    /// The filesystem cannot do direct I/O, or its change times cannot be trusted.
    FallbackFilesystem = "fallback_filesystem": Fallbacks, Total(Count);
    /// Direct reads are accepted, but go through the page cache all the same.
    FallbackNoEffect = "fallback_no_effect": Fallbacks, Total(Count);
    /// No descriptor is left for an open of the library's own.
    FallbackDescriptorLimit = "fallback_descriptor_limit": Fallbacks, Total(Count);
    /// An open of the library's own failed.
    FallbackOpenFailed = "fallback_open_failed": Fallbacks, Total(Count);
    /// A read of the library's own failed.
    FallbackReadFailed = "fallback_read_failed": Fallbacks, Total(Count);
    /// The limit of memory for windows was reached (`--memory`).
    FallbackMemoryCap = "fallback_memory_cap": Fallbacks, Total(Count);
    /// The file changed less than 20 ms ago. This is normal.
    FallbackChangedRecently = "fallback_changed_recently": Fallbacks, Total(Count),
        formerly "fallback_not_settled";
    /// The file has a writer or a shared writable mapping.
    FallbackWritten = "fallback_written": Fallbacks, Total(Count);
    /// The descriptor is no longer the file that was opened.
    FallbackIdentity = "fallback_identity": Fallbacks, Total(Count);
    /// The descriptor has `O_DIRECT`, `O_APPEND` or another flag that forbids it.
    FallbackDescriptorFlags = "fallback_descriptor_flags": Fallbacks, Total(Count);
    /// Too many files are read in sequence at once.
    FallbackStreamLimit = "fallback_stream_limit": Fallbacks, Total(Count);
    /// A call that Coldstream does not serve: `readv`, `read`, a bad buffer.
    FallbackCall = "fallback_call": Fallbacks, Total(Count);
    /// The kernel refuses asynchronous I/O: a window is read when a thread needs it, not before.
    AioUnavailable = "aio_unavailable": Fallbacks, Total(Count);
    /// Bytes of SSTables that background threads wrote, to staged files or by plain calls.
    WriteBytes = "write_bytes": Writes, Total(Bytes);
    /// Part of `write_bytes`: written around the page cache, with direct I/O.
    WriteBytesDirect = "write_bytes_direct": Writes, Total(Bytes);
    /// Part of `write_bytes`: written with `RWF_DONTCACHE`.
    WriteBytesDontcache = "write_bytes_dontcache": Writes, Total(Bytes);
    /// Part of `write_bytes`: written buffered, written back early and dropped. Small writes between direct ones are
    /// among them, and stay.
    WriteBytesDropBehind = "write_bytes_drop_behind": Writes, Total(Bytes),
        formerly "write_bytes_window";
    /// Part of `write_bytes`: written through the page cache, and left there. These are ends of
    /// SSTables, and SSTables that are not staged.
    WriteBytesBuffered = "write_bytes_buffered": Writes, Total(Bytes);
    /// New SSTables whose writes went through Coldstream.
    StagedFiles = "staged_files": Writes, Total(Count);
    /// Write calls whose bytes went to a staging buffer. Most of them needed no system call.
    StagedWrites = "staged_writes": Writes, Total(Count);
    /// Times that staged bytes were written before their buffer was full: for another call, at a close, at the
    /// end of staging.
    Drains = "drains": Writes, Total(Count), formerly "settled";
    /// Errors of delayed writes that were reported to the application.
    WriteErrors = "write_errors": Writes, Total(Count);
    /// Staging ended: a call that the writer does not know, or one that makes the file shorter. RocksDB does that to a
    /// file for which the disk is full.
    StagingEndedCall = "staging_ended_call": Fallbacks, Total(Count), formerly "demoted_call";
    /// Staging ended: a write elsewhere than at the end of the file.
    StagingEndedPosition = "staging_ended_position": Fallbacks, Total(Count),
        formerly "demoted_position";
    /// Staging ended: the descriptor was duplicated, or the file was opened once more.
    StagingEndedDescriptor = "staging_ended_descriptor": Fallbacks, Total(Count),
        formerly "demoted_descriptor";
    /// Staging ended: a mapping that could show staged bytes.
    StagingEndedMapping = "staging_ended_mapping": Fallbacks, Total(Count),
        formerly "demoted_mapping";
    /// Staging ended: the process was forked, or ends. This is normal.
    StagingEndedProcess = "staging_ended_process": Fallbacks, Total(Count),
        formerly "demoted_process";
    /// Staging ended: the application needed the descriptor number.
    StagingEndedRoom = "staging_ended_room": Fallbacks, Total(Count), formerly "demoted_room";
    /// Staging ended: the application's buffer cannot be read.
    StagingEndedBuffer = "staging_ended_buffer": Fallbacks, Total(Count), formerly "demoted_buffer";
    /// No memory was left for a staging buffer: drop-behind was used instead. Or too many files were
    /// staged at once: plain calls were used instead.
    FallbackWriteMemory = "fallback_write_memory": Fallbacks, Total(Count);
    /// A direct write failed. Its bytes went through the page cache.
    FallbackWriteFailed = "fallback_write_failed": Fallbacks, Total(Count);
    /// Direct writes go through the page cache all the same: drop-behind was used instead.
    FallbackWriteNoEffect = "fallback_write_no_effect": Fallbacks, Total(Count);
    /// Direct writes are refused on this kernel, which loses data (Debian #1057843).
    FallbackWriteKernel = "fallback_write_kernel": Fallbacks, Total(Count);
    /// Coldstream found a bug of its own. Reads are plain since, and no further SSTable is staged. Please report it.
    FallbackPanic = "fallback_panic": Fallbacks, Total(Count);
    /// SSTables written by plain calls because most of their inputs was in the page cache: the data
    /// fits in memory, and stays there. Also those of Cassandra whose inputs are mapped.
    KeptCached = "kept_cached": Writes, Total(Count);
    /// Part of `write_bytes_direct`: written by a thread of the library while the application filled
    /// the next buffer.
    WriteBytesOverlapped = "write_bytes_overlapped": Writes, Total(Bytes);
    /// New SSTables, or early opened parts, whose inputs had hot pages.
    HandoverSsTables = "handover_sstables": Handover, Total(Count), formerly "handover_tables";
    /// Pages of new SSTables that were expected to be hot.
    HandoverPagesHot = "handover_pages_hot": Handover, Total(Count);
    /// Part of `handover_pages_hot`: not warmed before the publication. They are more than an eighth of the memory or
    /// `handover.bytes`, or, while compactions are behind, more than there is processor time for.
    HandoverPagesLeftOut = "handover_pages_left_out": Handover, Total(Count);
    /// Pages that were read into the page cache before their SSTable was published. In a part of a
    /// BTI SSTable, these include pages around an expected hot partition.
    HandoverPagesWarmed = "handover_pages_warmed": Handover, Total(Count);
    /// Blocks, chunks or partitions that were expected to be hot, and were warm at the publication: warmed, or cached before.
    HandoverRangesWarmed = "handover_ranges_warmed": Handover, Total(Count),
        formerly "handover_places_warmed";
    /// Part of `handover_ranges_warmed`: read by the foreground since.
    HandoverRangesHit = "handover_ranges_hit": Handover, Total(Count),
        formerly "handover_places_hit";
    /// SSTables without handover: their format is unknown, or the order of their keys. Their successors
    /// arrive cold.
    HandoverDeclined = "handover_declined": Handover, Total(Count);
    /// SSTables without handover, and inputs without part in one: malformed, or they could not be read. One that is given up
    /// while it is written does not count.
    HandoverFailed = "handover_failed": Handover, Total(Count);
    /// Handovers that warmed nothing because memory was short.
    HandoverShortOfMemory = "handover_short_of_memory": Handover, Total(Count);
    /// Handovers that ran out of time, or were switched off.
    HandoverCutShort = "handover_cut_short": Handover, Total(Count);
    /// Bytes that handovers read to find hot ranges: indexes, hot blocks, unfinished SSTables.
    HandoverIndexBytes = "handover_index_bytes": Handover, Total(Bytes);
    /// Time for which handovers delayed their threads.
    HandoverNanoseconds = "handover_nanoseconds": Handover, Total(Nanoseconds);
    /// Handovers that took less than 1 ms.
    HandoverDelay1Ms = "handover_delay_1_ms": Handover, Total(Count);
    /// Handovers that took from 1 ms to less than 4 ms.
    HandoverDelay4Ms = "handover_delay_4_ms": Handover, Total(Count);
    /// Handovers that took from 4 ms to less than 16 ms.
    HandoverDelay16Ms = "handover_delay_16_ms": Handover, Total(Count);
    /// Handovers that took from 16 ms to less than 64 ms.
    HandoverDelay64Ms = "handover_delay_64_ms": Handover, Total(Count);
    /// Handovers that took from 64 ms to less than 256 ms.
    HandoverDelay256Ms = "handover_delay_256_ms": Handover, Total(Count);
    /// Handovers that took from 256 ms to less than 1024 ms.
    HandoverDelay1024Ms = "handover_delay_1024_ms": Handover, Total(Count);
    /// Handovers that took 1024 ms or longer.
    HandoverDelayLonger = "handover_delay_longer": Handover, Total(Count);
    /// Background reads that were plain calls because reads are switched off. This is normal.
    FallbackSwitchedOff = "fallback_switched_off": Fallbacks, Total(Count);
    /// Staging ended: writes were switched off while the SSTable was written. This is normal.
    StagingEndedSwitchedOff = "staging_ended_switched_off": Fallbacks, Total(Count),
        formerly "demoted_switched_off";
    /// Threads whose nice value or I/O priority is changed now.
    PriorityThreads = "priority_threads": Priority, Gauge(Count);
    /// Threads whose nice value was left alone because the process could not restore it.
    PriorityRefused = "priority_refused": Priority, Total(Count);
    /// Threads that were left alone because Coldstream's list of threads was full.
    PriorityLimit = "priority_limit": Priority, Total(Count);
    /// Requests of `coldstream ctl` that were answered.
    SwitchRequests = "switch_requests": Control, Total(Count);
    /// Bytes that were read ahead of range scans. Point reads get no readahead, whatever `read_ahead_kb` is.
    ScanBytesAhead = "scan_bytes_ahead": Readahead, Total(Bytes);
    /// Bytes that background threads read and wrote while pacing was on.
    PacingBytes = "pacing_bytes": Pacing, Total(Bytes);
    /// The limit of background I/O now, in bytes per second; 0 is no limit.
    PacingBytesPerSecond = "pacing_bytes_per_second": Pacing, Gauge(BytesPerSecond);
    /// The largest request that background I/O may make now; 0 is no limit.
    PacingRequestBytes = "pacing_request_bytes": Pacing, Gauge(Bytes);
    /// Times that a background thread waited.
    PacingWaits = "pacing_waits": Pacing, Total(Count);
    /// Time for which background threads waited.
    PacingNanoseconds = "pacing_nanoseconds": Pacing, Total(Nanoseconds);
    /// Times that pacing began to slow background I/O down.
    PacingBrakes = "pacing_brakes": Pacing, Total(Count);
    /// Times that compactions seemed to fall behind flushes, and pacing stopped: then the device is too slow for both.
    /// Without pacing nothing stops, but the guard of priorities may give way sooner (`priority_releases`).
    PacingReleases = "pacing_releases": Pacing, Total(Count);
    /// Bytes that compactions are behind flushes now, by estimate: what was flushed, times what a flushed byte cost
    /// until compactions last rested. While they do not rest, that cost is a guess, and rises.
    PacingDebtBytes = "pacing_debt_bytes": Pacing, Gauge(Bytes);
    /// Mean latency of the foreground's device reads without background I/O; 0 is unknown.
    PacingIdleNanoseconds = "pacing_idle_nanoseconds": Pacing, Gauge(Nanoseconds);
    /// Bytes that memtable flushes wrote; counted where pacing or the guard of priorities needs them.
    FlushedBytes = "flushed_bytes": Pacing, Total(Bytes);
    /// Foreground reads of SSTables whose latency was measured: one in 64, one in 16 with pacing, and those after one
    /// from the device.
    ForegroundReadsTimed = "foreground_reads_timed": Foreground, Total(Count);
    /// Timed reads that came from the device, in 16 µs to less than 64 µs.
    ForegroundDeviceReads64Us = "foreground_device_reads_64_us": Foreground, Total(Count);
    /// Timed reads that came from the device, in 64 µs to less than 128 µs.
    ForegroundDeviceReads128Us = "foreground_device_reads_128_us": Foreground, Total(Count);
    /// Timed reads that came from the device, in 128 µs to less than 256 µs.
    ForegroundDeviceReads256Us = "foreground_device_reads_256_us": Foreground, Total(Count);
    /// Timed reads that came from the device, in 256 µs to less than 512 µs.
    ForegroundDeviceReads512Us = "foreground_device_reads_512_us": Foreground, Total(Count);
    /// Timed reads that came from the device, in 512 µs to less than 1024 µs.
    ForegroundDeviceReads1Ms = "foreground_device_reads_1_ms": Foreground, Total(Count);
    /// Timed reads that came from the device, in 1024 µs to less than 2048 µs.
    ForegroundDeviceReads2Ms = "foreground_device_reads_2_ms": Foreground, Total(Count);
    /// Timed reads that came from the device, in 2048 µs to less than 4096 µs.
    ForegroundDeviceReads4Ms = "foreground_device_reads_4_ms": Foreground, Total(Count);
    /// Timed reads that came from the device, in 4096 µs to less than 8192 µs.
    ForegroundDeviceReads8Ms = "foreground_device_reads_8_ms": Foreground, Total(Count);
    /// Timed reads that came from the device, in 8192 µs to less than 16,384 µs.
    ForegroundDeviceReads16Ms = "foreground_device_reads_16_ms": Foreground, Total(Count);
    /// Timed reads that came from the device, in 16,384 µs to less than 32,768 µs.
    ForegroundDeviceReads32Ms = "foreground_device_reads_32_ms": Foreground, Total(Count);
    /// Timed reads that came from the device, in 32,768 µs to less than 65,536 µs.
    ForegroundDeviceReads64Ms = "foreground_device_reads_64_ms": Foreground, Total(Count);
    /// Timed reads that came from the device, in 65,536 µs to less than 131,072 µs.
    ForegroundDeviceReads128Ms = "foreground_device_reads_128_ms": Foreground, Total(Count);
    /// Timed reads that came from the device, in 131,072 µs to less than 262,144 µs.
    ForegroundDeviceReads256Ms = "foreground_device_reads_256_ms": Foreground, Total(Count);
    /// Timed reads that came from the device, in 262,144 µs or longer.
    ForegroundDeviceReadsLonger = "foreground_device_reads_longer": Foreground, Total(Count);
    /// Times that the eviction thread looked at the free memory.
    EvictionWakeups = "eviction_wakeups": Eviction, Total(Count);
    /// Processor time of the eviction thread.
    EvictionNanoseconds = "eviction_nanoseconds": Eviction, Total(Nanoseconds);
    /// Cold ranges of SSTables whose residency was asked for.
    EvictionRanges = "eviction_ranges": Eviction, Total(Count);
    /// Bytes that were dropped from the page cache.
    EvictionBytes = "eviction_bytes": Eviction, Total(Bytes);
    /// Cold ranges that were left alone because some pages were dirty or being written.
    EvictionRangesDirty = "eviction_ranges_dirty": Eviction, Total(Count);
    /// Times that nothing could be dropped: the kernel has no `cachestat`, or gives the thread no
    /// descriptor table of its own.
    EvictionRefused = "eviction_refused": Eviction, Total(Count);
    /// The library's part of the application's heap, when a window or a handover last ended. Heat is not in
    /// it: its size is fixed.
    HeapBytes = "heap_bytes": Memory, Gauge(Bytes);
    /// The most that the library ever had of the application's heap.
    HeapPeakBytes = "heap_peak_bytes": Memory, Peak(Bytes);
    /// Bytes of SSTables that the kernel sent to other nodes with `sendfile`, through a small part of the
    /// page cache.
    SendfileBytes = "sendfile_bytes": Sending, Total(Bytes), formerly "sent_bytes";
    /// Bytes that were read for `sendfile` and dropped from the page cache again. Bytes that the
    /// socket still held stayed.
    SendfileBytesDropped = "sendfile_bytes_dropped": Sending, Total(Bytes),
        formerly "sent_bytes_dropped";
    /// Hot ranges of 224 KiB that were forgotten to make room for others; approximate. A few are
    /// chance. Many mean that `handover.heat_bytes` is too small for what is read.
    HeatDisplaced = "heat_displaced": Handover, Total(Count);
    /// Times that background threads got their former priorities back, because they waited for processors
    /// for long.
    PriorityReleases = "priority_releases": Priority, Total(Count);
    /// SSTables without handover because its share of the time was taken. It has one beside mapped SSTables: a quarter. It has
    /// one while compactions wait for processors for long, or are far behind flushes: three twentieths, one for the search.
    HandoverPutOff = "handover_put_off": Handover, Total(Count);
    /// Time that background threads spent on processors, as far as they did not sleep within a millisecond
    /// or more.
    BackgroundRunNanoseconds = "background_run_nanoseconds": Priority, Total(Nanoseconds);
    /// Time within the same intervals in which they were ready to run, and waited for a processor.
    BackgroundWaitNanoseconds = "background_wait_nanoseconds": Priority, Total(Nanoseconds);
    /// How often the library got no memory: the application's heap had none, or the library had 128 MiB of it.
    /// What needed it was left undone, or the library's own reserve had the memory.
    HeapRefusals = "heap_refusals": Memory, Total(Count);
    /// Drains that were not waited for any longer, before a fork, the start of a program or the end of the
    /// process. The device did not answer.
    DrainsLate = "drains_late": Writes, Total(Count);
    /// Looks at the SSTables that are mapped: what the page cache has of them is their heat.
    MappedLooks = "mapped_looks": Handover, Total(Count);
    /// Handovers that warmed only what was read twice: too few warmed ranges were read, and most reads of the device
    /// were not spared.
    HandoversFrugal = "handovers_frugal": Handover, Total(Count);
    /// Bytes of inputs that compactions skipped: taken to be in the engine's block cache, and hot.
    HandoverBlockCacheBytes = "handover_block_cache_bytes": Handover, Total(Bytes);
    /// Events that `coldstream attach` came too late for, of any process that it follows. What compactions had brought
    /// in until then stays in the page cache.
    AttachEventsLost = "attach_events_lost": Reads, Total(Count);
    /// Pages of inputs that were in the page cache before this process counted reads: taken to be hot, since a restart
    /// forgets what was.
    HandoverPagesRecalled = "handover_pages_recalled": Handover, Total(Count);
    /// Outputs without handover because the database itself has a record lock (`fcntl`) on them: it would lose the lock.
    HandoverLocked = "handover_locked": Handover, Total(Count);
    /// New SSTables of background work that the database has open by a second descriptor, has mapped for writing, or has a
    /// record lock on. They are written by plain calls.
    FallbackWriteShared = "fallback_write_shared": Fallbacks, Total(Count);
    /// Hot pages that were read into the page cache after their SSTable was published: a handover had no room or no time
    /// for them.
    HandoverPagesWarmedLate = "handover_pages_warmed_late": Handover, Total(Count);
    /// Part of `background_bytes`: read by the engine itself around the page cache (`O_DIRECT`).
    BytesEngineDirect = "bytes_engine_direct": Reads, Total(Bytes);
    /// Part of `write_bytes`: written by the engine itself around the page cache (`O_DIRECT`).
    WriteBytesEngineDirect = "write_bytes_engine_direct": Writes, Total(Bytes);
    /// SSTables of memtable flushes that went around the page cache because memory was short (`--flush auto`).
    FlushesBypassed = "flushes_bypassed": Writes, Total(Count);
    /// Inputs of compactions that `coldstream attach` did not hold open: it held as many as it may. An output that is
    /// published after such an input was deleted gets none of its heat.
    AttachInputsNotHeld = "attach_inputs_not_held": Handover, Total(Count);
}

impl Counter {
    /// Handovers by delay. The first counter has delays below 1 ms. The bound of each next one is
    /// [`HANDOVER_DELAY_FACTOR`](Self::HANDOVER_DELAY_FACTOR) times as large. The last has all others.
    pub const HANDOVER_DELAYS: [Self; 7] = [
        Self::HandoverDelay1Ms,
        Self::HandoverDelay4Ms,
        Self::HandoverDelay16Ms,
        Self::HandoverDelay64Ms,
        Self::HandoverDelay256Ms,
        Self::HandoverDelay1024Ms,
        Self::HandoverDelayLonger,
    ];
    /// The bound of the first of [`Self::HANDOVER_DELAYS`], ns.
    pub const HANDOVER_DELAY_NS: u64 = 1_000_000;
    /// The ratio between the bounds of neighbours in [`Self::HANDOVER_DELAYS`].
    pub const HANDOVER_DELAY_FACTOR: u64 = 4;

    /// The foreground's device reads by latency. The first counter has latencies below 64 µs. The
    /// bound doubles from each to the next. The last has all others.
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
    /// The bound of the first of [`Self::DEVICE_READS`], ns.
    pub const DEVICE_READ_NS: u64 = 64_000;

    /// Bytes that background threads read from SSTables, by the way they took. Together they are
    /// [`Self::BackgroundBytes`].
    pub const READ_MODES: [(Self, &str); 6] = [
        (Self::BytesDirect, "direct"),
        (Self::BytesDontcache, "dontcache"),
        (Self::BytesDropBehind, "drop-behind"),
        (Self::BytesFromCache, "page cache"),
        (Self::BytesBuffered, "plain"),
        (Self::BytesEngineDirect, "engine's own direct"),
    ];

    /// Bytes of SSTables that background threads wrote, by the way they took. Together they are
    /// [`Self::WriteBytes`].
    pub const WRITE_MODES: [(Self, &str); 5] = [
        (Self::WriteBytesDirect, "direct"),
        (Self::WriteBytesDontcache, "dontcache"),
        (Self::WriteBytesDropBehind, "drop-behind"),
        (Self::WriteBytesBuffered, "plain"),
        (Self::WriteBytesEngineDirect, "engine's own direct"),
    ];

    /// SSTables that were published without a whole handover, by reason.
    pub const HANDOVERS_INCOMPLETE: [(Self, &str); 6] = [
        (Self::HandoverDeclined, "declined"),
        (Self::HandoverFailed, "failed"),
        (Self::HandoverShortOfMemory, "short of memory"),
        (Self::HandoverCutShort, "cut short"),
        (Self::HandoverPutOff, "put off"),
        (Self::HandoverLocked, "locked"),
    ];

    /// Failures that are counted outside of the group of fallbacks and of [`Self::HANDOVERS_INCOMPLETE`].
    const FAILURES: [Self; 4] = [
        Self::WriteErrors,
        Self::EvictionRefused,
        Self::PriorityRefused,
        Self::PriorityLimit,
    ];

    /// The counter of [`Self::HANDOVER_DELAYS`] for a handover that took `ns` nanoseconds.
    #[must_use]
    pub fn of_handover_delay(ns: u64) -> Self {
        let steps = (ns / Self::HANDOVER_DELAY_NS)
            .checked_ilog(Self::HANDOVER_DELAY_FACTOR)
            .map_or(0, |log| log + 1);
        let index = usize::try_from(steps).unwrap_or(usize::MAX);
        let last = Self::HandoverDelayLonger;
        Self::HANDOVER_DELAYS.get(index).copied().unwrap_or(last)
    }

    /// The counter of [`Self::DEVICE_READS`] for a read that took `ns` nanoseconds.
    #[must_use]
    pub fn of_device_read(ns: u64) -> Self {
        let doublings = (ns / Self::DEVICE_READ_NS)
            .checked_ilog2()
            .map_or(0, |log| log + 1);
        let index = usize::try_from(doublings).unwrap_or(usize::MAX);
        let last = Self::ForegroundDeviceReadsLonger;
        Self::DEVICE_READS.get(index).copied().unwrap_or(last)
    }

    /// Whether the counter has plain calls instead of a mechanism, or failures. What is put off while compactions are
    /// behind is no failure.
    #[must_use]
    pub fn is_irregular(self) -> bool {
        let mut incomplete = Self::HANDOVERS_INCOMPLETE.iter();
        self.group() == CounterGroup::Fallbacks
            || Self::FAILURES.contains(&self)
            || self != Self::HandoverPutOff && incomplete.any(|(counter, _)| *counter == self)
    }

    /// Whether somebody should look into it. `ctl status` and `top` call it a problem.
    #[must_use]
    pub fn is_problem(self) -> bool {
        self.is_irregular() && !self.is_normal()
    }

    /// Whether the counter's own text says that it is no reason to worry.
    #[must_use]
    pub fn is_normal(self) -> bool {
        self.explanation().ends_with("This is normal.")
    }

    /// The reason for which a plain call was made, if this counter counts fallbacks.
    #[must_use]
    pub fn fallback_reason(self) -> Option<&'static str> {
        if self == Self::AioUnavailable {
            return Some(self.name());
        }
        self.name().strip_prefix("fallback_")
    }

    /// The reason for which staging ended early, if this counter counts such files.
    #[must_use]
    pub fn staging_ended_reason(self) -> Option<&'static str> {
        self.name().strip_prefix("staging_ended_")
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
        let layout: Vec<_> = include_str!("counter_layout.txt").lines().collect();
        for name in &names {
            let is_there = layout.contains(name);
            assert!(is_there, "append `{name}` to counter_layout.txt");
        }
        assert_eq!(
            names, layout,
            "a new counter goes to the end of both; a removed one raises the version of the page"
        );
        for (index, counter) in Counter::ALL.into_iter().enumerate() {
            assert_eq!(counter as usize, index);
        }
    }

    #[test]
    fn no_name_is_given_twice() {
        let names = Counter::ALL.iter().map(|counter| counter.name());
        let former = Counter::ALL
            .iter()
            .filter_map(|counter| counter.former_name());
        let all: Vec<_> = names.chain(former).collect();
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }

    #[test]
    fn names_tell_the_unit() {
        for counter in Counter::ALL {
            let name = counter.name();
            let unit = match counter.unit() {
                Unit::Bytes => name.contains("bytes"),
                Unit::Nanoseconds => name.contains("nanoseconds"),
                Unit::BytesPerSecond => name.contains("bytes_per_second"),
                Unit::Count => !name.contains("bytes") && !name.contains("nanoseconds"),
            };
            let of_unit = counter.unit();
            assert!(
                unit,
                "the unit of `{name}` is {of_unit:?}: the name must have `bytes`, `nanoseconds` or `bytes_per_second` \
                 in it, or none of them for a count"
            );
            assert_eq!(
                counter.kind() == CounterKind::Peak,
                name.contains("_peak_"),
                "`{name}`: a peak has `_peak_` in its name, and nothing else has"
            );
            assert!(
                counter.explanation().ends_with('.'),
                "the explanation of `{name}` must end with a full stop"
            );
        }
    }

    #[test]
    fn each_group_has_counters() {
        for group in CounterGroup::ALL {
            let has = Counter::ALL.iter().any(|counter| counter.group() == *group);
            assert!(has, "{group:?}");
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
