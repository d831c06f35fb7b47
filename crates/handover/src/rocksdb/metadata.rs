//! Index and filters: whether readers go to those of the inputs, and what is warmed of the output's.

use crate::piece::{HeatAt, PAGE_BYTES, Piece};
use coldstream_sstable::rocksdb::SsTable;

/// Most bytes of index and filters that are warmed. An SSTable of some hundred MiB has as many.
const METADATA_BYTES_MAX: u64 = 4 << 20;

/// Index and filters of an output.
pub(super) struct Metadata {
    /// Where they end, in bytes from the beginning of the file.
    end: u64,
    /// The highest heat of the inputs'.
    heat: u8,
}

impl Metadata {
    /// Those of an output whose inputs are not known yet.
    pub(super) fn of_output(sstable: &SsTable<'_>) -> Self {
        Self {
            end: sstable.footer_offset(),
            heat: 0,
        }
    }

    /// Notes whether readers go to the input's index and filters: to their partitions, or to all of them where the
    /// engine's block cache is small. The page that the last data block shares does not count.
    pub(super) fn see_input(&mut self, input: &SsTable<'_>, heat: HeatAt<'_>) {
        let Some(data_bytes) = input.properties().data_bytes else {
            return;
        };
        let start = data_bytes.div_ceil(PAGE_BYTES) * PAGE_BYTES;
        let end = (input.footer_offset()).min(start.saturating_add(METADATA_BYTES_MAX));
        let pages = (start..end).step_by(PAGE_BYTES as usize);
        let hottest = pages.map(heat).max().unwrap_or(0);
        self.heat = self.heat.max(hottest);
    }

    /// All of it, if an input's is hot. It begins at `offset`, where the data blocks end. `None` if it is more than
    /// 4 MiB.
    pub(super) fn piece(&self, offset: u64) -> Option<Piece> {
        let length = self.end.saturating_sub(offset);
        let is_hot = self.heat > 0 && (1..=METADATA_BYTES_MAX).contains(&length);
        is_hot.then(|| Piece {
            offset,
            length,
            heat: self.heat.into(),
            is_one_of_few: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_warmed_as_a_whole_where_an_inputs_is_hot() {
        let piece = |end, heat| Metadata { end, heat }.piece(1000);
        let hot = piece(5000, 16).unwrap();
        assert_eq!((hot.offset, hot.length, hot.heat), (1000, 4000, 16.0));
        assert!(piece(5000, 0).is_none(), "nobody reads it");
        assert!(piece(1000, 16).is_none() && piece(900, 16).is_none());
        assert!(piece(1001 + METADATA_BYTES_MAX, 16).is_none(), "too large");
    }
}
