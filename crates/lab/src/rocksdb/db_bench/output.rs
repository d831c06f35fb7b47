//! What db_bench prints at the end of a run: the report of its benchmark, the histogram of its reads,
//! and RocksDB's own statistics. As releases from 7.8 on print it.

use crate::measurement::ReadSummary;
use crate::run_report::Percentiles;
use anyhow::{Context, Result};

/// The benchmark of a run. Its name begins the line that is printed when it is over.
pub const BENCHMARK: &str = "readwhilewriting";

/// The line above the histogram of the reads.
const HISTOGRAM: &str = "Microseconds per read:";

/// What a run printed.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// The reads.
    pub reads: ReadSummary,
    /// Reads of one thread that found their key, and all reads of that thread.
    pub found: (u64, u64),
    /// Bytes that compaction read.
    pub compacted_read_bytes: u64,
    /// Bytes that compaction wrote.
    pub compacted_written_bytes: u64,
    /// Bytes that the user wrote.
    pub user_bytes: u64,
    /// Keys that the user wrote.
    pub updates: u64,
    /// Time for which the engine delayed these writes.
    pub stall_us: u64,
}

impl Output {
    /// Parses what a run printed.
    ///
    /// # Errors
    /// Something is missing; the text names it.
    pub fn parse(text: &str) -> Result<Self> {
        let report = (text.lines())
            .find(|line| is_report(line))
            .with_context(|| format!("db_bench printed no line \"{BENCHMARK} : …\""))?;
        let of_report = |unit: &str| before(report, unit).with_context(|| missing(BENCHMARK, unit));
        let ticker = |name: &str| {
            let mut values = text.lines().filter_map(|line| {
                let value = line.strip_prefix(name)?.strip_prefix(" COUNT : ")?;
                value.trim().parse::<u64>().ok()
            });
            (values.next_back()).with_context(|| missing("statistics", name))
        };
        Ok(Self {
            reads: summary(text, &of_report)?,
            found: (found(report)).with_context(|| missing(BENCHMARK, "found"))?,
            compacted_read_bytes: ticker("rocksdb.compact.read.bytes")?,
            compacted_written_bytes: ticker("rocksdb.compact.write.bytes")?,
            user_bytes: ticker("rocksdb.bytes.written")?,
            updates: ticker("rocksdb.number.keys.written")?,
            stall_us: ticker("rocksdb.stall.micros")?,
        })
    }
}

/// Whether a line is the report of the benchmark: it is over then.
pub fn is_report(line: &str) -> bool {
    let name = line.split_once(':').map(|(name, _)| name.trim());
    name == Some(BENCHMARK)
}

fn summary(text: &str, of_report: &dyn Fn(&str) -> Result<f64>) -> Result<ReadSummary> {
    let (_, histogram) =
        (text.split_once(HISTOGRAM)).with_context(|| format!("db_bench printed no {HISTOGRAM}"))?;
    let us = |name: &str| after(histogram, name).with_context(|| missing(HISTOGRAM, name));
    let [p50, p75, p99, p99_9, p99_99] = [
        us("P50:")?,
        us("P75:")?,
        us("P99:")?,
        us("P99.9:")?,
        us("P99.99:")?,
    ];
    Ok(ReadSummary {
        reads: of_report("operations")? as u64,
        seconds: of_report("seconds")?,
        reads_per_second: of_report("ops/sec")?,
        service_us: Percentiles {
            p50,
            // Not printed.
            p90: 0.0,
            p99,
            p99_9,
            p99_99,
            max: us("Max:")?,
            mean: us("Average:")?,
        },
        curve: vec![
            (0.0, us("Min:")?),
            (0.5, p50),
            (0.75, p75),
            (0.99, p99),
            (0.999, p99_9),
            (0.9999, p99_99),
        ],
    })
}

fn missing(part: &str, name: &str) -> String {
    format!("db_bench printed no \"{name}\" in its {part}: use a release from 7.8 on")
}

/// The number before a word.
fn before(line: &str, word: &str) -> Option<f64> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut pairs = words.windows(2);
    let pair = pairs.find(|pair| pair[1].trim_end_matches(';') == word)?;
    pair[0].parse().ok()
}

/// The number after a word, at its first place.
fn after(text: &str, word: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    words.find(|other| *other == word)?;
    words.next()?.parse().ok()
}

/// `(10 of 20 found)`.
fn found(line: &str) -> Option<(u64, u64)> {
    let (_, text) = line.split_once('(')?;
    let (found, text) = text.split_once(" of ")?;
    let (all, _) = text.split_once(" found")?;
    Some((found.parse().ok()?, all.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of Debian's 7.8.3; cut down.
    const TEXT: &str = "\
WARNING: Assertions are enabled; benchmarks unnecessarily slow
------------------------------------------------
DB path: [work/run]
readwhilewriting :     185.937 micros/op 21481 ops/sec 30.119 seconds 646999 operations;   84.2 MB/s (161999 of 161999 found)

Microseconds per read:
Count: 646999 Average: 185.9371  StdDev: 306.23
Min: 1  Median: 26.4400  Max: 66743
Percentiles: P50: 26.44 P75: 144.57 P99: 2658.80 P99.9: 12840.44 P99.99: 29779.17
------------------------------------------------------
[       0,       1 ]    58098   6.200%   6.200% #
(   50000,   75000 ]        2   0.000% 100.000% 

STATISTICS:
rocksdb.number.keys.written COUNT : 14473
rocksdb.bytes.written COUNT : 59744544
rocksdb.bytes.read COUNT : 3837935616
rocksdb.l0.num.files.stall.micros COUNT : 0
rocksdb.stall.micros COUNT : 1500
rocksdb.compact.read.bytes COUNT : 3000
rocksdb.compact.write.bytes COUNT : 2000
rocksdb.compact.read.marked.bytes COUNT : 7
rocksdb.db.get.micros P50 : 2.009979 P95 : 7.694972 P99 : 11.068331 P100 : 66740.000000 COUNT : 936996 SUM : 11322462
";

    #[test]
    fn every_figure_is_found() {
        let output = Output::parse(TEXT).unwrap();
        let reads = &output.reads;
        assert_eq!((reads.reads, reads.seconds), (646_999, 30.119));
        assert_eq!(reads.reads_per_second, 21_481.0);
        let us = reads.service_us;
        assert_eq!((us.p50, us.p99, us.p99_9), (26.44, 2658.80, 12_840.44));
        assert_eq!(
            (us.p99_99, us.max, us.mean),
            (29_779.17, 66_743.0, 185.9371)
        );
        assert_eq!(reads.curve[0], (0.0, 1.0));
        assert_eq!(reads.curve[2], (0.75, 144.57));
        assert_eq!(output.found, (161_999, 161_999));
        assert_eq!(output.compacted_read_bytes, 3000);
        assert_eq!(output.compacted_written_bytes, 2000);
        assert_eq!((output.user_bytes, output.updates), (59_744_544, 14_473));
        assert_eq!(output.stall_us, 1500);
    }

    #[test]
    fn what_is_missing_is_named() {
        for (cut, named) in [
            ("readwhilewriting", "readwhilewriting"),
            ("operations", "operations"),
            ("Microseconds", "Microseconds per read"),
            ("P99.9:", "P99.9:"),
            ("rocksdb.stall.micros", "rocksdb.stall.micros"),
            (" of 161999 found", "found"),
        ] {
            let error = Output::parse(&TEXT.replace(cut, "")).unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
        }
    }

    #[test]
    fn the_report_is_one_line() {
        assert_eq!(TEXT.lines().filter(|line| is_report(line)).count(), 1);
    }
}
