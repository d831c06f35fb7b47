//! The TOML file as a list of settings, whose values are checked with those of the environment.

use super::ConfigError;
use super::key::Key;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    enabled: Option<bool>,
    profile: Option<String>,
    log: Option<String>,
    readahead: Option<String>,
    #[serde(default)]
    reads: ReadsText,
    #[serde(default)]
    writes: WritesText,
    #[serde(default)]
    eviction: EvictionText,
    #[serde(default)]
    handover: HandoverText,
    #[serde(default)]
    priority: PriorityText,
    #[serde(default)]
    pacing: PacingText,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadsText {
    /// `treatment` was its name; it is accepted for one version.
    #[serde(alias = "treatment")]
    io_mode: Option<String>,
    window_bytes: Option<Number>,
    windows_in_flight: Option<Number>,
    memory_bytes: Option<Number>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WritesText {
    /// `treatment` was its name; it is accepted for one version.
    #[serde(alias = "treatment")]
    io_mode: Option<String>,
    visible: Option<String>,
    flush: Option<String>,
    staging_bytes: Option<Number>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct EvictionText {
    enabled: Option<bool>,
    margin: Option<Number>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct HandoverText {
    enabled: Option<bool>,
    bytes: Option<Number>,
    in_flight: Option<Number>,
    milliseconds: Option<Number>,
    heat_bytes: Option<Number>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriorityText {
    apply: Option<String>,
    nice: Option<Number>,
    io: Option<Number>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PacingText {
    enabled: Option<bool>,
    floor: Option<Number>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Integer(u64),
    Text(String),
}

impl std::fmt::Display for Number {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Number::Integer(number) => number.fmt(formatter),
            Number::Text(text) => text.fmt(formatter),
        }
    }
}

/// A setting by its name in the file, with its value there.
pub(super) type Named = (&'static str, Key, Option<String>);

/// The settings of a TOML text, by their names in it; those that it does not have are `None`.
pub(super) fn settings(text: &str) -> Result<[Named; Key::ALL.len()], ConfigError> {
    let file: FileText = toml::from_str(text)
        .map_err(|error| ConfigError::Toml(error.to_string().trim().replace('\n', " ")))?;
    let text = |number: Option<Number>| number.map(|number| number.to_string());
    let switch = |is_on: Option<bool>| is_on.map(super::on_or_off);
    let FileText {
        reads,
        writes,
        eviction,
        handover,
        priority,
        pacing,
        ..
    } = file;
    Ok([
        ("enabled", Key::Enabled, switch(file.enabled)),
        ("eviction.enabled", Key::Eviction, switch(eviction.enabled)),
        ("handover.enabled", Key::Handover, switch(handover.enabled)),
        ("pacing.enabled", Key::Pacing, switch(pacing.enabled)),
        ("profile", Key::Profile, file.profile),
        ("log", Key::Log, file.log),
        ("readahead", Key::Readahead, file.readahead),
        ("pacing.floor", Key::PacingFloor, text(pacing.floor)),
        ("reads.io_mode", Key::Reads, reads.io_mode),
        (
            "reads.window_bytes",
            Key::WindowBytes,
            text(reads.window_bytes),
        ),
        (
            "reads.windows_in_flight",
            Key::WindowsInFlight,
            text(reads.windows_in_flight),
        ),
        (
            "reads.memory_bytes",
            Key::MemoryBytes,
            text(reads.memory_bytes),
        ),
        ("writes.io_mode", Key::Writes, writes.io_mode),
        ("writes.visible", Key::Visible, writes.visible),
        ("writes.flush", Key::Flush, writes.flush),
        (
            "writes.staging_bytes",
            Key::StagingBytes,
            text(writes.staging_bytes),
        ),
        (
            "eviction.margin",
            Key::EvictionMargin,
            text(eviction.margin),
        ),
        ("handover.bytes", Key::HandoverBytes, text(handover.bytes)),
        (
            "handover.in_flight",
            Key::HandoverInFlight,
            text(handover.in_flight),
        ),
        (
            "handover.milliseconds",
            Key::HandoverMilliseconds,
            text(handover.milliseconds),
        ),
        (
            "handover.heat_bytes",
            Key::HeatBytes,
            text(handover.heat_bytes),
        ),
        ("priority.apply", Key::Priority, priority.apply),
        ("priority.nice", Key::Nice, text(priority.nice)),
        ("priority.io", Key::IoPriority, text(priority.io)),
    ])
}
