//! Compares the scan reader with plain reads of the same real file.

use coldstream_io::alignment::Alignment;
use coldstream_io::private::DescriptorRegistry;
use coldstream_io::probe::{self, Probe};
use coldstream_io::residency;
use coldstream_io::scan::{
    BufferCheck, Event, Fallback, Outcome, ReadMode, Request, ScanObserver, Scanner, Settings,
    Standalone,
};
use coldstream_io::sys::Descriptor;
use coldstream_io::sys::clock::coarse_milliseconds;
use coldstream_io::sys::file::{self, FileStamp};
use coldstream_testkit::skip;
use proptest::prelude::*;
use std::cell::Cell;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const SETTINGS: Settings = Settings {
    window_bytes: 1 << 20,
    windows_in_flight: 2,
    memory_bytes: 64 << 20,
};

const MINUTE_MILLISECONDS: u32 = 60_000;

/// Content that differs at every offset: a byte from a wrong offset is noticed.
fn content(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        bytes.extend_from_slice(&(state ^ bytes.len() as u64).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// A file whose pages are on the device and not in the page cache. Its change time is old enough.
fn cold_file(directory: &Path, name: &str, bytes: &[u8]) -> File {
    let path = directory.join(name);
    std::fs::write(&path, bytes).unwrap();
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    drop_cache(&file);
    wait_until_unchanged(&file);
    file
}

fn drop_cache(file: &File) {
    file::advise(file, 0, 0, libc::POSIX_FADV_DONTNEED).unwrap();
}

fn wait_until_unchanged(file: &File) {
    use std::time::{Duration, SystemTime};
    let changed = file.metadata().unwrap().modified().unwrap();
    while SystemTime::now()
        .duration_since(changed)
        .unwrap_or_default()
        < Duration::from_millis(25)
    {
        std::thread::yield_now();
    }
}

fn scratch() -> tempfile::TempDir {
    // Next to the build's files: /tmp may be a tmpfs, which nothing can bypass.
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn direct() -> ReadMode {
    ReadMode::Direct(Alignment::covering(1, 1).unwrap())
}

/// Reads like `pread`, by the scanner or, if it declines, by the plain call.
fn read(
    scanner: &Scanner,
    slot: u32,
    file: &File,
    mode: ReadMode,
    offset: u64,
    buffer: &mut [u8],
) -> (usize, Outcome) {
    let request = Request {
        slot,
        descriptor: file.into(),
        stamp: file::stamp(file).unwrap(),
        mode,
        offset,
    };
    let outcome = scanner.read_into(&request, buffer, &Standalone);
    match outcome {
        Outcome::Served { bytes, .. } => (bytes, outcome),
        Outcome::Plain(_) => (file.read_at(buffer, offset).unwrap(), outcome),
    }
}

/// Whether the scanner itself gave the bytes. After a plain read they are right in any case.
fn is_served(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Served { .. })
}

/// A cold file with direct I/O. `None` if direct I/O has no effect on this filesystem.
fn direct_file(directory: &Path, bytes: &[u8]) -> Option<(File, Probe)> {
    let file = cold_file(directory, "1.sst", bytes);
    let probe = probe::probe(&file).unwrap();
    if !probe.direct_is_usable() {
        skip(format!("no direct I/O on this filesystem: {probe:?}"));
        return None;
    }
    Some((file, probe))
}

#[test]
fn a_scan_gives_the_bytes_of_the_file_and_leaves_the_page_cache_alone() {
    let directory = scratch();
    let bytes = content(1, (9 << 20) + 1234);
    let Some((file, probe)) = direct_file(directory.path(), &bytes) else {
        return;
    };
    let scanner = Scanner::for_process(SETTINGS).unwrap();
    for chunk in [4096, 4122, 65_536, 3 << 20] {
        let mut buffer = vec![0; chunk];
        let mut offset = 0;
        loop {
            let (count, outcome) = read(
                scanner,
                0,
                &file,
                ReadMode::Direct(probe.alignment),
                offset,
                &mut buffer,
            );
            assert!(
                matches!(
                    outcome,
                    Outcome::Served {
                        cached_bytes: 0,
                        ..
                    }
                ),
                "{outcome:?}"
            );
            assert!(buffer[..count] == bytes[offset as usize..offset as usize + count]);
            offset += count as u64;
            if count < chunk {
                break;
            }
        }
        assert_eq!(offset, bytes.len() as u64);
        let after = residency::of_range(&file, 0, bytes.len() as u64).unwrap();
        assert_eq!(after.resident_pages, 0, "chunk {chunk}");
    }
    scanner.close(0, &Standalone);
    assert_eq!(scanner.pool().used_bytes(), 0);
}

#[test]
fn limited_windows_are_smaller_and_fewer() {
    let directory = scratch();
    let bytes = content(9, 12 << 20);
    let Some((file, probe)) = direct_file(directory.path(), &bytes) else {
        return;
    };
    let scanner = Scanner::for_process(SETTINGS).unwrap();
    let mut buffer = vec![0; 16 << 10];
    let mut most_used = |range: std::ops::Range<usize>| {
        let mut most = 0;
        for offset in range.step_by(16 << 10) {
            let mode = ReadMode::Direct(probe.alignment);
            let (count, outcome) = read(scanner, 0, &file, mode, offset as u64, &mut buffer);
            assert!(matches!(outcome, Outcome::Served { .. }), "{outcome:?}");
            assert!(buffer[..count] == bytes[offset..][..count]);
            most = most.max(scanner.pool().used_bytes());
        }
        most
    };
    let configured = most_used(0..6 << 20);
    assert!(configured >= 3 << 20, "three of 1 MiB, {configured}");
    scanner.limit_requests(128 << 10, 1);
    // The windows in flight are consumed first.
    most_used(6 << 20..9 << 20);
    let limited = most_used(9 << 20..10 << 20);
    assert!(limited <= 3 * (128 << 10), "{limited}");
    scanner.limit_requests(0, 0);
    let configured = most_used(10 << 20..12 << 20);
    assert!(configured >= 1 << 20, "{configured}");
}

#[test]
fn a_limit_between_two_reads_causes_no_plain_read() {
    let directory = scratch();
    let bytes = content(7, 8 << 20);
    let Some((file, probe)) = direct_file(directory.path(), &bytes) else {
        return;
    };
    let scanner = Scanner::for_process(SETTINGS).unwrap();
    let mut buffer = vec![0; 128 << 10];
    for (number, in_flight) in [0, 1, 0, 1, 1, 0, 0, 0].into_iter().enumerate() {
        scanner.limit_requests(0, in_flight);
        let offset = number * buffer.len();
        let mode = ReadMode::Direct(probe.alignment);
        let (count, outcome) = read(scanner, 0, &file, mode, offset as u64, &mut buffer);
        assert!(
            matches!(outcome, Outcome::Served { .. }),
            "{number}: {outcome:?}"
        );
        assert!(buffer[..count] == bytes[offset..][..count]);
    }
}

#[test]
fn a_closed_private_descriptor_closes_the_other_one_too() {
    let directory = scratch();
    let bytes = content(8, 8 << 20);
    let Some((file, probe)) = direct_file(directory.path(), &bytes) else {
        return;
    };
    let path = std::fs::canonicalize(directory.path().join("1.sst")).unwrap();
    // Descriptors of the file, except the application's own.
    let others = || -> Vec<i32> {
        let entries = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let of_file = entries
            .filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|target| target == path));
        let numbers = of_file.map(|entry| entry.file_name().to_str().unwrap().parse().unwrap());
        numbers
            .filter(|number| *number != file.as_raw_fd())
            .collect()
    };
    let scanner = Scanner::for_process(SETTINGS).unwrap();
    let mut buffer = vec![0; 64 << 10];
    let mut next = 0;
    let mut read_next = || {
        let mode = ReadMode::Direct(probe.alignment);
        let (count, outcome) = read(scanner, 0, &file, mode, next, &mut buffer);
        assert!(buffer[..count] == bytes[next as usize..][..count]);
        next += count as u64;
        (next, outcome)
    };
    assert!(matches!(read_next(), (_, Outcome::Served { .. })));
    let flags = |number| file::status_flags(number).unwrap();
    let direct = others()
        .into_iter()
        .find(|number| flags(*number) & libc::O_DIRECT != 0);
    file::close(direct.expect("a direct one")).unwrap();
    loop {
        match read_next() {
            (_, Outcome::Plain(Fallback::Identity)) => break,
            (read_bytes, _) => assert!(read_bytes < bytes.len() as u64),
        }
    }
    assert_eq!(others(), []);
}

