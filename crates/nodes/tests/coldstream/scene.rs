//! Nodes for a test. Two clusters run at a time, each with addresses of its own.

use coldstream_nodes::{Distribution, Launch, Node, NodeError, Settings, Version};
use coldstream_testkit::skip;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Whether the long form was asked for.
pub fn long() -> bool {
    std::env::var_os("COLDSTREAM_LONG").is_some()
}

/// The releases of a test. `COLDSTREAM_CASSANDRA=5.0,6.0` selects others.
pub fn versions() -> Vec<Version> {
    if let Ok(names) = std::env::var("COLDSTREAM_CASSANDRA") {
        let named = names.split(',').map(str::parse);
        return named
            .collect::<Result<_, _>>()
            .unwrap_or_else(|error| panic!("COLDSTREAM_CASSANDRA: {error}"));
    }
    if long() {
        Version::ALL.to_vec()
    } else {
        vec![Version::V5_0]
    }
}

/// A node of the short form lives a minute, and optimizing took half of it. System calls are the same.
const ONE_COMPILER: &str = "-XX:TieredStopAtLevel=1";

/// One node leaves most of a processor idle. More than two clusters need too much memory. Clusters of the long form
/// have up to four nodes.
const PLACES: usize = 2;

/// Which places are taken.
static TAKEN: Mutex<[bool; PLACES]> = Mutex::new([false; PLACES]);
static GIVEN_BACK: Condvar = Condvar::new();

/// The right to run a cluster. Dropping it gives the right to the next test.
struct Place {
    number: usize,
}

impl Place {
    /// Waits until there is one.
    fn take() -> Self {
        let places = if long() { 1 } else { PLACES };
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(number) = (0..places).find(|number| !taken[*number]) {
                taken[number] = true;
                return Self { number };
            }
            let waited = GIVEN_BACK.wait(taken);
            taken = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        taken[self.number] = false;
        GIVEN_BACK.notify_one();
    }
}

/// Two tests may not fetch one release at a time.
static FETCHING: Mutex<()> = Mutex::new(());

/// A release, and a directory for its nodes.
pub struct Scene {
    distribution: Distribution,
    directory: TempDir,
    place: Place,
}

impl Scene {
    /// Skips the test and returns `None` where a JDK or Maven is missing.
    pub fn of(version: Version) -> Option<Self> {
        let place = Place::take();
        let cache = Distribution::default_cache();
        let fetching = FETCHING.lock().unwrap_or_else(PoisonError::into_inner);
        let obtained = Distribution::obtain(version, &cache, &mut |text| eprintln!("{text}"));
        drop(fetching);
        let distribution = match obtained {
            Ok(distribution) => distribution,
            Err(error @ (NodeError::NoJava { .. } | NodeError::NoMaven { .. })) => {
                skip(error);
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        Some(Self {
            distribution,
            directory: on_disk(),
            place,
        })
    }

    pub fn version(&self) -> Version {
        self.distribution.version()
    }

    /// A path in the directory of all nodes.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Starts node `number`, for the first time or again. Node 1 is the seed.
    pub fn start(&self, number: u8, settings: &Settings, launch: &Launch) -> Node {
        let directory = self.path(&number.to_string());
        let mut launch = launch.clone();
        if !long() {
            launch.java_arguments.push(ONE_COMPILER.into());
        }
        Node::start(
            &self.distribution,
            settings,
            &directory,
            &self.address(number),
            &self.address(1),
            &launch,
        )
        .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Nodes of other suites have other addresses in 127.0.0.0/8.
    fn address(&self, number: u8) -> String {
        format!("127.77.{}.{number}", self.place.number + 10)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if thread::panicking() {
            // The logs of the nodes say more than their exit status.
            self.directory.disable_cleanup(true);
            eprintln!("kept: {}", self.directory.path().display());
        }
    }
}

/// Direct I/O needs a device: use the build directory, not `/tmp`, which may be tmpfs.
fn on_disk() -> TempDir {
    let test = std::env::current_exe().expect("own path");
    let directory: PathBuf = test.ancestors().nth(2).expect("target directory").into();
    tempfile::tempdir_in(directory).expect("temporary directory")
}

/// Small: the tests do not depend on the heap.
pub fn settings() -> Settings {
    Settings {
        heap_mib: 512,
        compaction_mib_per_second: 0,
        more: vec![
            // SSTables of a few megabytes are also read while they are written.
            "sstable_preemptive_open_interval: 2MiB".into(),
            // A busy machine is slow, which is no error.
            "read_request_timeout: 60000ms".into(),
            "write_request_timeout: 60000ms".into(),
        ],
        ..Settings::default()
    }
}

/// Runs a nodetool command.
pub fn nodetool(node: &mut Node, words: &[&str]) -> String {
    let said = node.nodetool().run(words);
    said.unwrap_or_else(|error| panic!("{error}"))
}

/// Asks until the answer is right. The error holds the last answer.
pub fn wait_until(what: &str, mut ask: impl FnMut() -> Result<(), String>) {
    let since = Instant::now();
    while let Err(found) = ask() {
        assert!(
            since.elapsed() < WAIT_TIME_MAX,
            "not within {WAIT_TIME_MAX:?}: {what}: {found}"
        );
        thread::sleep(Duration::from_millis(100));
    }
}

const WAIT_TIME_MAX: Duration = Duration::from_secs(120);

/// Cassandra's exceptions for corrupt data, and the messages of scrub.
const CORRUPTION: [&str; 3] = ["CorruptSSTable", "CorruptBlock", "unreadable"];

/// Asserts that the node's log has no error and no corruption.
pub fn assert_log_clean(log: &Path) {
    assert_log_clean_but_for(log, None);
}

/// As [`assert_log_clean`], but one error may be there: `allowed` is part of its line.
pub fn assert_log_clean_but_for(log: &Path, allowed: Option<&str>) {
    let text = fs::read_to_string(log).unwrap_or_else(|error| panic!("{}: {error}", log.display()));
    let bad: Vec<_> = text
        .lines()
        .filter(|line| {
            let is_allowed = allowed.is_some_and(|allowed| line.contains(allowed));
            let is_error = line.starts_with("ERROR") && !is_allowed;
            is_error || CORRUPTION.iter().any(|name| line.contains(name))
        })
        .collect();
    assert!(bad.is_empty(), "{}: {bad:#?}", log.display());
}
