//! What all engines share: ranges of the output with their heat, and the heat of an input.

/// Bytes of a page of the page cache.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// A range of the output, and its expected heat.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// Bytes from the beginning of the file. Not aligned.
    pub offset: u64,
    /// Bytes that the foreground reads together.
    pub length: u64,
    /// Expected heat, in the units of the inputs' heat.
    pub heat: f32,
    /// It is one of the few ranges that share the heat of a hot block. It is warmed, however small its share
    /// is. Otherwise every hot key at the edge of a block would arrive cold.
    pub is_one_of_few: bool,
}

impl Piece {
    /// Whether it is worth warming, where `heat_min` is the least heat that alone is enough.
    #[must_use]
    pub fn is_worth_warming(&self, heat_min: f32) -> bool {
        self.heat >= heat_min || self.is_one_of_few
    }
}

/// Returns the heat of an input's page. The argument is the offset of any of its bytes in the file.
pub type HeatAt<'a> = &'a dyn Fn(u64) -> u8;
