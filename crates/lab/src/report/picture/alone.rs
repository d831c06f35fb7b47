//! The first picture of the report as an SVG that stands alone, for a README or a slide.
//!
//! It has no background and no colour of text that only one background allows: whoever embeds it
//! may show it on white or on black.

use super::axis::{Axis, time_label};
use super::colours::{Slot, slots};
use super::percentiles::{self, Points, TICKS, is_visible, median_curve, round};
use crate::phase::Phase;
use crate::report::data::{CaseReport, Report};
use crate::report::figures::figure;
use crate::report::verdict::verdict;
use maud::{Markup, html};

const HEIGHT: f64 = 430.0;
const LEFT: f64 = 66.0;
/// The names of the curves begin behind it.
const RIGHT: f64 = 650.0;
/// Width of a bold letter, rounded up: the picture is as wide as its longest name needs.
const LETTER_WIDTH: f64 = 7.9;
const TOP: f64 = 62.0;
const BOTTOM: f64 = HEIGHT - 44.0;

/// Visible on white and on black: contrast of at least 3.7 with both.
const TEXT: &str = "#7d858e";

/// Names of curves that end close to each other keep this distance.
const NAME_DISTANCE: f64 = 17.0;

struct Curve {
    name: String,
    slot: Slot,
    is_idle: bool,
    points: Points,
}

/// The first case: percentiles idle and in compaction, of the first mode and of the one in focus.
pub fn percentiles_alone(report: &Report) -> String {
    let Some(case) = report.cases.first() else {
        return html! { svg xmlns=(NAMESPACE) {} }.into_string();
    };
    let headline = verdict(&report.modes, case).headline;
    let curves = curves(report, case);
    let values = curves
        .iter()
        .flat_map(|curve| &curve.points)
        .filter(is_visible)
        .map(|(_, us)| *us);
    let time = Axis::logarithmic(values, (BOTTOM, TOP));
    let nines = percentiles::axis((LEFT, RIGHT));
    let letters = curves.iter().map(|curve| curve.name.chars().count()).max();
    let width = round(RIGHT + 16.0 + LETTER_WIDTH * letters.unwrap_or(0) as f64);
    let picture = html! {
        svg xmlns=(NAMESPACE) viewBox={ "0 0 " (width) " " (HEIGHT) } width=(width) height=(HEIGHT)
            role="img" aria-label=(headline) font-family="system-ui, -apple-system, 'Segoe UI', sans-serif"
            font-size="13" fill=(TEXT) {
            text x="16" y="24" font-size="16" font-weight="600" { "Read latency by percentile" }
            text x="16" y="44" { (report.engine) ", " (case.description.title) ": " (case.description.text) }
            (grid(&nines, &time))
            @for curve in &curves { (draw(curve, &nines, &time)) }
            @for mark in p99_marks(&curves, &nines, &time) { (draw_mark(&mark)) }
            @for (curve, y) in curves.iter().zip(name_positions(&curves, &time)) {
                text x=(RIGHT + 10.0) y=(round(y + 4.0)) fill=(curve.slot.alone())
                    font-weight=(if curve.is_idle { "400" } else { "600" }) { (curve.name) }
            }
        }
    };
    picture.into_string()
}

const NAMESPACE: &str = "http://www.w3.org/2000/svg";

fn curves(report: &Report, case: &CaseReport) -> Vec<Curve> {
    let focus = verdict(&report.modes, case).focus;
    let slots = slots(report.modes.len(), focus);
    let modes = std::iter::once(0).chain(focus);
    let curves = modes.flat_map(|mode| {
        [(Phase::Idle, "idle"), (Phase::Compaction, "in compaction")].map(|(phase, words)| Curve {
            name: format!("{}, {words}", report.modes[mode]),
            slot: slots[mode],
            is_idle: phase == Phase::Idle,
            points: median_curve(&case.runs[mode], phase),
        })
    });
    curves.filter(|curve| !curve.points.is_empty()).collect()
}

fn grid(nines: &Axis, time: &Axis) -> Markup {
    html! {
        g stroke=(TEXT) stroke-opacity="0.28" {
            @for tick in time.ticks() {
                @let y = round(time.position(tick));
                line x1=(LEFT) x2=(RIGHT) y1=(y) y2=(y) {}
            }
            @for (tick, _) in TICKS {
                @let x = round(nines.position(tick));
                line x1=(x) x2=(x) y1=(TOP) y2=(BOTTOM) {}
            }
        }
        @for tick in time.ticks() {
            text x=(LEFT - 8.0) y=(round(time.position(tick) + 4.0)) text-anchor="end" { (time_label(tick)) }
        }
        @for (tick, name) in TICKS {
            text x=(round(nines.position(tick))) y=(BOTTOM + 20.0) text-anchor="middle" { (name) }
        }
    }
}

