//! What a read of an SSTable costs while a compaction writes it: Cassandra's early opened SSTables.
//!
//! A writer appends chunks at a wanted rate, on a device that is held to another rate (cgroup v1 `blkio`, as
//! root). A reader reads pages of the file's beginning that are in the page cache. Nothing that it reads needs the
//! device. Modes in turn: without the library, a writer with its own `O_DIRECT`, and under the library.
//!
//! The cgroup holds whoever submits a request. So it does not hold the writeback of the buffered writer.
//!
//! `COLDSTREAM_BENCH_DIR` names the directory to write in (else it is in the target directory),
//! `COLDSTREAM_BENCH_SECONDS` the length of a run and `COLDSTREAM_BENCH_ROUNDS` the rounds. Other settings of the
//! library are inherited.

use coldstream_testkit::device_limit::DeviceLimit;
use coldstream_testkit::library;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
/// Rate of the held device.
const HELD_BYTES_PER_SECOND: u64 = 64 * MIB;
/// Wanted rate ÷ rate of the device, in percent.
const RATIOS: [u64; 6] = [50, 75, 100, 125, 200, 400];
const MODES: [&str; 3] = ["plain", "own-direct", "coldstream"];
/// The part of the file that is read. It is written before the clock starts.
const READ_BYTES: u64 = 16 * MIB;
const PAGE_BYTES: usize = 4096;
/// A chunk of 4 KiB that does not compress, and its checksum.
const CHUNK_BYTES: usize = 4122;
/// One write of the writer with its own `O_DIRECT`.
const DIRECT_BYTES: usize = 1 << 20;
/// The pause between two reads.
const PAUSE: Duration = Duration::from_micros(100);

/// First word of a run's arguments.
const RUN: &str = "run";

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, mode, rate, seconds, path] = &words[..]
        && first == RUN
    {
        let rate = rate.parse().expect("bytes per second");
        let length = Duration::from_secs(seconds.parse().expect("seconds"));
        return one_run(mode, rate, length, path.as_ref());
    }
    let directory = std::env::var_os("COLDSTREAM_BENCH_DIR")
        .map_or_else(|| env!("CARGO_TARGET_TMPDIR").into(), PathBuf::from);
    let directory = tempfile::tempdir_in(directory).expect("scratch directory");
    let seconds = number("COLDSTREAM_BENCH_SECONDS", 10);
    let rounds = number("COLDSTREAM_BENCH_ROUNDS", 5);
    let library = library::built_before();
    match DeviceLimit::hold(directory.path(), "write_bps_device", HELD_BYTES_PER_SECOND) {
        Ok(_held) => {
            println!(
                "device held to {} MiB/s, {rounds} rounds of {seconds} s in turn, median (smallest–largest)",
                HELD_BYTES_PER_SECOND / MIB
            );
            for ratio in RATIOS {
                compare(ratio, seconds, rounds, &library, directory.path());
            }
        }
        Err(why) => println!("skipped: the device cannot be held to a rate: {why}"),
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect(variable))
}

/// Runs all modes, round by round, and prints a row a mode.
fn compare(ratio: u64, seconds: u64, rounds: u64, library: &Path, directory: &Path) {
    let rate = HELD_BYTES_PER_SECOND * ratio / 100;
    println!("\nwanted {} MiB/s, {ratio} % of the device", rate / MIB);
    println!(
        "{:<11} {:>18} {:>22} {:>26} {:>26} {:>26}",
        "mode", "written MiB/s", "p50 µs", "p99 µs", "p99.9 µs", "max µs"
    );
    let mut runs: Vec<Vec<Vec<f64>>> = vec![Vec::new(); MODES.len()];
    for round in 0..rounds {
        // There and back: no mode always follows the same other one.
        let mut order: Vec<usize> = (0..MODES.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for mode in order {
            runs[mode].push(start(MODES[mode], rate, seconds, library, directory));
        }
    }
    for (mode, own) in MODES.iter().zip(&runs) {
        let column = |index: usize| {
            let mut values: Vec<f64> = own.iter().map(|run| run[index]).collect();
            values.sort_by(f64::total_cmp);
            let (first, last) = (values[0], values[values.len() - 1]);
            format!("{:.1} ({first:.1}–{last:.1})", values[values.len() / 2])
        };
        println!(
            "{mode:<11} {:>18} {:>22} {:>26} {:>26} {:>26}",
            column(0),
            column(1),
            column(2),
            column(3),
            column(4)
        );
    }
}

/// A run in a process of its own. Its figures, in the order of the columns.
fn start(mode: &str, rate: u64, seconds: u64, library: &Path, directory: &Path) -> Vec<f64> {
    let path = directory.join("nb-1-big-Data.db");
    let mut command = Command::new(std::env::current_exe().expect("own path"));
    command
        .args([RUN, mode, &rate.to_string(), &seconds.to_string()])
        .arg(&path)
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null());
    if mode == "coldstream" {
        command
            .env("LD_PRELOAD", library)
            .env("COLDSTREAM_PROFILE", "cassandra")
            .env("COLDSTREAM_LOG", "none");
    }
    let ended = command.output().expect("start");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{mode}: {said}");
    let _ = std::fs::remove_file(&path);
    String::from_utf8_lossy(&ended.stdout)
        .split_whitespace()
        .map(|word| word.parse().expect("a number"))
        .collect()
}

