use super::plan::SLEEP_MILLISECONDS_NEAR;
use super::*;
use crate::heat::{GROUP_BYTES, GROUP_WORDS, Heat};
use proptest::prelude::*;
use std::ops::Range;
use std::sync::atomic::AtomicU64;

const MIB: u64 = 1 << 20;

fn room(limit_mib: u64, free_bytes: u64) -> Room {
    Room {
        limit_bytes: limit_mib * MIB,
        free_bytes,
        file_bytes: None,
    }
}

#[test]
fn margins_are_read_as_they_are_written() {
    for (text, margin) in [
        ("3%", Margin::Percent(3)),
        ("25%", Margin::Percent(25)),
        ("64MiB", Margin::Bytes(64 * MIB)),
        ("1048576", Margin::Bytes(MIB)),
    ] {
        assert_eq!(Margin::from_name(text), Some(margin));
        assert_eq!(Margin::from_name(&margin.name()), Some(margin));
    }
    for wrong in ["", "%", "0%", "26%", "-1%", "3 %", "1KiB", "65GiB", "x"] {
        assert_eq!(Margin::from_name(wrong), None, "{wrong}");
    }
    assert_eq!(Margin::Percent(3).start_bytes(10 * MIB), 4 * MIB);
    assert_eq!(Margin::Percent(3).start_bytes(200 * MIB), 2 * MIB * 3);
    assert_eq!(Margin::Percent(3).start_bytes(1 << 40), 256 * MIB);
}

#[test]
fn memory_statistics_of_both_versions() {
    let v1 = "cache 1\ninactive_file 5\nactive_file 6\ndirty 1\ntotal_cache 99\n\
              total_inactive_file 4000\ntotal_active_file 3000\ntotal_dirty 500\n\
              total_writeback 100\n";
    assert_eq!(parse_clean_file_bytes(v1), Some(6400));
    let v2 = "anon 1\nfile 9000\nfile_mapped 0\nfile_dirty 1000\nfile_writeback 2000\n\
              inactive_file 4000\nactive_file 5000\n";
    assert_eq!(parse_clean_file_bytes(v2), Some(6000));
    assert_eq!(parse_clean_file_bytes("inactive_file x\n"), None);
    assert_eq!(parse_clean_file_bytes(""), None);
}

const ZONES: &str = "\
Node 0, zone      DMA
  per-node stats
      nr_inactive_file 100000
      nr_active_file 50000
      nr_dirty     1000
      nr_writeback 0
  pages free     3840
        min      18
        low      22
        high     26
        managed  3840
        protection: (0, 2978, 24080, 24080)
Node 0, zone   Normal
  pages free     90000
        low      20000
        managed  1000000
        protection: (0, 0, 0, 0)
    nr_free_pages 90000
  pagesets
    cpu: 0
              count: 7
Node 1, zone   Normal
  per-node stats
      nr_inactive_file 800000
      nr_active_file 0
  pages free     25000
        low      20000
        managed  1000000
        protection: (0, 0, 0, 0)
Node 2, zone   Normal
  per-node stats
      nr_inactive_file 0
  pages free     0
        low      0
        managed  0
Node 3, zone   Normal
  per-node stats
      nr_inactive_file 5
  pages free     20000
        low      20000
        managed  1000000
";

fn nodes(text: &str) -> Option<Room> {
    nodes_of_pages(text, 4096)
}

fn nodes_of_pages(text: &str, page_bytes: u64) -> Option<Room> {
    let margin = Margin::default();
    let mut nodes = Nodes::new(page_bytes);
    text.lines().for_each(|line| nodes.line(line, margin));
    nodes.tightest(margin)
}

