//! A node that reads its data files by mappings: Cassandra's default before 5.0. Nobody knows what is hot in the inputs,
//! so there is no handover. Its compactions stay as they are without Coldstream.

use crate::client::Client;
use crate::files::KEYSPACE;
use crate::program::{self, Counters};
use crate::rows::Shape;
use crate::scene::{self, Scene, nodetool};
use scylla::statement::Consistency;

const TABLE: &str = "mapped";
const ROUNDS: i32 = 3;

#[test]
fn compactions_of_mapped_inputs_stay_as_they_are() {
    for version in scene::versions() {
        let Some(scene) = Scene::of(version) else {
            return;
        };
        let mut settings = scene::settings();
        settings.more.push("disk_access_mode: mmap".into());
        let mut node = scene.start(1, &settings, &program::launch());
        let client = Client::connect(&node.cql(), Consistency::One);
        client.create_keyspace(1);
        client.create_table(TABLE, "gc_grace_seconds = 0");
        let shape = Shape { partitions: 500 };
        for round in 0..ROUNDS {
            client.write_round(TABLE, shape, round);
            nodetool(&mut node, &["flush", KEYSPACE]);
        }
        nodetool(&mut node, &["compact", KEYSPACE]);
        client.check(TABLE, shape, ROUNDS);
        let counters = Counters::of(node.process_id());
        let names = ["kept_cached", "write_bytes_direct", "priority_threads"];
        let found = names.map(|name| counters.get(name));
        let [kept, direct_bytes, lowered_threads] = found;
        assert!(kept > 0, "{version:?}: {found:?}");
        assert_eq!((direct_bytes, lowered_threads), (0, 0), "{version:?}");
        scene::assert_log_clean(&node.log());
        node.stop().expect("stop");
    }
}
