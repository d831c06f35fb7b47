//! What the library adds to RocksDB's reads from the page cache, in percent.
//!
//! Two processes read the same database by chance, one of them under the library. Only one reads at a time, for a few
//! milliseconds: in pairs of turns, the order of each by chance. So whatever else the machine does hits both.
//! Processes differ too, by where their memory happens to lie: so there are several pairs of them.
//!
//! Prints the median of the pairs of processes. Each of these is the median of its pairs of turns. The confidence of
//! the interval is that of order statistics.

use coldstream_testkit::library;
use coldstream_testkit::process::Program;
use coldstream_testkit::random::Random;
use coldstream_testkit::tools;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The second smallest and the second largest of eleven hold the median with a confidence of 98.8 %.
const PROCESSES: usize = 11;
const OUTSIDE: usize = 1;
const TURNS: usize = 201;
const WARM_UP_TURNS: usize = 20;
/// Some 5 ms.
const READS_A_TURN: usize = 1000;

const KEYS: u64 = 200_000;
const MEASURES: [&str; 3] = ["time of a read, mean", "p50", "p99"];

fn main() {
    if tools::find_library("librocksdb.so").is_none() {
        println!("skipped: no librocksdb.so");
        return;
    }
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("scratch directory");
    let [hot_keys, turns] = ["hot_keys", "turns"].map(|name| {
        let source = format!("{name}.c");
        tools::compile(&source, directory.path(), name, &["-lrocksdb"])
    });
    let database = directory.path().join("database");
    Program::new(&hot_keys)
        .argument("load")
        .argument(&database)
        .arguments([&KEYS.to_string() as &str, "1", "400", "0"])
        .argument("create_if_missing=true;block_based_table_factory={block_size=4096}")
        .run()
        .well();
    let library = library::built_before();
    let mut random = Random::new(1);
    let mut by_process: [Vec<f64>; MEASURES.len()] = Default::default();
    let mut plain_ns: [Vec<f64>; MEASURES.len()] = Default::default();
    for _ in 0..PROCESSES {
        let mut plain = Reader::start(&turns, &database, None);
        let mut with = Reader::start(&turns, &database, Some(&library));
        for _ in 0..WARM_UP_TURNS {
            plain.turn();
            with.turn();
        }
        let mut added: [Vec<f64>; MEASURES.len()] = Default::default();
        for _ in 0..TURNS {
            let (before, after) = if random.below(2) == 0 {
                let before = plain.turn();
                (before, with.turn())
            } else {
                let after = with.turn();
                (plain.turn(), after)
            };
            for measure in 0..MEASURES.len() {
                added[measure].push(100.0 * (after[measure] / before[measure] - 1.0));
                plain_ns[measure].push(before[measure]);
            }
        }
        for (all, added) in by_process.iter_mut().zip(&mut added) {
            all.push(median(added));
        }
    }
    println!(
        "{:<22} {:>9} {:>9}   98.8 % confidence",
        "", "plain ns", "added %"
    );
    for (measure, name) in MEASURES.iter().enumerate() {
        let added = median(&mut by_process[measure]);
        let (low, high) = (OUTSIDE, PROCESSES - 1 - OUTSIDE);
        println!(
            "{name:<22} {:>9.0} {added:>9.2}   {:.2} … {:.2}",
            median(&mut plain_ns[measure]),
            by_process[measure][low],
            by_process[measure][high],
        );
    }
}

/// The median; the numbers are sorted afterwards.
fn median(numbers: &mut [f64]) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// A process that reads when it is told to.
struct Reader {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Reader {
    fn start(program: &Path, database: &Path, library: Option<&Path>) -> Self {
        let mut command = Command::new(program);
        command.arg(database).arg(KEYS.to_string());
        if let Some(library) = library {
            command.env("LD_PRELOAD", library);
            command.env("COLDSTREAM_LOG", "none");
        }
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.expect("turns");
        Self {
            to: child.stdin.take().expect("its input"),
            from: BufReader::new(child.stdout.take().expect("its output")),
            child,
        }
    }

    /// The mean of a turn's reads, p50 and p99, in ns.
    fn turn(&mut self) -> [f64; MEASURES.len()] {
        writeln!(self.to, "{READS_A_TURN}").expect("tell it");
        let mut line = String::new();
        self.from.read_line(&mut line).expect("hear it");
        let words = line.split_whitespace();
        let numbers: Vec<f64> = words.map(|word| word.parse().expect("a number")).collect();
        let [all, p50, p99] = numbers[..] else {
            panic!("turns: {line:?}");
        };
        [all / READS_A_TURN as f64, p50, p99]
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
