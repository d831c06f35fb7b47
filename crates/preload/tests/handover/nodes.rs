//! Where warmed pages lie on a machine with several NUMA nodes (`make test-kernel` has two).

use super::case::{SCATTERED, exact, program};
use coldstream_testkit::database::sstables;
use coldstream_testkit::library::Preload;
use coldstream_testkit::process::Program;
use coldstream_testkit::{directories, skip, tools};

/// Node and first processor of each NUMA node that has processors.
fn nodes() -> Vec<(String, String)> {
    let mut nodes = Vec::new();
    for number in 0..64 {
        let list = format!("/sys/devices/system/node/node{number}/cpulist");
        let list = std::fs::read_to_string(list).unwrap_or_default();
        let first = list.trim().split([',', '-']).next().unwrap_or_default();
        if !first.is_empty() {
            nodes.push((number.to_string(), first.to_owned()));
        }
    }
    nodes
}

/// Of a process that is bound to a node all lies there, wherever the inputs lie.
#[test]
fn warmed_pages_lie_on_the_node_of_the_process() {
    let nodes = nodes();
    if nodes.len() < 2 {
        return skip("needs two NUMA nodes");
    }
    let directory = directories::on_disk();
    let Some(program) = program(directory.path()) else {
        return;
    };
    let page_nodes = tools::compile("page_nodes.c", directory.path(), "page_nodes", &[]);
    for (node, processor) in &nodes {
        let database = directory.path().join(node);
        SCATTERED.load(&program, &database);
        let bound = ["taskset", "-c", processor].map(str::to_owned);
        SCATTERED
            .compaction(&program, &database)
            .run_under(&bound, &exact(Preload::quiet(), "on"))
            .well();
        for table in sstables(&database) {
            let there = Program::new(&page_nodes).argument(&table).run().well();
            let there = there.text();
            assert!(there.lines().count() > 100, "{table:?}: {there}");
            assert!(there.lines().all(|on| on == node), "{table:?}: {there}");
        }
    }
}
