//! Three nodes and a fourth, some under Coldstream: repair, and streams in both directions.

use crate::client::Client;
use crate::files::{self, KEYSPACE};
use crate::handover;
use crate::program::{self, Counters};
use crate::rows::Shape;
use crate::scene::{self, Scene, nodetool};
use coldstream_nodes::{Launch, Node, Settings};
use coldstream_testkit::skip;
use scylla::statement::Consistency;
use std::fs;

const TABLES: [(&str, &str); 2] = [
    (
        "shared_lz4_4",
        "compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 4}",
    ),
    ("shared_none", "compression = {'enabled': false}"),
];

/// Reads must not repair what repair has missed.
const OPTIONS: &str = "read_repair = 'NONE'";

const SHAPE: Shape = Shape { partitions: 400 };

/// The nodes under Coldstream. 2 and 3 are not.
const SUBJECT: u8 = 1;
const JOINING: u8 = 4;

struct Cluster {
    scene: Scene,
    settings: Settings,
    /// Options of `coldstream run`.
    options: &'static [&'static str],
    nodes: Vec<(u8, Node)>,
    rounds: i32,
}

impl Cluster {
    fn new(scene: Scene, settings: Settings) -> Self {
        Self {
            scene,
            settings,
            options: program::WITHOUT_GUARD,
            nodes: Vec::new(),
            rounds: 0,
        }
    }

    fn start(&mut self, number: u8) {
        let mut launch = match number {
            SUBJECT | JOINING => program::launch_with(self.options),
            _ => Launch::default(),
        };
        let mut settings = self.settings.clone();
        if number == JOINING {
            // A node that does not know the others yet would join without streaming.
            let long = "-Dcassandra.ring_delay_ms=15000".into();
            launch.java_arguments.push(long);
        } else {
            // There is nothing to stream yet, and two nodes may not join at once.
            settings.more.push("auto_bootstrap: false".into());
        }
        let node = self.scene.start(number, &settings, &launch);
        self.nodes.push((number, node));
        self.wait_until_all_are_up();
    }

    fn node(&mut self, number: u8) -> &mut Node {
        let found = self.nodes.iter_mut().find(|(other, _)| *other == number);
        &mut found.unwrap_or_else(|| panic!("node {number} is down")).1
    }

    fn stop(&mut self, number: u8) {
        let place = self.nodes.iter().position(|(other, _)| *other == number);
        let (_, node) = self.nodes.remove(place.expect("it is up"));
        node.stop().unwrap_or_else(|error| panic!("{error}"));
    }

    /// Waits until all running nodes know each other.
    fn wait_until_all_are_up(&mut self) {
        let all = self.nodes.len();
        for (number, node) in &mut self.nodes {
            scene::wait_until(&format!("node {number} sees {all} nodes up"), || {
                let said = nodetool(node, &["status"]);
                let up = said.lines().filter(|line| line.starts_with("UN")).count();
                (up == all).then_some(()).ok_or(said)
            });
        }
    }

    fn client(&mut self, consistency: Consistency) -> Client {
        Client::connect(&self.nodes[0].1.cql(), consistency)
    }

    fn flush(&mut self) {
        for (_, node) in &mut self.nodes {
            nodetool(node, &["flush", KEYSPACE]);
        }
    }

    /// A round in which only the running nodes take part.
    fn write_round(&mut self) {
        let consistency = if self.nodes.len() < 3 {
            Consistency::Quorum
        } else {
            Consistency::All
        };
        let client = self.client(consistency);
        for (table, _) in TABLES {
            client.write_round(table, SHAPE, self.rounds);
        }
        self.rounds += 1;
        self.flush();
    }

    /// Runs a command at a node. The nodes under Coldstream read cold files meanwhile.
    fn tool(&mut self, number: u8, words: &[&str]) -> String {
        for (_, node) in &self.nodes {
            files::make_cold(&files::data(node, None));
        }
        nodetool(self.node(number), words)
    }

    /// Asserts that the replicas are equal and hold what was written.
    fn check(&mut self, after: &str) {
        let said = self.tool(SUBJECT, &["repair", "--preview", "--full", KEYSPACE]);
        assert!(said.contains("in sync"), "after {after}: {said}");
        let client = self.client(Consistency::All);
        for (table, _) in TABLES {
            let found = client.check(table, SHAPE, self.rounds);
            eprintln!("{} after {after}: {table}: {found:?}", self.scene.version());
        }
        for (number, node) in &mut self.nodes {
            if matches!(*number, SUBJECT | JOINING) {
                let who = format!("node {number} after {after}");
                Counters::of(node.process_id()).report(&who);
            }
            scene::assert_log_clean(&node.log());
        }
    }

    /// The node restarts without its SSTables and streams them from the others.
    fn rebuild(&mut self, number: u8) {
        let directory = self.node(number).directory().join("data").join(KEYSPACE);
        self.stop(number);
        fs::remove_dir_all(&directory).expect("remove the tables");
        self.start(number);
        assert!(files::data(self.node(number), None).is_empty());
        self.tool(number, &["rebuild", "--keyspace", KEYSPACE]);
        assert!(!files::data(self.node(number), None).is_empty());
    }
}

