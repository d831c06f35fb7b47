//! Compares the scan reader with a plain direct reader of the same file, in turn within one run. Prints
//! medians and ratios.
//!
//! - The scan reader has consumers of 4 KiB and of 64 KiB.
//! - The plain reader makes `O_DIRECT` reads of 1 MiB with as many requests in flight. It ignores the bytes,
//!   or copies them to a consumer.
//! - A last part merges 200 files at once under the cap.
//!
//! Everything is measured twice:
//!
//! - with the device limited to the rate of a cloud volume (cgroup v1 `blkio`, as root). Only a reader that
//!   keeps the device busy reaches that rate;
//! - with the device as it is. A virtual disk may be served out of the host's memory. Then each read is a
//!   copy by the consumer's own processors, and the rate varies from second to second. So look at the spread,
//!   and compare with the reader that copies.

use coldstream_io::alignment::Alignment;
use coldstream_io::scan::{Outcome, ReadMode, Request, Scanner, Settings, Standalone};
use coldstream_io::sys::{aio, file};
use coldstream_testkit::device_limit::DeviceLimit;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Instant;

const FILE_BYTES: u64 = 256 << 20;
const WINDOW_BYTES: usize = 1 << 20;
const ROUNDS: usize = 11;
/// The rate of the limited device.
const HELD_BYTES_PER_SECOND: u64 = 400 << 20;

fn main() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("scratch directory");
    let file = make_file(&directory.path().join("1.sst"), FILE_BYTES);
    match DeviceLimit::hold(
        &directory.path().join("1.sst"),
        "read_bps_device",
        HELD_BYTES_PER_SECOND,
    ) {
        Ok(_held) => {
            println!(
                "the device limited to {} MiB/s: one file of {} MiB, 1 MiB windows, {ROUNDS} rounds in \
                 turn, medians",
                HELD_BYTES_PER_SECOND >> 20,
                FILE_BYTES >> 20
            );
            compare_all(&directory.path().join("1.sst"), &file);
        }
        Err(why) => println!("skipped: the device cannot be limited to a rate: {why}"),
    }
    println!("the device as it is:");
    compare_all(&directory.path().join("1.sst"), &file);
    merge(directory.path());
}

fn compare_all(path: &Path, file: &File) {
    println!(
        "{:>9}  {:>9}  {:>11}  {:>11}  {:>11}  {:>14}  {:>15}",
        "in flight", "consumer", "plain MiB/s", "with a copy", "scan MiB/s", "to plain", "to copy"
    );
    for in_flight in [1, 2, 4] {
        for chunk_bytes in [4096, 65_536] {
            compare(path, file, in_flight, chunk_bytes);
        }
    }
}

fn compare(path: &Path, file: &File, in_flight: usize, chunk_bytes: usize) {
    let settings = Settings {
        window_bytes: WINDOW_BYTES,
        windows_in_flight: in_flight,
        memory_bytes: 64 << 20,
    };
    let scanner = Scanner::for_process(settings).expect("scanner");
    let (mut plain, mut copied, mut scan) = (Vec::new(), Vec::new(), Vec::new());
    let (mut to_plain, mut to_copied) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let plain_rate = rate(FILE_BYTES, || plain_direct(path, in_flight, None));
        let scan_rate = rate(FILE_BYTES, || consume(scanner, 0, file, chunk_bytes));
        let copied_rate = rate(FILE_BYTES, || {
            plain_direct(path, in_flight, Some(chunk_bytes))
        });
        plain.push(plain_rate);
        copied.push(copied_rate);
        scan.push(scan_rate);
        to_plain.push(scan_rate / plain_rate);
        to_copied.push(scan_rate / copied_rate);
    }
    let spread = |ratios: &mut Vec<f64>| {
        let median = median(ratios);
        format!("{median:.2} ({:.2}–{:.2})", ratios[0], ratios[ROUNDS - 1])
    };
    println!(
        "{in_flight:>9}  {:>9}  {:>11.0}  {:>11.0}  {:>11.0}  {:>14}  {:>15}; windows peak {} KiB",
        format!("{} KiB", chunk_bytes >> 10),
        median(&mut plain),
        median(&mut copied),
        median(&mut scan),
        spread(&mut to_plain),
        spread(&mut to_copied),
        scanner.pool().peak_bytes() >> 10,
    );
}

