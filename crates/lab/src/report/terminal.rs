//! The report as a table in the terminal.

use super::data::{CaseReport, Report};
use super::figures::{figure, losses, not_one, row_name, spread};
use crate::summary::{Certainty, Change};
use std::fmt::Write;

const GREEN: &str = "\x1b[32m";
const RED: &str = "\x1b[31m";
const YELLOW: &str = "\x1b[33m";
const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

/// The whole report.
pub fn table(report: &Report, coloured: bool) -> String {
    let mut text = String::new();
    let machine = &report.machine;
    let device = machine.device.as_ref().map_or_else(
        || "no block device".to_string(),
        |device| format!("{}, read_ahead_kb {}", device.name, device.read_ahead_kb),
    );
    let _ = writeln!(
        text,
        "{} on Linux {}, {}, {} on {device}; MGLRU {}",
        report.engine,
        machine.kernel,
        machine.processors(),
        machine.filesystem,
        machine.multi_generational_lru
    );
    let _ = writeln!(
        text,
        "{}; {} runs in turn: median (min–max)",
        report.load, report.runs
    );
    for case in &report.cases {
        case_table(&mut text, report, case, coloured);
    }
    for limitation in &report.limitations {
        let _ = writeln!(text, "note: {limitation}");
    }
    for reclaimer in &machine.reclaimers {
        let _ = writeln!(text, "note: reclaimer found: {reclaimer}");
    }
    text
}

fn case_table(text: &mut String, report: &Report, case: &CaseReport, coloured: bool) {
    let paint = |text: &str, colour: &str| {
        if coloured {
            format!("{colour}{text}{PLAIN}")
        } else {
            text.to_string()
        }
    };
    let title = format!("{}: {}", case.description.title, case.description.text);
    let _ = writeln!(text, "\n{}", paint(&title, BOLD));
    let names: Vec<String> = case.rows.iter().map(row_name).collect();
    let cells: Vec<Vec<String>> = case
        .rows
        .iter()
        .map(|row| row.modes.iter().map(spread).collect())
        .collect();
    let first_width = names
        .iter()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0);
    let widths: Vec<usize> = (0..report.modes.len())
        .map(|mode| {
            let widest = cells.iter().map(|row| row[mode].chars().count()).max();
            widest.unwrap_or(0).max(report.modes[mode].chars().count())
        })
        .collect();
    let _ = write!(text, "{:first_width$}", "");
    for (mode, width) in report.modes.iter().zip(&widths) {
        let _ = write!(text, "  {mode:>width$}");
    }
    text.push('\n');
    for ((row, name), cells) in case.rows.iter().zip(&names).zip(&cells) {
        let _ = write!(text, "{name:first_width$}");
        for (mode, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            let padded = format!("{cell:>width$}");
            let padded = match row.change(mode) {
                _ if mode == 0 => padded,
                Change::Better(Certainty::BeyondNoise) => paint(&padded, GREEN),
                Change::Worse(Certainty::BeyondNoise) => paint(&padded, RED),
                Change::Worse(_) => paint(&padded, YELLOW),
                Change::Better(_) | Change::Even => padded,
            };
            let _ = write!(text, "  {padded}");
        }
        text.push('\n');
    }
    let losses = losses(&case.rows, &report.modes);
    if let Some(what) = not_one(&report.modes).filter(|_| losses.is_empty()) {
        let _ = writeln!(text, "no {what}");
    }
    for loss in losses {
        let _ = writeln!(text, "! {loss}");
    }
    for (mode, runs) in report.modes.iter().zip(&case.runs) {
        if let Some(line) = runs.last().and_then(|run| run.library_log.last()) {
            let _ = writeln!(text, "{mode}, last run: {line}");
        }
    }
    let reads: Vec<String> = case
        .runs
        .iter()
        .map(|runs| {
            let bytes = runs.last().map_or(0, |run| run.compacted_read_bytes);
            figure(bytes as f64 / f64::from(1 << 20))
        })
        .collect();
    let _ = writeln!(text, "MiB read by a compaction: {}", reads.join(", "));
}
