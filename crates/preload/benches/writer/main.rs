//! What the library makes of a compaction's writes: a synthetic writer with the calls of Cassandra
//! and one with those of RocksDB, as traced from the engines themselves, without the library and
//! under it with each I/O mode, in turn. Every run is a process of its own, which this program
//! starts from itself. What was written is compared before anything is timed.
//!
//! Three cases: a writer that does nothing but write, of either engine; and Cassandra's, busy between
//! its writes as with compressing and checksumming, on a device that is held to the rate of a cloud
//! volume (cgroup v1 `blkio`, as root): what is gained there is gained by writing and working at
//! the same time. (That cgroup holds whoever submits a request: not the kernel's own writers.)
//!
//! `COLDSTREAM_BENCH_DIR` names the directory to write in (else it is in the target directory),
//! `COLDSTREAM_BENCH_MIB` the size and `COLDSTREAM_BENCH_ROUNDS` the rounds. Other settings of the
//! library are inherited.

mod one_run;
mod system;
mod system_calls;

use coldstream_testkit::device_limit::DeviceLimit;
use coldstream_testkit::library;
use one_run::{Engine, Pace, one_run};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use system::{close, open};
use system_calls::Counter;

const MIB: u64 = 1 << 20;
/// Size of the runs that are not timed: strace makes each of Cassandra's calls slow.
const SMALL_BYTES: u64 = 128 * MIB;

/// The first is what the others are compared with.
const MODES: [&str; 6] = [
    "plain",
    "buffered",
    "drop-behind",
    "dontcache",
    "direct",
    "auto",
];

/// Rate of the held device.
const HELD_BYTES_PER_SECOND: u64 = 250 * MIB;

/// First word of a run's arguments.
const WRITE: &str = "write";

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, engine, pace, directory, bytes, then] = &words[..]
        && first == WRITE
    {
        let bytes = bytes.parse().expect("a number of bytes");
        let (engine, pace) = (Engine::named(engine), Pace::named(pace));
        return one_run(engine, pace, directory.as_ref(), bytes, then);
    }
    let directory = std::env::var_os("COLDSTREAM_BENCH_DIR")
        .map_or_else(|| env!("CARGO_TARGET_TMPDIR").into(), PathBuf::from);
    let bench = Bench {
        library: library::built_before(),
        directory: tempfile::tempdir_in(directory).expect("scratch directory"),
        bytes: number("COLDSTREAM_BENCH_MIB", 1024) * MIB,
        rounds: number("COLDSTREAM_BENCH_ROUNDS", 5) as usize,
        counter: Counter::find(),
    };
    bench.compare(Engine::Cassandra, Pace::Idle);
    bench.compare(Engine::RocksDb, Pace::Idle);
    match DeviceLimit::hold(
        bench.directory.path(),
        "write_bps_device",
        HELD_BYTES_PER_SECOND,
    ) {
        Ok(_held) => {
            println!(
                "the device held to {} MiB/s of direct writes",
                HELD_BYTES_PER_SECOND / MIB
            );
            bench.compare(Engine::Cassandra, Pace::Compressing);
            bench.compare(Engine::Cassandra, Pace::Merging);
        }
        Err(why) => println!("skipped: the device cannot be held to a rate: {why}"),
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect(variable))
}

/// What a run says on its standard output.
#[derive(Clone, Copy)]
struct Figures {
    /// From before the first `open` to after the last `close`.
    total: Duration,
    /// The loops of writes, without what lies between and behind them.
    writes: Duration,
    /// User and system, of this process: the kernel's own writers are not in it.
    cpu: Duration,
    /// Pages that became dirty meanwhile, in the whole system.
    dirtied_pages: u64,
}

impl Figures {
    fn parse(text: &str) -> Self {
        let numbers: Vec<u64> = text
            .split_whitespace()
            .map(|word| word.parse().expect("a number"))
            .collect();
        let [total_ns, writes_ns, cpu_ns, dirtied_pages] = numbers[..] else {
            panic!("a run said: {text}");
        };
        Self {
            total: Duration::from_nanos(total_ns),
            writes: Duration::from_nanos(writes_ns),
            cpu: Duration::from_nanos(cpu_ns),
            dirtied_pages,
        }
    }
}

/// What a process of its own does.
struct Run<'a> {
    engine: Engine,
    pace: Pace,
    mode: &'a str,
    bytes: u64,
}

struct Bench {
    library: PathBuf,
    directory: tempfile::TempDir,
    bytes: u64,
    rounds: usize,
    counter: Option<Counter>,
}

impl Bench {
    fn compare(&self, engine: Engine, pace: Pace) {
        println!(
            "{}, {}: {} MiB, {} rounds in turn, median (smallest–largest)",
            engine.name(),
            pace.name(),
            self.bytes / MIB,
            self.rounds
        );
        let logs: Vec<String> = MODES.iter().map(|mode| self.check(engine, mode)).collect();
        let calls: Vec<Option<f64>> = MODES
            .iter()
            .map(|mode| self.calls_per_mib(engine, mode))
            .collect();
        let runs = self.run_in_turn(engine, pace);
        self.print(&runs, &calls);
        println!(
            "system calls counted by {} in a run of {} MiB",
            self.counter
                .map_or("nobody (no perf, no strace)", Counter::name),
            SMALL_BYTES / MIB
        );
        for (mode, log) in MODES.iter().zip(&logs).skip(1) {
            println!("{mode}: {log}");
        }
        println!();
    }

