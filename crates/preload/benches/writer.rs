//! What the library makes of a compaction's writes: a synthetic writer with the calls of Cassandra
//! and one with those of RocksDB, as traced from the engines themselves, without the library and
//! under it with each treatment, in turn. Every run is a process of its own, which this program
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

#[path = "../../io/benches/support/device_limit.rs"]
mod device_limit;

use device_limit::DeviceLimit;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
/// Size of the runs that are not timed: strace makes each of Cassandra's calls slow.
const SMALL_BYTES: u64 = 128 * MIB;

/// The first is what the others are compared with.
const MODES: [&str; 6] = ["plain", "buffered", "window", "dontcache", "direct", "auto"];

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
        library: library_path(),
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

/// Beside this executable's folder: `target/release/libcoldstream.so`.
fn library_path() -> PathBuf {
    let executable = std::env::current_exe().expect("own path");
    let library = executable
        .ancestors()
        .nth(2)
        .expect("target directory")
        .join("libcoldstream.so");
    assert!(library.exists(), "{} is not built", library.display());
    library
}

// ---- The comparison ----

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
        let mut runs: Vec<Vec<Figures>> = vec![Vec::new(); MODES.len()];
        for round in 1..=self.rounds {
            eprintln!("round {round} of {}", self.rounds);
            // There and back: none always comes after the same other one.
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
        for ((mode, own), calls) in MODES.iter().zip(&runs).zip(&calls) {
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

/// Who counts system calls.
#[derive(Clone, Copy)]
enum Counter {
    Perf,
    Strace,
}

impl Counter {
    /// The first that works here.
    fn find() -> Option<Self> {
        [Counter::Perf, Counter::Strace]
            .into_iter()
            .find(|counter| {
                let prefix = counter.prefix("/dev/null");
                Command::new(prefix[0])
                    .args(&prefix[1..])
                    .arg("true")
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .status()
                    .is_ok_and(|status| status.success())
            })
    }

    fn name(self) -> &'static str {
        match self {
            Counter::Perf => "perf",
            Counter::Strace => "strace",
        }
    }

    fn prefix(self, output: &str) -> Vec<&str> {
        match self {
            Counter::Perf => vec![
                "perf",
                "stat",
                "-x",
                ",",
                "-e",
                "raw_syscalls:sys_enter",
                "-o",
                output,
            ],
            Counter::Strace => vec!["strace", "-c", "-f", "-o", output],
        }
    }

    fn parse(self, text: &str) -> Option<u64> {
        match self {
            // `count,unit,event,…`
            Counter::Perf => {
                let line = text.lines().find(|line| line.contains("sys_enter"))?;
                line.split(',').next()?.parse().ok()
            }
            // `100.00 seconds usecs/call calls errors total`, the errors only if there were any.
            Counter::Strace => {
                let line = text.lines().find(|line| line.ends_with(" total"))?;
                line.split_whitespace().nth(3)?.parse().ok()
            }
        }
    }
}

// ---- One run ----

#[derive(Clone, Copy)]
enum Engine {
    Cassandra,
    RocksDb,
}

impl Engine {
    fn named(name: &str) -> Self {
        [Engine::Cassandra, Engine::RocksDb]
            .into_iter()
            .find(|engine| engine.name() == name)
            .expect("an engine")
    }

    /// The library's profile, too.
    fn name(self) -> &'static str {
        match self {
            Engine::Cassandra => "cassandra",
            Engine::RocksDb => "rocksdb",
        }
    }

    fn thread_name(self) -> &'static str {
        match self {
            Engine::Cassandra => "CompactionExecu",
            Engine::RocksDb => "rocksdb:low",
        }
    }
}

/// What a writer does between its writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// Nothing.
    Idle,
    /// As much work for each chunk as a fast compressor has, and a checksum: about 4 µs for 4 KiB.
    Compressing,
    /// As much as a compaction has that merges rows, too: about 16 µs, so that it produces about as
    /// much as the held device takes.
    Merging,
}

impl Pace {
    fn named(name: &str) -> Self {
        [Pace::Idle, Pace::Compressing, Pace::Merging]
            .into_iter()
            .find(|pace| pace.name() == name)
            .expect("a pace")
    }

    fn name(self) -> &'static str {
        match self {
            Pace::Idle => "idle",
            Pace::Compressing => "compressing",
            Pace::Merging => "merging",
        }
    }

    fn work(self, bytes: &[u8]) {
        let rounds = match self {
            Pace::Idle => 0,
            Pace::Compressing => 3,
            Pace::Merging => 13,
        };
        // FNV-1a by words: each step waits for the one before.
        let mut sum = 0xCBF2_9CE4_8422_2325_u64;
        for round in 0..rounds {
            for word in bytes.chunks_exact(8) {
                let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
                sum = (sum ^ word ^ round).wrapping_mul(0x0000_0100_0000_01B3);
                sum ^= sum >> 29;
            }
        }
        std::hint::black_box(sum);
    }
}

