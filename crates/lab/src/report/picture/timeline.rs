//! Figures second by second.

use super::axis::{Axis, count_label, time_label};
use super::colours::Slot;
use super::percentiles::round;
use crate::phase::Phase;
use crate::run_report::{RunReport, Second};
use crate::summary::Spread;
use maud::{Markup, html};

/// A figure of each second.
pub struct Timeline {
    /// What the picture shows, with its unit.
    pub title: &'static str,
    value: fn(&Second) -> f64,
}

const fn line(title: &'static str, value: fn(&Second) -> f64) -> Timeline {
    Timeline { title, value }
}

/// The pictures beside that of p99, which has one of its own.
pub const TIMELINES: [Timeline; 14] = [
    line("Service time p50, µs", |second| second.p50_us),
    line("Reads that the load asked for, /s", |second| {
        second.reads as f64
    }),
    line("Written to the device, MiB/s", |second| {
        second.rates.device_written_mib_per_second
    }),
    line("Limit of pacing, MiB/s; 0 is none", |second| {
        second.rates.processes.pacing_mib_per_second
    }),
    line("Refaults, /s", |second| second.rates.refaults_per_second),
    // The part of the hot set that is not in the page cache.
    line("Device reads for the foreground, MiB/s", |second| {
        second.rates.foreground_read_mib_per_second
    }),
    line("Read requests of the device, /s", |second| {
        second.rates.device_reads_per_second
    }),
    line("Pages that became dirty, /s", |second| {
        second.rates.dirty_pages_per_second
    }),
    line(
        "Page cache that the compaction's inputs hold, MiB",
        |second| second.rates.inputs_cached_mib,
    ),
    line("Page cache that its outputs hold, MiB", |second| {
        second.rates.outputs_cached_mib
    }),
    // The hot set alone, where compaction goes around the page cache.
    line("Page cache that both hold, MiB", |second| {
        second.rates.inputs_cached_mib + second.rates.outputs_cached_mib
    }),
    line("Anonymous memory of the database, MiB", |second| {
        second.rates.processes.anonymous_mib
    }),
    line("Threads of the database", |second| {
        second.rates.processes.threads
    }),
    line("Open descriptors of the database", |second| {
        second.rates.processes.descriptors
    }),
];

const WIDTH: f64 = 440.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = WIDTH - 14.0;
const TOP: f64 = 34.0;
const HEIGHT: f64 = 210.0;
const BOTTOM: f64 = HEIGHT - 24.0;

/// Bars that mark the compactions of the modes, upwards from the top of the figures.
const BAR_DISTANCE: f64 = 3.5;

/// A phase's name needs this much room.
const NAME_WIDTH_MIN: f64 = 56.0;

/// p99 over time: a panel for each mode, with the compaction phase shaded. All have the same axes.
/// It shows the run whose p99 in compaction is nearest to the median of the runs. None where the load
/// does not tell each read.
pub fn p99_by_mode(modes: &[String], runs: &[Vec<RunReport>], slots: &[Slot]) -> Vec<Markup> {
    let typical: Vec<Option<&RunReport>> = runs.iter().map(|runs| typical_run(runs)).collect();
    let seconds = || typical.iter().flatten().flat_map(|run| &run.timeline);
    if seconds().all(|second| second.p99_us == 0.0) {
        return Vec::new();
    }
    let time = Axis::logarithmic(seconds().map(|second| second.p99_us), (BOTTOM, TOP));
    let end = seconds().map(|it| it.second + 1.0).fold(1.0, f64::max);
    let x = Axis::linear(end, (LEFT, RIGHT));
    (modes.iter().zip(&typical).zip(slots))
        .filter_map(|((mode, run), slot)| Some(p99_panel(mode, (*run)?, *slot, &x, &time)))
        .collect()
}

fn p99_panel(mode: &str, run: &RunReport, slot: Slot, x: &Axis, y: &Axis) -> Markup {
    let colour = slot.in_page();
    let idle = run.phase(Phase::Idle).map(|report| report.service_us.p99);
    let values = run
        .timeline
        .iter()
        .map(|second| (second.second + 0.5, second.p99_us));
    let points: Vec<(f64, f64)> = values.collect();
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img"
            aria-label={ "p99 over time: " (mode) } {
            @for (phase, from, to) in phases(run) {
                @let (from, to) = (round(x.position(from)), round(x.position(to)));
                @if phase == Phase::Compaction {
                    rect class="shade" x=(from) y=(TOP) width=(round(to - from)) height=(BOTTOM - TOP) {}
                }
                @if to - from >= NAME_WIDTH_MIN && phase != Phase::WarmUp {
                    text class="label middle" x=(round((from + to) / 2.0)) y=(TOP + 14.0) {
                        (phase_label(phase))
                    }
                }
            }
            (grid(x, y, time_label))
            text class="title" x=(LEFT) y="18" style={ "fill:" (colour) } { (mode) }
            @if let Some(idle) = idle {
                @let at = round(y.position(idle));
                line class="reference" x1=(LEFT) x2=(RIGHT) y1=(at) y2=(at) style={ "stroke:" (colour) } {
                    title { "p99 of the idle phase" }
                }
            }
            polyline class="curve" style={ "stroke:" (colour) } points=(polyline(&points, x, y)) {}
        }
    }
}