#[test]
fn resident_pages_are_served_from_the_page_cache() {
    let directory = scratch();
    let bytes = content(2, 2 << 20);
    let file = cold_file(directory.path(), "1.sst", &bytes);
    let mut all = vec![0; bytes.len()];
    file.read_exact_at(&mut all, 0).unwrap();
    let scanner = Scanner::for_process(SETTINGS).unwrap();
    let mut buffer = vec![0; 8192];
    for step in 0..bytes.len() / buffer.len() {
        let offset = (step * buffer.len()) as u64;
        let (count, outcome) = read(scanner, 0, &file, direct(), offset, &mut buffer);
        assert_eq!(
            outcome,
            Outcome::Served {
                bytes: 8192,
                cached_bytes: 8192
            }
        );
        assert!(buffer[..count] == bytes[offset as usize..][..count]);
    }
    assert_eq!(scanner.pool().peak_bytes(), 0);
}

/// The pages that are resident after a drop-behind scan, and those that were resident before.
fn pages_after_drop_behind() -> (Vec<u64>, Vec<u64>) {
    let directory = scratch();
    let bytes = content(3, 4 << 20);
    let file = cold_file(directory.path(), "1.sst", &bytes);
    file::advise(&file, 0, 0, libc::POSIX_FADV_RANDOM).unwrap();
    let mut page = [0; 4096];
    let hot = [0_u64, 77, 300, 301, 900];
    for page_number in hot {
        file.read_exact_at(&mut page, page_number * 4096).unwrap();
    }
    let scanner = Scanner::for_process(SETTINGS).unwrap();
    let mut buffer = vec![0; 10_000];
    let mut offset = 0;
    while offset < bytes.len() as u64 {
        let (count, outcome) = read(scanner, 0, &file, ReadMode::DropBehind, offset, &mut buffer);
        assert!(matches!(outcome, Outcome::Served { .. }), "{outcome:?}");
        assert!(buffer[..count] == bytes[offset as usize..][..count]);
        offset += count as u64;
    }
    let mut resident = Vec::new();
    let length_bytes = bytes.len() as u64;
    residency::each_page(&file, 0, length_bytes, |at, is_resident| {
        if is_resident {
            resident.push(at / 4096);
        }
    })
    .unwrap();
    (resident, hot.to_vec())
}

