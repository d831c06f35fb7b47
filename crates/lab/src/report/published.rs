//! Published figures of the measurement that a case repeats, beside the case's own.

use super::figures::figure;
use crate::phase::Phase;
use crate::run_report::{PhaseReport, RunReport};
use crate::summary::Spread;

/// Published figures of a case.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Published {
    /// Where, and under which conditions.
    pub source: String,
    /// One a mode.
    pub rows: Vec<PublishedRow>,
    /// What was published in words only.
    pub note: String,
}

/// Published figures of a mode.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct PublishedRow {
    /// The mode, by the name that it has here.
    pub mode: String,
    /// By column.
    pub figures: [f64; 5],
}

impl From<&(&str, [f64; 5])> for PublishedRow {
    fn from((mode, figures): &(&str, [f64; 5])) -> Self {
        Self {
            mode: (*mode).to_owned(),
            figures: *figures,
        }
    }
}

/// The heading of a column, and where its figure comes from.
type Column = (&'static str, fn(&PhaseReport) -> f64);

/// All are of the compaction phase.
const COLUMNS: [Column; 5] = [
    ("reads/s", |phase| phase.reads_per_second),
    ("p50 µs", |phase| phase.service_us.p50),
    ("p99 µs", |phase| phase.service_us.p99),
    ("p99.9 µs", |phase| phase.service_us.p99_9),
    ("p99.99 µs", |phase| phase.service_us.p99_99),
];

/// Headings of the table.
pub fn headings() -> [&'static str; 5] {
    COLUMNS.map(|(heading, _)| heading)
}

/// A line for each mode that was published or measured: its name, and `published / here` by column.
pub fn lines(
    published: &Published,
    modes: &[String],
    runs: &[Vec<RunReport>],
) -> Vec<(String, [String; 5])> {
    let rows = published.rows.iter();
    let mut names: Vec<&String> = rows.map(|row| &row.mode).collect();
    names.extend(
        modes
            .iter()
            .filter(|mode| !names.contains(mode))
            .collect::<Vec<_>>(),
    );
    let line = |name: &String| {
        let row = published.rows.iter().find(|row| row.mode == *name);
        let mode = modes.iter().position(|mode| mode == name);
        let runs = mode.and_then(|mode| runs.get(mode));
        let cells = std::array::from_fn(|column| {
            let (_, value) = COLUMNS[column];
            let there = row.map(|row| row.figures[column]);
            let here = runs.map(|runs| median(runs, value));
            format!("{} / {}", text(there), text(here))
        });
        (name.clone(), cells)
    };
    names.into_iter().map(line).collect()
}

fn median(runs: &[RunReport], value: fn(&PhaseReport) -> f64) -> f64 {
    let phases = runs.iter().filter_map(|run| run.phase(Phase::Compaction));
    Spread::of(phases.map(value)).median
}

fn text(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), figure)
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn published_and_own_figures_stand_side_by_side() {
        let published = Published {
            source: "a paper".into(),
            rows: vec![
                (&("buffered", [68_959.0, 44.8, 541.0, 2_225.0, 11_334.0])).into(),
                (&("direct-reads", [84_337.0, 38.7, 387.0, 1_645.0, 4_838.0])).into(),
            ],
            note: String::new(),
        };
        let case = fixture::case(&[(67.0, 200.0, 100.0), (67.0, 100.0, 96.0)], 1);
        let modes = ["buffered".to_owned(), "coldstream".to_owned()];
        let lines = lines(&published, &modes, &case.runs);
        let names: Vec<&str> = lines.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["buffered", "direct-reads", "coldstream"]);
        let cell = |line: usize, column: usize| lines[line].1[column].as_str();
        assert_eq!((cell(0, 0), cell(0, 2)), ("68959 / 200", "541 / 200"));
        assert_eq!((cell(1, 2), cell(2, 2)), ("387 / –", "– / 100"));
    }
}