#[test]
fn the_node_that_is_nearest_to_its_watermark() {
    // Node 3 is nearer, but has no pages of files that could make room.
    let expected = Room {
        limit_bytes: 1_000_000 * 4096,
        free_bytes: 5000 * 4096,
        file_bytes: Some(800_000 * 4096),
    };
    assert_eq!(nodes(ZONES), Some(expected));
    let larger = nodes_of_pages(ZONES, 64 << 10).unwrap();
    assert_eq!(larger.free_bytes, 5000 << 16);
    let (first, _) = ZONES.split_once("Node 1").unwrap();
    let expected = Room {
        limit_bytes: 1_003_840 * 4096,
        // What of the lower zone is kept for others does not count.
        free_bytes: 70_000 * 4096,
        file_bytes: Some(149_000 * 4096),
    };
    assert_eq!(nodes(first), Some(expected));
    assert_eq!(nodes(""), None);
    assert_eq!(nodes("Node x, zone\npages free\nprotection: (\nlow"), None);
}

#[test]
fn this_machine_has_a_node() {
    let Ok(text) = std::fs::read_to_string("/proc/zoneinfo") else {
        return;
    };
    let mut all = Nodes::new(4096);
    text.lines()
        .for_each(|line| all.line(line, Margin::Bytes(0)));
    let room = all.tightest(Margin::Bytes(0)).unwrap();
    assert!(room.limit_bytes > 64 * MIB && room.free_bytes < room.limit_bytes);
}

#[test]
fn dropping_begins_at_one_margin_and_ends_at_another() {
    let mut plan = Plan::new(Margin::Percent(5));
    let look = |plan: &mut Plan, now, free_mib| {
        let room = room(200, free_mib * MIB);
        let dropped = if plan.is_dropping() { 1 << 40 } else { 0 };
        // The rate is another test's.
        plan.last = None;
        plan.look(now, room, 0.0, dropped).drop_bytes / MIB
    };
    assert_eq!(look(&mut plan, 0, 100), 0);
    assert_eq!(look(&mut plan, 1, 11), 0);
    assert_eq!(look(&mut plan, 2, 9), 11);
    assert_eq!(
        look(&mut plan, 3, 15),
        5,
        "until the second margin is reached"
    );
    assert_eq!(look(&mut plan, 4, 20), 0);
    assert_eq!(
        look(&mut plan, 5, 15),
        0,
        "and not again before the first one"
    );
}

#[test]
fn sleep_is_long_far_from_the_limit_and_short_near_it() {
    let mut plan = Plan::new(Margin::default());
    let far = plan.look(0, room(1000, 900 * MIB), 0.0, 0);
    assert_eq!(far.sleep_milliseconds, SLEEP_MILLISECONDS_MAX);
    let near = plan.look(0, room(100, 6 * MIB), 0.0, 0);
    assert_eq!(near.sleep_milliseconds, SLEEP_MILLISECONDS_NEAR);
    let below = plan.look(0, room(100, MIB), 0.0, 0);
    assert_eq!(below.sleep_milliseconds, SLEEP_MILLISECONDS_MIN);
    assert!(below.drop_bytes > 0);
}

#[test]
fn what_fills_faster_is_looked_at_sooner_and_kept_freer() {
    let mut plan = Plan::new(Margin::default());
    plan.look(0, room(1000, 900 * MIB), 0.0, 0);
    // 100 MiB in 100 ms.
    let fast = plan.look(100, room(1000, 800 * MIB), 0.0, 0);
    assert!((300..=400).contains(&fast.sleep_milliseconds), "{fast:?}");
    let (start, _) = plan.margins(&room(1000, 0), 0.0);
    assert!(start > 55 * MIB, "{start}");
    for now in 2..60 {
        plan.look(now * 100, room(1000, 800 * MIB), 0.0, 0);
    }
    assert_eq!(
        plan.margins(&room(1000, 0), 0.0).0,
        Margin::default().start_bytes(1000 * MIB)
    );
}

#[test]
fn pressure_widens_the_margins() {
    let plan = Plan::new(Margin::default());
    let room = room(1000, 0);
    let start = |pressure| plan.margins(&room, pressure).0;
    assert_eq!(start(0.9), 1000 * MIB / 100 * 3);
    assert_eq!(start(1.0), 2 * start(0.0));
    assert_eq!(start(10.0), 4 * start(0.0));
}

