//! Numbers as a person reads them.

use coldstream_control::{Counter, Unit};
use coldstream_policy::display_bytes;

/// A counter's value with its unit.
pub fn with_unit(counter: Counter, value: u64) -> String {
    match counter.unit() {
        Unit::Count => value.to_string(),
        Unit::Bytes => display_bytes(value),
        Unit::BytesPerSecond => display_bytes(value) + "/s",
        Unit::Nanoseconds => duration(value),
    }
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