#[test]
fn drop_behind_drops_only_what_it_brought_in() {
    // The machine may reclaim some pages meanwhile, but not every time.
    let mut tries = (0..3).map(|_| pages_after_drop_behind());
    assert!(tries.any(|(resident, hot)| resident == hot));
}

#[test]
fn a_recently_changed_file_is_read_plainly() {
    let directory = scratch();
    let file = cold_file(directory.path(), "1.sst", &content(4, 1 << 20));
    let writer = File::options()
        .write(true)
        .open(directory.path().join("1.sst"))
        .unwrap();
    let scanner = Scanner::for_process(SETTINGS).unwrap();
    let mut buffer = [0; 4096];
    // If this thread is delayed until the change is old enough, it tries again.
    let is_read_plainly = (0..50).any(|_| {
        writer.write_all_at(b"new", 0).unwrap();
        let (_, outcome) = read(scanner, 0, &file, direct(), 0, &mut buffer);
        assert_eq!(&buffer[..3], b"new");
        outcome == Outcome::Plain(Fallback::ChangedRecently)
    });
    assert!(is_read_plainly);
}

/// The scanner waits for no writeback, and so takes no error of it.
#[test]
fn dirty_pages_are_read_plainly_until_they_are_written_back() {
    let directory = scratch();
    let file = cold_file(directory.path(), "1.sst", &content(4, 1 << 20));
    if file::cache_statistics(&file, 0, 4096).is_err() {
        return skip("the kernel does not tell dirty pages (cachestat)");
    }
    let writer = File::options()
        .write(true)
        .open(directory.path().join("1.sst"))
        .unwrap();
    let scanner = Scanner::for_process(SETTINGS).unwrap();
    let mut buffer = vec![0; 64 << 10];
    writer.write_all_at(b"new", 0).unwrap();
    wait_until_unchanged(&file);
    let (_, outcome) = read(scanner, 0, &file, ReadMode::DropBehind, 0, &mut buffer);
    assert_eq!(outcome, Outcome::Plain(Fallback::ChangedRecently));
    file.sync_all().unwrap();
    drop_cache(&file);
    wait_until_unchanged(&file);
    let (_, outcome) = read(scanner, 0, &file, ReadMode::DropBehind, 0, &mut buffer);
    assert!(is_served(&outcome), "{outcome:?}");
    assert_eq!(&buffer[..3], b"new");
}

