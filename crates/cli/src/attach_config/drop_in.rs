//! The drop-in that loads the library into a unit of systemd.

use std::ffi::OsStr;

use super::change::Change;
use super::plan::{Plan, Wanted, note_of_lost_settings};
use crate::exit::{self, Exit, failure};
use crate::library::{self, PRELOAD};
use crate::run::jemalloc;
use crate::unit::{Root, Unit, Variable};

/// The file's name, which docs/cassandra.md has too.
const FILE_NAME: &str = "coldstream.conf";
/// The beginning of its first line.
const MARK: &str = "# Made by `coldstream attach-config ";

/// The change for a unit; without `wanted` the one that takes the drop-in away.
pub fn plan(root: &Root, name: &str, wanted: Option<&Wanted>) -> anyhow::Result<Plan> {
    let unit = Unit::find(root, name).map_err(with_hint)?;
    let path = unit.drop_in(FILE_NAME);
    let before = root.text(&path)?;
    if let Some(text) = &before {
        check_ours(text, &root.at(&path).display().to_string(), wanted)?;
    }
    let unit = unit.without(&path);
    let (after, notes) = match wanted {
        Some(wanted) => {
            let (text, mut notes) = text(root, &unit, wanted)?;
            let former = before.as_deref().unwrap_or_default();
            notes.extend(note_of_lost_settings(former, &text));
            (Some(text), notes)
        }
        None => (
            None,
            note_of_start_settings(root, &unit).into_iter().collect(),
        ),
    };
    let drain = (unit.is_cassandra() && root.is_own())
        .then(|| "before the restart: `nodetool drain`".to_owned());
    let text = after.clone().or_else(|| before.clone()).unwrap_or_default();
    Ok(Plan {
        change: Change::new(root, &path, before, after, None)?,
        text,
        notes: notes.into_iter().chain(drain).collect(),
        next: vec![
            "systemctl daemon-reload".to_owned(),
            format!("systemctl restart {}", unit.name),
        ],
    })
}

/// What still loads the library into a node whose drop-in is taken away.
fn note_of_start_settings(root: &Root, unit: &Unit) -> Option<String> {
    let (path, _) = unit.loading_start_settings(root)?;
    Some(format!(
        "{path} loads the library too: `coldstream attach-config {path} --remove --write`"
    ))
}

/// Whether the files of a unit load the library, by our drop-in or by lines of somebody else. A unit that is not there
/// has none.
pub fn loads_library(root: &Root, name: &str) -> anyhow::Result<bool> {
    let unit = match Unit::find(root, name) {
        Err(error) if exit::of(&error) == Exit::NotFound => return Ok(false),
        unit => unit?,
    };
    let variables = unit.variables(root)?;
    Ok(variables
        .values()
        .any(|variable| library::named_in(&variable.value).is_some()))
}

/// A start script is no unit, and this command takes both.
fn with_hint(error: anyhow::Error) -> anyhow::Error {
    match exit::of(&error) {
        Exit::NotFound => failure(
            Exit::NotFound,
            format!("{error}. For a start script, name its file with a slash"),
        ),
        _ => error,
    }
}

/// Refuses a file that somebody else made, and lines that somebody else added.
fn check_ours(text: &str, path: &str, wanted: Option<&Wanted>) -> anyhow::Result<()> {
    if !text.starts_with(MARK) {
        let advice = match wanted {
            Some(_) => "delete it first, and give its settings as options",
            None => "delete it by hand",
        };
        let message = format!("{path} was not made by `coldstream attach-config`: {advice}");
        return Err(failure(Exit::Failure, message));
    }
    let is_ours = |line: &str| {
        let ours = [
            "#",
            "[Service]",
            "LimitNICE=",
            "Environment=COLDSTREAM",
            "Environment=\"COLDSTREAM",
        ];
        line.is_empty()
            || ours.iter().any(|start| line.starts_with(start))
            || [PRELOAD, jemalloc::VARIABLE]
                .iter()
                .any(|name| line.starts_with(&format!("Environment={name}=")))
    };
    match text.lines().enumerate().find(|(_, line)| !is_ours(line)) {
        None => Ok(()),
        Some((place, line)) => Err(failure(
            Exit::Failure,
            format!(
                "{path}, line {}: {line:?} is not of `coldstream attach-config`: move it into a file of its own",
                place + 1
            ),
        )),
    }
}

