//! What a handover has from outside.

use crate::core::Core;
use crate::heat::HeatMap;
use crate::mapped::MappedSsTables;
use crate::writes::StagedFiles;

/// The other mechanisms that a handover uses.
#[derive(Clone, Copy)]
pub struct Means<'a> {
    /// Status page, switches and tracked files.
    pub core: &'a Core,
    /// What the foreground reads.
    pub heat: &'a HeatMap,
    /// The staged files.
    pub writes: &'a StagedFiles,
    /// Mapped SSTables.
    pub mapped: &'a MappedSsTables,
}