/// The kernel cannot be asked about so few bytes. No window is read in vain.
#[test]
fn a_checked_read_of_a_few_bytes_is_plain_at_once() {
    let directory = scratch();
    let file = cold_file(directory.path(), "1.sst", &content(5, 1 << 20));
    let scanner = Scanner::for_process(SETTINGS).unwrap();
    let request = Request {
        slot: 0,
        descriptor: Descriptor::from(&file),
        stamp: file::stamp(&file).unwrap(),
        mode: direct(),
        offset: 4096,
    };
    let mut byte = 0_u8;
    // SAFETY: the byte belongs to this thread.
    let outcome = unsafe {
        scanner.read(
            &request,
            &raw mut byte,
            1,
            BufferCheck::AskKernel,
            &Standalone,
        )
    };
    assert_eq!(outcome, Outcome::Plain(Fallback::BadBuffer));
    assert_eq!(scanner.pool().peak_bytes(), 0);
}

#[test]
fn a_change_is_seen_by_the_next_read() {
    let directory = scratch();
    let bytes = content(5, 1 << 20);
    let Some((file, _)) = direct_file(directory.path(), &bytes) else {
        return;
    };
    let writer = File::options()
        .write(true)
        .open(directory.path().join("1.sst"))
        .unwrap();
    let scanner = Scanner::for_process(SETTINGS).unwrap();
    let mut buffer = [0; 4096];
    for round in 0..20_u8 {
        wait_until_unchanged(&file);
        for offset in [0, 4096] {
            let (_, outcome) = read(scanner, 0, &file, direct(), offset, &mut buffer);
            assert!(is_served(&outcome), "round {round}, {offset}: {outcome:?}");
        }
        writer.write_all_at(&[round; 100], 8192).unwrap();
        read(scanner, 0, &file, direct(), 8192, &mut buffer);
        assert_eq!(buffer[..100], [round; 100]);
        if round == 10 {
            writer.set_len(8192 + 50).unwrap();
        }
        let (count, _) = read(scanner, 0, &file, direct(), 8192, &mut buffer);
        assert_eq!(
            count,
            if round < 10 {
                4096
            } else {
                file.metadata()
                    .unwrap()
                    .len()
                    .saturating_sub(8192)
                    .min(4096) as usize
            }
        );
    }
}

#[test]
fn two_hundred_files_at_once_keep_the_cap() {
    let directory = scratch();
    let bytes = content(6, 600_000);
    let files: Vec<File> = (0..200)
        .map(|number| cold_file(directory.path(), &format!("{number}.sst"), &bytes))
        .collect();
    for memory_bytes in [64 << 20, 4 << 20] {
        let scanner = Scanner::for_process(Settings {
            memory_bytes,
            ..SETTINGS
        })
        .unwrap();
        let mut buffer = vec![0; 4096];
        let mut served = 0;
        for offset in (0..bytes.len() as u64).step_by(4096) {
            for (slot, file) in files.iter().enumerate() {
                let (count, outcome) =
                    read(scanner, slot as u32, file, direct(), offset, &mut buffer);
                assert!(buffer[..count] == bytes[offset as usize..][..count]);
                served += u64::from(is_served(&outcome));
                assert!(scanner.pool().used_bytes() <= memory_bytes);
            }
        }
        assert!(scanner.pool().peak_bytes() <= memory_bytes);
        if memory_bytes == 64 << 20 {
            assert_eq!(served, 200 * bytes.len().div_ceil(4096) as u64);
        }
        for slot in 0..200 {
            scanner.close(slot, &Standalone);
        }
        assert_eq!(scanner.pool().used_bytes(), 0);
        files.iter().for_each(drop_cache);
    }
}

