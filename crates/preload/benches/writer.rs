//! What treating a compaction's writes gains and costs: a writer with Cassandra's exact call
//! pattern, and one with RocksDB's, in a process of their own each time, plain and under each
//! treatment, in turn. Prints medians, and the smallest and largest of the rounds.
//!
//! `COLDSTREAM_BENCH_DIR` names the directory to write in; otherwise the build directory.

use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const ROUNDS: usize = 5;
const TABLE_BYTES: usize = 1 << 30;
/// Cassandra opens a table that it writes so often (`sstable_preemptive_open_interval`).
const EARLY_OPEN_BYTES: usize = 50 << 20;
/// A compressed chunk of 4 KiB of incompressible bytes, and its checksum.
const CHUNK_BYTES: usize = 4118;
const CHECKSUM_BYTES: usize = 4;

/// Ways to write: name, and what the library is told; nothing is told to a library that is not
/// loaded.
const WAYS: [(&str, Option<(&str, &str)>); 6] = [
    ("plain", None),
    ("buffered", Some(("buffered", "auto"))),
    ("window", Some(("window", "auto"))),
    ("dontcache", Some(("dontcache", "auto"))),
    ("direct, staged", Some(("direct", "process"))),
    ("direct, through", Some(("direct", "everywhere"))),
];

/// What a child measured.
#[derive(Clone, Copy, Default)]
struct Measured {
    /// The writes alone.
    writes_mib_per_second: f64,
    /// With the sync at the end.
    synced_mib_per_second: f64,
    cpu_seconds_per_gib: f64,
    dirtied_pages_per_mib: f64,
}

