//! Compares the list of interposed symbols with the library's exports. It makes none of the calls: other suites
//! make most of them.

use crate::subject::calls;
use coldstream_testkit::process::Program;
use coldstream_testkit::{library, tools};
use std::collections::BTreeSet;

#[test]
fn the_library_exports_the_listed_symbols_and_no_others() {
    let Some(nm) = tools::find("nm") else { return };
    let listing = Program::new(nm)
        .arguments(["-D", "--defined-only"])
        .argument(library::path())
        .run()
        .well()
        .text();
    let exported: BTreeSet<&str> = listing
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .map(|symbol| symbol.split('@').next().unwrap_or(symbol))
        .collect();
    // By this one the C interface knows that the library is there.
    let own = ["coldstream_preloaded"];
    let interposed: BTreeSet<&str> = calls::INTERPOSED.iter().copied().chain(own).collect();
    let missing: Vec<_> = interposed.difference(&exported).collect();
    assert!(missing.is_empty(), "not exported: {missing:?}");
    let unknown: Vec<_> = exported.difference(&interposed).collect();
    assert!(
        unknown.is_empty(),
        "exported, but not listed in tests/subject/calls.rs: {unknown:?}"
    );
    let plain: Vec<_> = calls::PLAIN
        .iter()
        .filter(|symbol| exported.contains(*symbol))
        .collect();
    assert!(plain.is_empty(), "not to be interposed: {plain:?}");
}
