//! A heap that refuses memory to the preload library, and to nobody else.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::library::Preload;
use crate::{long, number_from_environment, seed, tools};

/// The heap, as a library to be loaded in front of Coldstream's.
#[derive(Debug)]
pub struct RefusingHeap {
    library: PathBuf,
    count: PathBuf,
}

impl RefusingHeap {
    /// Compiles the library into `directory`.
    ///
    /// # Panics
    /// It does not compile.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        let options = ["-shared", "-fPIC", "-fno-builtin"];
        Self {
            library: tools::compile("refusing_heap.c", directory, "librefusing.so", &options),
            count: directory.join("requests"),
        }
    }

    /// Settings of a run in which the library's requests with these numbers get no memory. The first is number 1.
    ///
    /// # Panics
    /// The file for the count cannot be written.
    #[must_use]
    pub fn refusing(&self, preload: &Preload, requests: &RangeInclusive<u64>) -> Preload {
        fs::write(&self.count, [0; 4096]).expect("count");
        (preload.clone().behind(&self.library))
            .with("REFUSE_COUNT", self.count.display())
            .with("REFUSE_FROM", requests.start())
            .with("REFUSE_TO", requests.end())
    }

    /// Settings of a run in which the requests are only counted.
    #[must_use]
    pub fn counting(&self, preload: &Preload) -> Preload {
        self.refusing(preload, &(u64::MAX..=u64::MAX))
    }

    /// The number of requests in the last run.
    ///
    /// # Panics
    /// There was no run.
    #[must_use]
    pub fn count(&self) -> u64 {
        let bytes = fs::read(&self.count).expect("count");
        u64::from_ne_bytes(bytes[..8].try_into().expect("8 bytes"))
    }

    /// Which requests to refuse, in a run of `count`: each alone, and all from each on. The short form takes
    /// `in_short` of them. `COLDSTREAM_STRIDE` takes one of that number; which ones depends on the seed.
    #[must_use]
    pub fn refusals(count: u64, in_short: u64) -> Vec<RangeInclusive<u64>> {
        let in_long = || if long() { 1 } else { count.div_ceil(in_short) };
        let step = number_from_environment("COLDSTREAM_STRIDE").unwrap_or_else(in_long);
        let step = step.max(1);
        let first = 1 + seed().wrapping_sub(1) % step;
        let numbers = (first..=count).step_by(usize::try_from(step).expect("a step"));
        numbers
            .flat_map(|number| [number..=number, number..=u64::MAX])
            .collect()
    }
}
