//! The line that the library logs when a process ends.

use std::path::Path;

/// The sums of all exit lines in a log file. Sizes are as exact as they are printed: one decimal.
#[derive(Clone, Debug, Default)]
pub struct ExitLog {
    /// Number of exit lines.
    pub lines: usize,
    /// Read around the page cache.
    pub direct_bytes: u64,
    /// Read with `RWF_DONTCACHE`.
    pub dontcache_bytes: u64,
    /// Read in the I/O mode drop-behind.
    pub drop_behind_bytes: u64,
    /// Read out of the page cache.
    pub cache_bytes: u64,
    /// Read in the I/O mode buffered.
    pub buffered_bytes: u64,
    /// Written around the page cache.
    pub written_direct_bytes: u64,
    /// Part of these that were written while the application filled the next buffer.
    pub overlapped_bytes: u64,
    /// Writes into a staging buffer.
    pub staged_writes: u64,
    /// The whole log.
    pub text: String,
}

impl ExitLog {
    /// Reads a log. A missing file is an empty log.
    ///
    /// # Panics
    /// A line is not as the library writes it.
    #[must_use]
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let mut log = Self::default();
        for line in text.lines() {
            let Some((_, pairs)) = line.split_once(" event=exit") else {
                continue;
            };
            log.lines += 1;
            for (key, value) in pairs.split(' ').filter_map(|pair| pair.split_once('=')) {
                let size = || {
                    size_in_bytes(value)
                        .unwrap_or_else(|| panic!("{value} is not a size, in: {line}"))
                };
                match key {
                    "bytes_direct" => log.direct_bytes += size(),
                    "bytes_dontcache" => log.dontcache_bytes += size(),
                    "bytes_window" | "bytes_drop_behind" => log.drop_behind_bytes += size(),
                    "bytes_from_cache" => log.cache_bytes += size(),
                    "bytes_buffered" => log.buffered_bytes += size(),
                    "write_bytes_direct" => log.written_direct_bytes += size(),
                    "write_bytes_overlapped" => log.overlapped_bytes += size(),
                    "staged_writes" => {
                        log.staged_writes += value
                            .parse::<u64>()
                            .unwrap_or_else(|_| panic!("{value} is no number, in: {line}"));
                    }
                    _ => {}
                }
            }
        }
        log.text = text;
        log
    }
}

fn size_in_bytes(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let factor = match unit {
        "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    Some((number.parse::<f64>().ok()? * factor) as u64)
}
