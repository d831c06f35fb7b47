//! Readahead control. Point reads of an SSTable bring in only what they read, whatever the readahead of the
//! device and the advice of the application. Scans have readahead.

use coldstream_testkit::library::Preload;
use coldstream_testkit::process::Program;
use coldstream_testkit::{files, residency, tools};
use std::fs::File;
use std::path::{Path, PathBuf};

const TABLE_BYTES: u64 = 24 << 20;
/// The most that is read ahead of a scan. A scan gets no more than half of what it has read.
const AHEAD_PAGES_MAX: usize = (coldstream_policy::scan::AHEAD_BYTES_MAX >> 12) as usize;

struct Bench {
    directory: tempfile::TempDir,
    program: PathBuf,
}

impl Bench {
    fn new() -> Self {
        let directory = coldstream_testkit::directories::on_disk();
        let program = tools::compile("pattern.c", directory.path(), "pattern", &[]);
        let bench = Self { directory, program };
        files::create(&bench.table(), 1, TABLE_BYTES);
        std::thread::sleep(files::REST);
        bench
    }

    fn table(&self) -> PathBuf {
        self.directory.path().join("000001.sst")
    }

    /// Whether the kernel refuses this way to read.
    fn is_impossible(&self, words: &[&str]) -> bool {
        let program = Program::new(&self.program)
            .argument(self.table())
            .arguments(words);
        program.run().status.code() == Some(3)
    }

    /// Runs the program over the cold SSTable. Returns its output, and the resident pages.
    fn run(&self, words: &[&str], preload: Option<&Preload>) -> (String, Vec<u64>) {
        let file = File::open(self.table()).expect("open");
        residency::drop_pages(&file);
        let program = Program::new(&self.program)
            .argument(self.table())
            .arguments(words);
        let ended = program.run_either(preload);
        let pages = residency::resident_pages(&file).into_iter().enumerate();
        let there = pages.filter(|(_, there)| *there);
        (
            ended.well().text(),
            there.map(|(page, _)| page as u64).collect(),
        )
    }
}

fn said(log: &Path) -> String {
    std::fs::read_to_string(log).unwrap_or_default()
}

#[test]
fn point_reads_bring_in_what_they_read() {
    let bench = Bench::new();
    let (plain, _) = bench.run(&["points", "500"], None);
    let expected: Vec<u64> = (0..500).map(|number| number * 10).collect();
    // POSIX_FADV_NORMAL and POSIX_FADV_SEQUENTIAL, for the whole file and for a part, which the kernel treats
    // as the whole file.
    for advice in [&[][..], &["0"], &["2"], &["2", "1000000"]] {
        let words = [&["points", "500"], advice].concat();
        let (with, pages) = bench.run(&words, Some(&Preload::quiet()));
        assert_eq!(with, plain);
        println!("advice {advice:?}");
        residency::assert_there(&pages, &expected);
    }
    let kernel = Preload::quiet().with("COLDSTREAM_READAHEAD", "kernel");
    assert_eq!(bench.run(&["points", "500", "2"], Some(&kernel)).0, plain);
}

#[test]
fn faults_bring_in_what_they_touch_where_that_is_asked_for() {
    let bench = Bench::new();
    let words = ["mapped", "500"];
    let (plain, without) = bench.run(&words, None);
    let expected: Vec<u64> = (0..500).map(|number| number * 10).collect();
    if without.len() <= 2 * expected.len() {
        coldstream_testkit::skip(
            "read_ahead_kb is so small here that the kernel reads nothing around faults",
        );
        return;
    }
    let mapped = Preload::quiet().with("COLDSTREAM_READAHEAD", "scans-and-mapped");
    let (with, pages) = bench.run(&words, Some(&mapped));
    assert_eq!(with, plain);
    residency::assert_there(&pages, &expected);
    let (with, pages) = bench.run(&words, Some(&Preload::quiet()));
    assert_eq!(with, plain);
    assert!(pages.len() > 1000, "not by itself: {} pages", pages.len());
}