/// A figure over time: one line a mode; bars at the top mark each mode's compaction. None where no
/// mode has it: the engine's laboratory does not sample it.
pub fn timeline(timeline: &Timeline, runs: &[Vec<RunReport>], slots: &[Slot]) -> Option<Markup> {
    let typical: Vec<Option<&RunReport>> = runs.iter().map(|runs| typical_run(runs)).collect();
    let seconds = || typical.iter().flatten().flat_map(|run| &run.timeline);
    let top = seconds().map(timeline.value).fold(0.0, f64::max);
    if top == 0.0 {
        return None;
    }
    let end = seconds().map(|it| it.second + 1.0).fold(1.0, f64::max);
    let (x, y) = (
        Axis::linear(end, (LEFT, RIGHT)),
        Axis::linear(top * 1.05, (BOTTOM, TOP + 6.0)),
    );
    let lines = (typical.iter().zip(slots).enumerate()).filter_map(|(mode, (run, slot))| {
        let run = (*run)?;
        let values = run
            .timeline
            .iter()
            .map(|it| (it.second + 0.5, (timeline.value)(it)));
        let points: Vec<(f64, f64)> = values.collect();
        let compaction = phases(run)
            .into_iter()
            .find(|(phase, ..)| *phase == Phase::Compaction);
        Some(html! {
            @if let Some((_, from, to)) = compaction {
                @let (from, to) = (x.position(from), x.position(to));
                rect x=(round(from)) y=(round(TOP - mode as f64 * BAR_DISTANCE))
                    width=(round(to - from)) height="2" style={ "fill:" (slot.in_page()) } {}
            }
            polyline class="curve thin" style={ "stroke:" (slot.in_page()) }
                points=(polyline(&points, &x, &y)) {}
        })
    });
    Some(html! {
        svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(timeline.title) {
            text class="title small" x="4" y="14" { (timeline.title) }
            (grid(&x, &y, count_label))
            @for line in lines { (line) }
        }
    })
}

fn grid(x: &Axis, y: &Axis, label: fn(f64) -> String) -> Markup {
    html! {
        @for tick in y.ticks() {
            @let at = round(y.position(tick));
            line class="grid" x1=(LEFT) x2=(RIGHT) y1=(at) y2=(at) {}
            text class="label end" x=(LEFT - 8.0) y=(at + 4.0) { (label(tick)) }
        }
        @for tick in x.ticks() {
            text class="label middle" x=(round(x.position(tick))) y=(BOTTOM + 17.0) {
                (count_label(tick)) " s"
            }
        }
    }
}

fn polyline(points: &[(f64, f64)], x: &Axis, y: &Axis) -> String {
    let points = points.iter().map(|(second, value)| {
        format!(
            "{},{}",
            round(x.position(*second)),
            round(y.position(*value))
        )
    });
    points.collect::<Vec<_>>().join(" ")
}

fn phase_label(phase: Phase) -> &'static str {
    match phase {
        Phase::After => "after",
        phase => phase.name(),
    }
}

/// The phases of a run, each with its begin and its end in seconds.
fn phases(run: &RunReport) -> Vec<(Phase, f64, f64)> {
    let begins = run.boundaries.windows(2);
    begins
        .map(|pair| (pair[0].0, pair[0].1, pair[1].1))
        .collect()
}

/// The run whose p99 in compaction is nearest to the median of the runs.
fn typical_run(runs: &[RunReport]) -> Option<&RunReport> {
    let p99 = |run: &RunReport| {
        let report = run.phase(Phase::Compaction);
        report.map_or(0.0, |report| report.service_us.p99)
    };
    let median = Spread::of(runs.iter().map(p99)).median;
    let distance = |run: &&RunReport| (p99(run) - median).abs();
    runs.iter()
        .min_by(|one, other| distance(one).total_cmp(&distance(other)))
}

#[cfg(test)]
mod tests {
    use super::super::colours::slots;
    use super::*;
    use crate::report::fixture;

    #[test]
    fn the_typical_run_is_the_one_at_the_median() {
        let mut case = fixture::case(&[(67.0, 200.0, 1.0)], 5);
        case.runs[0].rotate_left(2);
        let run = typical_run(&case.runs[0]).unwrap();
        assert!((run.phases[1].service_us.p99 - 200.0).abs() < 1e-6);
        assert!(typical_run(&[]).is_none());
    }

    #[test]
    fn each_panel_shades_its_own_compaction() {
        let modes = ["buffered".to_owned(), "coldstream".to_owned()];
        let mut case = fixture::case(&[(67.0, 203.0, 1.0), (67.0, 103.0, 1.0)], 1);
        case.runs[1][0].boundaries[3].1 = 12.0;
        let panels = p99_by_mode(&modes, &case.runs, &slots(2, Some(1)));
        let widths: Vec<&str> = (panels.iter())
            .map(|panel| {
                let shade = panel.0.split("class=\"shade\"").nth(1).unwrap();
                shade.split('"').nth(5).unwrap()
            })
            .collect();
        // 5 and 7 of 15 seconds.
        assert_eq!(widths, ["124.6", "174.5"]);
    }

    #[test]
    fn a_figure_that_is_not_sampled_has_no_picture() {
        let case = fixture::case(&[(67.0, 203.0, 1.0)], 1);
        let pictures = TIMELINES
            .iter()
            .filter_map(|it| timeline(it, &case.runs, &slots(1, None)));
        assert_eq!(pictures.count(), 2, "p50 and reads");
    }
}
