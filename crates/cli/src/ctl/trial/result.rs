//! What a trial found: turns, both sides, and a verdict that is no guess. Pure.

use std::fmt::Write;
use std::time::Duration;

use coldstream_control::{Counter, Phase, PhaseFigures, PhaseReads, RatioEstimate, Snapshot};
use serde::Serialize;

use super::plan::Side;
use crate::ctl::values::{count, fine_duration, fine_percent, thousands};

/// From this ratio of their compactions' rates on, two sides are not alike.
const UNEVEN_TIMES: f64 = 1.5;

/// What was counted in some time.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    reads: PhaseReads,
    in_compaction: PhaseReads,
    background_bytes: u64,
    time: Duration,
}

impl Counted {
    /// What was counted between two moments.
    pub fn between(earlier: &Snapshot, later: &Snapshot, time: Duration) -> Self {
        let since = later.since(earlier);
        Self {
            reads: since.all_reads(),
            in_compaction: since.phase_reads(Phase::Compaction).clone(),
            background_bytes: since.get(Counter::BackgroundBytes),
            time,
        }
    }

    /// The sampled reads.
    pub fn reads(&self) -> &PhaseReads {
        &self.reads
    }

    fn plus(&self, other: &Self) -> Self {
        Self {
            reads: self.reads.plus(&other.reads),
            in_compaction: self.in_compaction.plus(&other.in_compaction),
            background_bytes: self.background_bytes.saturating_add(other.background_bytes),
            time: self.time + other.time,
        }
    }

    /// The sum of all.
    pub fn sum<'a>(all: impl Iterator<Item = &'a Self>) -> Self {
        all.fold(Self::default(), |sum, one| sum.plus(one))
    }
}

/// How a trial ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// All turns were made.
    Completed,
    /// The guard ended it.
    Guard,
    /// Ctrl-C or SIGTERM.
    Interrupted,
}

/// What can be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// p99 of each turn without is above that of each turn with, and the intervals of both p99 are apart.
    SlowerWithout,
    /// The other way round.
    FasterWithout,
    /// Neither: chance may have made the difference.
    NoClearDifference,
    /// Some turn has too few reads for a p99.
    TooFewReads,
    /// There were not all turns.
    Incomplete,
}

/// Everything that a trial found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pid: u32,
    mechanisms: Vec<&'static str>,
    /// How it ended.
    pub ended: Ended,
    /// Whether the switches are as before.
    pub restored: bool,
    guard_bound_ns: Option<u64>,
    /// What can be said.
    pub verdict: Verdict,
    /// p99 of device reads without, divided by p99 with.
    ratio_without_to_with: Option<RatioEstimate>,
    with: SideFigures,
    without: SideFigures,
    turns: Vec<Turn>,
}

#[derive(Clone, Debug, Serialize)]
struct SideFigures {
    turns: usize,
    seconds: f64,
    device_reads: PhaseFigures,
    device_reads_in_compaction: PhaseFigures,
    background_read_bytes_per_second: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Turn {
    side: Side,
    seconds: f64,
    device_reads: PhaseFigures,
    background_read_bytes_per_second: f64,
}

/// What a report is made of.
pub struct Found<'a> {
    /// The process.
    pub pid: u32,
    /// The names of what was switched.
    pub mechanisms: Vec<&'static str>,
    /// How it ended.
    pub ended: Ended,
    /// Whether the switches are as before.
    pub restored: bool,
    /// The bound of the guard; none if there was no turn without.
    pub guard_bound_ns: Option<u64>,
    /// The turns so far.
    pub turns: &'a [(Side, Counted)],
}

fn bytes_per_second(counted: &Counted) -> f64 {
    let seconds = counted.time.as_secs_f64();
    if seconds > 0.0 {
        counted.background_bytes as f64 / seconds
    } else {
        0.0
    }
}

fn of_side(turns: &[(Side, Counted)], side: Side) -> impl Iterator<Item = &Counted> {
    let of_side = turns.iter().filter(move |(of, _)| *of == side);
    of_side.map(|(_, counted)| counted)
}

impl Report {
    /// The report of what was found.
    pub fn of(found: Found<'_>) -> Self {
        let turns = found.turns;
        let sum = |side| Counted::sum(of_side(turns, side));
        let (with, without) = (sum(Side::With), sum(Side::Without));
        let ratio = RatioEstimate::of(without.reads.p99(), with.reads.p99());
        let figures = |side, counted: &Counted| SideFigures {
            turns: of_side(turns, side).count(),
            seconds: counted.time.as_secs_f64(),
            device_reads: PhaseFigures::of(&counted.reads),
            device_reads_in_compaction: PhaseFigures::of(&counted.in_compaction),
            background_read_bytes_per_second: bytes_per_second(counted),
        };
        Self {
            pid: found.pid,
            mechanisms: found.mechanisms,
            ended: found.ended,
            restored: found.restored,
            guard_bound_ns: found.guard_bound_ns,
            verdict: verdict(turns, found.ended, ratio),
            ratio_without_to_with: ratio,
            with: figures(Side::With, &with),
            without: figures(Side::Without, &without),
            turns: turns
                .iter()
                .map(|(side, counted)| Turn {
                    side: *side,
                    seconds: counted.time.as_secs_f64(),
                    device_reads: PhaseFigures::of(&counted.reads),
                    background_read_bytes_per_second: bytes_per_second(counted),
                })
                .collect(),
        }
    }

