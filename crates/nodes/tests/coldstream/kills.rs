//! One node, killed in the middle of compactions while somebody writes: what was acknowledged is
//! there afterwards.

use crate::client::Client;
use crate::files::{self, KEYSPACE};
use crate::program::{self, Counters};
use crate::rows::{self, mixed};
use crate::scene::{self, Scene, nodetool};
use coldstream_nodes::{CommitLogSync, Node, Settings, Version};
use rustix::process::{Pid, Signal, kill_process};
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::statement::Consistency;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use tokio::task::JoinSet;

/// Rows, spread over the tables; each is written again and again, in versions from 0 on.
const KEYS: i64 = 2400;
const WRITERS: i64 = 12;

const TABLES: [(&str, &str); 2] = [
    (
        "killed_lz4_4",
        "compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 4}",
    ),
    ("killed_none", "compression = {'enabled': false}"),
];

/// A compaction of some 20 MiB takes about a second: time to be killed in.
const COMPACTION_MIB_PER_SECOND: u64 = 24;
const DELAY_MS_MAX: u64 = 1200;

/// For a compaction to begin, or a node to notice that it is dead.
const TIME_MAX: Duration = Duration::from_secs(120);

fn table_of(p: i64) -> usize {
    usize::try_from(p).expect("from 0 on") % TABLES.len()
}

/// The highest version of each row that was sent, and that was acknowledged; -1 is none.
struct Ledger {
    sent: Vec<AtomicI32>,
    acknowledged: Vec<AtomicI32>,
}

impl Ledger {
    fn new() -> Self {
        let none = || (0..KEYS).map(|_| AtomicI32::new(-1)).collect();
        Self {
            sent: none(),
            acknowledged: none(),
        }
    }

    fn writes(&self) -> i64 {
        let versions = self.acknowledged.iter();
        versions
            .map(|version| i64::from(version.load(Ordering::Relaxed)) + 1)
            .sum()
    }
}

/// Writes the next version of every row in turn, until `killed` or for `passes`.
fn write(
    client: &Client,
    ledger: &Arc<Ledger>,
    killed: &Arc<AtomicBool>,
    passes: usize,
) -> JoinSet<()> {
    let inserts = TABLES.map(|(table, _)| {
        client.prepare(&format!(
            "INSERT INTO {KEYSPACE}.{table} (p, c, round, value) VALUES (?, 0, ?, ?) \
             USING TIMESTAMP ?"
        ))
    });
    let mut tasks = JoinSet::new();
    for part in 0..WRITERS {
        let (session, inserts) = (client.session(), inserts.clone());
        let (ledger, killed) = (Arc::clone(ledger), Arc::clone(killed));
        let work = async move {
            for _ in 0..passes {
                for p in (part..KEYS).step_by(WRITERS as usize) {
                    let key = usize::try_from(p).expect("from 0 on");
                    let version = ledger.sent[key].fetch_add(1, Ordering::Relaxed) + 1;
                    // Timestamps begin with 1.
                    let timestamp = i64::from(version) + 1;
                    let values = (p, version, rows::value(p, 0, version), timestamp);
                    match session.execute_unpaged(&inserts[table_of(p)], values).await {
                        Ok(_) => ledger.acknowledged[key].store(version, Ordering::Relaxed),
                        Err(_) if killed.load(Ordering::SeqCst) => return,
                        // Not acknowledged: the next one has its turn.
                        Err(error) if is_late(&error) => {}
                        Err(error) => panic!("writing {p}: {error}"),
                    }
                }
            }
        };
        tasks.spawn_on(work, client.runtime().handle());
    }
    tasks
}

/// Whether a busy machine, not the node, is to blame: nothing was answered in time.
fn is_late(error: &ExecutionError) -> bool {
    use ExecutionError::{LastAttemptError, RequestTimeout};
    matches!(
        error,
        RequestTimeout(_)
            | LastAttemptError(RequestAttemptError::DbError(
                DbError::WriteTimeout { .. },
                _
            ))
    )
}

fn joined(client: &Client, mut tasks: JoinSet<()>) {
    client.runtime().block_on(async {
        while let Some(done) = tasks.join_next().await {
            if let Err(error) = done {
                std::panic::resume_unwind(error.into_panic());
            }
        }
    });
}

/// Every acknowledged row is there in that version or in one that was sent later, with its value.
fn check(client: &Client, ledger: &Ledger) {
    let reads = TABLES.map(|(table, _)| {
        client.prepare(&format!(
            "SELECT round, value FROM {KEYSPACE}.{table} WHERE p = ?"
        ))
    });
    let session = client.session();
    client.runtime().block_on(async {
        for p in 0..KEYS {
            let key = usize::try_from(p).expect("from 0 on");
            let answer = session.execute_unpaged(&reads[table_of(p)], (p,)).await;
            let answer = answer.unwrap_or_else(|error| panic!("reading {p}: {error}"));
            let answer = answer.into_rows_result().expect("rows");
            let row: Option<(i32, Vec<u8>)> = answer.maybe_first_row().expect("columns");
            let found = row.as_ref().map_or(-1, |(version, _)| *version);
            let acknowledged = ledger.acknowledged[key].load(Ordering::Relaxed);
            let sent = ledger.sent[key].load(Ordering::Relaxed);
            assert!(
                (acknowledged..=sent).contains(&found),
                "row {p}: version {found}, {acknowledged} was acknowledged, {sent} was sent"
            );
            if let Some((version, value)) = row {
                assert!(
                    value == rows::value(p, 0, version),
                    "row {p}: another value"
                );
            }
        }
    });
}