#[test]
fn replicas_agree_after_repair_and_streams() {
    if !scene::long() {
        skip("a cluster takes minutes; COLDSTREAM_LONG=1");
        return;
    }
    for version in scene::versions() {
        for whole_tables in [true, false] {
            let Some(scene) = Scene::of(version) else {
                return;
            };
            eprintln!("{version}: stream_entire_sstables: {whole_tables}");
            repair_and_stream(scene, whole_tables);
        }
    }
}

fn repair_and_stream(scene: Scene, whole_tables: bool) {
    let mut settings = scene::settings();
    settings.more.extend([
        format!("stream_entire_sstables: {whole_tables}"),
        "hinted_handoff_enabled: false".into(),
    ]);
    let mut cluster = Cluster::new(scene, settings);
    for number in [SUBJECT, 2, 3] {
        cluster.start(number);
    }
    let client = cluster.client(Consistency::All);
    client.create_keyspace(3);
    for (table, options) in TABLES {
        client.create_table(table, &format!("{options} AND {OPTIONS}"));
    }
    drop(client);
    cluster.write_round();
    cluster.write_round();

    for absent in [3, SUBJECT] {
        cluster.stop(absent);
        cluster.write_round();
        cluster.start(absent);
        cluster.tool(SUBJECT, &["repair", "--full", KEYSPACE]);
        cluster.check(&format!("node {absent} missed a round and was repaired"));
    }

    // No other node can send.
    cluster.stop(2);
    cluster.rebuild(3);
    cluster.start(2);
    cluster.check("the node under Coldstream sent everything");
    let process_id = cluster.node(SUBJECT).process_id();
    let sent_bytes = Counters::of(process_id).get("sendfile_bytes");
    assert!(!whole_tables || sent_bytes > 1 << 20, "{sent_bytes} sent");

    cluster.rebuild(SUBJECT);
    cluster.check("the node under Coldstream received everything");

    cluster.start(JOINING);
    cluster.check("a node under Coldstream joined");
    for number in [SUBJECT, JOINING] {
        cluster.tool(
            number,
            &["verify", "--force", "--extended-verify", KEYSPACE],
        );
        cluster.tool(number, &["cleanup", KEYSPACE]);
        cluster.tool(number, &["compact", KEYSPACE]);
    }
    cluster.check("cleanup and compaction");
    for number in [SUBJECT, JOINING] {
        let process_id = cluster.node(number).process_id();
        Counters::of(process_id).assert_at_work(&format!("node {number}"));
    }
}

/// An incremental repair of half of the ring writes repaired and unrepaired data side by side. Both come from
/// the same SSTables, and both have their hot partitions in the page cache.
#[test]
fn hot_partitions_are_warm_on_both_sides_of_a_repair() {
    const TABLE: &str = "split";
    // The repaired range lies between two neighbouring tokens.
    const TOKENS: [(u8, &str); 2] = [
        (
            SUBJECT,
            "-9000000000000000000,-8900000000000000000,-8800000000000000000,0",
        ),
        (
            2,
            "-8700000000000000000,-8600000000000000000,-8500000000000000000,9000000000000000000",
        ),
    ];
    const REPAIR: [&str; 5] = ["repair", "-st", "0", "-et", "9000000000000000000"];
    if !scene::long() {
        skip("a cluster takes minutes; COLDSTREAM_LONG=1");
        return;
    }
    for version in scene::versions() {
        let Some(scene) = Scene::of(version) else {
            return;
        };
        let mut cluster = Cluster::new(scene, scene::settings());
        // What its thread read at the start of the node was cached.
        cluster.options = &["--writes", "direct", "--priority", "reads-first"];
        for (number, tokens) in TOKENS {
            cluster.settings = scene::settings();
            let tokens = format!("initial_token: '{tokens}'");
            cluster.settings.more.push(tokens);
            cluster.start(number);
        }
        let client = cluster.client(Consistency::All);
        client.create_keyspace(2);
        let compaction = "{'class': 'SizeTieredCompactionStrategy', 'enabled': false}";
        client.create_table(TABLE, &format!("compaction = {compaction} AND {OPTIONS}"));
        for half in 0..2 {
            handover::write(&client, TABLE, half);
            cluster.flush();
        }
        let inputs = files::data(cluster.node(SUBJECT), Some(TABLE));
        files::make_cold(&inputs);
        for _ in 0..3 {
            handover::read_hot(&client, TABLE);
        }
        cluster.tool(SUBJECT, &[&REPAIR[..], &[KEYSPACE, TABLE]].concat());

        let mut outputs = files::data(cluster.node(SUBJECT), Some(TABLE));
        outputs.retain(|output| !inputs.contains(output));
        let warm: Vec<_> = outputs.iter().map(|it| handover::warm(it)).collect();
        let who = format!("{version} {warm:?}");
        Counters::of(cluster.node(SUBJECT).process_id()).report(&who);
        let hot = |side: &handover::Warm| side.hot_partitions;
        assert_eq!(
            warm.iter().map(hot).sum::<usize>(),
            handover::hot_partitions()
        );
        assert!(
            warm.len() == 2 && warm.iter().all(|side| hot(side) > 0),
            "not split: {warm:?}"
        );
        for side in &warm {
            side.assert_exact();
        }
        scene::assert_log_clean(&cluster.node(SUBJECT).log());
    }
}
