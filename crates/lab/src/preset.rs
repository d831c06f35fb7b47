//! What presets of all engines have in common: values of the options that were not given.

use std::fmt::Debug;
use std::str::FromStr;

/// A number, or as many for each GiB of the memory limit.
#[derive(Clone, Copy, Debug)]
pub enum Amount {
    /// This number.
    Fixed(u64),
    /// So many for each GiB.
    PerGib(u64),
}

impl Amount {
    /// The number within a memory limit. At least 1 of those for each GiB.
    pub fn within(self, memory_mib: u64) -> u64 {
        match self {
            Self::Fixed(number) => number,
            Self::PerGib(number) => (number.saturating_mul(memory_mib) >> 10).max(1),
        }
    }
}

/// The modes that were given, or those of a preset.
pub fn modes_or<M: Clone + FromStr<Err: Debug>>(given: &[M], names: &[&str]) -> Vec<M> {
    if !given.is_empty() {
        return given.to_vec();
    }
    let modes = names.iter().map(|name| name.parse());
    modes
        .collect::<Result<_, _>>()
        .expect("modes of a preset are valid")
}
