//! What the library says of itself when a process ends.

use std::path::Path;

/// The sums of all exit lines in a log file; sizes as far as they are printed (one decimal).
#[derive(Clone, Debug, Default)]
pub struct ExitLog {
    pub lines: usize,
    pub direct_bytes: u64,
    pub dontcache_bytes: u64,
    pub window_bytes: u64,
    pub cache_bytes: u64,
    pub buffered_bytes: u64,
    /// Written directly.
    pub written_direct_bytes: u64,
    /// Of these, written while the application filled the next buffer.
    pub overlapped_bytes: u64,
    /// Writes that ended in a staging buffer.
    pub staged_writes: u64,
    pub text: String,
}

impl ExitLog {
    /// Reads the log; a file that is not there is an empty log.
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let mut log = Self::default();
        for line in text.lines() {
            let Some((_, sums)) = line.split_once("]: direct ") else {
                continue;
            };
            log.lines += 1;
            if let Some((_, writes)) = sums.split_once("; writes direct ") {
                let size = writes.split(',').next().unwrap_or_default();
                let size = size.split(" in ").next().unwrap_or_default();
                log.written_direct_bytes += size_in_bytes(size)
                    .unwrap_or_else(|| panic!("{size} is not a size, in: {line}"));
                if let Some((_, overlapped)) = writes.split_once("of these overlapped ") {
                    let size = overlapped.split(',').next().unwrap_or_default();
                    let size = size.split(" in ").next().unwrap_or_default();
                    log.overlapped_bytes += size_in_bytes(size)
                        .unwrap_or_else(|| panic!("{size} is not a size, in: {line}"));
                }
                let staged = writes
                    .split_once(" calls staged")
                    .and_then(|(before, _)| before.rsplit(' ').next()?.parse::<u64>().ok());
                log.staged_writes += staged.unwrap_or_else(|| panic!("no staged calls in: {line}"));
            }
            let sums = format!("direct {}", sums.split(';').next().unwrap_or_default());
            for part in sums.split(", ") {
                let Some((name, size)) = part
                    .split_once(|c: char| c.is_ascii_digit())
                    .map(|(name, _)| (name.trim(), part[name.len()..].trim()))
                else {
                    continue;
                };
                let bytes = size_in_bytes(size)
                    .unwrap_or_else(|| panic!("{size} is not a size, in: {line}"));
                match name {
                    "direct" => log.direct_bytes += bytes,
                    "dontcache" => log.dontcache_bytes += bytes,
                    "drop-behind" => log.window_bytes += bytes,
                    "page cache" => log.cache_bytes += bytes,
                    "buffered" => log.buffered_bytes += bytes,
                    _ => panic!("unknown sum {name} in: {line}"),
                }
            }
        }
        log.text = text;
        log
    }
}

fn size_in_bytes(text: &str) -> Option<u64> {
    let (number, unit) = text.split_once(' ')?;
    let factor = match unit {
        "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    Some((number.parse::<f64>().ok()? * factor) as u64)
}