#[test]
fn what_an_abandoned_scan_holds_is_given_back() {
    let directory = scratch();
    let bytes = content(11, 8 << 20);
    let Some((file, probe)) = direct_file(directory.path(), &bytes) else {
        return;
    };
    let scanner = Scanner::for_process(SETTINGS).unwrap();
    let mode = ReadMode::Direct(probe.alignment);
    let mut buffer = vec![0; 64 << 10];
    let mut read_at = |offset: u64| {
        let (count, outcome) = read(scanner, 0, &file, mode, offset, &mut buffer);
        assert!(is_served(&outcome));
        assert_eq!(buffer[..count], bytes[offset as usize..][..count]);
    };
    (0..20).for_each(|chunk| read_at(chunk << 16));
    let now = coarse_milliseconds();
    assert!(scanner.tend(now, &Standalone), "it has a context");
    assert!(scanner.pool().used_bytes() > 0, "and windows");
    // The device may still be at it.
    let started = std::time::Instant::now();
    while scanner.tend(now.wrapping_add(2 * MINUTE_MILLISECONDS), &Standalone) {
        assert!(started.elapsed().as_secs() < 60);
        std::thread::yield_now();
    }
    assert_eq!(scanner.pool().used_bytes(), 0);
    (20..40).for_each(|chunk| read_at(chunk << 16));
}

/// Counts the private descriptors.
#[derive(Default)]
struct Counting(AtomicU64);

impl ScanObserver for Counting {
    fn count(&self, _: Event, _: u64) {}
}

impl DescriptorRegistry for Counting {
    fn may_open(&self, _: u32) -> bool {
        true
    }
    fn lowest_descriptor(&self) -> i32 {
        0
    }
    fn register(&self, _: Descriptor, _: u32, _: &FileStamp) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn unregister(&self, _: Descriptor) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn an_abandoned_file_is_closed_and_can_be_read_on() {
    let directory = scratch();
    let bytes = content(12, 4 << 20);
    let file = cold_file(directory.path(), "1.sst", &bytes);
    let (scanner, host) = (Scanner::for_process(SETTINGS).unwrap(), Counting::default());
    let mut buffer = vec![0; 64 << 10];
    let mut read_chunk = |chunk: u64| {
        let request = Request {
            slot: 0,
            descriptor: (&file).into(),
            stamp: file::stamp(&file).unwrap(),
            mode: ReadMode::DropBehind,
            offset: chunk << 16,
        };
        let outcome = scanner.read_into(&request, &mut buffer, &host);
        assert!(is_served(&outcome), "{outcome:?}");
        assert_eq!(buffer, bytes[(chunk as usize) << 16..][..64 << 10]);
        coarse_milliseconds()
    };
    let now = (0..10).map(&mut read_chunk).last().unwrap();
    assert_eq!(host.0.load(Ordering::Relaxed), 1);
    scanner.close_abandoned(0, now.wrapping_add(MINUTE_MILLISECONDS / 2), &host);
    assert_eq!(host.0.load(Ordering::Relaxed), 1, "it is in use");
    scanner.close_abandoned(1, now.wrapping_add(2 * MINUTE_MILLISECONDS), &host);
    scanner.close_abandoned(0, now.wrapping_add(2 * MINUTE_MILLISECONDS), &host);
    assert_eq!(host.0.load(Ordering::Relaxed), 0);
    assert_eq!(scanner.pool().used_bytes(), 0);
    let _ = (10..20).map(&mut read_chunk).last();
    assert_eq!(host.0.load(Ordering::Relaxed), 1);
}

/// A read that takes longer than a minute looks abandoned.
#[test]
fn a_file_that_is_closed_while_it_is_read_gives_no_wrong_byte() {
    let directory = scratch();
    let bytes = content(13, 4 << 20);
    let file = cold_file(directory.path(), "1.sst", &bytes);
    let scanner = Scanner::for_process(SETTINGS).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let later = coarse_milliseconds().wrapping_add(2 * MINUTE_MILLISECONDS);
                scanner.close_abandoned(0, later, &Standalone);
            }
        });
        let mut buffer = vec![0; 10_007];
        let mut served = 0;
        for round in 0..200 {
            for offset in (round * 11..bytes.len()).step_by(buffer.len()).take(100) {
                let (count, outcome) = read(
                    scanner,
                    0,
                    &file,
                    ReadMode::DropBehind,
                    offset as u64,
                    &mut buffer,
                );
                assert!(buffer[..count] == bytes[offset..offset + count]);
                served += u32::from(is_served(&outcome));
            }
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(served > 0);
    });
}

