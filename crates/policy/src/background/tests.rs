use super::observed::SECOND_NS;
use super::simulation::{Device, MIB, Scene, run};
use super::*;
use proptest::prelude::*;

const FLOOR: u64 = 16 * MIB;

/// Each with a foreground that it can serve, and the part of the tail latency under compaction that
/// may be left.
fn devices() -> [(&'static str, Scene, f64); 4] {
    [
        ("NVMe", Scene::of(Device::nvme(), 4000), 0.6),
        ("cloud volume", Scene::of(Device::cloud(), 1000), 0.3),
        ("SATA SSD", Scene::of(Device::sata(), 2000), 0.2),
        // At the floor it still seeks to and fro.
        ("disk", Scene::of(Device::disk(), 40), 0.9),
    ]
}

/// Whatever goes on, compactions get the floor, but for what a second's border cuts off.
fn reaches(throughput: f64, floor: u64) -> bool {
    throughput >= floor as f64 * 0.9
}

#[test]
fn the_foregrounds_tail_is_shorter_on_every_device_that_saturates() {
    for (name, scene, part) in devices() {
        for threads in [2, 4] {
            let scene = Scene {
                threads,
                ..scene.clone()
            };
            let (mut plain, mut paced) = (run(&scene), run(&scene.paced(FLOOR)));
            let idle = plain.idle(990);
            let (before, after) = (plain.busy(990), paced.busy(990));
            let (fast, slow) = (plain.throughput(10..30), paced.throughput(10..30));
            println!(
                "{name}, {threads} threads: p99 idle {:.2} ms, compaction unpaced {:.2} ms at {:.0} \
                 MB/s, paced {:.2} ms at {:.0} MB/s",
                idle / 1e6,
                before / 1e6,
                fast / 1e6,
                after / 1e6,
                slow / 1e6,
            );
            assert!(
                before > 2.0 * idle,
                "{name} saturates, or this shows nothing"
            );
            assert!(
                after < part * before,
                "{name}: {before} ns, paced {after} ns"
            );
            assert!(reaches(slow, FLOOR), "{name}: {slow} bytes/s");
        }
    }
}

#[test]
fn a_device_with_room_for_both_is_not_braked() {
    let scene = Scene {
        threads: 1,
        ..Scene::of(Device::nvme(), 4000)
    };
    let (plain, paced) = (run(&scene), run(&scene.paced(FLOOR)));
    assert_eq!(paced.controller.figures().brakes, 0);
    assert_eq!(plain.moved, paced.moved);
}

#[test]
fn without_a_foreground_nothing_is_braked() {
    for (name, scene, _) in devices() {
        // It ends before compactions begin, or in the middle of them.
        for (until, seconds) in [(3, 5..30), (15, 17..30)] {
            let scene = Scene {
                reads_until_ns: until * SECOND_NS,
                // Two would seek to and fro as chance has it.
                threads: 1,
                ..scene.clone()
            };
            let (plain, paced) = (run(&scene), run(&scene.paced(FLOOR)));
            let (plain, paced) = (plain.throughput(seconds.clone()), paced.throughput(seconds));
            assert!(paced > 0.98 * plain, "{name}: {plain}, paced {paced}");
        }
    }
}

#[test]
fn compactions_that_never_rest_are_paced_too() {
    for (name, scene, part) in devices() {
        let scene = Scene {
            compaction_from_ns: 0,
            reads_from_ns: 1_000_000,
            until_ns: 60 * SECOND_NS,
            ..scene
        };
        let (mut plain, mut paced) = (run(&scene), run(&scene.paced(FLOOR)));
        let (before, after) = (plain.busy(990), paced.busy(990));
        assert!(
            after < part.max(0.7) * before,
            "{name}: {before} ns, paced {after} ns"
        );
        let slow = paced.throughput(10..60);
        assert!(reaches(slow, FLOOR), "{name}: {slow} bytes/s");
    }
}

#[test]
fn work_that_comes_in_gets_done_whatever_the_floor() {
    for (name, device, every, cost) in [
        // 179 MB/s and the flushes: near to all that it has.
        ("cloud volume", Device::cloud(), 3, 8),
        ("SATA SSD", Device::sata(), 2, 8),
        ("NVMe", Device::nvme(), 1, 8),
        // More than is thought at first.
        ("NVMe", Device::nvme(), 3, 24),
    ] {
        let scene = Scene {
            work_bytes: 0,
            flush_every_ns: Some(every * SECOND_NS),
            flush_cost: cost,
            until_ns: 240 * SECOND_NS,
            ..Scene::of(device, 500)
        };
        let paced = run(&scene.paced(FLOOR_MIN));
        let unpaced = run(&scene);
        println!(
            "{name}, {cost} times: owed at most {} MiB, at the end {}; unpaced {}, {}; {:?}",
            paced.most_owed_bytes / MIB,
            paced.owed_bytes / MIB,
            unpaced.most_owed_bytes / MIB,
            unpaced.owed_bytes / MIB,
            paced.controller.figures(),
        );
        assert!(
            unpaced.most_owed_bytes < debt::BOUND_BYTES,
            "{name} can do it"
        );
        // While it finds out what a flush costs it falls behind, but not for good.
        let factor = if cost > 8 { 4 } else { 1 };
        assert!(
            paced.most_owed_bytes < debt::BOUND_BYTES / 2 * 3 * factor,
            "{name}: {} MiB",
            paced.most_owed_bytes / MIB
        );
        assert!(
            paced.owed_bytes < debt::BOUND_BYTES / 2 * 3,
            "{name}: {} MiB",
            paced.owed_bytes / MIB
        );
        assert!(paced.debt_bytes_max <= 2 * debt::BOUND_BYTES);
    }
}

/// Latencies of `count` reads of `ns` nanoseconds.
fn reads(ns: u64, count: u32) -> Latencies {
    let mut latencies = Latencies::default();
    for _ in 0..count {
        latencies.record(ns);
    }
    latencies
}

/// Ticks every 10 ms, with two reads each and a number of bytes of background I/O.
struct Steady {
    controller: Controller,
    now_ns: u64,
}

impl Steady {
    fn go_on(&mut self, milliseconds: u64, read_ns: u64, background_bytes: u64) -> Pace {
        let mut pace = Pace::default();
        for _ in 0..milliseconds / 10 {
            self.now_ns += TICK_NS;
            let observed = Observed {
                reads: Some(&reads(read_ns, 2)),
                background_bytes,
                ..Observed::default()
            };
            pace = self
                .controller
                .tick(self.now_ns, &observed, Some(FLOOR))
                .pace;
        }
        pace
    }
}

#[test]
fn the_idle_level_follows_the_device() {
    let mut steady = Steady {
        controller: Controller::default(),
        now_ns: 0,
    };
    let near =
        |controller: &Controller, ns: u64| controller.figures().idle_ns.abs_diff(ns) < ns / 5;
    steady.go_on(1000, 100_000, 0);
    assert!(
        near(&steady.controller, 100_000),
        "{:?}",
        steady.controller.figures()
    );
    // Slower at rest: another device, or another load.
    steady.go_on(5000, 300_000, 0);
    assert!(
        near(&steady.controller, 300_000),
        "{:?}",
        steady.controller.figures()
    );
    let pace = steady.go_on(1000, 300_000, MIB);
    assert_eq!(pace.bytes_per_second, 0, "as at rest");
    // Compactions are in the way: it brakes, and the level stays for a while.
    let pace = steady.go_on(1000, 1_500_000, MIB);
    assert!(pace.bytes_per_second > 0 && pace.request_bytes == 128 << 10);
    assert!(
        near(&steady.controller, 300_000),
        "{:?}",
        steady.controller.figures()
    );
    // The floor does not help: it is not compactions, and the brake opens again.
    let pace = steady.go_on(30_000, 1_500_000, FLOOR / 100);
    assert!(
        pace.bytes_per_second == 0 || pace.bytes_per_second > FLOOR,
        "{pace:?}"
    );
    // Faster, though compactions go on.
    steady.go_on(10_000, 50_000, MIB);
    assert!(
        near(&steady.controller, 50_000),
        "{:?}",
        steady.controller.figures()
    );
}

#[test]
fn a_brake_is_not_remembered_over_a_rest() {
    let mut steady = Steady {
        controller: Controller::default(),
        now_ns: 0,
    };
    steady.go_on(1000, 100_000, 0);
    let pace = steady.go_on(1000, 5_000_000, MIB);
    assert!(pace.bytes_per_second > 0);
    steady.now_ns += 10 * SECOND_NS;
    let pace = steady.go_on(20, 100_000, MIB);
    assert_eq!(pace, Pace::default());
}

#[test]
fn a_long_sync_is_no_rest() {
    for is_sync in [true, false] {
        let mut controller = Controller::default();
        let mut now_ns = SECOND_NS;
        let work = Observed {
            background_bytes: MIB,
            compacted_bytes: MIB,
            ..Observed::default()
        };
        let flush = Observed {
            flushed_bytes: 64 * MIB,
            ..work
        };
        controller.tick(now_ns, &flush, Some(FLOOR));
        now_ns += 5 * SECOND_NS;
        let busy_until_ns = if is_sync { now_ns - TICK_NS } else { 0 };
        let after = Observed {
            busy_until_ns,
            ..work
        };
        controller.tick(now_ns, &after, Some(FLOOR));
        assert_eq!(controller.figures().debt_bytes > 0, is_sync);
    }
}

#[test]
fn reads_of_before_a_rest_are_not_taken_for_reads_at_rest() {
    for ticks in 1..=6 {
        let mut steady = Steady {
            controller: Controller::default(),
            now_ns: 0,
        };
        steady.go_on(1000, 100_000, 0);
        // Under load, and then no tick for a while: switched off, for instance.
        for _ in 0..ticks {
            steady.now_ns += TICK_NS;
            let observed = Observed {
                reads: Some(&reads(800_000, 200)),
                background_bytes: MIB,
                ..Observed::default()
            };
            steady
                .controller
                .tick(steady.now_ns, &observed, Some(FLOOR));
        }
        steady.now_ns += 10 * SECOND_NS;
        steady.go_on(20, 100_000, 0);
        let idle_ns = steady.controller.figures().idle_ns;
        assert!(idle_ns < 200_000, "{ticks} ticks: {idle_ns} ns");
    }
}

#[test]
fn work_that_is_due_is_done_in_large_requests() {
    let mut steady = Steady {
        controller: Controller::default(),
        now_ns: 0,
    };
    steady.go_on(1000, 100_000, 0);
    let pace = steady.go_on(1000, 5_000_000, MIB);
    assert_eq!(pace.request_bytes, 128 << 10);
    let observed = Observed {
        reads: Some(&reads(5_000_000, 2)),
        background_bytes: MIB,
        flushed_bytes: 1 << 30,
        ..Observed::default()
    };
    let pace = steady
        .controller
        .tick(steady.now_ns + TICK_NS, &observed, Some(FLOOR))
        .pace;
    assert_eq!(steady.controller.figures().releases, 1);
    assert_eq!(pace, Pace::default());
}

#[test]
fn a_foreground_that_reads_too_little_to_tell_is_seldom_looked_at() {
    let one = reads(100_000, 1);
    // The last of them is idle between two reads.
    for every in [10, 25, 40] {
        let mut controller = Controller::default();
        let mut is_braked = |tick: &u64| {
            let observed = Observed {
                reads: Some(&one).filter(|_| tick.is_multiple_of(every)),
                background_bytes: MIB,
                ..Observed::default()
            };
            let pace = controller.tick(tick * TICK_NS, &observed, Some(FLOOR)).pace;
            pace.bytes_per_second != 0
        };
        let braked = (1..=6000).filter(|tick| is_braked(tick)).count();
        assert!(braked < 600, "{every}: in {braked} of 6000 ticks");
    }
}

proptest! {
    /// Any events, at any time.
    #[test]
    fn it_is_never_slower_than_the_floor_and_open_when_the_foreground_is_idle(
        ticks in proptest::collection::vec(
            (
                prop_oneof![0_u64..20_000_000, 0_u64..100_000_000_000, any::<u64>()],
                proptest::collection::vec((prop_oneof![Just(MEMORY_NS), any::<u64>()], 0_u32..100), 0..3),
                prop_oneof![0_u64..1 << 26, any::<u64>()],
                prop_oneof![Just(0), 0_u64..1 << 26, any::<u64>()],
            ),
            1..300,
        ),
        floor in prop_oneof![FLOOR_MIN..1 << 30, any::<u64>()],
    ) {
        let mut controller = Controller::default();
        let mut now = 0_u64;
        for (gap, latencies, background, flushed) in ticks {
            now = now.saturating_add(gap);
            let mut reads = Latencies::default();
            for (ns, count) in latencies {
                if let Some(bucket) = latency_bucket(ns) {
                    reads.add(bucket, count);
                }
            }
            let observed = Observed {
                reads: Some(&reads),
                background_bytes: background,
                compacted_bytes: background / 2,
                flushed_bytes: flushed,
                busy_until_ns: flushed,
                processor: ProcessorTime {
                    run_ns: background,
                    wait_ns: flushed,
                },
            };
            let pace = controller.tick(now, &observed, Some(floor)).pace;
            let least = floor.clamp(FLOOR_MIN, FLOOR_MAX);
            prop_assert!(pace.bytes_per_second == 0 || pace.bytes_per_second >= least);
            let sizes = [0, 128 << 10, 256 << 10, 512 << 10];
            prop_assert!(sizes.contains(&pace.request_bytes));
            prop_assert!(controller.figures().debt_bytes <= 2 * debt::BOUND_BYTES);
        }
        // Compactions go on, but nobody reads.
        let mut pace = None;
        for _ in 0..40 {
            now = now.saturating_add(TICK_NS);
            let observed = Observed { background_bytes: MIB, ..Observed::default() };
            pace = Some(controller.tick(now, &observed, Some(floor)).pace);
        }
        prop_assert!(now == u64::MAX || pace == Some(Pace::default()));
    }
}
