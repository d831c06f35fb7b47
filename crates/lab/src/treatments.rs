//! Coldstream as a mode: which treatments it is told to use, and what of it is switched off.

use coldstream_policy::ReadTreatment;
use std::path::Path;

/// `coldstream`, or `coldstream:` and parts with `+` between them: READS, READS and WRITES,
/// `handover=off`, `priority=off`, `pacing=on` (or `off`), `eviction=on` (or `off`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Treatments {
    /// `COLDSTREAM_READS`.
    reads: ReadTreatment,
    /// `COLDSTREAM_WRITES`, which has the same names.
    writes: ReadTreatment,
    /// `COLDSTREAM_HANDOVER`.
    handover: bool,
    /// `COLDSTREAM_PRIORITY`.
    priority: bool,
    /// `COLDSTREAM_PACING`, which is off by itself.
    pacing: bool,
    /// `COLDSTREAM_EVICTION`, which is off by itself.
    eviction: bool,
}

impl Treatments {
    /// The treatments of that name.
    pub fn from_name(text: &str) -> Option<Self> {
        let mut treatments = Self {
            reads: ReadTreatment::Auto,
            writes: ReadTreatment::Auto,
            handover: true,
            priority: true,
            pacing: false,
            eviction: false,
        };
        let rest = text.strip_prefix("coldstream")?;
        if rest.is_empty() {
            return Some(treatments);
        }
        let mut named = 0;
        for part in rest.strip_prefix(':')?.split('+') {
            match (part, named) {
                ("handover=off", _) => treatments.handover = false,
                ("priority=off", _) => treatments.priority = false,
                ("pacing=off", _) => treatments.pacing = false,
                ("pacing=on", _) => treatments.pacing = true,
                ("eviction=on", _) => treatments.eviction = true,
                ("eviction=off", _) => treatments.eviction = false,
                (reads, 0) => treatments.reads = ReadTreatment::from_name(reads)?,
                (writes, 1) => treatments.writes = ReadTreatment::from_name(writes)?,
                _ => return None,
            }
            named += usize::from(!part.contains('='));
        }
        Some(treatments)
    }

    /// The settings of a database under Coldstream, as variables of its environment.
    pub fn environment(&self, profile: &str, log: &Path) -> Vec<String> {
        let mut variables = vec![
            format!("COLDSTREAM_PROFILE={profile}"),
            format!("COLDSTREAM_READS={}", self.reads.name()),
            format!("COLDSTREAM_WRITES={}", self.writes.name()),
            format!("COLDSTREAM_LOG={}", log.display()),
        ];
        if !self.handover {
            variables.push("COLDSTREAM_HANDOVER=off".into());
        }
        if !self.priority {
            variables.push("COLDSTREAM_PRIORITY=off".into());
        }
        if self.pacing {
            variables.push("COLDSTREAM_PACING=on".into());
        }
        if self.eviction {
            variables.push("COLDSTREAM_EVICTION=on".into());
        }
        variables
    }
}

impl std::fmt::Display for Treatments {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut parts = Vec::new();
        let auto = ReadTreatment::Auto;
        if self.reads != auto || self.writes != auto {
            parts.push(self.reads.name());
        }
        if self.writes != auto {
            parts.push(self.writes.name());
        }
        parts.extend((!self.handover).then_some("handover=off"));
        parts.extend((!self.priority).then_some("priority=off"));
        parts.extend(self.pacing.then_some("pacing=on"));
        parts.extend(self.eviction.then_some("eviction=on"));
        formatter.pad(&if parts.is_empty() {
            "coldstream".to_owned()
        } else {
            format!("coldstream:{}", parts.join("+"))
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
            ("coldstream:handover=off", "coldstream:handover=off"),
            ("coldstream:pacing=off", "coldstream"),
            (
                "coldstream:pacing=on+priority=off",
                "coldstream:priority=off+pacing=on",
            ),
            ("coldstream:eviction=off", "coldstream"),
            (
                "coldstream:buffered+buffered+eviction=on",
                "coldstream:buffered+buffered+eviction=on",
            ),
            (
                "coldstream:priority=off+auto+window+handover=off",
                "coldstream:auto+window+handover=off+priority=off",
            ),
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
            "coldstream:handover",
            "coldstream:handover=on",
            "coldstream:pacing=no",
        ] {
            assert!(Treatments::from_name(wrong).is_none(), "{wrong}");
        }
    }
}