/// Incompressible bytes, the same in every run. Small enough for a processor's cache, as what an
/// engine has just compressed or collected is; of an odd length, so that no two windows of the
/// library are equal.
struct Content {
    bytes: Vec<u8>,
}

impl Content {
    const PERIOD_BYTES: usize = (2 << 20) + 4099;

    fn new() -> Self {
        let mut bytes = Vec::with_capacity(2 * Self::PERIOD_BYTES + 8);
        let mut state = 1_u64;
        while bytes.len() < Self::PERIOD_BYTES {
            // splitmix64
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut word = state;
            word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            bytes.extend_from_slice(&(word ^ (word >> 31)).to_le_bytes());
        }
        bytes.truncate(Self::PERIOD_BYTES);
        // Twice, so that every piece lies in one piece.
        bytes.extend_from_within(..);
        Self { bytes }
    }

    /// Bytes of the file at `offset`, at most a period of them.
    fn at(&self, offset: u64, length: usize) -> &[u8] {
        let start = (offset % Self::PERIOD_BYTES as u64) as usize;
        &self.bytes[start..start + length]
    }
}

/// What came of one file.
struct Written {
    bytes: u64,
    total: Duration,
    writes: Duration,
}

fn one_run(engine: Engine, pace: Pace, directory: &Path, bytes: u64, then: &str) {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("own maps");
    assert_eq!(
        maps.contains("libcoldstream.so"),
        std::env::var_os("LD_PRELOAD").is_some(),
        "the library must be loaded when it was asked for"
    );
    let content = Content::new();
    let files = match engine {
        Engine::Cassandra => vec![(directory.join("nb-1-big-Data.db"), bytes)],
        Engine::RocksDb => rocksdb_files(directory, bytes),
    };
    let writer = || {
        let (cpu_before, dirtied_before) = (process_cpu(), dirtied_pages());
        let written: Vec<Written> = files
            .iter()
            .map(|(path, bytes)| match engine {
                Engine::Cassandra => write_as_cassandra(path, *bytes, &content, pace),
                Engine::RocksDb => write_as_rocksdb(path, *bytes, &content, pace),
            })
            .collect();
        let dirtied = dirtied_pages() - dirtied_before;
        (written, process_cpu() - cpu_before, dirtied)
    };
    let (written, cpu, dirtied_pages) = std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name(engine.thread_name().into())
            .spawn_scoped(scope, writer)
            .expect("start a thread")
            .join()
            .expect("the writer")
    });
    for ((path, _), file) in files.iter().zip(&written) {
        if then == "compare" {
            compare_with_content(path, file.bytes, &content);
        }
        std::fs::remove_file(path).expect("remove");
    }
    let total: Duration = written.iter().map(|file| file.total).sum();
    let writes: Duration = written.iter().map(|file| file.writes).sum();
    println!(
        "{} {} {} {dirtied_pages}",
        total.as_nanos(),
        writes.as_nanos(),
        cpu.as_nanos()
    );
}

/// A chunk of 4 KiB that does not compress, and its checksum.
const CASSANDRA_WRITES: [usize; 2] = [4118, 4];
/// `sstable_preemptive_open_interval`.
const EARLY_OPEN_BYTES: u64 = 50 * MIB;

/// Whole chunks only, as many as fit in `bytes`; the file's name is fresh.
fn write_as_cassandra(path: &Path, bytes: u64, content: &Content, pace: Pace) -> Written {
    let chunk_bytes = CASSANDRA_WRITES.iter().sum::<usize>() as u64;
    let start = Instant::now();
    let descriptor = open(path, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL);
    let mut opened_early = Vec::new();
    let mut early = Duration::ZERO;
    let mut written = 0;
    let writes_start = Instant::now();
    while written + chunk_bytes <= bytes {
        for length in CASSANDRA_WRITES {
            let bytes = content.at(written, length);
            pace.work(bytes);
            write(descriptor, bytes);
            written += length as u64;
        }
        // SAFETY: no memory is involved.
        let position = unsafe { libc::lseek64(descriptor, 0, libc::SEEK_CUR) };
        assert_eq!(position, written as i64, "the position after a write");
        if written / EARLY_OPEN_BYTES > opened_early.len() as u64 {
            let early_start = Instant::now();
            opened_early.push(open_early(path, written, content));
            early += early_start.elapsed();
        }
    }
    let writes = writes_start.elapsed() - early;
    // SAFETY: no memory is involved.
    assert_eq!(unsafe { libc::fdatasync(descriptor) }, 0);
    close(descriptor);
    let total = start.elapsed();
    opened_early.into_iter().for_each(close);
    Written {
        bytes: written,
        total,
        writes,
    }
}

