//! No allocation of the library ends the process: neither where memory is exhausted, nor where each single
//! allocation of the library fails.

use coldstream_control::Counter;
use coldstream_testkit::database::varint;
use coldstream_testkit::database::{content, make_cold, sstables};
use coldstream_testkit::library::Preload;
use coldstream_testkit::overcommit::NoOvercommit;
use coldstream_testkit::process::Program;
use coldstream_testkit::refusing_heap::RefusingHeap;
use coldstream_testkit::status_client::StatusClient;
use coldstream_testkit::{directories, files, tools};
use std::path::{Path, PathBuf};

/// Size of the metaindex that the malformed SSTable claims: the most that a reader asks for at once. It does not fit
/// what a thread of the program has reserved for its heap.
const METAINDEX_BYTES: u64 = 64 << 20;
/// The end of LevelDB's SSTables, and of RocksDB's of `format_version` 0.
const LEGACY_MAGIC: u64 = 0xdb47_7524_8b80_fb57;
const FOOTER_BYTES: usize = 48;

struct Bench {
    directory: tempfile::TempDir,
    program: PathBuf,
}

impl Bench {
    fn new() -> Self {
        let directory = directories::on_disk();
        let program = tools::compile("memory.c", directory.path(), "memory", &[]);
        let bench = Self { directory, program };
        files::create(&bench.path("000001.sst"), 1, 4 << 20);
        malformed_sstable(&bench.path("image"));
        std::thread::sleep(files::REST);
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

/// An SSTable with a large metaindex of zeros.
fn malformed_sstable(path: &Path) {
    let mut bytes = vec![0; METAINDEX_BYTES as usize + 4096];
    let footer_at = bytes.len();
    let mut footer = varint(0);
    footer.extend(varint(METAINDEX_BYTES));
    footer.extend(varint(0));
    footer.extend(varint(100));
    footer.resize(FOOTER_BYTES - 8, 0);
    footer.extend(LEGACY_MAGIC.to_le_bytes());
    bytes.extend(footer);
    assert_eq!(bytes.len(), footer_at + FOOTER_BYTES);
    std::fs::write(path, bytes).expect("write");
}

/// How the program of [`Bench`] comes to its end of memory.
#[derive(Clone)]
struct Shortage {
    /// What the program starts behind, with its options.
    launcher: Option<PathBuf>,
    words: &'static [&'static str],
}

impl Shortage {
    /// By `RLIMIT_AS`.
    const OF_ADDRESSES: Self = Self {
        launcher: None,
        words: &[],
    };

    fn program(&self, bench: &Bench) -> Program {
        let program = Program::new(&bench.program).arguments(self.words);
        match &self.launcher {
            Some(launcher) => {
                let drop = ["--bounding-set=-sys_admin", "--inh-caps=-sys_admin"];
                program.behind(launcher, &drop)
            }
            None => program,
        }
    }

    fn meets_the_first_open(&self) {
        let bench = Bench::new();
        let program = self.program(&bench).argument("open");
        let program = program.argument(bench.path("000001.sst"));
        let plain = program.run().well();
        assert_eq!(plain, program.run_with(&Preload::quiet()).well());
    }

    /// The shortage begins at another request of the library each time, up to the last.
    fn meets_a_compaction(&self) {
        let bench = Bench::new();
        for mebibytes in [0, 1, 2, 8, 32, 64, 128, 192, 256, 512] {
            let input = bench.path("000001.sst");
            let run = |preload: Option<&Preload>| {
                let output = bench.path("000005.sst");
                let _ = std::fs::remove_file(&output);
                let ended = (self.program(&bench).argument("copy"))
                    .argument(&input)
                    .argument(&output)
                    .argument(mebibytes.to_string())
                    .run_either(preload)
                    .well();
                (ended, std::fs::read(&output).expect("output"))
            };
            let plain = run(None);
            assert!(plain == run(Some(&Preload::quiet())), "{mebibytes} MiB");
            assert!(plain.1 == std::fs::read(&input).expect("input"));
        }
    }

