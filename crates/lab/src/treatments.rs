//! Coldstream as a mode: which treatments it is told to use.

use coldstream_policy::ReadTreatment;
use std::path::Path;

/// `coldstream`, `coldstream:READS` or `coldstream:READS+WRITES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Treatments {
    /// `COLDSTREAM_READS`.
    reads: ReadTreatment,
    /// `COLDSTREAM_WRITES`, which has the same names.
    writes: ReadTreatment,
}

impl Treatments {
    /// The treatments of that name.
    pub fn from_name(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("coldstream")?;
        let (reads, writes) = match rest.strip_prefix(':') {
            Some(named) => named.split_once('+').unwrap_or((named, "auto")),
            None if rest.is_empty() => ("auto", "auto"),
            None => return None,
        };
        Some(Self {
            reads: ReadTreatment::from_name(reads)?,
            writes: ReadTreatment::from_name(writes)?,
        })
    }

    /// The settings of a database under Coldstream, as variables of its environment.
    pub fn environment(&self, profile: &str, log: &Path) -> [String; 4] {
        [
            format!("COLDSTREAM_PROFILE={profile}"),
            format!("COLDSTREAM_READS={}", self.reads.name()),
            format!("COLDSTREAM_WRITES={}", self.writes.name()),
            format!("COLDSTREAM_LOG={}", log.display()),
        ]
    }
}

impl std::fmt::Display for Treatments {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(&match (self.reads, self.writes) {
            (ReadTreatment::Auto, ReadTreatment::Auto) => "coldstream".to_owned(),
            (reads, ReadTreatment::Auto) => format!("coldstream:{}", reads.name()),
            (reads, writes) => format!("coldstream:{}+{}", reads.name(), writes.name()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_auto() {
        for (name, short) in [
            ("coldstream", "coldstream"),
            ("coldstream:auto", "coldstream"),
            ("coldstream:auto+auto", "coldstream"),
            ("coldstream:direct+auto", "coldstream:direct"),
            ("coldstream:window", "coldstream:window"),
            ("coldstream:auto+buffered", "coldstream:auto+buffered"),
            ("coldstream:direct+window", "coldstream:direct+window"),
        ] {
            assert_eq!(Treatments::from_name(name).unwrap().to_string(), short);
        }
        for wrong in [
            "",
            "cold",
            "coldstreams",
            "coldstream:",
            "coldstream:fast",
            "coldstream:direct+",
            "coldstream:+direct",
            "coldstream:direct+fast",
            "coldstream:direct+direct+direct",
        ] {
            assert!(Treatments::from_name(wrong).is_none(), "{wrong}");
        }
    }
}
