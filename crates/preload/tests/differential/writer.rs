//! An SSTable is overwritten while a background thread reads it. After a write has returned, no read may
//! return the old bytes.

use crate::subject::journal::Journal;
use crate::subject::{self, calls, machine, raw};
use coldstream_testkit::directories::{self, Filesystem};
use coldstream_testkit::exit_log::ExitLog;
use coldstream_testkit::files::REST;
use coldstream_testkit::library::Preload;
use coldstream_testkit::random::Random;
use coldstream_testkit::{long, seed};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const BLOCK_BYTES: usize = 8192;
const BLOCKS: usize = 96;
/// Shorter than the age that a file's change time must have before windows are used.
const LONG: Duration = Duration::from_millis(10);
const TABLE: &std::ffi::CStr = c"000001.sst";

/// Versions of one block, in memory that the writing child shares.
#[repr(C)]
struct Versions {
    /// The highest version with a started write.
    started: AtomicU64,
    /// The highest version whose write has returned.
    done: AtomicU64,
}

#[repr(C)]
struct Shared {
    versions: [Versions; BLOCKS],
    over: AtomicBool,
}

/// The writer of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    Thread,
    Child,
    /// The child, through an earlier mapping.
    ChildsMapping,
}

/// Set in subjects where all writes go through the mapping: no call shows them.
static BY_MAPPING_ONLY: AtomicBool = AtomicBool::new(false);

fn writer_of(block: usize) -> Writer {
    if BY_MAPPING_ONLY.load(Ordering::Relaxed) {
        return Writer::ChildsMapping;
    }
    [Writer::Thread, Writer::Child, Writer::ChildsMapping][block % 3]
}

fn block_of(version: u64) -> Vec<u8> {
    version.to_le_bytes().repeat(BLOCK_BYTES / 8)
}

/// Overwrites blocks of the given writers in bursts. Windows can be used in the pauses.
fn overwrite(
    shared: &Shared,
    writers: &[Writer],
    mut random: Random,
    write: impl Fn(usize, &[u8]) -> bool,
) {
    let step = if BY_MAPPING_ONLY.load(Ordering::Relaxed) {
        8
    } else {
        1
    };
    let blocks: Vec<usize> = (0..BLOCKS)
        .step_by(step)
        .filter(|block| writers.contains(&writer_of(*block)))
        .collect();
    while !shared.over.load(Ordering::Relaxed) {
        for _ in 0..1 + random.below(4) {
            let block = random.pick(&blocks);
            let versions = &shared.versions[block];
            let version = versions.started.fetch_add(1, Ordering::SeqCst) + 1;
            let started = Instant::now();
            assert!(write(block, &block_of(version)));
            // The change time of a long write is that of its start (docs/limits.md).
            if started.elapsed() < LONG {
                versions.done.store(version, Ordering::SeqCst);
            }
        }
        let rest = if random.once_in(3) {
            random.below(3)
        } else {
            15 + random.below(60)
        };
        std::thread::sleep(Duration::from_millis(rest));
    }
}

fn write_in_child(shared: &Shared, random: Random) -> ! {
    let file = raw::open(TABLE, libc::O_RDWR);
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let mapping = raw::map(BLOCKS * BLOCK_BYTES, protection, file, 0).expect("mmap of the table");
    overwrite(
        shared,
        &[Writer::Child, Writer::ChildsMapping],
        random,
        |block, bytes| {
            let offset = block * BLOCK_BYTES;
            if writer_of(block) == Writer::Child {
                return raw::write_at(file, bytes, offset as u64);
            }
            // SAFETY: the block lies within the mapping and the file.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), mapping.add(offset), BLOCK_BYTES)
            };
            true
        },
    );
    raw::exit(0)
}

/// Scans the SSTable and compares each word with the versions known before and after.
fn read_and_compare(shared: &Shared, mut random: Random) -> (u64, Vec<String>) {
    // SAFETY: NUL-terminated strings.
    let file = unsafe {
        calls::prctl(libc::PR_SET_NAME, c"rocksdb:low".as_ptr());
        calls::open64(TABLE.as_ptr(), libc::O_RDONLY, 0)
    };
    let (mut bytes, mut faults) = (vec![0_u8; BLOCK_BYTES], Vec::new());
    let mut reads = 0;
    while !shared.over.load(Ordering::Relaxed) && faults.len() < 10 {
        let first = random.index(BLOCKS);
        if random.once_in(3) {
            // Where only the mapping writes, dirty pages stay dirty: a store to such a page leaves no trace.
            let drop_pages = if BY_MAPPING_ONLY.load(Ordering::Relaxed) {
                raw::drop_clean_pages
            } else {
                raw::drop_pages
            };
            drop_pages(TABLE);
        }
        for block in (first..BLOCKS).take(1 + random.index(40)) {
            if random.once_in(50) {
                // In the middle of a window, which becomes stale meanwhile.
                std::thread::sleep(Duration::from_millis(random.below(120)));
            }
            let done = shared.versions[block].done.load(Ordering::SeqCst);
            // SAFETY: the buffer has room for a block.
            let read = unsafe {
                let offset = (block * BLOCK_BYTES) as i64;
                calls::pread64(file, bytes.as_mut_ptr().cast(), BLOCK_BYTES, offset)
            };
            let started = shared.versions[block].started.load(Ordering::SeqCst);
            reads += 1;
            if read != BLOCK_BYTES as isize {
                faults.push(format!("block {block}: {read} bytes"));
            }
            let (words, _) = bytes.as_chunks::<8>();
            let wrong = words
                .iter()
                .map(|word| u64::from_le_bytes(*word))
                .find(|version| !(done..=started).contains(version));
            if let Some(version) = wrong {
                let writer = writer_of(block);
                faults.push(format!(
                    "block {block}, written by {writer:?}: version {version} after {done} and up to {started}"
                ));
            }
        }
    }
    (reads, faults)
}

