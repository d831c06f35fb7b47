//! The report as one HTML page: no script, no font, no picture from anywhere else.

use super::data::{CaseReport, Report};
use super::figures::{row_name, spread};
use super::verdict::verdict;
use crate::phase::Phase;
use crate::run_report::{RunReport, Second};
use crate::summary::{Certainty, Change, Spread};
use anyhow::{Result, anyhow};
use plotters::prelude::*;
use std::fmt::Write;

const STYLE: &str = "
:root { color-scheme: light dark; --back: #fff; --text: #1b1f24; --line: #d5dae0; --good: #1a7f37; --bad: #c62828; --noise: #9a6700; }
@media (prefers-color-scheme: dark) { :root { --back: #16191d; --text: #e6e9ec; --line: #3a4048; --good: #4cc26a; --bad: #ff7b72; --noise: #d9a53a; } }
body { background: var(--back); color: var(--text); font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; }
th, td { border-bottom: 1px solid var(--line); padding: .2rem .7rem; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.wins { color: var(--good); } .loses { color: var(--bad); font-weight: 600; } .noise { color: var(--noise); }
.chart { background: #fff; border: 1px solid var(--line); border-radius: 6px; margin: .8rem 0; overflow-x: auto; }
.chart svg { display: block; max-width: 100%; height: auto; }
";

const COLOURS: [RGBColor; 8] = [
    RGBColor(90, 98, 110),
    RGBColor(217, 119, 6),
    RGBColor(37, 99, 235),
    RGBColor(5, 150, 105),
    RGBColor(190, 24, 93),
    RGBColor(124, 58, 237),
    RGBColor(14, 116, 144),
    RGBColor(132, 78, 20),
];

fn colour(mode: usize) -> RGBColor {
    COLOURS[mode % COLOURS.len()]
}

/// Escapes text for HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// The whole page.
pub fn page(report: &Report) -> Result<String> {
    let mut page = String::new();
    let machine = &report.machine;
    write!(
        page,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>Coldstream: compaction tax of {engine}</title><style>{STYLE}</style></head><body>\
         <h1>Compaction tax of {engine}</h1>\
         <p>Linux {kernel}, {processors}, {filesystem}, {device}; MGLRU {mglru}. {load}; {runs} runs of each mode in turn, \
         medians with the smallest and the largest.</p>",
        engine = escape(&report.engine),
        kernel = escape(&machine.kernel),
        processors = machine.processors(),
        filesystem = escape(&machine.filesystem),
        device = machine.device.as_ref().map_or_else(
            || "no block device".into(),
            |device| escape(&format!(
                "{}, read_ahead_kb {}",
                device.name, device.read_ahead_kb
            ))
        ),
        mglru = escape(&machine.multi_generational_lru),
        load = escape(&report.load),
        runs = report.runs,
    )?;
    let notes = report.limitations.iter().chain(&machine.reclaimers);
    let notes: Vec<String> = notes
        .map(|note| format!("<li>{}</li>", escape(note)))
        .collect();
    if !notes.is_empty() {
        write!(page, "<h2>Notes</h2><ul>{}</ul>", notes.concat())?;
    }
    for case in &report.cases {
        case_section(&mut page, report, case)?;
    }
    page.push_str("</body></html>\n");
    Ok(page)
}

fn case_section(page: &mut String, report: &Report, case: &CaseReport) -> Result<()> {
    write!(
        page,
        "<h2>{}</h2><p>{}.</p>",
        escape(&case.description.title),
        escape(&case.description.text)
    )?;
    let verdict = verdict(&report.modes, case);
    write!(page, "<p>{}</p><ul>", escape(&verdict.headline))?;
    for row in verdict.worse.iter().chain(&verdict.worse_within_noise) {
        write!(
            page,
            "<li>{}: {}</li>",
            escape(&row.mode),
            escape(&row.text)
        )?;
    }
    page.push_str("</ul>");
    for phase in Phase::COUNTED {
        chart(page, &percentile_curves(report, case, phase)?)?;
    }
    for (title, of) in TIMELINES {
        let seconds = case.runs.iter().flatten().flat_map(|run| &run.timeline);
        // What an engine's laboratory does not sample.
        if seconds.map(of).all(|value| value == 0.0) {
            continue;
        }
        chart(page, &timeline(report, case, title, of)?)?;
    }
    table(page, report, case)
}

fn chart(page: &mut String, svg: &str) -> Result<()> {
    write!(page, "<div class=\"chart\">{svg}</div>")?;
    Ok(())
}

fn table(page: &mut String, report: &Report, case: &CaseReport) -> Result<()> {
    page.push_str("<table><tr><th></th>");
    for mode in &report.modes {
        write!(page, "<th>{}</th>", escape(mode))?;
    }
    page.push_str("</tr>");
    for row in &case.rows {
        write!(page, "<tr><td>{}</td>", escape(&row_name(row)))?;
        for (mode, figures) in row.modes.iter().enumerate() {
            let class = match row.change(mode) {
                _ if mode == 0 => "",
                Change::Better(Certainty::BeyondNoise) => "wins",
                Change::Worse(Certainty::BeyondNoise) => "loses",
                Change::Worse(_) => "noise",
                Change::Better(_) | Change::Even => "",
            };
            write!(page, "<td class=\"{class}\">{}</td>", spread(figures))?;
        }
        page.push_str("</tr>");
    }
    page.push_str("</table>");
    Ok(())
}

/// Service time by percentile: the horizontal axis is logarithmic in what is left above it, so
/// that each nine takes the same room.
fn percentile_curves(report: &Report, case: &CaseReport, phase: Phase) -> Result<String> {
    let curves: Vec<Vec<(f64, f64)>> = case
        .runs
        .iter()
        .map(|runs| median_curve(runs, phase))
        .collect();
    let top = curves
        .iter()
        .flatten()
        .map(|(_, us)| *us)
        .fold(100.0, f64::max);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (1000, 340)).into_drawing_area();
        area.fill(&WHITE).map_err(drawing)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(
                format!("Service time by percentile, {}", phase.name()),
                ("sans-serif", 18),
            )
            .margin(12)
            .x_label_area_size(34)
            .y_label_area_size(70)
            .build_cartesian_2d(0.0..4.0, (1.0..top * 1.2).log_scale())
            .map_err(drawing)?;
        chart
            .configure_mesh()
            .x_labels(5)
            .x_label_formatter(&|nines| match *nines as u32 {
                0 => "0 %".into(),
                1 => "90 %".into(),
                2 => "99 %".into(),
                3 => "99.9 %".into(),
                _ => "99.99 %".into(),
            })
            .y_desc("µs")
            .light_line_style(BLACK.mix(0.06))
            .draw()
            .map_err(drawing)?;
        for (mode, curve) in curves.iter().enumerate() {
            let points = curve.iter().map(|(nines, us)| (*nines, us.max(1.0)));
            chart
                .draw_series(LineSeries::new(points, colour(mode).stroke_width(2)))
                .map_err(drawing)?
                .label(report.modes[mode].clone())
                .legend(move |(x, y)| legend_line(x, y, mode));
        }
        legend(&mut chart)?;
        area.present().map_err(drawing)?;
    }
    Ok(svg)
}

/// Median over the runs at each quantile; the quantile as a number of nines.
fn median_curve(runs: &[RunReport], phase: Phase) -> Vec<(f64, f64)> {
    let curves: Vec<&Vec<(f64, f64)>> = runs
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

type OfSecond = fn(&Second) -> f64;

const TIMELINES: [(&str, OfSecond); 15] = [
    ("p99 of service time, µs", |second| second.p99_us),
    ("p50 of service time, µs", |second| second.p50_us),
    ("Reads that were asked for, a second", |second| {
        second.reads as f64
    }),
    ("MiB a second written to the device", |second| {
        second.rates.device_written_mib_per_second
    }),
    (
        "What pacing holds background I/O to, MiB a second; 0 is nothing",
        |second| second.rates.processes.pacing_mib_per_second,
    ),
    ("Refaults a second", |second| {
        second.rates.refaults_per_second
    }),
    (
        "Device reads of the foreground, MiB a second: what of the hot set was not in the page cache",
        |second| second.rates.foreground_read_mib_per_second,
    ),
    ("Reads of the device a second", |second| {
        second.rates.device_reads_per_second
    }),
    ("Pages dirtied a second", |second| {
        second.rates.dirty_pages_per_second
    }),
    (
        "Page cache that the compaction's inputs hold, MiB",
        |second| second.rates.inputs_cached_mib,
    ),
    ("Page cache that its outputs hold, MiB", |second| {
        second.rates.outputs_cached_mib
    }),
    // Where compaction goes around the page cache, nothing else of them is there.
    (
        "Page cache that both hold, MiB: the hot set, where compaction leaves no other",
        |second| second.rates.inputs_cached_mib + second.rates.outputs_cached_mib,
    ),
    ("Memory of no file that the database holds, MiB", |second| {
        second.rates.processes.anonymous_mib
    }),
    ("Threads of the database", |second| {
        second.rates.processes.threads
    }),
    ("Open descriptors of the database", |second| {
        second.rates.processes.descriptors
    }),
];

/// The last run of each mode, second by second, with the phases' beginnings.
fn timeline(report: &Report, case: &CaseReport, title: &str, of: OfSecond) -> Result<String> {
    let runs: Vec<&RunReport> = case.runs.iter().filter_map(|runs| runs.last()).collect();
    let seconds = || runs.iter().flat_map(|run| &run.timeline);
    let end = seconds().map(|second| second.second).fold(1.0, f64::max);
    let top = seconds().map(of).fold(1.0, f64::max);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (1000, 260)).into_drawing_area();
        area.fill(&WHITE).map_err(drawing)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(
                format!("{title}: last run of each mode; dots mark where its phases begin"),
                ("sans-serif", 16),
            )
            .margin(12)
            .x_label_area_size(34)
            .y_label_area_size(70)
            .build_cartesian_2d(0.0..end, 0.0..top * 1.1)
            .map_err(drawing)?;
        chart
            .configure_mesh()
            .x_desc("seconds since the start")
            .light_line_style(BLACK.mix(0.06))
            .draw()
            .map_err(drawing)?;
        for (mode, run) in runs.iter().enumerate() {
            let points = run
                .timeline
                .iter()
                .map(|second| (second.second, of(second)));
            chart
                .draw_series(LineSeries::new(points, colour(mode).stroke_width(2)))
                .map_err(drawing)?
                .label(report.modes[mode].clone())
                .legend(move |(x, y)| legend_line(x, y, mode));
            let beginnings = run.boundaries.iter().skip(1).map(|(_, second)| {
                Circle::new(
                    (second.min(end), top * (1.08 - 0.04 * mode as f64)),
                    3,
                    colour(mode).filled(),
                )
            });
            chart.draw_series(beginnings).map_err(drawing)?;
        }
        legend(&mut chart)?;
        area.present().map_err(drawing)?;
    }
    Ok(svg)
}

fn legend_line(x: i32, y: i32, mode: usize) -> PathElement<(i32, i32)> {
    PathElement::new(vec![(x, y), (x + 18, y)], colour(mode).stroke_width(3))
}

fn legend<'a, X, Y>(chart: &mut ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>) -> Result<()>
where
    X: plotters::coord::ranged1d::Ranged<ValueType = f64>,
    Y: plotters::coord::ranged1d::Ranged<ValueType = f64>,
{
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.2))
        .draw()
        .map_err(drawing)
}

fn drawing(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("draw a chart: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_the_page() {
        assert_eq!(
            escape("<a href=\"x\">&"),
            "&lt;a href=&quot;x&quot;&gt;&amp;"
        );
    }
}
