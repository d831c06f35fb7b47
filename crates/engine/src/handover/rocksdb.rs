//! The handover to a finished SSTable of RocksDB or LevelDB.

use super::lineage::{Input, Work};
use super::transfer::{Refused, Transfer};
use coldstream_handover::rocksdb::Output;
use coldstream_sstable::rocksdb::SsTable;

/// How much of an input's keys an output covers.
enum Taken {
    /// None: the file was opened, but not compacted, or was an input of another column family's output.
    NoInput,
    /// The input has keys behind the output's last key.
    Partly,
    /// The input's last key is within the output.
    Wholly,
}

impl Transfer<'_> {
    pub(super) fn to_blocks(&self, work: &mut Work) -> Result<(), Refused> {
        let size_bytes = self.stamp.size_bytes;
        self.present.heat.forget(self.key(), 0..size_bytes);
        work.inputs
            .retain(|input| !input.stamp.same_inode(&self.stamp));
        // The thread may write a second output in the same key range: RocksDB separates young and old data
        // in this way (`preclude_last_level_data_seconds`). Then the inputs stay for it.
        let is_alone = !work.writes_beside(&self.stamp);
        if !work.inputs.iter().any(|input| self.is_hot(input)) {
            return Ok(());
        }
        let file = self.output()?;
        let is_over = || self.is_search_over();
        let mut output = Output::read(&SsTable::open(&file)?, &is_over)?;
        work.inputs.retain(|input| {
            if !self.is_hot(input) || is_over() {
                return true;
            }
            match self.take_over(&mut output, input) {
                Ok(Taken::Partly) => true,
                Ok(Taken::Wholly) => !is_alone,
                Ok(Taken::NoInput) => false,
                Err(refused) => !self.count_refused(&refused),
            }
        });
        self.finish(&file, &output.pieces()?, size_bytes)
    }

    /// Takes over an input's heat.
    fn take_over(&self, output: &mut Output, input: &Input) -> Result<Taken, Refused> {
        let file = self.open_input(input)?;
        let sstable = SsTable::open(&file)?;
        if !output.has_comparator_of(&sstable) {
            return Ok(Taken::NoInput);
        }
        if let Some(data_bytes) = sstable.properties().data_bytes {
            if input.lowest_offset >= data_bytes {
                return Ok(Taken::NoInput);
            }
            file.read_only_cached_below(data_bytes);
        }
        let is_finished =
            output.take_over(&sstable, &self.heat_of(input), &|| self.is_search_over())?;
        Ok(if is_finished {
            Taken::Wholly
        } else {
            Taken::Partly
        })
    }
}