/// Kills the process some time after it began a compaction and before that ended; what it had
/// counted until then.
fn kill_in_a_compaction(
    directory: &Path,
    process_id: u32,
    mut delay: Duration,
    killed: &AtomicBool,
) -> Counters {
    let since = Instant::now();
    loop {
        assert!(since.elapsed() < TIME_MAX, "no compaction begins");
        let Some(log) = files::compactions(directory).pop() else {
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        // The moment is to be any, not soon after something that can be waited for.
        thread::sleep(delay);
        if !log.exists() {
            delay /= 2;
            continue;
        }
        let counters = Counters::of(process_id);
        killed.store(true, Ordering::SeqCst);
        let process = Pid::from_raw(process_id.cast_signed()).expect("process id");
        kill_process(process, Signal::KILL).expect("kill");
        return counters;
    }
}

/// Flushes and compacts without end; returns once the node is dead.
fn compact_until_killed(node: &mut Node, killed: &AtomicBool) {
    let commands = [
        &["flush", KEYSPACE][..],
        &["compact", KEYSPACE, TABLES[0].0],
        &["flush", KEYSPACE],
        &["compact", KEYSPACE, TABLES[1].0],
    ];
    for words in commands.into_iter().cycle() {
        // What is in the page cache already is not read directly, and its successor not written so.
        files::make_cold(&files::data(node, None));
        match node.nodetool().run(words) {
            Ok(_) => {}
            Err(_) if killed.load(Ordering::SeqCst) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn acknowledged_rows_survive_kills_in_the_middle_of_compactions() {
    let seed = std::env::var("COLDSTREAM_SEED").map_or_else(
        |_| {
            if !scene::long() {
                return 1;
            }
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            mixed(now.map_or(0, |now| now.as_nanos() as u64))
        },
        |text| text.parse().expect("COLDSTREAM_SEED is a number"),
    );
    eprintln!("kills: COLDSTREAM_SEED={seed}");
    for version in scene::versions() {
        let kills = match (scene::long(), version) {
            (false, _) => 2,
            (true, Version::V5_0) => 20,
            (true, _) => 5,
        };
        let Some(scene) = Scene::of(version) else {
            return;
        };
        kill_again_and_again(&scene, kills, seed);
    }
}

fn kill_again_and_again(scene: &Scene, kills: usize, seed: u64) {
    let settings = Settings {
        // Periodic, Cassandra itself loses what it acknowledged since the last sync.
        commit_log_sync: CommitLogSync::Batch,
        compaction_mib_per_second: COMPACTION_MIB_PER_SECOND,
        ..scene::settings()
    };
    let ledger = Arc::new(Ledger::new());
    let mut node = scene.start(1, &settings, &program::launch());
    let mut client = Client::connect(&node.cql(), Consistency::One);
    client.create_keyspace(1);
    for (table, options) in TABLES {
        client.create_table(table, options);
    }
    let never = Arc::new(AtomicBool::new(false));
    joined(&client, write(&client, &ledger, &never, 1));

    let (mut counted, mut lives, mut staged) = (0, 0, 0);
    while counted < kills {
        lives += 1;
        assert!(lives <= 3 * kills, "kills miss the compactions");
        let killed = Arc::new(AtomicBool::new(false));
        let writers = write(&client, &ledger, &killed, usize::MAX);
        let directory = node.directory().to_owned();
        let process_id = node.process_id();
        let delay = Duration::from_millis(mixed(seed.wrapping_add(lives as u64)) % DELAY_MS_MAX);
        let counters = thread::scope(|scope| {
            let killer =
                scope.spawn(|| kill_in_a_compaction(&directory, process_id, delay, &killed));
            compact_until_killed(&mut node, &killed);
            killer.join().expect("killer")
        });
        node.kill();
        joined(&client, writers);
        let unfinished = files::compactions(&directory).len();
        counted += usize::from(unfinished > 0);

        node = scene.start(1, &settings, &program::launch());
        client = Client::connect(&node.cql(), Consistency::One);
        files::make_cold(&files::data(&node, None));
        check(&client, &ledger);
        nodetool(
            &mut node,
            &["verify", "--force", "--extended-verify", KEYSPACE],
        );
        scene::assert_log_clean(&node.log());
        eprintln!(
            "{} kill {counted} of {kills} (after {delay:?}): {unfinished} unfinished compactions, \
             {} writes acknowledged so far, all there; before it {} bytes read directly, {} \
             written directly, {} calls staged",
            scene.version(),
            ledger.writes(),
            counters.get("bytes_direct"),
            counters.get("write_bytes_direct"),
            counters.get("staged_writes"),
        );
        counters.assert_well("before the kill");
        staged += counters.get("staged_writes");
    }
    assert!(staged > 0, "the library was not at work");
    node.stop().unwrap_or_else(|error| panic!("{error}"));
}
