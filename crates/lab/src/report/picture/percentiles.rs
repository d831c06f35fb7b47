//! Service time by percentile. The horizontal axis is logarithmic in the share of reads above a
//! percentile, so that each nine takes the same room.

use super::axis::{Axis, time_label};
use super::colours::Slot;
use crate::phase::Phase;
use crate::run_report::RunReport;
use crate::summary::Spread;
use maud::{Markup, html};

/// A curve: number of nines of a percentile, and service time in µs.
pub type Points = Vec<(f64, f64)>;

/// Nines of the percentiles with a label, and of the edges.
pub const TICKS: [(f64, &str); 5] = [
    (0.301, "p50"),
    (1.0, "p90"),
    (2.0, "p99"),
    (3.0, "p99.9"),
    (4.0, "p99.99"),
];

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = WIDTH - 22.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = HEIGHT - 28.0;

/// A panel for each of these phases that any run had. All have the same axes, so that the eye can compare them.
pub fn percentiles(runs: &[Vec<RunReport>], slots: &[Slot], phases: &[Phase]) -> Vec<Markup> {
    let curves: Vec<Vec<Points>> = (phases.iter())
        .map(|phase| runs.iter().map(|runs| median_curve(runs, *phase)).collect())
        .collect();
    let points = curves.iter().flatten().flatten().filter(is_visible);
    let values = points.map(|(_, us)| *us);
    let time = Axis::logarithmic(values, (BOTTOM, TOP));
    (phases.iter().zip(&curves))
        .filter(|(_, curves)| curves.iter().any(|curve| !curve.is_empty()))
        .map(|(phase, curves)| panel(*phase, curves, slots, &time))
        .collect()
}

fn panel(phase: Phase, curves: &[Points], slots: &[Slot], time: &Axis) -> Markup {
    let title = match phase {
        Phase::Idle => "Idle",
        Phase::Compaction => "In compaction",
        Phase::After => "After publication",
        phase => phase.name(),
    };
    let nines = axis((LEFT, RIGHT));
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img"
            aria-label={ "Service time by percentile: " (title) } {
            text class="title" x=(LEFT) y="18" { (title) }
            @for tick in time.ticks() {
                @let y = round(time.position(tick));
                line class="grid" x1=(LEFT) x2=(RIGHT) y1=(y) y2=(y) {}
                text class="label end" x=(LEFT - 8.0) y=(y + 4.0) { (time_label(tick)) }
            }
            @for (tick, name) in TICKS {
                @let x = round(nines.position(tick));
                line class=(if tick == 2.0 { "grid strong" } else { "grid" })
                    x1=(x) x2=(x) y1=(TOP) y2=(BOTTOM) {}
                text class="label middle" x=(x) y=(BOTTOM + 18.0) { (name) }
            }
            // The first mode and the one in focus are drawn above the others.
            @for (curve, slot) in curves.iter().zip(slots).rev() {
                polyline class="curve" style={ "stroke:" (slot.in_page()) }
                    points=(polyline(curve, &nines, time)) {}
            }
        }
    }
}

/// The horizontal axis at these positions.
pub fn axis(positions: (f64, f64)) -> Axis {
    Axis::between(TICKS[0].0, TICKS[4].0, positions)
}

/// Whether the horizontal axis reaches this point.
pub fn is_visible((nines, _): &&(f64, f64)) -> bool {
    *nines >= TICKS[0].0 - 0.01
}

/// The points of a curve, as SVG writes them.
pub fn polyline(points: &[(f64, f64)], x: &Axis, y: &Axis) -> String {
    let points = points.iter().filter(is_visible).map(|(nines, us)| {
        let (x, y) = (x.position(*nines), y.position(*us));
        format!("{},{}", round(x), round(y))
    });
    points.collect::<Vec<_>>().join(" ")
}

/// A position with one decimal: more is noise in the file.
pub fn round(position: f64) -> f64 {
    (position * 10.0).round() / 10.0
}

/// Median over the runs at each percentile.
pub fn median_curve(runs: &[RunReport], phase: Phase) -> Points {
    let curves: Vec<&Points> = runs
        .iter()
        .filter_map(|run| run.phase(phase).map(|report| &report.curve))
        .collect();
    let points = curves.iter().map(|curve| curve.len()).min().unwrap_or(0);
    (0..points)
        .map(|point| {
            let quantile = curves[0][point].0;
            let us = Spread::of(curves.iter().map(|curve| curve[point].1)).median;
            (-(1.0 - quantile).log10(), us)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::colours::slots;
    use super::*;
    use crate::report::fixture;

    #[test]
    fn a_curve_is_the_median_of_the_runs() {
        let case = fixture::case(&[(100.0, 300.0, 1.0)], 5);
        let curve = median_curve(&case.runs[0], Phase::Compaction);
        let (nines, us) = curve[20];
        assert!(
            (nines - 2.0).abs() < 1e-9 && (us - 225.0).abs() < 1e-6,
            "{nines} {us}"
        );
        assert!(median_curve(&[], Phase::Idle).is_empty());
    }

    #[test]
    fn every_mode_is_in_every_panel() {
        let case = fixture::case(&[(67.0, 203.0, 1.0), (67.0, 103.0, 1.0)], 4);
        let phases = [Phase::Idle, Phase::Compaction];
        let panels = percentiles(&case.runs, &slots(2, Some(1)), &phases);
        assert_eq!(panels.len(), 2);
        for panel in &panels {
            let svg = &panel.0;
            assert_eq!(svg.matches("<polyline").count(), 2);
            assert!(svg.contains("var(--mode-0)") && svg.contains("var(--mode-1)"));
        }
        let labels = |svg: &str| svg.matches("class=\"label end\"").count();
        assert_eq!(labels(&panels[0].0), labels(&panels[1].0), "the same axes");
    }
}
