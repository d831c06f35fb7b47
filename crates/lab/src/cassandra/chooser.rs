//! Chooses the key of each request.

use super::arguments::Distribution;
use super::values::{SplitMix, hot_key};
use crate::phase::FIRST_PASS_SECONDS;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution as _, Zipf};

/// YCSB's constant (`ZipfianGenerator.ZIPFIAN_CONSTANT`).
const ZIPFIAN_EXPONENT: f64 = 0.99;

/// Chooses keys and updates. The same seed gives the same choices.
pub struct Chooser {
    random: StdRng,
    zipfian: Option<Zipf<f64>>,
    first_pass: std::vec::IntoIter<u64>,
    hot_keys: u64,
    keys: u64,
}

impl Chooser {
    /// Number of keys in the first pass: as many as fit into its time.
    pub fn first_pass_keys(hot_keys: u64, reads_per_second: u64) -> u64 {
        hot_keys.min(reads_per_second * FIRST_PASS_SECONDS)
    }

    /// A chooser for `hot_keys` of `keys`. The first pass reads `first_pass_keys` of them, each once,
    /// in random order.
    pub fn new(
        distribution: Distribution,
        hot_keys: u64,
        keys: u64,
        first_pass_keys: u64,
        seed: u32,
    ) -> Self {
        let mut random = StdRng::seed_from_u64(u64::from(seed));
        let mut indexes: Vec<u64> = (0..hot_keys).collect();
        indexes.shuffle(&mut random);
        indexes.truncate(first_pass_keys as usize);
        let zipfian = match distribution {
            Distribution::Uniform => None,
            Distribution::Zipfian => Zipf::new(hot_keys as f64, ZIPFIAN_EXPONENT).ok(),
        };
        Self {
            random,
            zipfian,
            first_pass: indexes.into_iter(),
            hot_keys,
            keys,
        }
    }

    /// The next key of the first pass; `None` at its end.
    pub fn first(&mut self) -> Option<u64> {
        let index = self.first_pass.next()?;
        Some(hot_key(index, self.hot_keys, self.keys))
    }

    /// The key of the next request. The popular keys of a zipfian distribution are scattered, as in
    /// YCSB.
    pub fn key(&mut self) -> u64 {
        let index = match &self.zipfian {
            None => self.random.random_range(0..self.hot_keys),
            Some(zipfian) => {
                let rank = zipfian.sample(&mut self.random) as u64;
                SplitMix(rank).next() % self.hot_keys
            }
        };
        hot_key(index, self.hot_keys, self.keys)
    }

    /// Decides whether the next request is an update, with this probability in percent. `Some` has
    /// the update's number.
    pub fn update(&mut self, percent: u32) -> Option<u64> {
        self.random
            .random_ratio(percent.min(100), 100)
            .then(|| self.random.random_range(1..u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn the_first_pass_takes_every_key_once() {
        let mut chooser = Chooser::new(Distribution::Uniform, 100, 1000, 100, 1);
        let mut keys: Vec<u64> = std::iter::from_fn(|| chooser.first()).collect();
        assert_ne!(keys, (0..1000).step_by(10).collect::<Vec<_>>());
        keys.sort_unstable();
        assert_eq!(keys, (0..1000).step_by(10).collect::<Vec<_>>());
    }

    #[test]
    fn a_zipfian_choice_has_favourites_and_a_uniform_one_none() {
        let most = |distribution| {
            let mut chooser = Chooser::new(distribution, 1000, 1000, 0, 1);
            let mut counts = HashMap::new();
            for _ in 0..100_000 {
                *counts.entry(chooser.key()).or_insert(0) += 1;
            }
            counts.into_values().max().unwrap()
        };
        assert!(most(Distribution::Uniform) < 200);
        assert!(most(Distribution::Zipfian) > 5_000);
    }

    #[test]
    fn updates_come_as_often_as_they_are_asked_for() {
        let mut chooser = Chooser::new(Distribution::Uniform, 10, 10, 0, 1);
        assert!((0..1000).all(|_| chooser.update(0).is_none()));
        let updates = (0..10_000).filter(|_| chooser.update(50).is_some()).count();
        assert!((4_500..5_500).contains(&updates), "{updates}");
    }
}