/// Of scans that are so short that the kernel does not take them over.
#[test]
fn scans_are_read_ahead_of() {
    let bench = Bench::new();
    for (words, read, scans) in [
        (["scan", "240"], 240, 1),
        (["scans", "240"], 2880, 12),
        (["preadv", "240"], 240, 1),
        (["preadv2", "240"], 240, 1),
    ] {
        let (plain, _) = bench.run(&words, None);
        let log = bench.directory.path().join("log");
        let (with, pages) = bench.run(&words, Some(&Preload::logging_to(&log)));
        assert_eq!(with, plain);
        let ahead = pages.len().saturating_sub(read);
        assert!(
            (scans..=(read / 2).min(AHEAD_PAGES_MAX * scans)).contains(&ahead),
            "{words:?}: {ahead} pages ahead: {}",
            said(&log)
        );
    }
}

/// Where the kernel reads far ahead of a long scan without the library, it does so with it.
#[test]
fn a_long_scan_is_left_to_the_kernel() {
    let bench = Bench::new();
    for way in ["scan", "preadv", "preadv2"] {
        let words = [way, "2000"];
        let (plain, without) = bench.run(&words, None);
        if without.len() < 2000 + 2 * AHEAD_PAGES_MAX {
            coldstream_testkit::skip("read_ahead_kb is no larger here than what scans get");
            return;
        }
        let pages_with = |preload: &Preload| {
            let (with, pages) = bench.run(&words, Some(preload));
            assert_eq!(with, plain);
            pages.len()
        };
        let quiet = Preload::quiet();
        let pages = pages_with(&quiet);
        assert!(pages > 2000 + AHEAD_PAGES_MAX, "{way}: {pages} pages");
        for call in ["cachestat", "preadv2"] {
            let pages = pages_with(&quiet.clone().with("COLDSTREAM_AVOID", call));
            assert!(
                (2001..=2000 + AHEAD_PAGES_MAX).contains(&pages),
                "{way} without {call}: {pages} pages"
            );
        }
        // POSIX_FADV_RANDOM
        let (with, pages) = bench.run(&[way, "2000", "1"], Some(&quiet));
        assert_eq!(with, plain);
        let pages = pages.len();
        assert!(
            (2001..=2000 + AHEAD_PAGES_MAX).contains(&pages),
            "{way}, against advice: {pages} pages"
        );
    }
}

/// Point reads behind what the kernel reads ahead of a long scan, by the same descriptor.
#[test]
fn point_reads_beside_a_long_scan_bring_in_what_they_read() {
    let bench = Bench::new();
    // When the points begin, the kernel has read twice as many blocks ahead as the scan has read, at most.
    let words = ["scan-and-points", "1300"];
    let (plain, _) = bench.run(&words, None);
    let (with, pages) = bench.run(&words, Some(&Preload::quiet()));
    assert_eq!(with, plain);
    let behind: Vec<u64> = pages.into_iter().filter(|page| *page >= 4400).collect();
    let expected: Vec<u64> = (4400..6100).step_by(10).collect();
    residency::assert_there(&behind, &expected);
}

/// Reads at the file position are sequential, and plain as without the library. Reads that the library does not see
/// are left alone.
#[test]
fn what_is_read_by_its_position_or_unseen_has_the_kernels_readahead() {
    let bench = Bench::new();
    for way in ["read", "readv", "position", "stream", "raw", "uring"] {
        let words = [way, "600"];
        if bench.is_impossible(&words) {
            coldstream_testkit::skip(format!("{way} is not possible here"));
            continue;
        }
        let (plain, without) = bench.run(&words, None);
        if without.len() <= 600 {
            coldstream_testkit::skip("the kernel reads nothing ahead here");
            return;
        }
        let (with, pages) = bench.run(&words, Some(&Preload::quiet()));
        assert_eq!(with, plain);
        assert!(pages.len() > 600, "{way}: {} pages", pages.len());
    }
}

/// A read that asks for a page cache without its pages keeps the kernel's readahead, which drops them.
#[test]
fn a_scan_whose_pages_shall_not_stay_leaves_none() {
    let bench = Bench::new();
    let words = ["dontcache", "600"];
    if bench.is_impossible(&words) {
        coldstream_testkit::skip("RWF_DONTCACHE is not possible here");
        return;
    }
    let (plain, without) = bench.run(&words, None);
    let (with, pages) = bench.run(&words, Some(&Preload::quiet()));
    assert_eq!(with, plain);
    assert!(
        pages.len() <= without.len() + 64,
        "{} pages stay, {} without the library",
        pages.len(),
        without.len()
    );
}