    fn meets_a_handover(&self) {
        let bench = Bench::new();
        let closing = |output| {
            (self.program(&bench).argument("close"))
                .argument(bench.path("000001.sst"))
                .argument(bench.path("image"))
                .argument(bench.path(output))
        };
        let plain = closing("000002.sst").run().well();
        let with = closing("000003.sst").run_with(&Preload::quiet());
        assert_eq!(plain, with.well());
        let same = std::fs::read(bench.path("000003.sst")).expect("output");
        assert!(same == std::fs::read(bench.path("image")).expect("image"));

        let done = bench.path("done");
        let mut running = (closing("000004.sst").argument(&done)).start_with(&Preload::quiet());
        running.wait_until(|| done.exists());
        let status = StatusClient::of(running.process_id());
        assert_eq!(status.get(Counter::HandoverShortOfMemory), 1);
        assert!(status.get(Counter::HeapRefusals) > 0);
        running.kill();
    }
}

#[test]
fn the_first_open_survives_an_exhausted_heap() {
    Shortage::OF_ADDRESSES.meets_the_first_open();
}

#[test]
fn a_compaction_survives_any_limit_of_address_space() {
    Shortage::OF_ADDRESSES.meets_a_compaction();
}

#[test]
fn a_handover_that_cannot_have_its_memory_is_declined() {
    Shortage::OF_ADDRESSES.meets_a_handover();
}

#[test]
fn a_machine_that_promises_no_more_memory_ends_no_process() {
    let Some(launcher) = tools::find("setpriv") else {
        return;
    };
    let Some(_strict) = NoOvercommit::begin() else {
        return;
    };
    let of_promises = Shortage {
        launcher: Some(launcher),
        words: &["commit"],
    };
    of_promises.meets_the_first_open();
    of_promises.meets_a_compaction();
    of_promises.meets_a_handover();
}

/// A database with hot keys, which is compacted again and again.
struct Database {
    directory: tempfile::TempDir,
    program: PathBuf,
    options: String,
}

const KEYS: &str = "3000";

impl Database {
    /// `None` where RocksDB is not installed.
    fn new(table_options: &str, compression: &str) -> Option<Self> {
        tools::find_library("librocksdb.so")?;
        tools::find("ldb")?;
        let directory = directories::on_disk();
        let libraries = ["-lrocksdb"];
        let program = tools::compile("hot_keys.c", directory.path(), "hot_keys", &libraries);
        let options = format!(
            "disable_auto_compactions=true;create_if_missing=true;compression={compression};\
             target_file_size_base=4194304;\
             block_based_table_factory={{no_block_cache=true;block_size=4096;{table_options}}}"
        );
        let database = Self {
            directory,
            program,
            options,
        };
        Program::new(&database.program)
            .argument("load")
            .argument(database.path("loaded"))
            .arguments([KEYS, "3", "1000", "0", &database.options])
            .run()
            .well();
        Some(database)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Compacts a copy of the database. Returns its content.
    fn compacted(&self, preload: Option<&Preload>) -> String {
        let copy = self.path("copy");
        let _ = std::fs::remove_dir_all(&copy);
        std::fs::create_dir(&copy).expect("directory");
        for entry in std::fs::read_dir(self.path("loaded")).expect("database") {
            let entry = entry.expect("entry");
            std::fs::copy(entry.path(), copy.join(entry.file_name())).expect("copy");
        }
        make_cold(&sstables(&copy));
        Program::new(&self.program)
            .argument("compact")
            .argument(&copy)
            .arguments([KEYS, "20", "1", "3", &self.options])
            .run_either(preload)
            .well();
        content(&copy)
    }

    fn survives_each_refusal(&self, in_short: u64) {
        let heap = RefusingHeap::new(self.directory.path());
        let preload = Preload::quiet()
            .with("COLDSTREAM_READS", "direct")
            .with("COLDSTREAM_WRITES", "direct");
        let plain = self.compacted(None);
        assert_eq!(plain, self.compacted(Some(&heap.counting(&preload))));
        let count = heap.count();
        assert!(count > 50, "there was no handover: {count} requests");
        println!("{count} requests");
        for requests in RefusingHeap::refusals(count, in_short) {
            println!("{requests:?} refused");
            let with = self.compacted(Some(&heap.refusing(&preload, &requests)));
            assert_eq!(plain, with);
        }
    }
}

#[test]
fn rocksdb_survives_each_refusal_of_memory() {
    if let Some(database) = Database::new("", "kNoCompression") {
        database.survives_each_refusal(10);
    }
}

#[test]
fn rocksdb_with_compressed_indexes_survives_each_refusal_of_memory() {
    let partitioned = "index_type=kTwoLevelIndexSearch;metadata_block_size=1024";
    for compression in ["kZSTD", "kZlibCompression", "kBZip2Compression"] {
        if let Some(database) = Database::new(partitioned, compression) {
            database.survives_each_refusal(3);
        }
    }
}