fn draw(curve: &Curve, nines: &Axis, time: &Axis) -> Markup {
    let points = percentiles::polyline(&curve.points, nines, time);
    html! {
        @if curve.is_idle {
            polyline points=(points) fill="none" stroke=(curve.slot.alone()) stroke-width="2"
                stroke-dasharray="2 5" stroke-linecap="round" {}
        } @else {
            polyline points=(points) fill="none" stroke=(curve.slot.alone()) stroke-width="3"
                stroke-linecap="round" stroke-linejoin="round" {}
        }
    }
}

/// p99 of a curve.
struct Mark {
    slot: Slot,
    us: f64,
    x: f64,
    y: f64,
    /// Whether its figure stands above the curve.
    is_above: bool,
}

/// p99 in compaction. Curves rise: there is room above the upper one to its left, and below the
/// lower one to its right.
fn p99_marks(curves: &[Curve], nines: &Axis, time: &Axis) -> Vec<Mark> {
    let curves = curves.iter().filter(|curve| !curve.is_idle);
    let marks = curves.filter_map(|curve| {
        let mut points = curve.points.iter();
        let (p99, us) = *points.find(|(nines, _)| (nines - 2.0).abs() < 0.01)?;
        Some(Mark {
            slot: curve.slot,
            us,
            x: round(nines.position(p99)),
            y: round(time.position(us)),
            is_above: false,
        })
    });
    let mut marks: Vec<Mark> = marks.collect();
    marks.sort_by(|one, other| other.us.total_cmp(&one.us));
    if let Some(upper) = marks.first_mut() {
        upper.is_above = true;
    }
    marks
}

fn draw_mark(mark: &Mark) -> Markup {
    let colour = mark.slot.alone();
    let (x, y, anchor) = if mark.is_above {
        (mark.x - 10.0, mark.y - 9.0, "end")
    } else {
        (mark.x + 10.0, mark.y + 18.0, "start")
    };
    html! {
        circle cx=(mark.x) cy=(mark.y) r="4.5" fill=(colour) {}
        text x=(round(x)) y=(round(y)) text-anchor=(anchor) font-weight="600" fill=(colour) {
            (figure(mark.us)) " µs"
        }
    }
}

/// Where the names stand: at the curves' ends, but apart from each other and inside the picture.
fn name_positions(curves: &[Curve], time: &Axis) -> Vec<f64> {
    let end = |curve: &Curve| {
        curve
            .points
            .last()
            .map_or(0.0, |(_, us)| time.position(*us))
    };
    let mut order: Vec<usize> = (0..curves.len()).collect();
    order.sort_by(|one, other| end(&curves[*one]).total_cmp(&end(&curves[*other])));
    let mut positions: Vec<f64> = curves.iter().map(end).collect();
    let mut free = TOP;
    for curve in &order {
        positions[*curve] = positions[*curve].max(free);
        free = positions[*curve] + NAME_DISTANCE;
    }
    let mut free = BOTTOM;
    for curve in order.iter().rev() {
        positions[*curve] = positions[*curve].min(free);
        free = positions[*curve] - NAME_DISTANCE;
    }
    positions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn it_shows_the_first_mode_and_the_focus_alone() {
        let case = fixture::case(
            &[(67.0, 203.0, 1.0), (67.0, 150.0, 1.0), (68.0, 103.0, 1.0)],
            4,
        );
        let report = fixture::report(
            &["buffered & co", "direct-writes", "coldstream"],
            vec![case],
        );
        let svg = percentiles_alone(&report);
        assert_eq!(svg.matches("<polyline").count(), 4);
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>"));
        assert!(
            svg.contains("buffered &amp; co, idle") && svg.contains("coldstream, in compaction")
        );
        assert!(!svg.contains("direct-writes, idle") && !svg.contains("var("));
    }

    #[test]
    fn figures_stand_on_different_sides_of_their_curves() {
        let case = fixture::case(&[(67.0, 103.0, 1.0), (67.0, 203.0, 1.0)], 1);
        let report = fixture::report(&["buffered", "coldstream"], vec![case]);
        let svg = percentiles_alone(&report);
        assert!(svg.contains("text-anchor=\"end\" font-weight=\"600\" fill=\"#228be6\""));
        assert!(svg.contains("text-anchor=\"start\" font-weight=\"600\" fill=\"#e8590c\""));
    }

    #[test]
    fn names_do_not_overlap() {
        let case = fixture::case(&[(67.0, 67.5, 1.0), (67.2, 67.4, 1.0)], 1);
        let report = fixture::report(&["buffered", "coldstream"], vec![case]);
        let curves = curves(&report, &report.cases[0]);
        let time = Axis::logarithmic([10.0, 400.0].into_iter(), (BOTTOM, TOP));
        let mut positions = name_positions(&curves, &time);
        positions.sort_by(f64::total_cmp);
        assert!(positions[0] >= TOP && positions[3] <= BOTTOM);
        for pair in positions.windows(2) {
            assert!(pair[1] - pair[0] >= NAME_DISTANCE - 1e-9, "{positions:?}");
        }
    }
}