    /// The report for a person.
    pub fn text(&self) -> String {
        let mut text = format!(
            "process {}: {} with {}, {} without\n\n{:<28}{:>14}{:>14}\n",
            self.pid,
            count(self.with.turns as u64, "turn", "turns"),
            self.mechanisms.join(", "),
            self.without.turns,
            "",
            Side::With.name(),
            Side::Without.name()
        );
        let mut row = |label: &str, of: &dyn Fn(&SideFigures) -> String| {
            let (with, without) = (of(&self.with), of(&self.without));
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{label:<28}{with:>14}{without:>14}");
        };
        let p99 = |figures: &PhaseFigures| {
            figures
                .p99_ns
                .map_or("too few reads".to_owned(), fine_duration)
        };
        row("p99 of device reads", &|side| p99(&side.device_reads));
        row("  those in compaction", &|side| {
            p99(&side.device_reads_in_compaction)
        });
        row("timed device reads", &|side| {
            thousands(side.device_reads.device_reads)
        });
        row("reads that missed the cache", &|side| {
            fine_percent(side.device_reads.missed_percent)
        });
        row("compactions read", &|side| {
            let mib = side.background_read_bytes_per_second / 1048576.0;
            format!("{mib:.1} MiB/s")
        });
        text += "\np99 of each turn: ";
        let turns = self.turns.iter().map(|turn| {
            let name = turn.side.name();
            let reads = thousands(turn.device_reads.device_reads);
            format!("{name} {} ({reads} reads)", p99(&turn.device_reads))
        });
        text += &turns.collect::<Vec<_>>().join(", ");
        text += &format!("\n\n{}\n", self.sentence());
        text
    }

    /// The timed device reads of the turn that had the fewest.
    pub fn fewest_reads(&self) -> u64 {
        let reads = self.turns.iter().map(|turn| turn.device_reads.device_reads);
        reads.min().unwrap_or_default()
    }

    /// Which conditions of a clear difference do not hold.
    fn open_conditions(&self) -> String {
        let mut said = Vec::new();
        let spans_one = |ratio: RatioEstimate| ratio.low <= 1.0 && ratio.high >= 1.0;
        if self.ratio_without_to_with.is_some_and(spans_one) {
            said.push("The interval of the ratio contains 1.");
        }
        let p99_of = |side| {
            let turns = self.turns.iter().filter(move |turn| turn.side == side);
            turns.filter_map(|turn| turn.device_reads.p99_ns)
        };
        let (with, without) = (|| p99_of(Side::With), || p99_of(Side::Without));
        let are_apart = with().min() > without().max() || without().min() > with().max();
        if !are_apart {
            said.push("Turns with and without overlap.");
        }
        said.join(" ")
    }

    /// The verdict for a person.
    pub fn sentence(&self) -> String {
        let ratio = self.ratio_without_to_with.map_or(String::new(), |ratio| {
            let RatioEstimate {
                estimate,
                low,
                high,
            } = ratio;
            format!(
                " p99 of device reads without is {estimate:.2} times that with ({low:.2} to {high:.2})."
            )
        });
        let said = match self.verdict {
            Verdict::SlowerWithout => "Without Coldstream, device reads of this node are slower.",
            Verdict::FasterWithout => "Without Coldstream, device reads of this node are faster.",
            Verdict::NoClearDifference => {
                return format!(
                    "No clear difference: chance may have made it. {}{ratio}",
                    self.open_conditions()
                );
            }
            Verdict::Incomplete => "Not all turns were made, so there is no verdict.",
            Verdict::TooFewReads => {
                return format!(
                    "Too few reads: a p99 needs {} timed device reads in each turn. Use more --seconds, or fewer --turns.",
                    PhaseReads::READS_MIN
                );
            }
        };
        said.to_owned() + &ratio + self.uneven()
    }

    /// Words where compactions of one side read much more than those of the other.
    fn uneven(&self) -> &'static str {
        let rates = [&self.with, &self.without].map(|side| side.background_read_bytes_per_second);
        let (less, more) = (rates[0].min(rates[1]), rates[0].max(rates[1]));
        match more > less * UNEVEN_TIMES {
            true => " Compactions did not run alike on both sides: with more --seconds they would.",
            false => "",
        }
    }
}

