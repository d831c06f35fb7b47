//! The TOML file as a list of settings with the text of each value.
//!
//! An error names the line, and never quotes it: `COLDSTREAM_CONFIG` may name any file, and errors go
//! to a log that others may read.

use super::setting::Setting;
use super::settings::SETTINGS;
use super::values::Allowed;
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

/// A setting of the file, the key by which it was given, the text of its value, and its line.
pub(super) type Given = (&'static Setting, &'static str, String, usize);

/// What is wrong with the text, in words.
type Wrong = String;

/// The settings of a TOML text.
pub(super) fn settings(text: &str) -> Result<Vec<Given>, Wrong> {
    let document = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        wrong(text, at, error.message())
    })?;
    let mut given: Vec<Given> = Vec::new();
    for (name, value) in document.get_ref() {
        let start = name.span().start;
        let name = name.get_ref();
        match value.get_ref() {
            DeValue::Table(section) if has_section(name) => {
                for (inner, value) in section {
                    let key = format!("{name}.{}", inner.get_ref());
                    given.push(setting(text, inner.span().start, &key, value)?);
                }
            }
            DeValue::Table(_) => {
                return Err(wrong(
                    text,
                    start,
                    &format!("unknown section: use {}", sections()),
                ));
            }
            _ if has_section(name) => {
                let message = format!("{name} is a section: write [{name}]");
                return Err(wrong(text, start, &message));
            }
            _ => given.push(setting(text, start, name, value)?),
        }
    }
    for (index, (setting, key, ..)) in given.iter().enumerate() {
        let before = given.get(..index).unwrap_or_default();
        if let Some((_, other, ..)) = before.iter().find(|(it, ..)| it.key == setting.key) {
            let message = format!("{other} and {key} are names of one setting: give one of them");
            return Err(message);
        }
    }
    Ok(given)
}

/// The setting of `key`, with the text of `value`.
fn setting(
    text: &str,
    start: usize,
    key: &str,
    value: &Spanned<DeValue<'_>>,
) -> Result<Given, Wrong> {
    let (setting, key) = known(key).ok_or_else(|| {
        let message = match key.split_once('.') {
            Some((section, _)) => format!("unknown key of [{section}]: use {}", keys_beside(key)),
            None => format!("unknown key: use {}", keys_beside(key)),
        };
        wrong(text, start, &message)
    })?;
    let value = value.get_ref();
    let is_switch = setting.allowed() == Allowed::Switch;
    let value = match value {
        DeValue::Boolean(is_on) if is_switch => if *is_on { "on" } else { "off" }.to_owned(),
        DeValue::String(value) if !is_switch => value.clone().into_owned(),
        DeValue::Integer(value) if !is_switch => decimal(value),
        other if is_switch => {
            let message = format!("{key} is a {}: use true or false", other.type_str());
            return Err(wrong(text, start, &message));
        }
        other => {
            let (kind, allowed) = (other.type_str(), setting.allowed());
            let message = format!("{key} is a {kind}: use {allowed:#}");
            return Err(wrong(text, start, &message));
        }
    };
    Ok((setting, key, value, line_of(text, start)))
}

/// An integer as a text of decimal digits: TOML has `0x100000` and `+5`, too.
fn decimal(value: &DeInteger<'_>) -> String {
    match u64::from_str_radix(value.as_str(), value.radix()) {
        Ok(number) => number.to_string(),
        // Too large, or negative: refused with the others that are out of range.
        Err(_) => value.as_str().to_owned(),
    }
}

/// The setting with this key, present or former, and the key.
fn known(key: &str) -> Option<(&'static Setting, &'static str)> {
    SETTINGS.iter().find_map(|setting| {
        let former = setting.former_key.filter(|former| *former == key);
        let present = Some(setting.key).filter(|present| *present == key);
        Some((setting, present.or(former)?))
    })
}

/// A value of the file that its setting does not accept.
pub(super) fn wrong_value(setting: &Setting, key: &str, line: usize) -> Wrong {
    format!("line {line}: {key}: use {:#}", setting.allowed())
}

/// The names of all sections.
fn sections() -> String {
    let mut sections: Vec<&str> = Vec::new();
    for setting in &SETTINGS {
        if let Some((section, _)) = setting.key.split_once('.')
            && !sections.contains(&section)
        {
            sections.push(section);
        }
    }
    sections.join(", ")
}

/// Whether keys of `section` exist.
fn has_section(section: &str) -> bool {
    let mut sections = SETTINGS
        .iter()
        .filter_map(|setting| setting.key.split_once('.'));
    sections.any(|(it, _)| it == section)
}

/// The keys that could be meant by one that does not exist: those of its section.
fn keys_beside(key: &str) -> String {
    let section = key.split_once('.').map(|(section, _)| section);
    let keys = SETTINGS.iter().filter_map(|setting| {
        let (its, name) = match setting.key.split_once('.') {
            Some((its, name)) => (Some(its), name),
            None => (None, setting.key),
        };
        (its == section).then_some(name)
    });
    keys.collect::<Vec<_>>().join(", ")
}

/// What is wrong, with the line of the byte at `start`.
fn wrong(text: &str, start: usize, message: &str) -> Wrong {
    let line = line_of(text, start);
    format!("line {line}: {}", message.replace('\n', " "))
}

/// The line of the byte at `start`, from 1 on.
fn line_of(text: &str, start: usize) -> usize {
    let before = text.as_bytes().get(..start).unwrap_or_default();
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}
