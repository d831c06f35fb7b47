//! A node that reads its data files by mappings: Cassandra's default before 5.0. Nobody knows what is hot in the inputs,
//! so that there is no handover. Outputs stay in the page cache, as without Coldstream.

use crate::client::Client;
use crate::files::{self, KEYSPACE};
use crate::program::{self, Counters};
use crate::rows::Shape;
use crate::scene::{self, Scene, nodetool};
use scylla::statement::Consistency;

const TABLE: &str = "mapped";
const ROUNDS: i32 = 3;

#[test]
fn outputs_of_mapped_inputs_are_written_as_without_coldstream() {
    for version in scene::versions() {
        let Some(scene) = Scene::of(version) else {
            return;
        };
        for (mode, is_mapped) in [("mmap", true), ("mmap_index_only", false)] {
            let mut settings = scene::settings();
            settings.more.push(format!("disk_access_mode: {mode}"));
            let mut node = scene.start(1, &settings, &program::launch());
            let client = Client::connect(&node.cql(), Consistency::One);
            if is_mapped {
                client.create_keyspace(1);
                client.create_table(TABLE, "gc_grace_seconds = 0");
            }
            let shape = Shape { partitions: 500 };
            for round in 0..ROUNDS {
                client.write_round(TABLE, shape, round);
                nodetool(&mut node, &["flush", KEYSPACE]);
            }
            files::make_cold(&files::data(&node, Some(TABLE)));
            nodetool(&mut node, &["compact", KEYSPACE]);
            client.check(TABLE, shape, ROUNDS);
            let counters = Counters::of(node.process_id());
            let found = ["kept_cached", "write_bytes_direct"].map(|name| counters.get(name));
            let is_plain = found[0] > 0 && found[1] == 0;
            assert_eq!(is_plain, is_mapped, "{version:?}, {mode}: {found:?}");
            scene::assert_log_clean(&node.log());
            node.stop().expect("stop");
        }
    }
}
