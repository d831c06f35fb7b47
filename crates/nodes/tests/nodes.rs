//! Real nodes start, answer, survive a kill, and stop. The short form runs 5.0.9, `COLDSTREAM_LONG=1` all
//! releases.

use coldstream_nodes::{Distribution, Launch, Node, NodeError, Settings, Version};
use coldstream_testkit::skip;
use std::net::TcpListener;
use std::sync::{Mutex, PoisonError};

fn versions() -> Vec<Version> {
    if std::env::var_os("COLDSTREAM_LONG").is_some() {
        Version::ALL.to_vec()
    } else {
        vec![Version::V5_0]
    }
}

/// A release; `None` where there is no JDK or Maven.
fn obtain(version: Version) -> Option<Distribution> {
    // Tests of one process would fetch a release into the same directory.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let cache = Distribution::default_cache();
    match Distribution::obtain(version, &cache, &mut |text| eprintln!("{text}")) {
        Ok(distribution) => Some(distribution),
        Err(error @ (NodeError::NoJava { .. } | NodeError::NoMaven { .. })) => {
            skip(error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn nobody_else_is_taken_for_the_node() {
    let Some(distribution) = obtain(Version::V5_0) else {
        return;
    };
    let address = "127.77.2.1";
    let _somebody = TcpListener::bind((address, 9042)).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let node = Node::start(
        &distribution,
        &Settings::default(),
        directory.path(),
        address,
        address,
        &Launch::default(),
    );
    assert!(
        matches!(node, Err(NodeError::AddressInUse { .. })),
        "{node:?}"
    );
}

#[test]
fn a_node_starts_answers_is_killed_and_starts_again() {
    for version in versions() {
        let Some(distribution) = obtain(version) else {
            return;
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
        // It collected garbage before it served.
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
