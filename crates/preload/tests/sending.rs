//! A background thread sends SSTables with `sendfile`. Their pages are dropped behind it. Pages that were
//! resident before, or that the foreground reads meanwhile, stay.

use coldstream_testkit::library::Preload;
use coldstream_testkit::process::Program;
use coldstream_testkit::{files, residency, tools};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

const TABLE_BYTES: u64 = (64 << 20) + 12_345;
const PAGES: usize = TABLE_BYTES.div_ceil(4096) as usize;
/// 4 MiB ahead, 24 MiB behind, and the length of one call.
const WINDOW_PAGES: usize = 30 << 8;

struct Bench {
    directory: tempfile::TempDir,
    program: PathBuf,
}

/// The output of the program, and the resident pages at the end.
#[derive(Debug)]
struct Sent {
    checksum: String,
    pages_max: usize,
    pages: Vec<usize>,
}

impl Bench {
    fn new() -> Self {
        let directory = coldstream_testkit::directories::on_disk();
        let program = tools::compile("sends.c", directory.path(), "sends", &["-pthread"]);
        let bench = Self { directory, program };
        files::create(&bench.table(), 1, TABLE_BYTES);
        std::thread::sleep(files::REST);
        bench
    }

    fn table(&self) -> PathBuf {
        self.directory.path().join("nb-1-big-Data.db")
    }

    /// Sends the SSTable. Only the pages of `warm` are resident before.
    fn send(&self, to: &str, warm: std::ops::Range<usize>, preload: Option<&Preload>) -> Sent {
        let file = File::open(self.table()).expect("open");
        residency::drop_pages(&file);
        for page in warm.clone() {
            // Backwards, so that the kernel does not read ahead.
            let page = warm.start + warm.end - 1 - page;
            let mut bytes = [0; 4096];
            file.read_exact_at(&mut bytes, page as u64 * 4096)
                .expect("read");
        }
        let program = Program::new(&self.program)
            .argument(self.table())
            .argument(match to {
                "-" => PathBuf::from("-"),
                name => self.directory.path().join(name),
            });
        let ended = program.run_either(preload);
        let text = ended.well().text();
        let (checksum, pages_max) = text.trim().split_once(' ').expect("two words");
        let there = residency::resident_pages(&file).into_iter().enumerate();
        Sent {
            checksum: checksum.into(),
            pages_max: pages_max.parse().expect("a number"),
            pages: there
                .filter(|(_, there)| *there)
                .map(|(at, _)| at)
                .collect(),
        }
    }
}

#[test]
fn a_streamed_table_leaves_in_the_page_cache_what_was_there() {
    let bench = Bench::new();
    let warm = 1000..1040;
    let plain = bench.send("-", warm.clone(), None);
    assert!(
        plain.pages.len() > PAGES / 2,
        "without the library all of it"
    );
    let with = bench.send("-", warm.clone(), Some(&Preload::quiet()));
    assert_eq!(with.checksum, plain.checksum);
    // And the page behind them, where a read could have ended.
    let read_meanwhile = 18 << 8..(18 << 8) + 8;
    let expected: Vec<usize> = warm.chain(read_meanwhile).collect();
    residency::assert_there(&with.pages, &expected);
    assert!(
        plain.pages_max == 0 || plain.pages_max > PAGES / 2,
        "0: no cachestat"
    );
    assert!(with.pages_max <= WINDOW_PAGES, "{} at once", with.pages_max);
}

#[test]
fn what_is_sent_in_one_call_or_to_be_left_alone_is_sent_plainly() {
    let bench = Bench::new();
    let plain = bench.send("copy", 0..0, None);
    let with = bench.send("copy", 0..0, Some(&Preload::quiet()));
    assert_eq!(with.checksum, plain.checksum);
    assert!(with.pages.len() > PAGES / 2);
    // Without heat the library does not know what the foreground reads.
    for (variable, value) in [
        ("COLDSTREAM_READS", "buffered"),
        ("COLDSTREAM_READAHEAD", "kernel"),
        ("COLDSTREAM_HANDOVER", "off"),
    ] {
        let preload = Preload::quiet().with(variable, value);
        let pages = bench.send("-", 0..0, Some(&preload)).pages;
        assert!(pages.len() > PAGES / 2, "{variable}={value}");
    }
}