#[test]
fn several_threads_scan_one_file_at_once() {
    let directory = scratch();
    let bytes = content(7, 8 << 20);
    let Some((file, _)) = direct_file(directory.path(), &bytes) else {
        return;
    };
    let scanner = Scanner::for_process(SETTINGS).unwrap();
    let served = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..6_usize {
            let (file, bytes, served) = (&file, &bytes, &served);
            scope.spawn(move || {
                let mut buffer = vec![0; 4000 + thread];
                let part = bytes.len() / 6;
                let mut offset = part * thread;
                while offset < part * (thread + 1) {
                    let (count, outcome) =
                        read(scanner, 0, file, direct(), offset as u64, &mut buffer);
                    assert!(buffer[..count] == bytes[offset..offset + count]);
                    offset += count;
                    served.fetch_add(is_served(&outcome).into(), Ordering::Relaxed);
                }
            });
        }
    });
    assert!(served.into_inner() > 0, "every read was plain");
}

#[test]
fn any_sequence_of_reads_gives_the_bytes_of_the_file() {
    let directory = scratch();
    let is_direct = direct_file(directory.path(), &content(8, 1 << 20)).is_some();
    let (directly, by_drop_behind) = (Cell::new(0_u64), Cell::new(0_u64));
    let inputs = (
        1_usize..3_000_000,
        proptest::collection::vec((0_u8..8, 0_u64..3_200_000, 1_usize..200_000), 1..120),
        0_u8..3,
    );
    proptest!(ProptestConfig::with_cases(40), |((size, reads, mode) in inputs)| {
        let directory = scratch();
        let bytes = content(size as u64, size);
        let file = cold_file(directory.path(), "1.sst", &bytes);
        let scanner = Scanner::for_process(Settings { memory_bytes: 1 << 20, ..SETTINGS }).unwrap();
        let (mode, served) = match mode {
            0 | 1 => (direct(), &directly),
            _ => (ReadMode::DropBehind, &by_drop_behind),
        };
        let mut position = 0_u64;
        for (kind, offset, length) in reads {
            // Mostly forward, sometimes a small skip, sometimes anywhere.
            let offset = match kind { 0 => offset, 1 => position + offset % 200_000, _ => position };
            let mut buffer = vec![0; length];
            let (count, outcome) = read(scanner, 3, &file, mode, offset, &mut buffer);
            let expected = &bytes[(offset as usize).min(size)..(offset as usize + length).min(size)];
            prop_assert!(buffer[..count] == *expected);
            position = offset + count as u64;
            served.set(served.get() + u64::from(is_served(&outcome)));
            if kind == 2 { drop_cache(&file); }
        }
        scanner.close(3, &Standalone);
        scanner.wait_for_orphans(&Standalone);
        prop_assert_eq!(scanner.pool().used_bytes(), 0);
    });
    assert!(by_drop_behind.get() > 0, "no window was read");
    assert!(
        directly.get() > 0 || !is_direct,
        "nothing was read directly"
    );
}
