//! Real nodes start, answer, survive a kill and stop. Short: 5.0.9; `COLDSTREAM_LONG=1`: all.

use coldstream_nodes::{Distribution, Launch, Node, NodeError, Settings, Version};

fn versions() -> Vec<Version> {
    if std::env::var_os("COLDSTREAM_LONG").is_some() {
        Version::ALL.to_vec()
    } else {
        vec![Version::V5_0]
    }
}

#[test]
fn a_node_starts_answers_is_killed_and_starts_again() {
    for version in versions() {
        let cache = Distribution::default_cache();
        let mut progress = |text: &str| eprintln!("{text}");
        let distribution = match Distribution::obtain(version, &cache, &mut progress) {
            Ok(distribution) => distribution,
            Err(error @ (NodeError::NoJava { .. } | NodeError::NoMaven { .. })) => {
                eprintln!("skipped: {error}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let directory = tempfile::tempdir().unwrap();
        let settings = Settings {
            heap_mib: 512,
            ..Settings::default()
        };
        let start = || {
            let launch = Launch::default();
            let address = "127.77.0.1";
            Node::start(
                &distribution,
                &settings,
                directory.path(),
                address,
                address,
                &launch,
            )
            .unwrap_or_else(|error| panic!("{error}"))
        };
        let mut node = start();
        let said = node.nodetool().run(&["version"]).unwrap();
        assert!(said.contains(version.name()), "{version}: {said}");
        let said = node.nodetool().run(&["status"]).unwrap();
        assert!(said.contains("UN"), "{version}, the second command: {said}");
        // It has collected its garbage before it served.
        let pauses = node.pauses().unwrap();
        assert!(!pauses.is_empty() && pauses.is_sorted_by_key(|pause| pause.end_ns));
        let refused = node.nodetool().run(&["no-such-command"]);
        assert!(matches!(refused, Err(NodeError::Nodetool { .. })));
        node.kill();
        let mut node = start();
        assert!(node.nodetool().run(&["status"]).unwrap().contains("UN"));
        node.stop().unwrap();
    }
}
