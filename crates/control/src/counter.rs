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
}

impl Counter {
    /// The reason that this counter stands for, if it counts fallbacks.
    #[must_use]
    pub fn fallback_reason(self) -> Option<&'static str> {
        if self == Self::AioUnavailable {
            return Some(self.name());
        }
        self.name().strip_prefix("fallback_")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ]
        );
        for (place, counter) in Counter::ALL.into_iter().enumerate() {
            assert_eq!(counter as usize, place);
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