fn verdict(turns: &[(Side, Counted)], ended: Ended, ratio: Option<RatioEstimate>) -> Verdict {
    let p99_of = |side| -> Option<Vec<u64>> {
        let turns = of_side(turns, side);
        turns
            .map(|counted| counted.reads.p99().map(|p99| p99.ns))
            .collect()
    };
    if ended != Ended::Completed {
        return Verdict::Incomplete;
    }
    let (Some(with), Some(without), Some(ratio)) =
        (p99_of(Side::With), p99_of(Side::Without), ratio)
    else {
        return Verdict::TooFewReads;
    };
    let all_above = |above: &[u64], below: &[u64]| above.iter().min() > below.iter().max();
    if ratio.low > 1.0 && all_above(&without, &with) {
        Verdict::SlowerWithout
    } else if ratio.high < 1.0 && all_above(&with, &without) {
        Verdict::FasterWithout
    } else {
        Verdict::NoClearDifference
    }
}

#[cfg(test)]
pub mod tests {
    use std::sync::atomic::AtomicU64;

    use coldstream_control::{Header, PAGE_WORDS, PageView};
    use coldstream_policy::background::latency_bucket;
    use coldstream_policy::{IoModeSetting, Profile};

    use super::*;

    /// Makes it a page without counts.
    pub fn empty_page(page: &PageView<'_>) {
        page.initialise(&Header {
            pid: 7,
            start_time_ticks: 1,
            profile: Profile::RocksDb,
            configured: IoModeSetting::Auto,
            in_force: None,
            window_bytes: 1 << 20,
            windows_in_flight: 1,
            memory_bytes: 64 << 20,
        });
    }

    fn counted(reads: u64, slow_us: u64) -> Counted {
        let words: Vec<AtomicU64> = (0..PAGE_WORDS).map(|_| AtomicU64::new(0)).collect();
        let page = PageView::new(&words).unwrap();
        empty_page(&page);
        let before = page.snapshot().unwrap();
        for number in 0..reads {
            let us = if number % 20 == 0 { slow_us } else { 100 };
            page.record_device_read(Phase::Compaction, latency_bucket(us * 1000).unwrap());
        }
        page.set(Counter::BackgroundBytes, 3 << 20);
        Counted::between(&before, &page.snapshot().unwrap(), Duration::from_secs(3))
    }

    fn report(turns: &[(Side, Counted)], ended: Ended) -> Report {
        Report::of(Found {
            pid: 7,
            mechanisms: vec!["reads", "writes"],
            ended,
            restored: true,
            guard_bound_ns: Some(1_000_000),
            turns,
        })
    }

    #[test]
    fn a_verdict_needs_all_turns_apart() {
        let turns = |of: [(u64, u64); 4]| {
            let sides = [Side::With, Side::Without, Side::Without, Side::With];
            let turns = sides.into_iter().zip(of);
            turns
                .map(|(side, (reads, us))| (side, counted(reads, us)))
                .collect::<Vec<_>>()
        };
        let clear = turns([(1000, 500), (1000, 2000), (1000, 3000), (1000, 400)]);
        let found = report(&clear, Ended::Completed);
        assert_eq!(found.verdict, Verdict::SlowerWithout);
        let text = found.text();
        for words in [
            "process 7: 2 turns with reads, writes, 2 without",
            "compactions read                 1.0 MiB/s     1.0 MiB/s",
            "timed device reads                   2,000         2,000",
            "are slower. p99 of device reads without is ",
        ] {
            assert!(text.contains(words), "{words} is not in {text}");
        }
        let json = serde_json::to_value(&found).unwrap();
        assert_eq!(json["verdict"], "slower_without");
        assert_eq!(json["turns"][1]["side"], "without");
        let cut = report(&clear, Ended::Guard);
        assert_eq!(cut.verdict, Verdict::Incomplete);
        let mixed = turns([(1000, 500), (1000, 450), (1000, 3000), (1000, 900)]);
        let mixed = report(&mixed, Ended::Completed);
        assert_eq!(mixed.verdict, Verdict::NoClearDifference);
        let sentence = mixed.sentence();
        assert!(
            sentence.contains("Turns with and without overlap."),
            "{sentence}"
        );
        let same = turns([(1000, 500), (1000, 500), (1000, 500), (1000, 500)]);
        let sentence = report(&same, Ended::Completed).sentence();
        assert!(
            sentence.contains("The interval of the ratio contains 1."),
            "{sentence}"
        );
        let few = turns([(1000, 500), (399, 2000), (1000, 3000), (1000, 400)]);
        let few = report(&few, Ended::Completed);
        assert_eq!(few.verdict, Verdict::TooFewReads);
        assert!(few.text().contains("without too few reads (399 reads)"));
        assert_eq!(few.fewest_reads(), 399);
        let mut uneven = clear.clone();
        for (side, counted) in &mut uneven {
            counted.background_bytes *= if *side == Side::With { 2 } else { 3 };
        }
        let even = report(&uneven, Ended::Completed).sentence();
        uneven[0].1.background_bytes -= 1;
        let uneven = report(&uneven, Ended::Completed).sentence();
        assert!(!even.contains("alike") && uneven.contains("did not run alike"));
        let faster = turns([(1000, 2000), (1000, 500), (1000, 400), (1000, 3000)]);
        let faster = report(&faster, Ended::Completed).verdict;
        assert_eq!(faster, Verdict::FasterWithout);
    }
}