#[test]
fn of_few_cached_pages_half_stays() {
    let mut plan = Plan::new(Margin::default());
    let few = Room {
        file_bytes: Some(MIB),
        ..room(1000, 0)
    };
    assert_eq!(plan.look(0, few, 0.0, 0).drop_bytes, MIB / 2);
}

#[test]
fn time_in_vain_is_limited_and_time_well_spent_less_so() {
    let mut budget = Budget::default();
    budget.earn(u64::MAX);
    assert_eq!(budget.spend(20_000_000, 0), 0, "was saved up");
    assert!(budget.is_left());
    assert_eq!(budget.spend(1_000_000, 0), 256);
    assert!(!budget.is_left());
    budget.earn(256_000_000);
    assert!(budget.is_left());
    assert_eq!(budget.spend(1_000_000, 4 * MIB), 3);
    assert!(budget.is_left());
    assert_eq!(budget.spend(1 << 40, 0), 1024, "and no more");
}

#[test]
fn the_hand_turns_once_for_each_level_and_goes_on_where_it_stopped() {
    let files = [3, 5, 9];
    let next = |from: usize| files.into_iter().find(|slot| *slot >= from);
    let mut hand = Hand::new(10);
    let mut seen = Vec::new();
    while hand.next_file(next) {
        seen.push((hand.extent().slot, hand.extent().level));
        assert!(seen.len() < 100);
    }
    for level in [Level::Untouched, Level::Cold, Level::Faded] {
        for slot in files {
            assert!(seen.contains(&(slot, level)), "{slot} {level:?} {seen:?}");
        }
    }
    hand.begin();
    assert!(hand.next_file(next));
    let stopped = hand.extent().slot;
    hand.begin();
    assert!(hand.next_file(next));
    assert_ne!(hand.extent().slot, stopped);
    // A level in which something is found gets another turn.
    let mut hand = Hand::new(10);
    for _ in 0..20 {
        assert!(hand.next_file(next));
        hand.record_found();
        assert_eq!(hand.extent().level, Level::Untouched);
    }
    let mut none = Hand::new(10);
    let turns = (0..100).take_while(|_| none.next_file(|_| None)).count();
    assert!(turns < 10, "{turns}");
}

fn memory() -> Vec<AtomicU64> {
    (0..512 * GROUP_WORDS).map(|_| AtomicU64::new(0)).collect()
}

#[test]
fn the_page_where_a_read_ends_stays_with_the_one_where_it_begins() {
    let memory = memory();
    let heat = Heat::new(&memory).unwrap();
    heat.touch(1, GROUP_BYTES - 1000, 4000, 0);
    let mut runs = Vec::new();
    let needed = |_: &Range<u64>| false;
    cold_runs(&heat, 1, 0..3 * GROUP_BYTES, 0, 0, needed, |run| {
        runs.push(run)
    });
    let [run] = runs.as_slice() else {
        panic!("{runs:?}");
    };
    assert_eq!(*run, GROUP_BYTES + 4096..3 * GROUP_BYTES);
}

