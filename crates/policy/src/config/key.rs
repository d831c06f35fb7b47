//! What can be set: the variable of each setting, and what may be given for it.

/// A setting.
#[derive(Clone, Copy)]
pub(super) enum Key {
    Enabled,
    Profile,
    Reads,
    WindowBytes,
    WindowsInFlight,
    MemoryBytes,
    Writes,
    Visible,
    Flush,
    StagingBytes,
    Readahead,
    Pacing,
    PacingFloor,
    Eviction,
    EvictionMargin,
    Handover,
    HandoverBytes,
    HandoverInFlight,
    HandoverMilliseconds,
    HeatBytes,
    Priority,
    Nice,
    IoPriority,
    Log,
}

impl Key {
    /// All of them.
    pub(super) const ALL: [Self; 24] = [
        Self::Enabled,
        Self::Profile,
        Self::Reads,
        Self::WindowBytes,
        Self::WindowsInFlight,
        Self::MemoryBytes,
        Self::Writes,
        Self::Visible,
        Self::Flush,
        Self::StagingBytes,
        Self::Readahead,
        Self::Pacing,
        Self::PacingFloor,
        Self::Eviction,
        Self::EvictionMargin,
        Self::Handover,
        Self::HandoverBytes,
        Self::HandoverInFlight,
        Self::HandoverMilliseconds,
        Self::HeatBytes,
        Self::Priority,
        Self::Nice,
        Self::IoPriority,
        Self::Log,
    ];

    /// The environment variable.
    pub(super) const fn variable(self) -> &'static str {
        match self {
            Self::Enabled => "COLDSTREAM",
            Self::Profile => "COLDSTREAM_PROFILE",
            Self::Reads => "COLDSTREAM_READS",
            Self::WindowBytes => "COLDSTREAM_WINDOW_BYTES",
            Self::WindowsInFlight => "COLDSTREAM_WINDOWS_IN_FLIGHT",
            Self::MemoryBytes => "COLDSTREAM_MEMORY_BYTES",
            Self::Writes => "COLDSTREAM_WRITES",
            Self::Visible => "COLDSTREAM_VISIBLE",
            Self::Flush => "COLDSTREAM_FLUSH",
            Self::StagingBytes => "COLDSTREAM_STAGING_BYTES",
            Self::Readahead => "COLDSTREAM_READAHEAD",
            Self::Pacing => "COLDSTREAM_PACING",
            Self::PacingFloor => "COLDSTREAM_PACING_FLOOR",
            Self::Eviction => "COLDSTREAM_EVICTION",
            Self::EvictionMargin => "COLDSTREAM_EVICTION_MARGIN",
            Self::Handover => "COLDSTREAM_HANDOVER",
            Self::HandoverBytes => "COLDSTREAM_HANDOVER_BYTES",
            Self::HandoverInFlight => "COLDSTREAM_HANDOVER_IN_FLIGHT",
            Self::HandoverMilliseconds => "COLDSTREAM_HANDOVER_MILLISECONDS",
            Self::HeatBytes => "COLDSTREAM_HEAT_BYTES",
            Self::Priority => "COLDSTREAM_PRIORITY",
            Self::Nice => "COLDSTREAM_NICE",
            Self::IoPriority => "COLDSTREAM_IO_PRIORITY",
            Self::Log => "COLDSTREAM_LOG",
        }
    }

    /// What may be given, as an order.
    pub(super) fn allowed(self) -> &'static str {
        match self {
            Self::Enabled | Self::Handover | Self::Pacing | Self::Eviction => "use on or off",
            Self::Profile => "use auto, rocksdb, leveldb or cassandra",
            Self::Log => "use none, stderr or an absolute path",
            Self::Reads | Self::Writes => "use auto, direct, dontcache, drop-behind or buffered",
            Self::WindowBytes => "use a power of two from 64KiB to 2MiB",
            Self::WindowsInFlight => "use a number from 1 to 4",
            Self::MemoryBytes => "use a size from 1MiB to 1GiB",
            Self::Visible => "use auto, everywhere or process",
            Self::Flush => "use cached or bypass",
            Self::StagingBytes => "use a power of two from 256KiB to 1MiB",
            Self::Readahead => "use scans, scans-and-mapped or kernel",
            Self::PacingFloor => "use a number of MiB per second from 1 to 65536",
            Self::EvictionMargin => "use 1% to 25%, or a size from 1MiB to 64GiB",
            Self::HandoverBytes => "use a size from 0 to 1TiB",
            Self::HandoverInFlight => "use a number from 1 to 64",
            Self::HandoverMilliseconds => "use a number from 1 to 60000",
            Self::HeatBytes => "use a size from 64KiB to 1GiB",
            Self::Priority => "use auto, always or off",
            Self::Nice => {
                "use none or 0 to 19, or such values for compaction, flush, validation and streaming \
                 as in compaction:10,streaming:none"
            }
            Self::IoPriority => {
                "use none, 0 to 7 or idle, or such values for compaction, flush, validation and \
                 streaming as in compaction:7,streaming:idle"
            }
        }
    }
}
