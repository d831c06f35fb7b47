//! A service of systemd and Coldstream, before its restart and after: whether its files load the library, and what
//! would keep it from being loaded or from working.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use coldstream_host::user_name;
use serde::Serialize;

use super::cassandra;
use super::environment::{Environment, Settings};
use super::paths;
use crate::configuration_file;
use crate::library::{self, PRELOAD};
use crate::loader;
use crate::run::{self, elf, jemalloc};
use crate::trust::{self, Changeable};
use crate::unit::start_settings::{self, LoadingLine};
use crate::unit::{Root, Unit, Variable};

/// Where systemd keeps the processes of its services: cgroup v2, and v1.
const GROUPS: [&str; 2] = [
    "/sys/fs/cgroup/system.slice",
    "/sys/fs/cgroup/systemd/system.slice",
];
/// Programs between systemd and a database that may start it with another environment.
const STARTERS: [&str; 3] = ["sudo", "su", "env -i"];
/// Directories of libraries that the loader may put in the place of `$LIB`: where the C library is.
const LIBRARIES: [&str; 4] = [
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "lib64",
    "lib",
];
/// Processes of a service that are examined.
const PROCESSES_MAX: usize = 16;

/// The report about a service.
#[derive(Serialize)]
pub struct Service {
    /// Its name.
    pub unit: String,
    /// The files that say how it starts.
    #[serde(serialize_with = "paths::all")]
    pub files: Vec<PathBuf>,
    /// The file that loads the library.
    #[serde(serialize_with = "paths::maybe")]
    pub attached_by: Option<PathBuf>,
    /// The library, as the service sees it.
    #[serde(serialize_with = "paths::maybe")]
    pub library: Option<PathBuf>,
    /// Its processes.
    pub processes: Vec<u32>,
    /// What to change.
    pub advice: Vec<String>,
}

/// Examines a service.
pub fn examine(root: &Root, name: &str) -> anyhow::Result<Service> {
    let unit = Unit::find(root, name)?;
    let variables = unit.variables(root)?;
    let by_variable = [jemalloc::VARIABLE, PRELOAD].iter().find_map(|name| {
        let variable = variables.get(*name)?;
        Some((*name, variable, library::listed_in(&variable.value)?))
    });
    let is_cassandra = unit.is_cassandra();
    let by_script = unit.loading_start_settings(root);
    let mut service = Service {
        unit: unit.name.clone(),
        files: unit.files.clone(),
        attached_by: None,
        library: None,
        processes: if root.is_own() {
            processes(&unit.name)
        } else {
            Vec::new()
        },
        advice: if is_cassandra {
            let options = variables.get("JVM_EXTRA_OPTS").map_or("", |it| &it.value);
            let options = [options, &start_settings::text(root)].join(" ");
            cassandra::advice_on_packaged(root, &options)
        } else {
            Vec::new()
        },
    };
    match (&by_variable, &by_script) {
        (Some((_, variable, library)), _) => {
            service.attached_by = Some(variable.file.clone());
            service.library = Some(with_directory_of_libraries(root, library));
        }
        (None, Some((path, text))) => {
            service.attached_by = Some(path.into());
            service.library = library::named_in(text);
        }
        (None, None) => {}
    }
    let Some(path) = &service.library else {
        service.advice.push(format!(
            "no file of the unit loads Coldstream: `coldstream attach-config {}` prints what does",
            unit.name
        ));
        return Ok(service);
    };
    let mut advice = std::mem::take(&mut service.advice);
    advice.extend(library_advice(root, path));
    if let (Some((name, variable, _)), true) = (&by_variable, by_script.is_none()) {
        let without_jemalloc =
            (variables.get(jemalloc::VARIABLE)).is_some_and(|it| it.value == jemalloc::NONE);
        advice.extend(variable_advice(
            root,
            &unit,
            name,
            variable,
            without_jemalloc,
        ));
    }
    let overridden = match (&by_variable, &by_script) {
        (Some((name, ..)), _) => (unit.overridden_by(root, name)).map(|line| (*name, line)),
        (None, Some((file, text))) => {
            let name = jemalloc::VARIABLE;
            start_settings::line_behind_library(text, name).map(|number| {
                let file = file.into();
                (name, LoadingLine { file, number })
            })
        }
        (None, None) => None,
    };
    advice.extend(overridden.map(|(name, line)| {
        format!(
            "{}, line {} sets {name} and wins, so the library may be lost: take that line away",
            line.file.display(),
            line.number
        )
    }));
    let mut settings: BTreeMap<String, String> = (variables.iter())
        .map(|(name, variable)| (name.clone(), variable.value.clone()))
        .collect();
    if is_cassandra {
        settings.extend(start_settings::settings(root));
    }
    let priorities_are_off = settings
        .get("COLDSTREAM_PRIORITY")
        .is_some_and(|it| it == "off");
    advice.extend(settings_advice(
        root,
        &Environment::of_pairs(settings.into_iter()),
    ));
    advice.extend(limits_advice(&unit, priorities_are_off));
    service.advice = advice;
    Ok(service)
}

/// A path with the directory that the loader puts in the place of `$LIB`.
fn with_directory_of_libraries(root: &Root, path: &Path) -> PathBuf {
    let has_libc = |directory: &&&str| root.at(directory).join("libc.so.6").exists();
    match LIBRARIES.iter().find(has_libc) {
        Some(directory) => loader::filled_in(path, loader::DIRECTORY_OF_LIBRARIES, directory),
        None => path.to_owned(),
    }
}

