//! The releases that work with this crate.

use std::str::FromStr;

/// A release of Apache Cassandra on Maven Central.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// 4.1.10. It has no BTI and maps data files by default.
    V4_1,
    /// 5.0.9.
    V5_0,
    /// 6.0-alpha2. It has its own direct modes for compaction.
    V6_0,
}

impl Version {
    /// All releases, the oldest first.
    pub const ALL: [Version; 3] = [Version::V4_1, Version::V5_0, Version::V6_0];

    /// Its name on Maven Central.
    pub fn name(self) -> &'static str {
        match self {
            Version::V4_1 => "4.1.10",
            Version::V5_0 => "5.0.9",
            Version::V6_0 => "6.0-alpha2",
        }
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Version {
    type Err = String;

    /// From the full name, or from a prefix that names one release (`5.0`, `6`).
    fn from_str(text: &str) -> Result<Self, String> {
        let short = |version: &Version| {
            let rest = version.name().strip_prefix(text)?;
            (rest.is_empty() || rest.starts_with(['.', '-'])).then_some(*version)
        };
        Version::ALL
            .iter()
            .find_map(short)
            .ok_or_else(|| format!("\"{text}\": use 4.1.10, 5.0.9 or 6.0-alpha2"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_may_be_short() {
        for version in Version::ALL {
            assert_eq!(version.name().parse(), Ok(version));
        }
        assert_eq!("5.0".parse(), Ok(Version::V5_0));
        assert_eq!("6".parse(), Ok(Version::V6_0));
        for wrong in ["", "3.11", "5.", "5.0.9.1", "6.0-alpha"] {
            assert!(wrong.parse::<Version>().is_err(), "{wrong}");
        }
    }
}
