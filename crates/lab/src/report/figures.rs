//! Figures and rows as text.

use crate::machine::Machine;
use crate::summary::{Row, Spread};

/// A figure with three significant digits.
pub fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Two latencies in µs with their unit and `between` them; ms if both are at least 10,000 µs.
pub fn latencies(from_us: f64, between: &str, to_us: f64) -> String {
    if from_us.min(to_us) >= 10_000.0 {
        let (from, to) = (figure(from_us / 1000.0), figure(to_us / 1000.0));
        format!("{from} {between} {to} ms")
    } else {
        format!("{} {between} {} µs", figure(from_us), figure(to_us))
    }
}

/// Keeps figures and their units on one line, on a page.
pub fn unbroken(text: &str) -> String {
    text.replace(" µs", "\u{a0}µs")
        .replace(" ms", "\u{a0}ms")
        .replace(" → ", "\u{a0}→\u{a0}")
}

/// Median, and the smallest and largest where they differ.
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

/// Both medians.
pub fn arrow(from: &Spread, to: &Spread) -> String {
    format!("{} → {}", figure(from.median), figure(to.median))
}

/// A row's name with its phase.
pub fn row_name(row: &Row) -> String {
    match row.phase {
        Some(phase) => format!("{}: {}", phase.name(), row.name),
        None => row.name.to_owned(),
    }
}

/// `1 row`, `2 rows`.
pub fn count(number: usize, what: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {what}{ending}")
}

/// The machine in one line.
pub fn machine_line(machine: &Machine) -> String {
    let device = machine.device.as_ref().map_or_else(
        || "no block device".to_owned(),
        |device| format!("{}, read_ahead_kb {}", device.name, device.read_ahead_kb),
    );
    format!(
        "Linux {}, {}, {} on {device}; MGLRU {}",
        machine.kernel,
        machine.processors(),
        machine.filesystem,
        machine.multi_generational_lru
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        let figures = [0.0, 1.266, 9.999, 10.04, 99.97, 203.4, 12_345.6].map(figure);
        assert_eq!(
            figures,
            ["0.00", "1.27", "10.0", "10.0", "100", "203", "12346"]
        );
        assert_eq!(latencies(67.2, "to", 12_345.6), "67.2 to 12346 µs");
        assert_eq!(latencies(12_345.6, "→", 99_000.0), "12.3 → 99.0 ms");
    }

    #[test]
    fn a_spread_of_one_figure_is_the_figure() {
        assert_eq!(spread(&Spread::of([5.0])), "5.00");
        assert_eq!(spread(&Spread::of([1.0, 2.0, 3.0])), "2.00 (1.00–3.00)");
        assert_eq!(
            arrow(&Spread::of([67.0]), &Spread::of([203.0])),
            "67.0 → 203"
        );
    }
}