/// Writes and reads, and prints the figures.
fn one_run(mode: &str, rate: u64, length: Duration, path: &Path) {
    let written = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name("CompactionExecu".into())
            .spawn_scoped(scope, || {
                write_at_rate(mode == "own-direct", rate, path, &written, &is_over);
            })
            .expect("start a thread");
        while written.load(Ordering::Acquire) < 2 * READ_BYTES {
            std::thread::sleep(Duration::from_millis(1));
        }
        let descriptor = open(path, libc::O_RDONLY);
        let mut times = Vec::new();
        // All pages once: from here on they are in the page cache.
        for page in 0..READ_BYTES / PAGE_BYTES as u64 {
            read_page(descriptor, page);
        }
        let (started, written_before) = (Instant::now(), written.load(Ordering::Acquire));
        let mut page = 1;
        while started.elapsed() < length {
            // A full period modulo the power of two.
            page = (page * 5 + 3) % (READ_BYTES / PAGE_BYTES as u64);
            let before = Instant::now();
            read_page(descriptor, page);
            times.push(before.elapsed().as_nanos() as f64 / 1000.0);
            std::thread::sleep(PAUSE);
        }
        let took = started.elapsed();
        is_over.store(true, Ordering::Release);
        let bytes = written.load(Ordering::Acquire) - written_before;
        times.sort_by(f64::total_cmp);
        let percentile = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        println!(
            "{} {} {} {} {}",
            bytes as f64 / MIB as f64 / took.as_secs_f64(),
            percentile(0.5),
            percentile(0.99),
            percentile(0.999),
            percentile(1.0)
        );
        close(descriptor);
    });
}

/// Appends at a rate. What the device does not take in time is caught up with.
fn write_at_rate(direct: bool, rate: u64, path: &Path, written: &AtomicU64, is_over: &AtomicBool) {
    let mut flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
    let length = if direct {
        flags |= libc::O_DIRECT;
        DIRECT_BYTES
    } else {
        CHUNK_BYTES
    };
    let descriptor = open(path, flags);
    // Room to align the start, as direct writes need it.
    let memory = vec![7_u8; length + PAGE_BYTES];
    let start = memory.as_ptr().align_offset(PAGE_BYTES);
    let bytes = &memory[start..start + length];
    let started = Instant::now();
    let mut total = 0_u64;
    while !is_over.load(Ordering::Acquire) {
        let due = Duration::from_secs_f64(total as f64 / rate as f64);
        // What must be there before the reads begin is written at once.
        if total > 2 * READ_BYTES
            && let Some(early) = due.checked_sub(started.elapsed())
            && early > Duration::from_millis(1)
        {
            std::thread::sleep(early);
        }
        // SAFETY: the slice can be read.
        let taken = unsafe { libc::write(descriptor, bytes.as_ptr().cast(), bytes.len()) };
        assert_eq!(taken, bytes.len() as isize, "write");
        total += taken as u64;
        written.store(total, Ordering::Release);
    }
    close(descriptor);
}

fn read_page(descriptor: i32, page: u64) {
    let mut bytes = [0_u8; PAGE_BYTES];
    let offset = page as i64 * PAGE_BYTES as i64;
    // SAFETY: the buffer has room for a page.
    let read = unsafe { libc::pread64(descriptor, bytes.as_mut_ptr().cast(), PAGE_BYTES, offset) };
    assert_eq!(read, PAGE_BYTES as isize, "pread");
    assert!(bytes.iter().all(|byte| *byte == 7), "wrong bytes");
}

fn open(path: &Path, flags: i32) -> i32 {
    let path = CString::new(path.as_os_str().as_bytes()).expect("no NUL");
    // SAFETY: a NUL-terminated string.
    let descriptor = unsafe { libc::open64(path.as_ptr(), flags, 0o644) };
    assert!(descriptor >= 0, "{}", std::io::Error::last_os_error());
    descriptor
}

fn close(descriptor: i32) {
    // SAFETY: opened here.
    assert_eq!(unsafe { libc::close(descriptor) }, 0);
}
