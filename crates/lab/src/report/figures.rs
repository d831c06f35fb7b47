//! Figures and rows in words.

use crate::summary::{Certainty, Change, Row, Spread, TOLERANCE};

/// A figure with three significant digits.
pub fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Median, and spread where there is one.
pub fn spread(spread: &Spread) -> String {
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
pub fn row_name(row: &Row) -> String {
    match row.phase {
        Some(phase) => format!("{}: {}", phase.name(), row.name),
        None => row.name.to_owned(),
    }
}

/// What no mode is if there are no [`losses`]; nothing of one mode alone.
pub fn not_one(modes: &[String]) -> Option<String> {
    let [first, _, ..] = modes else {
        return None;
    };
    let percent = TOLERANCE * 100.0;
    Some(format!(
        "mode is worse than {first} by more than {percent} %"
    ))
}

/// The rows in which a mode is worse than the first one, in plain words.
pub fn losses(rows: &[Row], modes: &[String]) -> Vec<String> {
    let mut said = Vec::new();
    for (mode, name) in modes.iter().enumerate().skip(1) {
        for row in rows {
            let (first, this) = (&row.modes[0], &row.modes[mode]);
            let noise = match row.change(mode) {
                Change::Worse(Certainty::BeyondNoise) => "",
                Change::Worse(_) => " (within the noise)",
                Change::Better(_) | Change::Even => continue,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_mode_alone_is_compared_with_none() {
        let modes = ["buffered".to_owned(), "coldstream".to_owned()];
        assert_eq!(
            not_one(&modes).as_deref(),
            Some("mode is worse than buffered by more than 2 %")
        );
        assert_eq!(not_one(&modes[..1]), None);
    }
}
