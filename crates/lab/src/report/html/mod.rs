//! The report as one HTML page: no script, no font, no picture from anywhere else.
//!
//! It opens with the verdict, then shows the two pictures that matter, then the rows that became
//! worse beyond the noise. Everything else is folded.

mod details;
mod headline;
mod legend;

use super::data::{CaseReport, Report};
use super::figures::{count, machine_line, unbroken};
use super::picture::{Slot, p99_by_mode, percentiles, slots};
use super::verdict::{CaseVerdict, verdict};
use crate::phase::Phase;
use legend::legend;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("page.css");

/// The whole page.
pub fn page(report: &Report) -> String {
    let verdicts: Vec<CaseVerdict> = (report.cases.iter())
        .map(|case| verdict(&report.modes, case))
        .collect();
    let title = match verdicts.as_slice() {
        [only] => only.headline.clone(),
        many => format!(
            "{} under compaction: {}",
            report.engine,
            count(many.len(), "case")
        ),
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Coldstream: " (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    p.brand { "Coldstream " span { "laboratory" } }
                    h1 { (unbroken(&title)) }
                    p.lead {
                        (report.engine) ". " (report.load) ". " (machine_line(&report.machine)) ". "
                        (report.runs_of_each_mode()) " of each mode in turn; figures are medians."
                    }
                }
                main {
                    @if report.cases.len() > 1 { (headline::overview(report, &verdicts)) }
                    @for (number, (case, verdict)) in report.cases.iter().zip(&verdicts).enumerate() {
                        (section(report, case, verdict, number))
                    }
                    (details::about(report))
                }
            }
        }
    };
    page.into_string() + "\n"
}

fn section(report: &Report, case: &CaseReport, verdict: &CaseVerdict, number: usize) -> Markup {
    let slots = slots(report.modes.len(), verdict.focus);
    html! {
        section id={ "case-" (number) } {
            @if report.cases.len() > 1 {
                h2 { (case.description.title) }
                p.headline { (unbroken(&verdict.headline)) }
                (headline::trades(report, case))
                p.condition { (case.description.text) "." }
            } @else {
                (headline::trades(report, case))
                p.condition { (case.description.title) ": " (case.description.text) "." }
            }
            (headline::tiles(report, verdict))
            (headline::table(report, verdict, &slots))
            (headline::sentences(verdict, number))
            (pictures(report, case, &slots))
            (details::worse(report, verdict, number))
            (details::folded(report, case, verdict, &slots))
        }
    }
}

/// The two pictures that matter.
fn pictures(report: &Report, case: &CaseReport, slots: &[Slot]) -> Markup {
    let panels = percentiles(&case.runs, slots, &[Phase::Idle, Phase::Compaction]);
    let seconds = p99_by_mode(&report.modes, &case.runs, slots);
    html! {
        h3 { "Read latency by percentile" }
        (legend(&report.modes, slots))
        div.panels { @for panel in panels { figure.card { (panel) } } }
        @if !seconds.is_empty() {
            h3 { "p99 second by second" }
            p.hint {
                "The shaded part is the compaction. The dashed line is the p99 of the idle phase. Each \
                 panel shows the run whose p99 in compaction is the median."
            }
            div.panels { @for panel in seconds { figure.card { (panel) } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    fn two_modes(cases: usize) -> Report {
        let cases =
            (0..cases).map(|_| fixture::case(&[(67.0, 203.0, 100.0), (90.0, 103.0, 96.0)], 4));
        fixture::report(&["buffered", "coldstream"], cases.collect())
    }

    #[test]
    fn the_page_opens_with_the_verdict() {
        let page = page(&two_modes(1));
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text}"));
        let order = [
            at("<h1>Compaction raises p99 from 67.0 to 203\u{a0}µs; with Coldstream"),
            at("<table class=\"verdict\""),
            at("Read latency by percentile"),
            at("p99 second by second"),
            at("Worse than buffered beyond the noise</h3>"),
            at("<details>"),
        ];
        assert!(order.is_sorted(), "{order:?}");
        assert!(page.ends_with("</html>\n"));
    }

    #[test]
    fn the_page_has_the_runs_that_were_made() {
        let case = fixture::case(&[(67.0, 203.0, 100.0), (90.0, 103.0, 96.0)], 3);
        let page = page(&fixture::report(&["buffered", "coldstream"], vec![case]));
        assert!(page.contains("3 of 4 planned runs of each mode in turn; figures"));
    }

    #[test]
    fn a_mode_that_buys_its_latency_is_named_before_the_figures() {
        let case = || {
            let stock = ((67.0, 203.0, 100.0), 99.0);
            fixture::case_with_writes(&[stock, ((90.0, 103.0, 96.0), 30.0)], 4)
        };
        for cases in 1..=2 {
            let cases = (0..cases).map(|_| case()).collect();
            let page = page(&fixture::report(&["buffered", "coldstream"], cases));
            let trade = "<p class=\"trade\"><b>coldstream</b>: buys its latency with writes: user \
                         writes 99.0\u{a0}→\u{a0}30.0 MiB/s.</p>";
            let at = page.find(trade).unwrap_or_else(|| panic!("no {trade}"));
            assert!(at < page.find("class=\"tiles\"").unwrap());
        }
        assert!(!page(&two_modes(1)).contains("buys its latency"));
    }

    #[test]
    fn a_page_has_pictures_of_the_phases_that_there_were() {
        let case = fixture::case_without_idle(&[(67.0, 203.0, 100.0), (67.0, 103.0, 96.0)], 4);
        let page = page(&fixture::report(&["buffered", "coldstream"], vec![case]));
        assert!(page.contains("Service time by percentile: In compaction"));
        for other in [
            "percentile: Idle",
            "percentile: After",
            "second by second",
            "idle",
        ] {
            let (_, body) = page.split_once("<body>").unwrap();
            assert!(!body.contains(other), "{other}");
        }
    }

    #[test]
    fn the_page_needs_nothing_else() {
        let page = page(&two_modes(2));
        for foreign in [
            "<script", "src=", "url(", "@import", "http://", "https://", "<link",
        ] {
            assert!(!page.contains(foreign), "{foreign}");
        }
    }

    #[test]
    fn names_cannot_break_the_page() {
        let mut report = two_modes(1);
        report.modes[1] = "<a href=\"x\">&".into();
        report.engine = "<i>".into();
        let page = page(&report);
        assert!(page.contains("&lt;a href=&quot;x&quot;&gt;&amp;"));
        assert!(!page.contains("<a href=\"x\"") && !page.contains("<i>"));
    }

    #[test]
    fn several_cases_have_an_overview() {
        let page = page(&two_modes(3));
        assert!(page.contains("<h1>RocksDB 7.8.3 under compaction: 3 cases</h1>"));
        assert!(page.contains("class=\"overview\"") && page.contains("href=\"#case-2\""));
    }
}