fn main() {
    if let Ok(pattern) = std::env::var("WRITER_PATTERN") {
        child(&pattern);
        return;
    }
    let parent = std::env::var_os("COLDSTREAM_BENCH_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    let directory = tempfile::tempdir_in(parent).expect("scratch directory");
    let library = library_path();
    for pattern in ["cassandra", "rocksdb"] {
        println!(
            "{pattern}: {} MiB, {ROUNDS} rounds in turn, median (smallest–largest)",
            TABLE_BYTES >> 20
        );
        println!(
            "{:<16} {:>22} {:>22} {:>8} {:>12} {:>15} {:>10}",
            "",
            "MiB/s, writes alone",
            "MiB/s, synced",
            "to plain",
            "CPU s/GiB",
            "dirtied/MiB",
            "calls/MiB"
        );
        let mut rounds: Vec<Vec<Measured>> = vec![Vec::new(); WAYS.len()];
        for round in 0..ROUNDS {
            // There and back: none always comes after the same other one.
            for step in 0..WAYS.len() {
                let way = if round % 2 == 0 {
                    step
                } else {
                    WAYS.len() - 1 - step
                };
                rounds[way].push(run(pattern, WAYS[way].1, directory.path(), &library));
            }
        }
        let plain = spread(&rounds[0], |m| m.synced_mib_per_second).0;
        for (way, rounds) in WAYS.iter().zip(&rounds) {
            let text = |of: fn(&Measured) -> f64| {
                let (median, min, max) = spread(rounds, of);
                format!("{median:.0} ({min:.0}–{max:.0})")
            };
            let synced = spread(rounds, |m| m.synced_mib_per_second).0;
            println!(
                "{:<16} {:>22} {:>22} {:>8.2} {:>12.2} {:>15.1} {:>10}",
                way.0,
                text(|m| m.writes_mib_per_second),
                text(|m| m.synced_mib_per_second),
                synced / plain,
                spread(rounds, |m| m.cpu_seconds_per_gib).0,
                spread(rounds, |m| m.dirtied_pages_per_mib).0,
                calls_per_mib(pattern, way.1, directory.path(), &library),
            );
        }
    }
}

fn spread(rounds: &[Measured], of: fn(&Measured) -> f64) -> (f64, f64, f64) {
    let mut values: Vec<f64> = rounds.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    (
        values[values.len() / 2],
        values[0],
        values[values.len() - 1],
    )
}

fn command(
    pattern: &str,
    way: Option<(&str, &str)>,
    directory: &Path,
    library: &Path,
) -> Vec<String> {
    let mut words = vec!["env".into(), format!("WRITER_PATTERN={pattern}")];
    words.push(format!("WRITER_DIRECTORY={}", directory.display()));
    if let Some((writes, visible)) = way {
        words.push(format!("LD_PRELOAD={}", library.display()));
        words.push("COLDSTREAM_LOG=none".into());
        words.push(format!("COLDSTREAM_WRITES={writes}"));
        words.push(format!("COLDSTREAM_VISIBLE={visible}"));
    }
    words.push(
        std::env::current_exe()
            .expect("own path")
            .display()
            .to_string(),
    );
    words
}

fn run(pattern: &str, way: Option<(&str, &str)>, directory: &Path, library: &Path) -> Measured {
    // What is dirty of before would be written in the next one's time; and memory that was page
    // cache a moment ago is cheaper to get than other memory. Only root may drop it.
    // SAFETY: takes no argument.
    unsafe { libc::sync() };
    let _ = std::fs::write("/proc/sys/vm/drop_caches", "3");
    let words = command(pattern, way, directory, library);
    let ended = Command::new(&words[0])
        .args(&words[1..])
        .output()
        .expect("start");
    assert!(
        ended.status.success(),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    let numbers: Vec<f64> = text
        .split_whitespace()
        .map(|word| word.parse().expect("a number"))
        .collect();
    Measured {
        writes_mib_per_second: numbers[0],
        synced_mib_per_second: numbers[1],
        cpu_seconds_per_gib: numbers[2],
        dirtied_pages_per_mib: numbers[3],
    }
}

/// System calls for each MiB, as `strace` counts them in a run of its own.
fn calls_per_mib(
    pattern: &str,
    way: Option<(&str, &str)>,
    directory: &Path,
    library: &Path,
) -> String {
    let count = directory.join("calls");
    let ended = Command::new("strace")
        .args(["-f", "-c", "-qq", "-U", "calls", "-o"])
        .arg(&count)
        .args(command(pattern, way, directory, library))
        .env("WRITER_MIB", "64")
        .output();
    let text = std::fs::read_to_string(&count).unwrap_or_default();
    let total = text
        .lines()
        .rev()
        .find_map(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    match (ended, total) {
        (Ok(ended), Some(total)) if ended.status.success() => format!("{:.1}", total / 64.0),
        _ => "no strace".into(),
    }
}

fn library_path() -> PathBuf {
    let executable = std::env::current_exe().expect("own path");
    let library = executable
        .ancestors()
        .map(|directory| directory.join("libcoldstream.so"))
        .find(|path| path.exists());
    library.expect("libcoldstream.so is not built: cargo build --release -p coldstream-preload")
}

/// One table, from its creation to its end.
fn child(pattern: &str) {
    let directory = PathBuf::from(std::env::var_os("WRITER_DIRECTORY").expect("a directory"));
    let bytes = std::env::var("WRITER_MIB")
        .ok()
        .and_then(|text| text.parse::<usize>().ok())
        .map_or(TABLE_BYTES, |mib| mib << 20);
    let (thread, name) = match pattern {
        "cassandra" => (c"CompactionExecu", "nb-1-big-Data.db"),
        _ => (c"rocksdb:low", "000001.sst"),
    };
    let path = directory.join(name);
    let _ = std::fs::remove_file(&path);
    let path = CString::new(path.to_str().expect("UTF-8")).expect("no NUL");
    let mut content = Vec::with_capacity(8 << 20);
    let mut word = 1_u64;
    while content.len() < 8 << 20 {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        content.extend_from_slice(&(word ^ (word >> 29)).to_le_bytes());
    }
    // SAFETY: a NUL-terminated name.
    unsafe { libc::prctl(libc::PR_SET_NAME, thread.as_ptr()) };
    let dirtied = dirtied_pages();
    let cpu = cpu_seconds();
    let started = Instant::now();
    let (descriptor, written) = match pattern {
        "cassandra" => as_cassandra(&path, &content, bytes),
        _ => as_rocksdb(&path, &content, bytes),
    };
    let writes_seconds = started.elapsed().as_secs_f64();
    // SAFETY: no memory is passed.
    unsafe {
        assert_eq!(libc::fdatasync(descriptor), 0);
        assert_eq!(libc::close(descriptor), 0);
    }
    let synced_seconds = started.elapsed().as_secs_f64();
    let mib = written as f64 / (1 << 20) as f64;
    println!(
        "{} {} {} {}",
        mib / writes_seconds,
        mib / synced_seconds,
        (cpu_seconds() - cpu) / mib * 1024.0,
        (dirtied_pages() - dirtied) / mib
    );
}

fn as_cassandra(path: &CStr, content: &[u8], bytes: usize) -> (i32, usize) {
    // SAFETY: a NUL-terminated path, and memory that is readable for each length.
    unsafe {
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
        let descriptor = libc::open64(path.as_ptr(), flags, 0o644);
        assert!(descriptor >= 0);
        // The JVM writes out of the same two buffers all the time.
        let mut chunk = [0_u8; CHUNK_BYTES];
        let mut page = [0_u8; 4096];
        let (mut written, mut opened) = (0, 0);
        while written < bytes {
            let from = written % (content.len() - CHUNK_BYTES);
            chunk.copy_from_slice(&content[from..from + CHUNK_BYTES]);
            let length = libc::write(descriptor, chunk.as_ptr().cast(), CHUNK_BYTES);
            assert_eq!(length, CHUNK_BYTES as isize);
            let length = libc::write(descriptor, content.as_ptr().cast(), CHECKSUM_BYTES);
            assert_eq!(length, CHECKSUM_BYTES as isize);
            written += CHUNK_BYTES + CHECKSUM_BYTES;
            let position = libc::lseek64(descriptor, 0, libc::SEEK_CUR);
            assert_eq!(position as usize, written);
            if written - opened >= EARLY_OPEN_BYTES {
                opened = written;
                let reader = libc::open64(path.as_ptr(), libc::O_RDONLY);
                let mut status = std::mem::MaybeUninit::<libc::stat64>::uninit();
                assert_eq!(libc::fstat64(reader, status.as_mut_ptr()), 0);
                assert_eq!(status.assume_init().st_size as usize, written);
                let offset = (written - page.len()) as i64;
                let read = libc::pread64(reader, page.as_mut_ptr().cast(), page.len(), offset);
                assert_eq!(read, page.len() as isize);
            }
        }
        (descriptor, written)
    }
}

fn as_rocksdb(path: &CStr, content: &[u8], bytes: usize) -> (i32, usize) {
    // SAFETY: as above.
    unsafe {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC;
        let descriptor = libc::open64(path.as_ptr(), flags, 0o644);
        assert!(descriptor >= 0);
        libc::fallocate(descriptor, libc::FALLOC_FL_KEEP_SIZE, 0, bytes as i64);
        let mut written = 0;
        while written < bytes {
            // Whole blocks of a little over 4 KiB until the buffer of 1 MiB is nearly full.
            let length = 4122 * 254 - written % 3;
            let from = written % (content.len() - length);
            let taken = libc::write(descriptor, content[from..].as_ptr().cast(), length);
            assert_eq!(taken, length as isize);
            written += length;
        }
        assert_eq!(libc::ftruncate64(descriptor, written as i64), 0);
        (descriptor, written)
    }
}

/// Pages that were dirtied so far, of the whole system.
fn dirtied_pages() -> f64 {
    let text = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix("nr_dirtied ")?.parse().ok())
        .unwrap_or(0.0)
}

/// User and system time of this process.
fn cpu_seconds() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: one structure is written.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
