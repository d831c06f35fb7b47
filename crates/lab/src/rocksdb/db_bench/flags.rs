//! The flags of db_bench that stand for the options of the laboratory.

use super::output::BENCHMARK;
use crate::rocksdb::arguments::RocksDbArgs;
use crate::rocksdb::parameters::Setup;
use crate::rocksdb::workload::Workload;
use anyhow::{Context, Result};
use std::path::Path;

/// The part of the reads that go to the hot keys of a case.
const HOT_SHARE: f64 = 0.8;

/// Flags that load a data set.
pub fn load(arguments: &RocksDbArgs, workload: &Workload, directory: &Path) -> Result<Vec<String>> {
    let mut flags = common(arguments, workload, directory)?;
    flags.extend([
        "--benchmarks=filluniquerandom,flush,waitforcompaction".to_owned(),
        "--disable_wal=1".to_owned(),
        "--seed=1".to_owned(),
    ]);
    Ok(flags)
}

/// Flags of a run. Of a flag that stands twice, db_bench takes the last: options of the mode win.
pub fn run(arguments: &RocksDbArgs, workload: &Workload, setup: &Setup<'_>) -> Result<Vec<String>> {
    let mut flags = common(arguments, workload, setup.database)?;
    let exp_range = read_random_exp_range(workload.sizes.keys, setup.hot_keys);
    flags.extend([
        format!("--benchmarks={BENCHMARK}"),
        "--use_existing_db=1".to_owned(),
        format!("--threads={}", arguments.readers),
        format!("--duration={}", workload.sizes.compaction_seconds),
        // A thousand slow reads would outlast the duration by seconds.
        "--ops_between_duration_checks=10".to_owned(),
        format!("--read_random_exp_range={exp_range}"),
        format!(
            "--benchmark_write_rate_limit={}",
            workload.update_mib_per_second << 20
        ),
        format!("--seed={}", setup.seed),
        "--statistics=1".to_owned(),
        "--histogram=1".to_owned(),
    ]);
    flags.extend(of_options(&setup.mode.engine_options())?);
    let environment = setup.mode.environment();
    flags.extend(environment.map(|(name, value)| format!("--{name}_uri={value}")));
    Ok(flags)
}

/// The range of exponents with which 80 % of the reads go to the first `hot_keys` ranks.
///
/// db_bench reads rank `keys * exp(-u * range)`, with `u` uniform in [0, 1): the logarithm of the rank
/// is uniform. A rank is below `hot_keys` if `u > ln(keys / hot_keys) / range`. It then maps ranks to
/// keys all over the key space.
pub fn read_random_exp_range(keys: u64, hot_keys: u64) -> f64 {
    (keys as f64 / hot_keys.max(1) as f64).max(1.0).ln() / (1.0 - HOT_SHARE)
}

/// Flags of the data set and of RocksDB.
fn common(arguments: &RocksDbArgs, workload: &Workload, directory: &Path) -> Result<Vec<String>> {
    let sizes = (arguments.preset().tuning).sizes(workload.update_mib_per_second > 0);
    let mut flags = vec![
        format!("--db={}", directory.display()),
        format!("--num={}", workload.sizes.keys),
        "--key_size=16".to_owned(),
        format!("--value_size={}", workload.value_bytes),
        "--compression_type=none".to_owned(),
        "--block_size=4096".to_owned(),
        "--bloom_bits=10".to_owned(),
        "--cache_size=8388608".to_owned(),
        "--open_files=-1".to_owned(),
        format!("--write_buffer_size={}", sizes.sstable_bytes),
        format!("--target_file_size_base={}", sizes.sstable_bytes),
        format!("--max_bytes_for_level_base={}", sizes.level_base_bytes()),
        format!("--max_background_jobs={}", sizes.background_jobs),
    ];
    flags.extend(of_options(&arguments.engine_options)?);
    Ok(flags)
}

/// The flags that are called like these options of RocksDB: `name=value;…`.
fn of_options(options: &str) -> Result<Vec<String>> {
    let options = options.split(';').map(str::trim);
    let flag = |option: &str| {
        let is_nested = option.contains(['{', '}']);
        let (name, value) = (option.split_once('=').filter(|_| !is_nested)).with_context(|| {
            format!("\"{option}\": with --db-bench, give options as flags of db_bench: NAME=VALUE")
        })?;
        let name = match name.trim() {
            "max_open_files" => "open_files",
            name => name,
        };
        Ok(format!("--{name}={}", value.trim()))
    };
    options
        .filter(|option| !option.is_empty())
        .map(flag)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of db_bench's reads below a rank, by its own formula.
    fn share_below(rank: u64, keys: u64, range: f64) -> f64 {
        let draws = 100_000;
        let below = (0..draws).filter(|draw| {
            let uniform = f64::from(*draw) / f64::from(draws);
            (-uniform * range).exp() * (keys as f64) < rank as f64
        });
        below.count() as f64 / f64::from(draws)
    }

    #[test]
    fn four_of_five_reads_go_to_the_hot_keys() {
        for (keys, hot_keys) in [(1_750_000, 48_828), (1_750_000, 3_662), (1000, 999)] {
            let range = read_random_exp_range(keys, hot_keys);
            let share = share_below(hot_keys, keys, range);
            assert!((share - 0.8).abs() < 0.001, "{share}");
        }
        assert_eq!(read_random_exp_range(1000, 1000), 0.0, "uniform");
    }

    #[test]
    fn options_become_flags() {
        let flags = of_options(";use_direct_reads=true;max_open_files=9;").unwrap();
        assert_eq!(flags, ["--use_direct_reads=true", "--open_files=9"]);
        assert!(of_options("").unwrap().is_empty());
        for wrong in ["a", "block_based_table_factory={block_size=1}"] {
            let error = of_options(wrong).unwrap_err().to_string();
            assert!(error.contains(wrong) && error.contains("--db-bench"));
        }
    }
}
