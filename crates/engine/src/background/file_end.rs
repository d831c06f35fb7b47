//! Where no read waits: near a file's end. The engine reads there when it opens an SSTable, and holds a lock that
//! readers of the same SSTable wait for.

use coldstream_io::sys::file;

/// The end of a file is its last MiB, or its last sixteenth if that is more.
const END_BYTES_MIN: u64 = 1 << 20;
const END_SHARE: u64 = 16;

/// Whether a read is near the end of its file. So is one of a file that cannot be looked at.
pub(super) fn is_near(descriptor: i32, offset: u64) -> bool {
    file::stamp(descriptor).map_or(true, |stamp| is_within_end(stamp.size_bytes, offset))
}

fn is_within_end(size_bytes: u64, offset: u64) -> bool {
    let end_bytes = END_BYTES_MIN.max(size_bytes / END_SHARE);
    offset >= size_bytes.saturating_sub(end_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_file_is_where_its_open_reads() {
        assert!(is_within_end(100, 0), "a small one is all end");
        assert!(!is_within_end(64 << 20, (60 << 20) - 1));
        assert!(is_within_end(64 << 20, 60 << 20));
        assert!(is_within_end(64 << 20, u64::MAX));
        assert!(!is_within_end(8 << 20, 6 << 20));
    }

    #[test]
    fn a_file_that_cannot_be_looked_at_is_all_end() {
        assert!(is_near(-1, 0));
    }
}