/// 200 files read in turn, 4 KiB each, as a merge does.
fn merge(directory: &Path) {
    const FILES: u32 = 200;
    const MERGED_BYTES: u64 = 4 << 20;
    let files: Vec<File> = (0..FILES)
        .map(|number| make_file(&directory.join(format!("merge-{number}.sst")), MERGED_BYTES))
        .collect();
    let settings = Settings {
        window_bytes: WINDOW_BYTES,
        windows_in_flight: 1,
        memory_bytes: 64 << 20,
    };
    let scanner = Scanner::for_process(settings).expect("scanner");
    let mut buffer = [0; 4096];
    let mut plain_reads = 0;
    let rate = rate(u64::from(FILES) * MERGED_BYTES, || {
        for offset in (0..MERGED_BYTES).step_by(buffer.len()) {
            for (slot, file) in files.iter().enumerate() {
                if !read(scanner, slot as u32, file, offset, &mut buffer) {
                    plain_reads += 1;
                }
            }
        }
    });
    println!(
        "{FILES} files merged: {rate:.0} MiB/s, windows peak {} MiB of a cap of {} MiB, {plain_reads} plain reads",
        scanner.pool().peak_bytes() >> 20,
        scanner.pool().cap_bytes() >> 20,
    );
}

fn make_file(path: &Path, bytes: u64) -> File {
    let mut writer = File::create(path).expect("create");
    let block: Vec<u8> = (0..1_u32 << 18)
        .flat_map(|word| word.wrapping_mul(2654435761).to_le_bytes())
        .collect();
    for _ in 0..bytes / block.len() as u64 {
        writer.write_all(&block).expect("write");
    }
    writer.sync_all().expect("sync");
    file::advise(&writer, 0, 0, libc::POSIX_FADV_DONTNEED).expect("drop");
    std::thread::sleep(std::time::Duration::from_millis(50));
    File::open(path).expect("open")
}

fn rate(bytes: u64, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    bytes as f64 / (1 << 20) as f64 / start.elapsed().as_secs_f64()
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn consume(scanner: &Scanner, slot: u32, file: &File, chunk_bytes: usize) {
    let mut buffer = vec![0; chunk_bytes];
    for offset in (0..FILE_BYTES).step_by(chunk_bytes) {
        assert!(
            read(scanner, slot, file, offset, &mut buffer),
            "every read is served"
        );
    }
}

fn read(scanner: &Scanner, slot: u32, file: &File, offset: u64, buffer: &mut [u8]) -> bool {
    let request = Request {
        slot,
        descriptor: file.into(),
        // As in the preload library, each read pays for an `fstat`.
        stamp: file::stamp(file).expect("fstat"),
        mode: ReadMode::Direct(Alignment::covering(1, 1).expect("page")),
        offset,
    };
    matches!(
        scanner.read_into(&request, buffer, &Standalone),
        Outcome::Served {
            cached_bytes: 0,
            ..
        }
    )
}

/// Reads whole windows by `O_DIRECT` into reused buffers, `in_flight` at a time. With `copy_bytes` it copies
/// the bytes to a consumer, `copy_bytes` at a time.
fn plain_direct(path: &Path, in_flight: usize, copy_bytes: Option<usize>) {
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)
        .expect("open direct");
    let mut memory = vec![0_u8; WINDOW_BYTES * (in_flight + 1)];
    let base = memory.as_mut_ptr();
    let base = base.wrapping_add(base.align_offset(4096));
    let context = aio::create(in_flight as u32).expect("io_setup");
    let mut consumer = vec![0_u8; copy_bytes.unwrap_or(0)];
    let mut free: Vec<usize> = (0..in_flight).collect();
    let mut submitted = 0;
    let mut done = 0;
    while done < FILE_BYTES {
        while submitted < FILE_BYTES
            && let Some(index) = free.pop()
        {
            // SAFETY: each buffer has one request in flight at most, and outlives it.
            unsafe {
                aio::submit_read(
                    context,
                    &file,
                    base.wrapping_add(index * WINDOW_BYTES),
                    WINDOW_BYTES,
                    submitted,
                    index as u64,
                )
            }
            .expect("io_submit");
            submitted += WINDOW_BYTES as u64;
        }
        let mut completions = [aio::Completion::default(); 4];
        let count = aio::take(context, 1, &mut completions).expect("io_getevents");
        for completion in &completions[..count] {
            assert_eq!(completion.result, WINDOW_BYTES as i64);
            if let Some(copy_bytes) = copy_bytes {
                let window = base.wrapping_add(completion.tag as usize * WINDOW_BYTES);
                for step in 0..WINDOW_BYTES / copy_bytes {
                    // SAFETY: the window has arrived, and its buffer is reused only below.
                    let bytes = unsafe {
                        std::slice::from_raw_parts(
                            window.wrapping_add(step * copy_bytes),
                            copy_bytes,
                        )
                    };
                    consumer[..copy_bytes].copy_from_slice(bytes);
                    std::hint::black_box(&consumer);
                }
            }
            free.push(completion.tag as usize);
            done += WINDOW_BYTES as u64;
        }
    }
    aio::destroy(context);
}