/// The subject.
pub fn run(by_mapping_only: bool) {
    let mut journal = subject::own_journal();
    machine::set_limits();
    BY_MAPPING_ONLY.store(by_mapping_only, Ordering::Relaxed);
    let mut random = Random::new(std::env::var("SUBJECT_SEED").unwrap().parse().unwrap());
    let duration = Duration::from_secs(std::env::var("SUBJECT_SECONDS").unwrap().parse().unwrap());
    let file = raw::open(TABLE, libc::O_RDWR | libc::O_CREAT);
    assert!(raw::write_at(file, &vec![0; BLOCKS * BLOCK_BYTES], 0));
    raw::drop_pages(TABLE);
    std::thread::sleep(REST);
    let memory = {
        // SAFETY: new memory, shared with children.
        let address = unsafe {
            let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Shared>(),
                protection,
                flags,
                -1,
                0,
            )
        };
        assert_ne!(address, libc::MAP_FAILED);
        address.cast::<Shared>()
    };
    // SAFETY: zeroed memory of that size, never unmapped; zeros are valid atomics.
    let shared = unsafe { &*memory };
    let childs_random = Random::new(random.next());
    // SAFETY: the child makes system calls and copies bytes.
    let child = unsafe { libc::fork() };
    if child == 0 {
        write_in_child(shared, childs_random);
    }
    std::thread::scope(|scope| {
        let (writing, reading) = (Random::new(random.next()), [random.next(), random.next()]);
        if !by_mapping_only {
            scope.spawn(move || {
                overwrite(shared, &[Writer::Thread], writing, |block, bytes| {
                    raw::write_at(file, bytes, (block * BLOCK_BYTES) as u64)
                });
            });
        }
        let readers =
            reading.map(|seed| scope.spawn(move || read_and_compare(shared, Random::new(seed))));
        std::thread::sleep(duration);
        shared.over.store(true, Ordering::Relaxed);
        for reader in readers {
            let (reads, faults) = reader.join().unwrap();
            assert!(reads > 100, "{reads} reads");
            for fault in faults {
                journal.line(&fault);
            }
        }
    });
    // SAFETY: waits for the child.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    journal.line("end");
}

fn overwritten(filesystem: Filesystem, role: &str, reads: &str, used: fn(&ExitLog) -> u64) {
    let Some(place) = directories::on(filesystem) else {
        return;
    };
    let records = directories::on_disk();
    let (journal, log) = (records.path().join("journal"), records.path().join("log"));
    let seed = seed();
    let seconds = if long() { 60 } else { 5 };
    let work = place.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let preload = Preload::logging()
        .with("COLDSTREAM_READS", reads)
        .with("COLDSTREAM_LOG", log.display());
    let ended = subject::program(role, &work, &journal)
        .with_variable("SUBJECT_SEED", seed)
        .with_variable("SUBJECT_SECONDS", seconds)
        .run_with(&preload)
        .well();
    let lines = Journal::read(&journal);
    let log = ExitLog::read(&log);
    println!(
        "{filesystem:?}, {reads}: {}",
        log.text.lines().last().unwrap_or_default()
    );
    assert_eq!(lines, ["end"], "seed {seed}\n{ended:?}\n{}", log.text);
    assert!(used(&log) > 0, "no window was used: {}", log.text);
}

#[test]
fn what_was_overwritten_is_never_read_again() {
    overwritten(Filesystem::Current, "writer", "direct", |log| {
        log.direct_bytes
    });
}

#[test]
fn what_was_overwritten_is_never_read_again_on_xfs() {
    overwritten(Filesystem::Xfs, "writer", "direct", |log| log.direct_bytes);
}

#[test]
fn what_was_overwritten_is_never_read_again_out_of_buffered_windows() {
    overwritten(Filesystem::Current, "writer", "drop-behind", |log| {
        log.drop_behind_bytes
    });
}

#[test]
fn what_was_overwritten_is_never_read_again_on_btrfs() {
    overwritten(Filesystem::Btrfs, "writer", "auto", |log| {
        log.direct_bytes + log.drop_behind_bytes + log.dontcache_bytes
    });
}

#[test]
fn what_was_stored_through_a_mapping_is_read() {
    overwritten(Filesystem::Current, "writer by mapping", "direct", |log| {
        log.direct_bytes
    });
}

#[test]
fn what_was_stored_through_a_mapping_is_read_on_xfs() {
    overwritten(Filesystem::Xfs, "writer by mapping", "direct", |log| {
        log.direct_bytes
    });
}

#[test]
fn what_was_stored_through_a_mapping_is_read_out_of_buffered_windows() {
    overwritten(
        Filesystem::Current,
        "writer by mapping",
        "drop-behind",
        |log| log.drop_behind_bytes,
    );
}
