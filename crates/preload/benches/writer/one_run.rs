//! One run: a process that writes as an engine does.

use crate::MIB;
use crate::system::{close, dirtied_pages, open, process_cpu, write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Whose calls are made.
#[derive(Clone, Copy)]
pub enum Engine {
    Cassandra,
    RocksDb,
}

impl Engine {
    pub fn named(name: &str) -> Self {
        [Engine::Cassandra, Engine::RocksDb]
            .into_iter()
            .find(|engine| engine.name() == name)
            .expect("an engine")
    }

    /// The library's profile, too.
    pub fn name(self) -> &'static str {
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
pub enum Pace {
    /// Nothing.
    Idle,
    /// As much work for each chunk as a fast compressor has, and a checksum: about 4 µs for 4 KiB.
    Compressing,
    /// As much as a compaction has that merges rows, too: about 16 µs, so that it produces about as
    /// much as the held device takes.
    Merging,
}

impl Pace {
    pub fn named(name: &str) -> Self {
        [Pace::Idle, Pace::Compressing, Pace::Merging]
            .into_iter()
            .find(|pace| pace.name() == name)
            .expect("a pace")
    }

    pub fn name(self) -> &'static str {
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

/// Writes as an engine does, in a thread of its name, and says what it took; compares what is there if
/// `then` is `compare`.
pub fn one_run(engine: Engine, pace: Pace, directory: &Path, bytes: u64, then: &str) {
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

/// The SSTable is read from here on: all that was written must be there.
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
