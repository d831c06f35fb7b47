//! Coldstream as a mode: which treatments it is told to use, and which of its settings are changed.

use coldstream_policy::{Config, LogTarget, Profile};
use std::path::Path;

/// What the names of all settings' variables begin with.
const PREFIX: &str = "COLDSTREAM_";

/// `coldstream`, or `coldstream:` and parts with `+` between them: READS, READS and WRITES, and any
/// setting by the name of its variable, as `handover=off` or `handover-in-flight=16`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Treatments {
    config: Config,
}

impl Treatments {
    /// The treatments of that name.
    pub fn from_name(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("coldstream")?;
        let mut given: Vec<(String, &str)> = Vec::new();
        if !rest.is_empty() {
            for part in rest.strip_prefix(':')?.split('+') {
                let (variable, value) = match part.split_once('=') {
                    Some((name, value)) if is_ours_to_set(name) => (variable(name), value),
                    Some(_) => return None,
                    None => {
                        let named = given.iter().filter(|(name, _)| is_treatment(name)).count();
                        (variable(["reads", "writes"].get(named)?), part)
                    }
                };
                if value.is_empty() || given.iter().any(|(name, _)| *name == variable) {
                    return None;
                }
                given.push((variable, value));
            }
        }
        let environment = |name: &str| {
            let found = given.iter().find(|(variable, _)| variable == name)?;
            Some(found.1.to_owned())
        };
        let config = Config::from_sources(None, environment).ok()?;
        // A name that no setting has would be passed over.
        let known = config.to_environment();
        let is_known = |name: &String| known.iter().any(|(variable, _)| variable == name);
        let all_are_known = given.iter().all(|(name, _)| is_known(name));
        all_are_known.then_some(Self { config })
    }

    /// The settings of a database under Coldstream, as variables of its environment. What is as it is
    /// by default may be inherited, except for treatments.
    pub fn environment(&self, profile: Profile, log: &Path) -> Vec<String> {
        let config = Config {
            profile,
            log: LogTarget::File(log.into()),
            ..self.config.clone()
        };
        let all = config.to_environment().into_iter();
        all.zip(Config::default().to_environment())
            .filter(|((variable, value), (_, usual))| value != usual || is_treatment(variable))
            .map(|((variable, value), _)| format!("{variable}={value}"))
            .collect()
    }
}

/// The variable of the setting that is called `name` in a mode.
fn variable(name: &str) -> String {
    format!("{PREFIX}{}", name.to_uppercase().replace('-', "_"))
}

fn is_treatment(variable: &str) -> bool {
    ["COLDSTREAM_READS", "COLDSTREAM_WRITES"].contains(&variable)
}

/// Whether `name` is that of a setting, as far as can be seen, but of none that the laboratory makes
/// itself, nor of a treatment, which has its place.
fn is_ours_to_set(name: &str) -> bool {
    let is_name = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    is_name && !["profile", "log", "reads", "writes"].contains(&name)
}

impl std::fmt::Display for Treatments {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let default = Config::default();
        let mut parts = Vec::new();
        let (reads, writes) = (self.config.reads, self.config.writes);
        if (reads, writes) != (default.reads, default.writes) {
            parts.push(reads.name().to_owned());
        }
        if writes != default.writes {
            parts.push(writes.name().to_owned());
        }
        let all = self.config.to_environment().into_iter();
        for ((variable, value), (_, usual)) in all.zip(default.to_environment()) {
            if let Some(name) = variable.strip_prefix(PREFIX)
                && value != usual
                && !is_treatment(variable)
            {
                let name = name.to_lowercase().replace('_', "-");
                parts.push(format!("{name}={value}"));
            }
        }
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
                "coldstream:pacing=on+priority=off",
            ),
            (
                "coldstream:handover-in-flight=16+direct",
                "coldstream:direct+handover-in-flight=16",
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
            "coldstream:pacing=no",
            "coldstream:handover=off+handover=on",
            "coldstream:handover=",
            "coldstream:speed=9",
            "coldstream:profile=cassandra",
            "coldstream:log=none",
            "coldstream:reads=direct",
            "coldstream:HANDOVER=off",
        ] {
            assert!(Treatments::from_name(wrong).is_none(), "{wrong}");
        }
    }
}
