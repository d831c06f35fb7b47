//! Mechanisms of one node are switched off and on while clients write and read, and SSTables are compacted.

use crate::client::Client;
use crate::files::{self, KEYSPACE};
use crate::program::{self, Counters};
use crate::scene::{self, Scene, nodetool};
use crate::steady;
use crate::writers::{self, Ledger, TABLES};
use coldstream_nodes::Settings;
use rustix::process::{Pid, Signal, kill_process};
use scylla::statement::Consistency;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A compaction of about 20 MiB takes a second: one is nearly always running.
const COMPACTION_MIB_PER_SECOND: u64 = 24;

#[test]
fn rows_survive_switches_under_load() {
    let switches = if scene::long() { 1000 } else { 100 };
    for version in scene::versions() {
        let Some(scene) = Scene::of(version) else {
            return;
        };
        switch_again_and_again(&scene, switches);
    }
}

/// Ends everything when dropped. After a panic it also ends the node, which may not answer any more.
struct Over<'a>(&'a AtomicBool, u32);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
        if let (true, Some(process)) = (thread::panicking(), Pid::from_raw(self.1.cast_signed())) {
            let _ = kill_process(process, Signal::KILL);
        }
    }
}

fn switch_again_and_again(scene: &Scene, switches: u64) {
    let settings = Settings {
        compaction_mib_per_second: COMPACTION_MIB_PER_SECOND,
        ..scene::settings()
    };
    // With `auto`, outputs of cached inputs would stay in the page cache.
    let everything = ["--pacing", "on", "--eviction", "on", "--writes", "direct"];
    let mut node = scene.start(1, &settings, &program::launch_with(&everything));
    let client = Client::connect(&node.cql(), Consistency::One);
    client.create_keyspace(1);
    for (table, options) in TABLES {
        client.create_table(table, options);
    }
    let (ledger, is_over) = (Arc::new(Ledger::new()), Arc::new(AtomicBool::new(false)));
    steady::write(&client);
    let writers = writers::write(&client, &ledger, &is_over, usize::MAX);
    let readers = steady::read(&client, &is_over);
    let process_id = node.process_id();
    let longest = thread::scope(|scope| {
        let switcher = scope.spawn(|| {
            let _over = Over(&is_over, process_id);
            let mut longest = Duration::ZERO;
            for number in 0..switches {
                let started = Instant::now();
                program::switch(process_id, "off");
                longest = longest.max(started.elapsed());
                thread::sleep(Duration::from_millis(number * 7 % 50));
                program::switch(process_id, "on");
                thread::sleep(Duration::from_millis(number * 31 % 150));
            }
            longest
        });
        writers::compact(&mut node, &is_over);
        switcher.join().expect("switcher")
    });
    writers::joined(&client, writers);
    writers::joined(&client, readers);
    // The rows that are read now are in SSTables, not in memory.
    nodetool(&mut node, &["flush", KEYSPACE]);
    files::make_cold(&files::data(&node, None));
    writers::check(&client, &ledger);
    steady::check(&client);
    nodetool(
        &mut node,
        &["verify", "--force", "--extended-verify", KEYSPACE],
    );
    scene::assert_log_clean(&node.log());
    let counters = Counters::of(process_id);
    counters.assert_at_work(&format!(
        "{}, switched off and on {switches} times, {} writes acknowledged and all there; the longest \
         off took {longest:?}",
        scene.version(),
        ledger.writes(),
    ));
    assert!(counters.get("switch_requests") >= 2 * switches);
    for name in ["fallback_switched_off", "handover_sstables"] {
        assert!(counters.get(name) > 0, "{name} is 0");
    }
    // The short form writes about ten SSTables. None of them may be staged at such a moment.
    assert!(!scene::long() || counters.get("staging_ended_switched_off") > 0);
    node.stop().unwrap_or_else(|error| panic!("{error}"));
}
