//! The report's data. As JSON it is the report for programs; every other form is made from it.

use super::figures::count;
use super::published::Published;
use super::smallest_limit::SmallestLimit;
use super::trade::{Trade, trades};
use crate::machine::Machine;
use crate::rows::rows;
use crate::run_report::RunReport;
use crate::summary::Row;

/// All that was measured.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Report {
    /// Version of Coldstream.
    pub version: String,
    /// When the measurement began: day and minute, UTC.
    #[serde(default = "unknown_day")]
    pub begun: String,
    /// The machine.
    pub machine: Machine,
    /// The database, with its version.
    pub engine: String,
    /// Data and load, in one sentence.
    pub load: String,
    /// The options of the command line, by their names.
    pub parameters: serde_json::Value,
    /// Names of the modes; the others are compared with the first.
    pub modes: Vec<String>,
    /// Turns that were planned. A case that ended early has fewer.
    pub runs: u32,
    /// What could not be done or measured on this machine.
    pub limitations: Vec<String>,
    /// The cases.
    pub cases: Vec<CaseReport>,
    /// The smallest limits that hold a bound, if they were looked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub smallest_limits: Vec<SmallestLimit>,
}

/// Reports of older versions have no day.
fn unknown_day() -> String {
    "day unknown".into()
}

/// What distinguishes a case from the others.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct CaseDescription {
    /// Its name.
    pub title: String,
    /// What distinguishes it, with figures, for people.
    pub text: String,
    /// The same for programs.
    pub parameters: serde_json::Value,
    /// Published figures of the measurement that this one repeats.
    #[serde(default)]
    pub published: Option<Published>,
}

/// A case.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct CaseReport {
    /// What distinguishes it.
    #[serde(flatten)]
    pub description: CaseDescription,
    /// Every run, by mode in the order of `Report::modes`.
    pub runs: Vec<Vec<RunReport>>,
    /// Medians and spreads.
    #[serde(skip_deserializing)]
    pub rows: Vec<Row>,
    /// Modes that buy their latency with writes or compaction.
    #[serde(skip_deserializing)]
    pub trades: Vec<Trade>,
}

impl CaseReport {
    /// The runs that each mode has finished.
    pub fn runs_of_each_mode(&self) -> usize {
        self.runs.iter().map(Vec::len).min().unwrap_or(0)
    }

    /// A case of these runs.
    pub fn new(description: CaseDescription, runs: Vec<Vec<RunReport>>) -> Self {
        Self {
            description,
            rows: rows(&runs),
            trades: trades(&runs),
            runs,
        }
    }
}

impl Report {
    /// The runs of each mode. Where a measurement has ended early there are fewer than planned, and how many depends
    /// on the case.
    pub fn runs_of_each_mode(&self) -> String {
        let runs = || self.cases.iter().map(CaseReport::runs_of_each_mode);
        let (fewest, most) = (runs().min(), runs().max());
        let planned = self.runs as usize;
        match (fewest, most) {
            (Some(fewest), Some(most)) if fewest < planned => {
                let more = match fewest == most {
                    true => String::new(),
                    false => format!(" to {most}"),
                };
                format!("{fewest}{more} of {planned} planned runs")
            }
            _ => count(planned, "run"),
        }
    }

    /// The report that this JSON holds. Its rows and trades are computed again from the runs, so that
    /// a report of an older version has those of this one.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        let mut report: Self = serde_json::from_str(text)?;
        for case in &mut report.cases {
            case.rows = rows(&case.runs);
            case.trades = trades(&case.runs);
        }
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use crate::summary::Spread;
    use serde_json::json;

    #[test]
    fn programs_are_told_of_a_mode_that_buys_its_latency() {
        let stock = ((67.0, 203.0, 100.0), 99.0);
        let case = fixture::case_with_writes(&[stock, ((67.0, 103.0, 100.0), 30.0)], 4);
        let report = fixture::report(&["buffered", "coldstream"], vec![case]);
        let json = serde_json::to_string(&report).unwrap();
        let again = Report::from_json(&json).unwrap();
        for json in [json, serde_json::to_string(&again).unwrap()] {
            let value: serde_json::Value = serde_json::from_str(&json).unwrap();
            let trades = &value["cases"][0]["trades"];
            assert_eq!(trades.as_array().unwrap().len(), 1);
            assert_eq!(trades[0]["mode"], 1);
            assert_eq!(trades[0]["prices"][0]["name"], "user writes");
            assert_eq!(trades[0]["prices"][0]["this"]["median"], 30.0);
            let text = trades[0]["text"].as_str().unwrap();
            assert!(text.starts_with("buys its latency with writes: "), "{text}");
        }
    }

    #[test]
    fn runs_that_were_not_made_are_not_claimed() {
        let runs = |of_cases: &[u32]| {
            let cases = of_cases.iter();
            let cases = cases.map(|runs| fixture::case(&[(67.0, 203.0, 100.0)], *runs));
            fixture::report(&["buffered"], cases.collect()).runs_of_each_mode()
        };
        assert_eq!(runs(&[4, 4]), "4 runs");
        assert_eq!(runs(&[]), "4 runs");
        assert_eq!(runs(&[3]), "3 of 4 planned runs");
        assert_eq!(runs(&[4, 1]), "1 to 4 of 4 planned runs");
    }

    #[test]
    fn a_saved_report_has_the_rows_of_this_version() {
        let machine = json!({
            "kernel": "6.1", "cores": 2, "memory_bytes": 1, "filesystem": "ext4", "device": null,
            "multi_generational_lru": "not built in", "kept_awake": false, "reclaimers": []
        });
        // Without what later versions add to a run.
        let run = json!({"phases": [], "compaction_tax_p99": 3.0});
        let case = json!({
            "title": "most", "text": "", "parameters": null, "runs": [[run]],
            "rows": [{"name": "a row of another version"}]
        });
        let report = json!({
            "version": "0.1.0", "machine": machine, "engine": "RocksDB", "load": "",
            "parameters": null, "modes": ["buffered"], "runs": 1, "limitations": [], "cases": [case]
        });
        let report = Report::from_json(&report.to_string()).unwrap();
        let rows = &report.cases[0].rows;
        assert_eq!(rows.len(), 1);
        assert_eq!(
            (rows[0].name, rows[0].modes[0]),
            ("compaction tax p99", Spread::of([3.0]))
        );
        let again = Report::from_json(&serde_json::to_string(&report).unwrap()).unwrap();
        assert_eq!(again.cases[0].description.title, "most");
    }
}
