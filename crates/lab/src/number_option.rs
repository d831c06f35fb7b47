//! Parsers of numbers on the command line. They name what is allowed; the standard library's errors do not.

use std::fmt::Display;
use std::str::FromStr;

/// No count of keys, requests, seconds, bytes or MiB is larger. As bytes, a MiB count still fits into 64 bits.
const MAX: u64 = u32::MAX as u64;

/// A whole number from `MIN` on.
pub fn at_least<const MIN: u64>(text: &str) -> Result<u64, String> {
    within(text, "a whole number", MIN, MAX)
}

/// A number of turns.
pub fn turns(text: &str) -> Result<u32, String> {
    within(text, "a whole number", 1, 100)
}

/// A latency, up to a minute.
pub fn microseconds(text: &str) -> Result<f64, String> {
    within(text, "a number", 1.0, 60e6)
}

fn within<N: FromStr + PartialOrd + Display>(
    text: &str,
    what: &str,
    min: N,
    max: N,
) -> Result<N, String> {
    let number = text.parse().ok().filter(|it| (&min..=&max).contains(&it));
    number.ok_or_else(|| format!("use {what} from {min} to {max}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_number_is_told_what_is_allowed() {
        assert_eq!(at_least::<0>("0"), Ok(0));
        assert_eq!(at_least::<1>("4294967295"), Ok(MAX));
        for text in ["", "0", "-1", "5s", "1.5", "4294967296"] {
            let error = at_least::<1>(text).unwrap_err();
            assert_eq!(error, "use a whole number from 1 to 4294967295", "{text:?}");
        }
        assert_eq!(turns("100"), Ok(100));
        let error = turns("101").unwrap_err();
        assert_eq!(error, "use a whole number from 1 to 100");
        assert_eq!(microseconds("2.5"), Ok(2.5));
        for text in ["0", "NaN", "inf", "2ms"] {
            let error = microseconds(text).unwrap_err();
            assert_eq!(error, "use a number from 1 to 60000000", "{text:?}");
        }
    }
}
