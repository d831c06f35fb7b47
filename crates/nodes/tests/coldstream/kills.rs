//! One node is killed in compactions, while clients write. Acknowledged writes are there afterwards.

use crate::client::Client;
use crate::files::{self, KEYSPACE};
use crate::program::{self, Counters};
use crate::rows::mixed;
use crate::scene::{self, Scene, nodetool};
use crate::writers::{Ledger, TABLES, check, compact, joined, write};
use coldstream_nodes::{CommitLogSync, Settings, Version};
use rustix::process::{Pid, Signal, kill_process};
use scylla::statement::Consistency;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// A compaction of about 20 MiB takes a second: long enough for a kill.
const COMPACTION_MIB_PER_SECOND: u64 = 24;
const DELAY_MS_MAX: u64 = 1200;

/// Time for a compaction to begin, or for clients to notice that the node is dead.
const TIME_MAX: Duration = Duration::from_secs(120);

/// Cassandra says this of a commit log segment that it had made, but not begun, when it was killed
/// (`CommitLogReplayer.java`, 5.0.9). No acknowledged write is in it.
const UNBEGUN_SEGMENT: &str =
    "Ignoring commit log replay error likely due to incomplete flush to disk";

/// Kills the process during a compaction. Returns its counters until then.
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
        // Any moment, not one shortly after an event that can be waited for.
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
        // With periodic sync Cassandra itself loses writes since the last sync.
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
            compact(&mut node, &killed);
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
        scene::assert_log_clean_but_for(&node.log(), Some(UNBEGUN_SEGMENT));
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