/// The table is served from here on: all that was written must be there.
fn open_early(path: &Path, written: u64, content: &Content) -> i32 {
    let descriptor = open(path, libc::O_RDONLY);
    // SAFETY: zero is a valid value of each of its fields.
    let mut status: libc::stat64 = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is ours.
    assert_eq!(unsafe { libc::fstat64(descriptor, &raw mut status) }, 0);
    assert_eq!(status.st_size, written as i64, "the size at an early open");
    let offset = written - 5000;
    let mut page = [0_u8; 4096];
    // SAFETY: the buffer has room for a page.
    let read = unsafe { libc::pread64(descriptor, page.as_mut_ptr().cast(), 4096, offset as i64) };
    assert_eq!(read, 4096, "a read at an early open");
    assert!(
        page == content.at(offset, 4096),
        "wrong bytes at an early open"
    );
    descriptor
}

/// `writable_file_max_buffer_size` of 1 MiB, less the block that did not fit any more.
const ROCKSDB_WRITE_BYTES: usize = 1_046_619;
/// `target_file_size_base`.
const ROCKSDB_FILE_BYTES: u64 = 64 * MIB;
/// A tenth more than a file is preallocated.
const ROCKSDB_ALLOCATED_BYTES: i64 = 73_819_750;

fn rocksdb_files(directory: &Path, bytes: u64) -> Vec<(PathBuf, u64)> {
    // One at least: a run of no bytes opens and closes, too.
    (0..bytes.div_ceil(ROCKSDB_FILE_BYTES).max(1))
        .map(|file| {
            let left_bytes = bytes - file * ROCKSDB_FILE_BYTES;
            let name = format!("{:06}.sst", 100 + file);
            (directory.join(name), left_bytes.min(ROCKSDB_FILE_BYTES))
        })
        .collect()
}

fn write_as_rocksdb(path: &Path, bytes: u64, content: &Content, pace: Pace) -> Written {
    let start = Instant::now();
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC;
    let descriptor = open(path, flags);
    // SAFETY: no memory is involved. RocksDB asks in this way whether the call is there, and goes
    // on without where either is refused.
    unsafe {
        libc::sync_file_range(descriptor, 0, 0, 0);
        let keep_size = libc::FALLOC_FL_KEEP_SIZE;
        libc::fallocate64(descriptor, keep_size, 0, ROCKSDB_ALLOCATED_BYTES);
    }
    let mut written = 0;
    let writes_start = Instant::now();
    while written < bytes {
        let length = ROCKSDB_WRITE_BYTES.min((bytes - written) as usize);
        let bytes = content.at(written, length);
        pace.work(bytes);
        write(descriptor, bytes);
        written += length as u64;
    }
    let writes = writes_start.elapsed();
    // SAFETY: no memory is involved.
    unsafe {
        assert_eq!(libc::fdatasync(descriptor), 0);
        assert_eq!(libc::ftruncate64(descriptor, bytes as i64), 0);
    }
    close(descriptor);
    Written {
        bytes,
        total: start.elapsed(),
        writes,
    }
}

/// The size, and every byte.
fn compare_with_content(path: &Path, bytes: u64, content: &Content) {
    let mut offset = 0;
    let found = std::fs::read(path).expect("read back");
    assert_eq!(found.len() as u64, bytes, "the size of the file");
    for piece in found.chunks(MIB as usize) {
        let expected = content.at(offset, piece.len());
        assert!(piece == expected, "wrong bytes behind {offset}");
        offset += piece.len() as u64;
    }
}

fn process_cpu() -> Duration {
    // SAFETY: zero is a valid value of each of its fields.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is ours.
    let asked = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(asked, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn dirtied_pages() -> u64 {
    std::fs::read_to_string("/proc/vmstat")
        .expect("/proc/vmstat")
        .lines()
        .find_map(|line| line.strip_prefix("nr_dirtied ")?.parse().ok())
        .expect("nr_dirtied")
}

fn open(path: &Path, flags: i32) -> i32 {
    let name = CString::new(path.to_str().expect("UTF-8")).expect("no NUL");
    // SAFETY: a NUL-terminated string.
    let descriptor = unsafe { libc::open64(name.as_ptr(), flags, 0o644) };
    assert!(descriptor >= 0, "{}", path.display());
    descriptor
}

fn write(descriptor: i32, bytes: &[u8]) {
    // SAFETY: the bytes are there.
    let written = unsafe { libc::write(descriptor, bytes.as_ptr().cast(), bytes.len()) };
    assert_eq!(written, bytes.len() as isize, "a short write");
}

fn close(descriptor: i32) {
    // SAFETY: the descriptor is ours, and not used again.
    assert_eq!(unsafe { libc::close(descriptor) }, 0);
}
