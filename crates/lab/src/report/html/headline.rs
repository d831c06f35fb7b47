//! The verdict on a page: tiles, table and sentences.

use super::legend::{class, swatch};
use crate::report::data::{CaseReport, Report};
use crate::report::figures::{figure, unbroken};
use crate::report::picture::Slot;
use crate::report::verdict::{CaseVerdict, Cell, Column, Measure, column};
use crate::summary::{Certainty, Change, Spread};
use maud::{Markup, html};

/// Every case in one line each: the first mode against the one in focus.
pub fn overview(report: &Report, verdicts: &[CaseVerdict]) -> Markup {
    html! {
        div.scroll.card {
            table.overview {
                thead { tr {
                    th { "Case" } th { "p99 in compaction, µs" } th { "Tax" } th { "User writes, MiB/s" } th { "Compaction, MiB/s" }
                } }
                tbody {
                    @for (number, (case, verdict)) in report.cases.iter().zip(verdicts).enumerate() {
                        tr {
                            th { a href={ "#case-" (number) } { (case.description.title) } }
                            @for measure in [Measure::P99, Measure::Tax, Measure::UserWrites, Measure::Compaction] {
                                (overview_cell(verdict, measure))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn overview_cell(verdict: &CaseVerdict, measure: Measure) -> Markup {
    let column = column(&verdict.columns, measure);
    let Some((column, focus)) = column.zip(verdict.focus) else {
        return html! { td { @if let Some(column) = column { (figure(column.cells[0].compaction.median)) } } };
    };
    let (first, this) = (&column.cells[0], &column.cells[focus]);
    html! {
        td class=(class(this.change)) {
            (figure(first.compaction.median)) " → " (figure(this.compaction.median))
        }
    }
}

/// The modes that buy their latency, as large as the headline.
pub fn trades(report: &Report, case: &CaseReport) -> Markup {
    html! {
        @for trade in &case.trades {
            p.trade { b { (report.modes[trade.mode]) } ": " (unbroken(&trade.text)) "." }
        }
    }
}

/// The figures of the mode in focus, each against the first mode's.
pub fn tiles(report: &Report, verdict: &CaseVerdict) -> Markup {
    let Some(focus) = verdict.focus else {
        return html! {};
    };
    let tiles = [
        (Measure::P99, "p99 in compaction", " µs"),
        (Measure::Tax, "Compaction tax, p99", "×"),
        (
            Measure::ForegroundReads,
            "Device reads for the foreground",
            " MiB/s",
        ),
        (Measure::UserWrites, "User writes", " MiB/s"),
        (Measure::Compaction, "Compaction speed", " MiB/s"),
    ];
    html! {
        p.pair { (report.modes[focus]) " against " (report.modes[0]) }
        div.tiles {
            @for (measure, name, unit) in tiles {
                @if let Some(column) = column(&verdict.columns, measure) {
                    (tile(report, name, unit, column, focus))
                }
            }
        }
    }
}

fn tile(report: &Report, name: &str, unit: &str, column: &Column, focus: usize) -> Markup {
    let (first, this) = (&column.cells[0], &column.cells[focus]);
    html! {
        div.tile.card {
            p.name { (name) }
            p.value { (figure(this.compaction.median)) span { (unit) } }
            p.before {
                (figure(first.compaction.median)) (unit) " with " (report.modes[0])
            }
            p class={ "change " (class(this.change)) } {
                (difference(&first.compaction, &this.compaction, this.change))
            }
        }
    }
}

/// `−73 %, within the noise`: how the median differs, and what that proves.
fn difference(first: &Spread, this: &Spread, change: Change) -> String {
    if figure(first.median) == figure(this.median) {
        return "no difference".to_owned();
    }
    if first.median == 0.0 {
        return "not there before".to_owned();
    }
    let percent = (this.median / first.median - 1.0) * 100.0;
    let percent = match percent.round() {
        0.0 => "±0 %".to_owned(),
        below if below < 0.0 => format!("−{:.0} %", -below),
        above => format!("+{above:.0} %"),
    };
    percent + noise(change)
}

fn noise(change: Change) -> &'static str {
    match change {
        Change::Better(Certainty::WithinNoise) | Change::Worse(Certainty::WithinNoise) => {
            ", within the noise"
        }
        Change::Better(Certainty::TooFewRuns) | Change::Worse(Certainty::TooFewRuns) => {
            ", too few runs"
        }
        _ => "",
    }
}

/// The table of the verdict. On a narrow screen each mode is a card of its own: cells have their
/// heading as an attribute.
pub fn table(report: &Report, verdict: &CaseVerdict, slots: &[Slot]) -> Markup {
    html! {
        table.verdict {
            thead { tr {
                th { "Mode" }
                @for column in &verdict.columns {
                    @let (name, detail) = heading(column);
                    th { (name) small { (detail) } }
                }
            } }
            tbody {
                @for (mode, name) in report.modes.iter().enumerate() {
                    tr class=[(verdict.focus == Some(mode)).then_some("focus")] {
                        th { (swatch(slots[mode])) (name) }
                        @for column in &verdict.columns { (cell(column, &column.cells[mode])) }
                    }
                }
            }
        }
    }
}

fn heading(column: &Column) -> (&'static str, &'static str) {
    let phases = if column.has_idle() {
        "idle → in compaction, µs"
    } else {
        "in compaction, µs"
    };
    match column.measure {
        Measure::P50 => ("p50", phases),
        Measure::P99 => ("p99", phases),
        Measure::P99_9 => ("p99.9", phases),
        Measure::Tax => ("Tax", "p99"),
        Measure::ForegroundReads => ("Device reads", "for the foreground, MiB/s"),
        Measure::UserWrites => ("User writes", "MiB/s"),
        Measure::Compaction => ("Compaction", "MiB/s"),
    }
}

fn cell(column: &Column, cell: &Cell) -> Markup {
    let (name, detail) = heading(column);
    html! {
        td data-name={ (name) ", " (detail) } title=(range(&cell.compaction)) {
            @if let Some(idle) = &cell.idle {
                span.idle { (figure(idle.median)) " → " }
            }
            span class=(class(cell.change)) { (figure(cell.compaction.median)) }
        }
    }
}

fn range(spread: &Spread) -> String {
    format!("{} to {}", figure(spread.min), figure(spread.max))
}

/// A sentence for each mode but the first, and how much the comparison proves.
pub fn sentences(verdict: &CaseVerdict, number: usize) -> Markup {
    html! {
        ul.sentences {
            @for sentence in &verdict.sentences {
                li {
                    b { (sentence.mode) } ": "
                    @for clause in &sentence.clauses {
                        (clause.separator) span class=(class(clause.change)) { (clause.text) }
                    }
                    "."
                }
            }
        }
        @if let Some(evidence) = &verdict.evidence {
            p.evidence {
                @if verdict.worse.is_empty() {
                    (evidence) "."
                } @else {
                    a.worse href={ "#worse-" (number) } { (evidence) } "."
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_has_a_sign() {
        let of = |first: f64, this: f64, change| {
            difference(&Spread::of([first]), &Spread::of([this]), change)
        };
        let beyond = Change::Better(Certainty::BeyondNoise);
        assert_eq!(of(587.0, 156.0, beyond), "−73 %");
        let within = Change::Worse(Certainty::WithinNoise);
        assert_eq!(of(100.0, 104.0, within), "+4 %, within the noise");
        assert_eq!(of(1001.0, 1002.0, Change::Even), "±0 %");
        assert_eq!(of(0.001, 0.002, within), "no difference");
        assert_eq!(of(0.0, 1.0, beyond), "not there before");
    }
}
