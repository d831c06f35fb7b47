//! A real RocksDB process under load and under the real library.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use coldstream_testkit::database::sstables;
use coldstream_testkit::library::Preload;
use coldstream_testkit::process::{Program, Running};
use coldstream_testkit::status_client::StatusClient;
use coldstream_testkit::{directories, residency, tools};

use super::Scene;

const PATIENCE: Duration = Duration::from_secs(60);

/// `db_bench` that reads while it writes and compacts. Its SSTables leave the page cache again and again.
pub struct Database {
    pub scene: Scene,
    pub running: Running,
    pub client: StatusClient,
    ends: Arc<AtomicBool>,
    dropping: Option<JoinHandle<()>>,
    _directory: tempfile::TempDir,
}

impl Database {
    /// `None`, with a message, where there is no `db_bench`.
    pub fn start() -> Option<Self> {
        let program = tools::find("db_bench")?;
        let directory = directories::on_disk();
        let path = directory.path().join("db");
        let running = Program::new(program)
            .argument(format!("--db={}", path.display()))
            .arguments([
                "--benchmarks=fillseq,readwhilewriting",
                "--num=4000",
                "--value_size=1000",
                "--compression_type=none",
                "--write_buffer_size=1048576",
                "--target_file_size_base=1048576",
                "--max_bytes_for_level_base=4194304",
                "--cache_size=0",
                "--threads=2",
                "--duration=300",
                "--benchmark_write_rate_limit=8000000",
                "--stats_interval=100000000",
            ])
            .start_with(&Preload::quiet());
        let client = StatusClient::of(running.process_id());
        let ends = Arc::new(AtomicBool::new(false));
        let dropping = {
            let ends = Arc::clone(&ends);
            std::thread::spawn(move || drop_pages_until(&path, &ends))
        };
        let database = Self {
            scene: Scene::new(),
            running,
            client,
            ends,
            dropping: Some(dropping),
            _directory: directory,
        };
        wait_until("reads", || database.client.snapshot().device_reads() > 0);
        Some(database)
    }

    /// Its id as text.
    pub fn pid(&self) -> String {
        self.running.process_id().to_string()
    }

    /// Whether no mechanism is off.
    pub fn is_as_before(&self) -> bool {
        self.client.page().switches().off.is_empty()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(dropping) = self.dropping.take() {
            let _ = dropping.join();
        }
        kill("-KILL", self.running.process_id());
    }
}

fn drop_pages_until(path: &std::path::Path, ends: &AtomicBool) {
    while !ends.load(Ordering::Relaxed) {
        let files: Vec<PathBuf> = sstables(path);
        for file in files.iter().filter_map(|path| File::open(path).ok()) {
            residency::drop_pages(&file);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sends a signal.
pub fn kill(signal: &str, pid: u32) {
    let pid = pid.to_string();
    let _ = Command::new("kill").args([signal, &pid]).status();
}

/// Waits until it is so.
#[track_caller]
pub fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let patience = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < patience, "no {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
