//! The report's two faces for people; JSON is the report itself.

pub mod html;
pub mod terminal;

use crate::summary::{Row, Spread, Verdict};

/// A figure with three significant digits.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Median, and spread where there is one.
fn spread(spread: &Spread) -> String {
    if spread.min == spread.max {
        figure(spread.median)
    } else {
        format!(
            "{} ({}–{})",
            figure(spread.median),
            figure(spread.min),
            figure(spread.max)
        )
    }
}

/// A row's name with its phase.
fn row_name(row: &Row) -> String {
    match row.phase {
        Some(phase) => format!("{}: {}", phase.name(), row.name),
        None => row.name.to_string(),
    }
}

/// The rows in which a mode is worse than the first one, in plain words.
fn losses(rows: &[Row], modes: &[String]) -> Vec<String> {
    let mut said = Vec::new();
    for (mode, name) in modes.iter().enumerate().skip(1) {
        for row in rows {
            let verdict = row.verdict(mode);
            let (first, this) = (&row.modes[0], &row.modes[mode]);
            let noise = match verdict {
                Verdict::Loses => "",
                Verdict::LosesWithinNoise => " (the spreads overlap)",
                Verdict::Wins | Verdict::Even => continue,
            };
            said.push(format!(
                "{name} is worse than {} in {}: {} against {}{noise}",
                modes[0],
                row_name(row),
                spread(this),
                spread(first)
            ));
        }
    }
    said
}
