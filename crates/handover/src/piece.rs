//! What all engines share: ranges of the output with their heat, and the heat of an input.

/// A range of the output, and its expected heat.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// Bytes from the beginning of the file. Not aligned.
    pub offset: u64,
    /// Bytes that the foreground reads together.
    pub length: u64,
    /// Expected heat, in the units of the inputs' heat.
    pub heat: f32,
}

/// Returns the heat of an input's page. The argument is the offset of any of its bytes in the file.
pub type HeatAt<'a> = &'a dyn Fn(u64) -> u8;
