//! The rest of the page: rows that became worse, and what is folded.

use super::legend::{class, legend};
use crate::phase::Phase;
use crate::report::data::{CaseReport, Report};
use crate::report::figures::{count, spread};
use crate::report::picture::{Slot, TIMELINES, percentiles, timeline};
use crate::report::verdict::{CaseVerdict, WorseRow};
use crate::summary::{Change, Row};
use maud::{Markup, html};

/// The rows that are worse beyond the noise. Never folded.
pub fn worse(report: &Report, verdict: &CaseVerdict, number: usize) -> Markup {
    html! {
        @if !verdict.worse.is_empty() {
            div.loss.card id={ "worse-" (number) } {
                h3 { "Worse than " (report.modes[0]) " beyond the noise" }
                (worse_table(report, &verdict.worse))
            }
        }
    }
}

fn worse_table(report: &Report, rows: &[WorseRow]) -> Markup {
    html! {
        div.scroll {
            table.rows {
                thead { tr { th { "Figure" } th { "Mode" } th { (report.modes[0]) } th { "This mode" } } }
                tbody {
                    @for row in rows {
                        tr {
                            th { (row.name) }
                            td { (row.mode) }
                            td { (spread(&row.first)) }
                            td { (spread(&row.this)) }
                        }
                    }
                }
            }
        }
    }
}

/// What most readers do not need.
pub fn folded(report: &Report, case: &CaseReport, verdict: &CaseVerdict, slots: &[Slot]) -> Markup {
    html! {
        @if !verdict.worse_within_noise.is_empty() {
            details {
                summary {
                    "Worse, but within the noise or of too few runs"
                    span.count { (count(verdict.worse_within_noise.len(), "figure")) }
                }
                (worse_table(report, &verdict.worse_within_noise))
            }
        }
        details {
            summary { "All figures" span.count { (count(case.rows.len(), "row")) } }
            (all_rows(report, case))
        }
        details {
            summary { "More pictures" }
            (legend(&report.modes, slots))
            p.hint { "A bar at the top of a picture marks the compaction of each mode." }
            div.panels {
                @for panel in percentiles(&case.runs, slots, &[Phase::After]) { figure.card { (panel) } }
                @for picture in TIMELINES.iter().filter_map(|it| timeline(it, &case.runs, slots)) {
                    figure.card { (picture) }
                }
            }
        }
    }
}

/// Every row, by phase: median (smallest–largest). A row explains itself where the pointer rests.
fn all_rows(report: &Report, case: &CaseReport) -> Markup {
    let phases = std::iter::once(None).chain(Phase::COUNTED.map(Some));
    html! {
        p.hint { "Median (smallest–largest). The explanation of a row is below its name." }
        div.scroll {
            table.rows.all {
                thead { tr { th { "Figure" } @for mode in &report.modes { th { (mode) } } } }
                @for phase in phases {
                    @let rows: Vec<&Row> = case.rows.iter().filter(|row| row.phase == phase).collect();
                    @if !rows.is_empty() {
                        tbody {
                            tr.phase { th colspan=(report.modes.len() + 1) {
                                (phase.map_or("whole run", Phase::name))
                            } }
                            @for row in rows { (row_cells(row)) }
                        }
                    }
                }
            }
        }
    }
}

fn row_cells(row: &Row) -> Markup {
    html! {
        tr {
            th { (row.name) small { (row.explanation) } }
            @for (mode, figures) in row.modes.iter().enumerate() {
                @let change = row.change(mode);
                td class={ (class(change)) @if matches!(change, Change::Worse(_)) { " loses" } } {
                    (spread(figures))
                }
            }
        }
    }
}

/// The measurement itself: notes, options, lines of the library.
pub fn about(report: &Report) -> Markup {
    let machine = &report.machine;
    let notes = report.limitations.len() + machine.reclaimers.len();
    let parameters = serde_json::to_string_pretty(&report.parameters).unwrap_or_default();
    html! {
        details {
            summary {
                "About this measurement"
                @if notes > 0 { span.count { (count(notes, "note")) } }
            }
            ul {
                @for note in &report.limitations { li { (note) } }
                @for reclaimer in &machine.reclaimers { li { "Reclaimer found: " (reclaimer) } }
            }
            p { "Coldstream " (report.version) ", " (report.begun) ". Load: " (report.load) "." }
            h3 { "Options" }
            pre { (parameters) }
            @for case in &report.cases {
                @for (mode, runs) in report.modes.iter().zip(&case.runs) {
                    @if let Some(run) = runs.last().filter(|run| !run.library_log.is_empty()) {
                        h3 { "Log of Coldstream's library: " (case.description.title) ", " (mode) ", last run" }
                        pre { (run.library_log.join("\n")) }
                    }
                }
            }
        }
    }
}