proptest! {
    /// No run has a page that is too hot or needed, and every other group is in a run.
    #[test]
    fn runs_are_the_cold_groups_and_no_others(
        touched in proptest::collection::vec((0_u64..40, 0_u64..56, 0_u16..6), 0..20),
        needed in 0_u64..40,
        faded in any::<bool>(),
        end_pages in 1_u64..2240,
    ) {
        let memory = memory();
        let heat = Heat::new(&memory).unwrap();
        let mut touched = touched;
        touched.sort_by_key(|(_, _, epoch)| *epoch);
        for &(group, page, epoch) in &touched {
            heat.touch(1, group * GROUP_BYTES + page * PAGE_BYTES, 1, epoch);
        }
        let now = 5;
        let level = if faded { Level::Faded } else { Level::Cold };
        let end = end_pages * PAGE_BYTES;
        let is_needed = |range: &Range<u64>| range.contains(&(needed * GROUP_BYTES));
        let mut runs = Vec::new();
        cold_runs(&heat, 1, 0..end, level.heat_max(), now, is_needed, |run| runs.push(run));
        let mut before = 0;
        for run in &runs {
            prop_assert!(run.start >= before && run.start <= run.end && run.end <= end);
            prop_assert!(run.end - run.start <= RUN_BYTES);
            before = run.end;
            for page in (run.start..run.end).step_by(PAGE_BYTES as usize) {
                prop_assert!(heat.of(1, page, now) <= level.heat_max());
                prop_assert!(page / GROUP_BYTES != needed);
            }
        }
        for &(group, page, epoch) in &touched {
            // Read in this epoch or the last one: never.
            let place = group * GROUP_BYTES + page * PAGE_BYTES;
            if epoch >= now - 1 {
                prop_assert!(!runs.iter().any(|run| run.contains(&place)));
            }
        }
        for group in 0..end.div_ceil(GROUP_BYTES) {
            let last = ((group + 1) * GROUP_BYTES).min(end) - 1;
            let is_cold = heat.hottest(1, last, now) <= level.heat_max() && group != needed;
            let is_one_page = end - group * GROUP_BYTES <= PAGE_BYTES;
            let taken = runs.iter().any(|run| run.contains(&last));
            prop_assert!(taken == is_cold || is_one_page && !taken);
        }
    }

    /// Never more than is missing, never with room enough, and time to look is never out of
    /// bounds, whatever the kernel says.
    #[test]
    fn decisions_keep_to_their_bounds(
        looks in proptest::collection::vec(
            (any::<u32>(), any::<u64>(), any::<u64>(), any::<Option<u64>>(), -1.0_f32..100.0, any::<u64>()),
            1..30,
        ),
        bytes in proptest::option::of(0_u64..1 << 36),
    ) {
        let margin = bytes.map_or(Margin::default(), Margin::Bytes);
        let mut plan = Plan::new(margin);
        for (now, limit_bytes, free_bytes, file_bytes, pressure, dropped) in looks {
            let room = Room { limit_bytes, free_bytes, file_bytes };
            let decision = plan.look(now, room, pressure, dropped);
            let (start, stop) = plan.margins(&room, pressure);
            prop_assert!(stop <= limit_bytes / 4 + 1 && start <= stop);
            prop_assert!(decision.drop_bytes <= stop.saturating_sub(free_bytes));
            prop_assert!(free_bytes < stop || !plan.is_dropping());
            prop_assert!(free_bytes >= start || plan.is_dropping());
            prop_assert!((SLEEP_MILLISECONDS_MIN..=SLEEP_MILLISECONDS_MAX)
                .contains(&decision.sleep_milliseconds));
        }
    }

    /// Whatever files come and go, a hand in vain comes to an end. On each level it passes every file that
    /// is there all the time.
    #[test]
    fn a_hand_passes_everything(
        steady in proptest::collection::btree_set(0_usize..50, 1..10),
        others in proptest::collection::vec(0_usize..50, 0..40),
    ) {
        let mut hand = Hand::new(50);
        let mut seen = std::collections::HashSet::from([(0, Level::Untouched as u8)]);
        for round in 0.. {
            let other = others.get(round).copied();
            let next = |from: usize| {
                steady.iter().copied().chain(other).filter(|slot| *slot >= from).min()
            };
            if !hand.next_file(next) {
                break;
            }
            let Extent { slot, level, .. } = hand.extent();
            seen.insert((slot, level as u8));
            prop_assert!(round < 1000);
        }
        for slot in &steady {
            prop_assert!((0..3).all(|level| seen.contains(&(*slot, level))), "{slot}");
        }
    }
}