/// The text of the drop-in, and what to look at.
fn text(root: &Root, unit: &Unit, wanted: &Wanted) -> anyhow::Result<(String, Vec<String>)> {
    let (name, value) = preload(root, unit, wanted)?;
    let profile = if unit.is_cassandra() {
        Some("cassandra")
    } else if ["mariadb", "mysql"]
        .iter()
        .any(|it| unit.name.starts_with(it))
    {
        Some("rocksdb")
    } else {
        None
    };
    let variables = wanted.with_profile(profile);
    let mut lines = vec![
        format!(
            "{MARK}{}`, which takes it away with --remove --write.",
            unit.name
        ),
        "[Service]".to_owned(),
        environment(name, &value),
    ];
    lines.extend(
        variables
            .iter()
            .map(|(name, value)| environment(name, value)),
    );
    let keeps_priority = variables
        .iter()
        .any(|it| *it == ("COLDSTREAM_PRIORITY", "off".to_owned()));
    if unit.setting("LimitNICE").is_none() && !keeps_priority {
        lines.push("# Lets background threads have their former nice value back.".to_owned());
        lines.push("LimitNICE=+0".to_owned());
    }
    let mut notes = Vec::new();
    notes.extend(
        (!unit.is_of_root())
            .then(|| wanted.note_of_closed_settings())
            .flatten(),
    );
    if let Some(filter) = unit.setting("SystemCallFilter")
        && unit.setting("SystemCallErrorNumber").is_none()
    {
        notes.push(format!(
            "{} filters system calls, and a filter kills: set SystemCallErrorNumber=EPERM there, or name calls with \
             --avoid",
            filter.file.display()
        ));
    }
    Ok((lines.join("\n") + "\n", notes))
}

/// A line that sets a variable. `%` is systemd's own character.
fn environment(name: &str, value: &str) -> String {
    let assignment = format!("{name}={}", value.replace('%', "%%"));
    if assignment.contains(char::is_whitespace) {
        return format!("Environment=\"{assignment}\"");
    }
    format!("Environment={assignment}")
}

/// The variable that makes the loader load the library, and its value. What the unit preloads already stays.
fn preload(root: &Root, unit: &Unit, wanted: &Wanted) -> anyhow::Result<(&'static str, String)> {
    for key in ["RootDirectory", "RootImage"] {
        if let Some(setting) = unit.setting(key) {
            let message = format!(
                "{}: {key}={}: the library is not in that root; copy it there, and set LD_PRELOAD by hand",
                setting.file.display(),
                setting.value
            );
            return Err(failure(Exit::Failure, message));
        }
    }
    let variables = unit.variables(root)?;
    let value_of = |name: &str| {
        variables
            .get(name)
            .map(|it: &Variable| OsStr::new(&it.value))
    };
    let list = library::preload_value(&wanted.library, value_of(PRELOAD))?;
    let by_script = unit.is_cassandra_by_script().then(|| {
        let installed = jemalloc::find_installed(root);
        let before = value_of(jemalloc::VARIABLE);
        jemalloc::variable_value(&list, before, installed.as_deref())
    });
    let (name, value) = match by_script.flatten() {
        Some(value) => (jemalloc::VARIABLE, value),
        None => (PRELOAD, list),
    };
    if let Some(variable) = variables.get(name).filter(|it| it.is_of_environment_file) {
        let message = format!(
            "{} sets {name}, and wins over any drop-in of {}: write {name}={} there, or take that line away",
            root.at(&variable.file).display(),
            unit.name,
            value.display()
        );
        return Err(failure(Exit::Failure, message));
    }
    if let Some(line) = unit.overridden_by(root, name) {
        let message = format!(
            "{}, line {} sets {name}, and wins over any drop-in of {}: move it into a drop-in of your own \
             (Environment={name}=…), then its value is kept",
            root.at(&line.file).display(),
            line.number,
            unit.name
        );
        return Err(failure(Exit::Failure, message));
    }
    if let Some(setting) = unit.unsets(name) {
        let message = format!(
            "{}: UnsetEnvironment={} takes {name} away from {}: delete that line",
            root.at(&setting.file).display(),
            setting.value,
            unit.name
        );
        return Err(failure(Exit::Failure, message));
    }
    Ok((name, value.to_string_lossy().into_owned()))
}
