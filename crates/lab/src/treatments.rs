//! Coldstream as a mode: which treatments it is told to use.

use coldstream_policy::ReadTreatment;
use std::path::Path;

/// `coldstream`, `coldstream:READS`, `coldstream:READS+WRITES` or `coldstream:READS+WRITES+HANDOVER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Treatments {
    /// `COLDSTREAM_READS`.
    reads: ReadTreatment,
    /// `COLDSTREAM_WRITES`, which has the same names.
    writes: ReadTreatment,
    /// `COLDSTREAM_HANDOVER`.
    handover: bool,
}

impl Treatments {
    /// The treatments of that name.
    pub fn from_name(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("coldstream")?;
        let mut named = match rest.strip_prefix(':') {
            Some(named) => named.split('+'),
            None if rest.is_empty() => "auto".split('+'),
            None => return None,
        };
        let treatments = Self {
            reads: ReadTreatment::from_name(named.next()?)?,
            writes: ReadTreatment::from_name(named.next().unwrap_or("auto"))?,
            handover: match named.next() {
                Some("on") | None => true,
                Some("off") => false,
                Some(_) => return None,
            },
        };
        named.next().is_none().then_some(treatments)
    }

    /// The settings of a database under Coldstream, as variables of its environment.
    pub fn environment(&self, profile: &str, log: &Path) -> [String; 5] {
        [
            format!("COLDSTREAM_PROFILE={profile}"),
            format!("COLDSTREAM_READS={}", self.reads.name()),
            format!("COLDSTREAM_WRITES={}", self.writes.name()),
            format!(
                "COLDSTREAM_HANDOVER={}",
                if self.handover { "on" } else { "off" }
            ),
            format!("COLDSTREAM_LOG={}", log.display()),
        ]
    }
}

impl std::fmt::Display for Treatments {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (reads, writes) = (self.reads.name(), self.writes.name());
        let auto = ReadTreatment::Auto;
        formatter.pad(
            &match (self.handover, self.reads == auto, self.writes == auto) {
                (false, ..) => format!("coldstream:{reads}+{writes}+off"),
                (true, true, true) => "coldstream".to_owned(),
                (true, _, true) => format!("coldstream:{reads}"),
                (true, _, false) => format!("coldstream:{reads}+{writes}"),
            },
        )
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
            ("coldstream:direct+auto+on", "coldstream:direct"),
            ("coldstream:auto+auto+off", "coldstream:auto+auto+off"),
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
            "coldstream:direct+direct+on+on",
        ] {
            assert!(Treatments::from_name(wrong).is_none(), "{wrong}");
        }
    }
}