    /// Runs all modes, round by round. The figures of each mode.
    fn run_in_turn(&self, engine: Engine, pace: Pace) -> Vec<Vec<Figures>> {
        let mut runs: Vec<Vec<Figures>> = vec![Vec::new(); MODES.len()];
        for round in 1..=self.rounds {
            eprintln!("round {round} of {}", self.rounds);
            // There and back: no mode always follows the same other one.
            let mut order: Vec<usize> = (0..MODES.len()).collect();
            if round % 2 == 0 {
                order.reverse();
            }
            for mode in order {
                runs[mode].push(self.run(&Run {
                    engine,
                    pace,
                    mode: MODES[mode],
                    bytes: self.bytes,
                }));
            }
        }
        runs
    }

    /// Prints a row a mode.
    fn print(&self, runs: &[Vec<Figures>], calls: &[Option<f64>]) {
        println!(
            "{:<10} {:>22} {:>9} {:>24} {:>10} {:>10} {:>10}",
            "mode",
            "MiB/s with its sync",
            "to plain",
            "MiB/s of the writes",
            "calls/MiB",
            "CPU s/GiB",
            "dirty/MiB"
        );
        let mib = self.bytes as f64 / MIB as f64;
        for ((mode, own), calls) in MODES.iter().zip(runs).zip(calls) {
            let rates = of_each(own, |run| mib / run.total.as_secs_f64());
            let write_rates = of_each(own, |run| mib / run.writes.as_secs_f64());
            // Against the plain run of the same round: what slowed one down slowed both.
            let to_plain: Vec<f64> = own
                .iter()
                .zip(&runs[0])
                .map(|(run, plain)| plain.total.as_secs_f64() / run.total.as_secs_f64())
                .collect();
            let cpu = of_each(own, |run| run.cpu.as_secs_f64() * 1024.0 / mib);
            let dirtied = of_each(own, |run| run.dirtied_pages as f64 / mib);
            println!(
                "{mode:<10} {:>22} {:>9.2} {:>24} {:>10} {:>10.2} {:>10.1}",
                spread(&rates),
                median(&to_plain),
                spread(&write_rates),
                calls.map_or("–".into(), |calls| format!("{calls:.1}")),
                median(&cpu),
                median(&dirtied),
            );
        }
    }

    /// Writes and compares; the last line that the library logged.
    fn check(&self, engine: Engine, mode: &str) -> String {
        let log = self.directory.path().join("log");
        let log_text = log.to_str().expect("UTF-8");
        let run = Run {
            engine,
            pace: Pace::Idle,
            mode,
            bytes: SMALL_BYTES,
        };
        let mut command = self.command(&[], &run, log_text, "compare");
        let ended = command.output().expect("start");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{mode}: {said}");
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let _ = std::fs::remove_file(&log);
        text.lines().last().unwrap_or("logged nothing").to_owned()
    }

    /// Without those that any run makes, such as the loader's.
    fn calls_per_mib(&self, engine: Engine, mode: &str) -> Option<f64> {
        let counter = self.counter?;
        let output = self.directory.path().join("calls");
        let count = |bytes| {
            let prefix = counter.prefix(output.to_str().expect("UTF-8"));
            let run = Run {
                engine,
                pace: Pace::Idle,
                mode,
                bytes,
            };
            let mut command = self.command(&prefix, &run, "none", "go");
            let ended = command.output().expect("start");
            assert!(ended.status.success(), "{mode}: {ended:?}");
            counter.parse(&std::fs::read_to_string(&output).ok()?)
        };
        let (all, always) = (count(SMALL_BYTES)?, count(0)?);
        Some(all.saturating_sub(always) as f64 / (SMALL_BYTES / MIB) as f64)
    }

    fn run(&self, run: &Run<'_>) -> Figures {
        // Nothing that an earlier run left may be written back in this one's time.
        let directory = open(self.directory.path(), libc::O_RDONLY | libc::O_DIRECTORY);
        // SAFETY: no memory is involved.
        assert_eq!(unsafe { libc::syncfs(directory) }, 0);
        close(directory);
        // Memory that was page cache a moment ago is cheaper to get than other memory, in a virtual
        // machine above all. Only root may drop it.
        let _ = std::fs::write("/proc/sys/vm/drop_caches", "3");
        let ended = self
            .command(&[], run, "none", "go")
            .output()
            .expect("start");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{}: {said}", run.mode);
        Figures::parse(&String::from_utf8_lossy(&ended.stdout))
    }

    /// A run, through `env`, so that a counter before it does without the library.
    fn command(&self, prefix: &[&str], run: &Run<'_>, log: &str, then: &str) -> Command {
        let mut words: Vec<String> = prefix.iter().map(|word| word.to_string()).collect();
        words.extend(["env".into(), "-u".into(), "LD_PRELOAD".into()]);
        if run.mode != MODES[0] {
            words.extend([
                format!("LD_PRELOAD={}", self.library.display()),
                format!("COLDSTREAM_PROFILE={}", run.engine.name()),
                format!("COLDSTREAM_WRITES={}", run.mode),
                format!("COLDSTREAM_LOG={log}"),
            ]);
        }
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .arg(std::env::current_exe().expect("own path"))
            .args([WRITE, run.engine.name(), run.pace.name()])
            .arg(self.directory.path())
            .args([&run.bytes.to_string(), then])
            .stdin(Stdio::null());
        command
    }
}

fn of_each(runs: &[Figures], of: impl Fn(&Figures) -> f64) -> Vec<f64> {
    runs.iter().map(of).collect()
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
}

/// Of an even number, the upper one.
fn median(values: &[f64]) -> f64 {
    sorted(values)[values.len() / 2]
}

fn spread(values: &[f64]) -> String {
    let sorted = sorted(values);
    format!(
        "{:.0} ({:.0}–{:.0})",
        median(values),
        sorted[0],
        sorted[sorted.len() - 1]
    )
}
