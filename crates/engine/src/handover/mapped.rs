//! Mapped SSTables as sources of heat. Which of them a compaction reads is not seen, as its reads make no calls.
//! So every mapped SSTable of the output's directory counts whose keys may be in the output. Those that are no
//! inputs have older versions of its keys: their heat is right, too.

use super::lineage::{self, Input, MappedInput};
use super::refused::Refused;
use super::transfer::Transfer;
use crate::mapped::{self, MappedSsTables};
use coldstream_handover::rocksdb::Output;
use coldstream_policy::MappedFile;
use coldstream_sstable::memory::{self, TryVec};
use coldstream_sstable::rocksdb::SsTable;

/// The most mapped SSTables that a thread remembers. LevelDB maps 1,000.
const MAPPED_MAX: usize = 4096;

impl Transfer<'_> {
    /// Finds the SSTables that are mapped at present, in the directory of the output.
    pub(super) fn find_mapped(
        &self,
        mapped: &MappedSsTables,
        known: &mut Vec<MappedInput>,
    ) -> Result<(), Refused> {
        let path = lineage::path_of(self.output.descriptor).ok_or(Refused::Gone)?;
        let directory = directory_of(path.to_bytes());
        for mapped in known.iter_mut() {
            mapped.is_mapped = false;
        }
        let mut found = Ok(());
        mapped.each_mapping(self.config(), |mapping, _| {
            let inode = mapping.inode;
            let is_other =
                inode != self.output.stamp.inode && directory_of(mapping.path) == directory;
            if !is_other || found.is_err() {
                return;
            }
            let place = known.binary_search_by_key(&inode, |mapped| mapped.input.stamp.inode);
            match place {
                Ok(place) => {
                    if let Some(mapped) = known.get_mut(place) {
                        mapped.is_mapped = true;
                    }
                }
                Err(place) if known.len() < MAPPED_MAX => {
                    found = add(known, place, mapping);
                }
                Err(_) => {}
            }
        });
        known.retain(|mapped| mapped.is_mapped);
        found
    }

    /// Takes over the heat of all mapped SSTables that may have keys of the output.
    pub(super) fn take_over_mapped(
        &self,
        output: &mut Output,
        known: &mut [MappedInput],
    ) -> Result<(), Refused> {
        for mapped in known {
            if self.is_search_over() {
                break;
            }
            if !self.is_hot(&mapped.input) {
                continue;
            }
            // Another reason: it is deleted by now, or what is needed of it is not in the page cache any more.
            if let Err(Refused::OutOfMemory) = self.take_over_one(output, mapped) {
                return Err(Refused::OutOfMemory);
            }
        }
        Ok(())
    }

    fn take_over_one(&self, output: &mut Output, mapped: &mut MappedInput) -> Result<(), Refused> {
        if let Some([first, last]) = &mapped.separators
            && !output.may_share_keys(first, last)
        {
            return Ok(());
        }
        let file = self.open_input(&mapped.input)?;
        let sstable = SsTable::open(&file)?;
        if mapped.separators.is_none() {
            let [first, last] = mapped.separators.insert(separators_of(&sstable)?);
            if !output.may_share_keys(first, last) {
                return Ok(());
            }
        }
        if output.has_comparator_of(&sstable) {
            if let Some(data_bytes) = sstable.properties().data_bytes {
                file.read_only_cached_below(data_bytes);
            }
            let heat = self.heat_of(&mapped.input);
            output.take_over(&sstable, &heat, &|| self.is_search_over())?;
        }
        Ok(())
    }
}

/// Adds a mapping that was not known, at its place in the order of inodes.
fn add(
    known: &mut Vec<MappedInput>,
    place: usize,
    mapping: &MappedFile<'_>,
) -> Result<(), Refused> {
    let path = lineage::c_string(&[mapping.path]).ok_or(Refused::OutOfMemory)?;
    let input = Input::new(mapped::stamp_of(mapping), path, 0);
    // Its heat is what is in the page cache.
    input.recalled_to.set(u64::MAX);
    let mapped = MappedInput {
        input,
        separators: None,
        is_mapped: true,
    };
    known.try_push(mapped)?;
    if let Some(behind) = known.get_mut(place..) {
        behind.rotate_right(1);
    }
    Ok(())
}

/// The directory in a path, with its slash.
fn directory_of(path: &[u8]) -> &[u8] {
    let name_at = path.iter().rposition(|byte| *byte == b'/');
    path.get(..name_at.map_or(0, |at| at + 1))
        .unwrap_or_default()
}

/// The first and the last separator of an index.
fn separators_of(sstable: &SsTable<'_>) -> Result<[Vec<u8>; 2], Refused> {
    let (mut first, mut last) = (None, Vec::new());
    let mut blocks = sstable.blocks();
    while let Some(block) = blocks.next()? {
        if first.is_none() {
            first = Some(memory::copied(block.separator)?);
        }
        memory::copy(block.separator, &mut last)?;
    }
    Ok([first.unwrap_or_default(), last])
}
