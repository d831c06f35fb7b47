//! Numbers as a person reads them.

use coldstream_control::{Counter, DeviceReadTax, PhaseFigures, PhaseReads, Snapshot, Unit};
use coldstream_policy::{Priorities, display_bytes};

/// A counter's value with its unit.
pub fn with_unit(counter: Counter, value: u64) -> String {
    match counter.unit() {
        Unit::Count => value.to_string(),
        Unit::Bytes => display_bytes(value),
        Unit::BytesPerSecond => display_bytes(value) + "/s",
        Unit::Nanoseconds => duration(value),
    }
}

/// Whether the priorities of no thread are changed (`--priority off`).
pub fn changes_no_priority(snapshot: &Snapshot) -> bool {
    snapshot.priorities() == Some(Priorities::none())
}

/// Nanoseconds in µs, ms or s, whichever is the largest with at least one.
pub fn duration(ns: u64) -> String {
    match ns {
        0..1_000_000 => format!("{} µs", ns / 1000),
        1_000_000..1_000_000_000 => format!("{} ms", ns / 1_000_000),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

/// A count with its noun, and with commas between the thousands: `1,234 windows`, `1 window`.
pub fn count(value: u64, singular: &str, plural: &str) -> String {
    let noun = if value == 1 { singular } else { plural };
    format!("{} {noun}", thousands(value))
}

/// A number with commas between the thousands.
pub fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The tax of device reads, or why it is unknown. To be said with [`misses_text`]: alone it would mislead.
pub fn tax_text(tax: &DeviceReadTax) -> String {
    let p99 = |figures: &PhaseFigures| figures.p99_ns.map_or("?".to_owned(), fine_duration);
    let (compaction, rest) = (&tax.in_compaction, &tax.at_rest);
    match &tax.ratio {
        Some(ratio) => format!(
            "device reads {:.1} times as slow in compaction ({:.1} to {:.1}): p99 {}, at rest {}",
            ratio.estimate,
            ratio.low,
            ratio.high,
            p99(compaction),
            p99(rest)
        ),
        None => format!(
            "too few device reads were timed: {} in compaction, {} at rest, of {} each",
            thousands(compaction.device_reads),
            thousands(rest.device_reads),
            PhaseReads::READS_MIN
        ),
    }
}

/// The miss rates in compaction and at rest.
pub fn misses_text(tax: &DeviceReadTax) -> String {
    let share = |figures: &PhaseFigures| match figures.missed_percent {
        None => "none sampled".to_owned(),
        // `0 %` of no reads would look the same.
        Some(0.0) => format!("none of {}", thousands(figures.sampled_reads)),
        percent => fine_percent(percent),
    };
    format!(
        "reads that missed the page cache: {} in compaction, {} at rest",
        share(&tax.in_compaction),
        share(&tax.at_rest)
    )
}

/// Nanoseconds with three digits at most below 1,000 s: µs, ms or s.
pub fn fine_duration(ns: u64) -> String {
    match ns {
        0..1_000_000 => format!("{} µs", ns / 1000),
        1_000_000..100_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        100_000_000..1_000_000_000 => format!("{:.0} ms", ns as f64 / 1e6),
        _ => duration(ns),
    }
}

/// A share as a percentage; `?` if it is unknown.
pub fn fine_percent(percent: Option<f64>) -> String {
    match percent {
        Some(percent) if percent > 0.0 && percent < 10.0 => format!("{percent:.2} %"),
        Some(percent) => format!("{percent:.0} %"),
        None => "?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas_and_nouns() {
        assert_eq!(count(1, "window", "windows"), "1 window");
        assert_eq!(count(0, "window", "windows"), "0 windows");
        assert_eq!(count(1234, "window", "windows"), "1,234 windows");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_000_000), "1,000,000");
    }

    #[test]
    fn a_tax_is_said_with_its_misses_or_why_it_is_unknown() {
        use coldstream_control::RatioEstimate;

        let figures = |device_reads, p99_ns, missed_percent| PhaseFigures {
            device_reads,
            p99_ns,
            sampled_reads: 1000,
            missed_percent,
        };
        let mut tax = DeviceReadTax {
            ratio: Some(RatioEstimate {
                estimate: 2.44,
                low: 2.0,
                high: 3.0,
            }),
            in_compaction: figures(2000, Some(2_440_000), Some(4.1)),
            at_rest: figures(5000, Some(999_999), Some(12.2)),
        };
        assert_eq!(
            tax_text(&tax),
            "device reads 2.4 times as slow in compaction (2.0 to 3.0): p99 2.4 ms, at rest 999 µs"
        );
        assert_eq!(
            misses_text(&tax),
            "reads that missed the page cache: 4.10 % in compaction, 12 % at rest"
        );
        tax.ratio = None;
        tax.at_rest = figures(5, None, None);
        assert_eq!(
            tax_text(&tax),
            "too few device reads were timed: 2,000 in compaction, 5 at rest, of 400 each"
        );
        tax.in_compaction.missed_percent = Some(0.0);
        assert_eq!(
            misses_text(&tax),
            "reads that missed the page cache: none of 1,000 in compaction, none sampled at rest"
        );
    }

    #[test]
    fn a_fine_duration_has_the_unit_of_its_size() {
        for (ns, text) in [
            (999_999, "999 µs"),
            (2_440_000, "2.4 ms"),
            (859_000_000, "859 ms"),
            (8_590_000_000, "8.6 s"),
        ] {
            assert_eq!(fine_duration(ns), text);
        }
    }

    #[test]
    fn values_have_units() {
        assert_eq!(with_unit(Counter::BytesDirect, 3 << 20), "3 MiB");
        assert_eq!(with_unit(Counter::PacingBytesPerSecond, 1 << 20), "1 MiB/s");
        assert_eq!(with_unit(Counter::PacingNanoseconds, 2_500_000), "2 ms");
        assert_eq!(
            with_unit(Counter::PacingNanoseconds, 2_500_000_000),
            "2.5 s"
        );
        assert_eq!(with_unit(Counter::PacingNanoseconds, 16_000), "16 µs");
        assert_eq!(with_unit(Counter::WindowsRead, 1234), "1234");
    }
}
