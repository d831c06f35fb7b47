//! What one run of `coldstream attach-config` wants, and the change that comes of it.

use std::path::{Path, PathBuf};

use coldstream_policy::{Config, LogTarget};
use rustix::io::Errno;

use super::change::Change;
use crate::exit::{self, Exit, failure};
use crate::run::log_file;
use crate::run::settings::{self, SettingsArguments};
use crate::unit::Root;
use crate::{library, run};

/// A change, and what to say of it.
pub struct Plan {
    /// The change of the file.
    pub change: Change,
    /// The drop-in, or the block of lines.
    pub text: String,
    /// What to look at.
    pub notes: Vec<String>,
    /// The commands that make it take effect.
    pub next: Vec<String>,
}

/// What the database must get.
pub struct Wanted {
    /// The library, as the database sees it.
    pub library: PathBuf,
    /// Settings of the options.
    pub variables: Vec<(&'static str, String)>,
    /// The settings file, where it is now.
    settings_file: Option<PathBuf>,
}

impl Wanted {
    /// Checks the library and the settings.
    pub fn new(
        root: &Root,
        library: Option<&Path>,
        settings: &SettingsArguments,
    ) -> anyhow::Result<Self> {
        let library = match library {
            Some(path) if !root.is_own() => path.to_owned(),
            asked => library::find(asked, "--library")?,
        };
        let there = root.at(&library);
        if !library::is_there(&there)? {
            return Err(failure(
                Exit::NotFound,
                format!(
                    "no library at {}: install the package there, or name its path inside with --library",
                    there.display()
                ),
            ));
        }
        run::elf::check_library(&there)?;
        library::preload_value(&library, None)?;
        check_text(&library.to_string_lossy(), "the library's path")?;
        library::check_readable_by_all(&there)?;
        let variables = settings::variables(settings)?;
        for (name, value) in &variables {
            check_text(value, name)?;
        }
        let settings_file = check_files(root, &variables)?;
        Ok(Self {
            library,
            variables,
            settings_file,
        })
    }

    /// What to look at if the database does not run as root: a settings file that not everybody can read. A group
    /// of the database's user may be able to.
    pub fn note_of_closed_settings(&self) -> Option<String> {
        let file = self.settings_file.as_deref()?;
        let part = library::closed_to_others(file)?;
        Some(format!(
            "{} is closed to others: if the database's user cannot read {}, Coldstream is off",
            part.display(),
            file.display()
        ))
    }

    /// The variables, with a profile that suits if the options name none.
    pub fn with_profile(&self, profile: Option<&str>) -> Vec<(&'static str, String)> {
        const PROFILE: &str = "COLDSTREAM_PROFILE";
        let mut variables = self.variables.clone();
        let is_given = variables.iter().any(|(name, _)| *name == PROFILE);
        if let Some(profile) = profile.filter(|_| !is_given) {
            variables.insert(0, (PROFILE, profile.to_owned()));
        }
        variables
    }
}

/// Which settings the former text has, and the new one lacks. The text is replaced as a whole.
pub fn note_of_lost_settings(before: &str, after: &str) -> Option<String> {
    let kept: Vec<_> = settings_in(after).map(|(name, _)| name).collect();
    let lost = settings_in(before).filter(|(name, _)| !kept.contains(name));
    let lost: Vec<_> = lost
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    (!lost.is_empty()).then(|| {
        format!(
            "without these former settings: {}. To keep them, give their options again",
            lost.join(", ")
        )
    })
}

/// The settings of Coldstream in our lines of a drop-in or a start script, with their values.
fn settings_in(text: &str) -> impl Iterator<Item = (&str, &str)> {
    const QUOTES: [char; 2] = ['"', '\''];
    let starts = ["Environment=", "export "];
    let assignments = text
        .lines()
        .filter_map(move |line| starts.iter().find_map(|start| line.strip_prefix(start)));
    let pairs =
        assignments.filter_map(|assignment| assignment.trim_matches(QUOTES).split_once('='));
    let ours = pairs.filter(|(name, _)| name.starts_with("COLDSTREAM"));
    ours.map(|(name, value)| (name, value.trim_matches(QUOTES)))
}

/// Refuses a settings file and a log that `coldstream run` refuses, in the same words. Returns the settings file.
fn check_files(
    root: &Root,
    variables: &[(&'static str, String)],
) -> anyhow::Result<Option<PathBuf>> {
    let value = |name: &str| {
        let mut variables = variables.iter();
        let (_, value) = variables.find(|(variable, _)| *variable == name)?;
        Some(value.clone())
    };
    let file = value("COLDSTREAM_CONFIG").map(|path| root.at(path));
    let text = file.as_deref().map(settings::read_file).transpose()?;
    match Config::from_sources(text.as_deref(), value)?.log {
        LogTarget::File(log) => check_log(&root.at(log))?,
        LogTarget::None | LogTarget::Stderr => {}
    }
    Ok(file)
}

/// Refuses a log without a directory. Does not make the log: its owner must be the database's user.
fn check_log(path: &Path) -> anyhow::Result<()> {
    let directory = path.parent().unwrap_or(path);
    let found = match directory.join(".").metadata() {
        Ok(_) if path.is_dir() => Err(Errno::ISDIR.into()),
        found => found,
    };
    match found {
        Ok(_) => Ok(()),
        // The database's user may see more than this one.
        Err(error) if exit::of_io(&error) == Exit::Permission => Ok(()),
        Err(error) => Err(log_file::not_written(path, &error)),
    }
}

/// Refuses what unit files and shells would read in another way.
fn check_text(text: &str, what: &str) -> anyhow::Result<()> {
    match text
        .chars()
        .find(|it| it.is_control() || "\"'\\`".contains(*it))
    {
        None => Ok(()),
        Some(character) => Err(failure(
            Exit::Usage,
            format!(
                "{what} has a {character:?}, which unit files and shells read in different ways: leave it out"
            ),
        )),
    }
}