fn library_advice(root: &Root, path: &Path) -> Option<String> {
    if loader::has_token(path) {
        return Some(format!(
            "the loader fills in what `$` stands for in {} at the start, so whether the library is there cannot be \
             checked: write its whole path",
            path.display()
        ));
    }
    let there = root.at(path);
    match library::is_there(&there) {
        Ok(true) => {}
        Ok(false) => {
            return Some(format!(
                "there is no library at {}: the service would start without it; install the package, or run \
                 `coldstream attach-config` again",
                there.display()
            ));
        }
        Err(error) => return Some(format!("{error:#}")),
    }
    let checked = elf::check_library(&there).and_then(|()| library::check_readable_by_all(&there));
    if let Err(error) = checked {
        return Some(format!("{error:#}"));
    }
    let Changeable { part, owner } = trust::changeable_by_others(&there)?;
    Some(format!(
        "{} may be changed by user {}, or by all: who can replace the library runs code in the service. Install \
         the package, or name a copy that only root can change",
        part.display(),
        user_name::shown(owner)
    ))
}

/// What keeps the variable from the database.
fn variable_advice(
    root: &Root,
    unit: &Unit,
    name: &str,
    variable: &Variable,
    without_jemalloc: bool,
) -> Vec<String> {
    let mut advice = Vec::new();
    if name == PRELOAD
        && unit.is_cassandra_by_script()
        && !without_jemalloc
        && let Some(jemalloc) = jemalloc::find_installed(root)
    {
        advice.push(format!(
            "Cassandra's start script finds {} and replaces LD_PRELOAD with it, so the library is lost: set {} in {} \
             instead",
            jemalloc.display(),
            jemalloc::VARIABLE,
            variable.file.display()
        ));
    }
    if name == jemalloc::VARIABLE && !unit.is_cassandra_by_script() {
        advice.push(format!(
            "the unit does not start Cassandra by its script, and nothing else reads {name}: set LD_PRELOAD"
        ));
    }
    for setting in unit.settings("ExecStart") {
        let has = |starter: &&&str| {
            let words = format!(" {} ", setting.value.replace(['/', '"', ';'], " "));
            words.contains(&format!(" {starter} "))
        };
        if let Some(starter) = STARTERS.iter().find(has) {
            advice.push(format!(
                "ExecStart= of {} starts the database by `{starter}`, which may drop {name}: use User= instead",
                setting.file.display()
            ));
        }
    }
    for key in ["RootDirectory", "RootImage"] {
        advice.extend(
            unit.setting(key).map(|setting| {
                format!("{key}={}: the library must be in that root", setting.value)
            }),
        );
    }
    advice
}

fn settings_advice(root: &Root, environment: &Environment) -> Vec<String> {
    let mut advice = Vec::new();
    match environment.settings_with(|path| configuration_file::read(&root.at(path))) {
        Settings::Accepted => {}
        Settings::Off => advice.push("COLDSTREAM=off: the library would do nothing".to_owned()),
        Settings::Refused(why) => advice.push(format!(
            "the library would refuse its settings and do nothing: {why}"
        )),
    }
    let unknown = environment.unknown_variables().into_iter();
    advice.extend(unknown.map(|name| {
        format!(
            "{name} would be ignored: it is not a variable of Coldstream{}",
            run::did_you_mean(&name)
        )
    }));
    advice
}

fn limits_advice(unit: &Unit, priorities_are_off: bool) -> Vec<String> {
    let mut advice = Vec::new();
    if unit.setting("LimitNICE").is_none() && !unit.is_of_root() && !priorities_are_off {
        advice.push(
            "nice values would stay as they are: `LimitNICE=+0` lets background threads have a lower one and get it \
             back"
                .to_owned(),
        );
    }
    if let Some(filter) = unit.setting("SystemCallFilter")
        && unit.setting("SystemCallErrorNumber").is_none()
    {
        advice.push(format!(
            "SystemCallFilter= in {} kills for a call that it does not allow: set SystemCallErrorNumber=EPERM, or \
             name calls in COLDSTREAM_AVOID",
            filter.file.display()
        ));
    }
    advice
}

/// The processes that run now; none is known where systemd does not run.
fn processes(unit: &str) -> Vec<u32> {
    let lists = GROUPS.map(|group| Path::new(group).join(unit).join("cgroup.procs"));
    let text = lists.iter().find_map(|list| fs::read_to_string(list).ok());
    let pids = text.unwrap_or_default();
    pids.lines()
        .filter_map(|line| line.trim().parse().ok())
        .take(PROCESSES_MAX)
        .collect()
}

/// What to do with processes that run already.
pub fn restart_advice(service: &Service, with_library: usize) -> Option<String> {
    let is_wanted = service.library.is_some();
    if service.processes.is_empty() || is_wanted == (with_library > 0) {
        return None;
    }
    let what = if is_wanted { "without" } else { "with" };
    Some(format!(
        "its processes run {what} the library still: `sudo systemctl daemon-reload && sudo systemctl restart {}`",
        service.unit
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_found_in_lists_and_scripts() {
        for text in [
            "/opt/libcoldstream.so",
            "/a.so:/opt/libcoldstream.so",
            "/a.so /opt/libcoldstream.so",
        ] {
            assert_eq!(
                library::listed_in(text),
                Some("/opt/libcoldstream.so".into()),
                "{text}"
            );
        }
        for text in [
            "/opt/libcoldstream.so",
            "x=1\nexport A=\"/opt/libcoldstream.so:${A:-/j.so}\"\n",
        ] {
            assert_eq!(
                library::named_in(text),
                Some("/opt/libcoldstream.so".into()),
                "{text}"
            );
        }
        assert_eq!(library::named_in("/opt/libcoldstream.so.old"), None);
    }
}
