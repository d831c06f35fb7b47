//! Cassandra locks its memory at its start. Coldstream's reservations stay unlocked: those that are there already, and
//! those that come with the first SSTable.

use crate::program::{self, Counters};
use crate::scene::{self, Scene, nodetool};
use coldstream_testkit::skip;
use std::fs;

/// Cassandra's log line after `mlockall(MCL_CURRENT)`.
const LOCKED: &str = "JNA mlockall successful";
/// Smaller mappings are no reservations.
const RESERVATION_KIB_MIN: u64 = 64;

/// A mapping of Coldstream's in `/proc/PID/smaps`.
#[derive(Debug, Default)]
struct Reservation {
    size_kib: u64,
    resident_kib: u64,
    locked: bool,
}

/// The mappings that core dumps leave out, and that a forked child does not get as they are.
fn reservations(smaps: &str) -> Vec<Reservation> {
    let mut found = Vec::new();
    let mut present = Reservation::default();
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        let number = |word: Option<&str>| word.and_then(|word| word.parse().ok()).unwrap_or(0);
        match words.next() {
            Some("Size:") => present.size_kib = number(words.next()),
            Some("Rss:") => present.resident_kib = number(words.next()),
            Some("VmFlags:") => {
                let flags: Vec<_> = words.collect();
                let is_ours = flags.contains(&"dd")
                    && (flags.contains(&"wf") || flags.contains(&"dc"))
                    && !flags.contains(&"io");
                present.locked = flags.contains(&"lo");
                let reservation = std::mem::take(&mut present);
                if is_ours && reservation.size_kib >= RESERVATION_KIB_MIN {
                    found.push(reservation);
                }
            }
            _ => {}
        }
    }
    found
}

#[test]
fn reservations_are_not_locked_by_a_node() {
    for version in scene::versions() {
        let Some(scene) = Scene::of(version) else {
            return;
        };
        let mut node = scene.start(1, &scene::settings(), &program::launch());
        let log = fs::read_to_string(node.log()).expect("log");
        if !log.contains(LOCKED) {
            skip(format!("{version:?}: memory cannot be locked here"));
            return;
        }
        nodetool(&mut node, &["flush"]);
        nodetool(&mut node, &["compact"]);
        let process_id = node.process_id();
        assert!(Counters::of(process_id).get("tracked_files_opened") > 0);
        let smaps = fs::read_to_string(format!("/proc/{process_id}/smaps")).expect("smaps");
        let reservations = reservations(&smaps);
        eprintln!("{version:?}: {reservations:?}");
        let size_kib: u64 = reservations.iter().map(|found| found.size_kib).sum();
        assert!(size_kib > 16 << 10, "they are there: {reservations:?}");
        assert!(
            reservations.iter().all(|found| !found.locked),
            "{reservations:?}"
        );
        node.stop().expect("stop");
    }
}
