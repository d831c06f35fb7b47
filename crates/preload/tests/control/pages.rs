//! Hundreds of switches under load, and a status page with random content.

use crate::control::tables::STOP;
use crate::subject;
use coldstream_control::{Counter, Mechanism, Outcome, stat_field};
use coldstream_host::process::{descriptors, threads};
use coldstream_io::sys::process::futex_wake_shared;
use coldstream_testkit::library::Preload;
use coldstream_testkit::process::Running;
use coldstream_testkit::random::Random;
use coldstream_testkit::status_client::{PATIENCE, StatusClient, resident_kib};
use coldstream_testkit::{directories, long};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The most descriptors of the subject without private ones of readers. Standard streams, those of the
/// harness, an SSTable for each writer, and a private one for each.
const OWN_DESCRIPTORS: usize = 3 + 3 + 3 + 3;

fn load(directory: &TempDir) -> Running {
    let work = directory.path().join("work");
    std::fs::create_dir(&work).unwrap();
    // All I/O is direct, so that there are windows, buffers and descriptors to release.
    let preload = Preload::quiet()
        .with("COLDSTREAM_WRITES", "direct")
        .with("COLDSTREAM_STAGING_BYTES", "256KiB")
        .with("COLDSTREAM_PACING", "on")
        .with("COLDSTREAM_EVICTION", "on");
    subject::program("tables", &work, &directory.path().join("journal")).start_with(&preload)
}

fn stop(directory: &TempDir, running: Running) {
    std::fs::write(directory.path().join("work").join(STOP), "").unwrap();
    running.end().well();
}

#[test]
fn switching_for_ever_costs_nothing_but_time() {
    let directory = directories::on_disk();
    let running = load(&directory);
    let process = running.process_id();
    let mut client = StatusClient::of(process);
    let mut random = Random::new(u64::from(process));
    let measured = || (threads(process).len(), descriptors(process));
    let mut early = (0, 0);
    let mut early_kib = 0;
    let cycles = if long() { 1000 } else { 200 };
    for cycle in 0..cycles {
        let chosen: Vec<_> = Mechanism::ALL
            .into_iter()
            .filter(|_| cycle % 2 == 0 || random.below(2) == 0)
            .collect();
        assert_eq!(client.off(&chosen), Outcome::Done);
        if chosen.contains(&Mechanism::Reads) {
            // A request that was in progress may end first.
            let started = Instant::now();
            while descriptors(process) > OWN_DESCRIPTORS {
                assert!(
                    started.elapsed() < PATIENCE,
                    "private descriptors stay open"
                );
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        std::thread::sleep(Duration::from_millis(random.below(20)));
        assert_eq!(client.off(&[]), Outcome::Done);
        std::thread::sleep(Duration::from_millis(random.below(30)));
        if cycle == cycles / 4 {
            early = measured();
            early_kib = resident_kib(process);
        }
    }
    eprintln!("the longest switch took {:?}", client.longest);
    assert_eq!(client.get(Counter::SwitchRequests), 2 * cycles);
    let snapshot = client.snapshot();
    for counter in [
        Counter::BytesDirect,
        Counter::FallbackSwitchedOff,
        Counter::StagingEndedSwitchedOff,
        Counter::StagedWrites,
        Counter::EvictionWakeups,
    ] {
        assert!(snapshot.get(counter) > 0, "{counter:?} in {snapshot}");
    }
    assert_eq!(snapshot.get(Counter::FallbackPanic), 0);
    assert_eq!(snapshot.get(Counter::EvictionRefused), 0);
    let late = measured();
    assert!(
        late.0 <= early.0 + 2 && late.1 <= early.1 + 12,
        "threads and descriptors {early:?}, then {late:?}"
    );
    let late_kib = resident_kib(process);
    assert!(
        late_kib <= early_kib + (8 << 10),
        "resident KiB {early_kib}, then {late_kib}"
    );
    stop(&directory, running);
}

#[test]
fn a_page_full_of_nonsense_harms_nothing() {
    let directory = directories::on_disk();
    let running = load(&directory);
    let process = running.process_id();
    let client = StatusClient::of(process);
    // The thread starts a moment after the page appears.
    client.wait_for("coldstream-keep", |_, _| true);
    let words = client.words();
    let bell = client.page().bell().unwrap();
    let mut random = Random::new(u64::from(process) + 1);
    let started = Instant::now();
    let time = Duration::from_secs(if long() { 60 } else { 4 });
    let used_before = processor_ticks(process, "coldstream-keep");
    while started.elapsed() < time {
        for _ in 0..100 {
            let place = if random.below(2) == 0 {
                480 + random.below(16)
            } else {
                random.below(words.len() as u64)
            };
            // Often a value that is nearly valid.
            let value = random.next() >> random.below(64);
            words[place as usize].store(value, Ordering::Relaxed);
        }
        futex_wake_shared(bell);
        std::thread::sleep(Duration::from_micros(random.below(2000)));
    }
    let used = processor_ticks(process, "coldstream-keep") - used_before;
    // Ticks are hundredths of a second.
    assert!(
        used <= 10 * time.as_secs(),
        "the control thread used {used} ticks in {time:?}"
    );
    stop(&directory, running);
}

fn processor_ticks(process: u32, thread: &str) -> u64 {
    let threads = threads(process).into_iter();
    let mut named = threads.filter(|found| found.name == thread.as_bytes());
    let id = named.next().expect("the thread is there").id;
    let stat = std::fs::read(format!("/proc/{process}/task/{id}/stat")).unwrap();
    // User and system time (proc_pid_stat(5)).
    stat_field(&stat, 14).unwrap() + stat_field(&stat, 15).unwrap()
}
