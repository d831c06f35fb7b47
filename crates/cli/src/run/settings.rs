//! Options over environment over file over defaults, each error with its source.

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use coldstream_policy::{Allowed, Config, ConfigError, SETTINGS, Setting, VARIABLES};

use crate::exit::{Exit, failure};
use crate::{configuration_file, library, output};

/// What the names of all variables begin with, but for `COLDSTREAM` itself.
const BEGINNING: &str = "COLDSTREAM_";

/// The settings as options, made of [`SETTINGS`], and `--config`.
#[derive(Default)]
pub struct SettingsArguments {
    given: Vec<Given>,
    config: Option<PathBuf>,
}

/// A setting with the value that its option gave.
type Given = (&'static Setting, String);

impl Args for SettingsArguments {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help(
                "TOML file with the same settings; COLDSTREAM_… variables and options win over it",
            );
        command
            .args(SETTINGS.iter().filter_map(option))
            .next_help_heading(None)
            .arg(config)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// The option of a setting, if it has one.
fn option(setting: &'static Setting) -> Option<Arg> {
    let name = setting.option()?;
    let mut paragraphs = setting.paragraphs().map(|it| it.replace('`', ""));
    let summary = paragraphs.next().unwrap_or_default();
    let default = setting.default_text();
    let arg = Arg::new(name)
        .long(name)
        .value_name(setting.value_name())
        .help_heading(setting.section.title());
    let (arg, range) = match setting.allowed() {
        Allowed::Switch => (
            arg.value_parser(["on", "off"]).hide_possible_values(true),
            String::new(),
        ),
        Allowed::Names { names, former } => {
            let values = names.iter().map(|name| {
                let aliases = former.iter().filter(|(_, present)| present == name);
                PossibleValue::new(*name).aliases(aliases.map(|(former, _)| *former))
            });
            (
                arg.value_parser(PossibleValuesParser::new(values)),
                String::new(),
            )
        }
        // The program may run elsewhere: `absolute_log` makes any path absolute.
        _ if setting.key == "log" => (arg, "; none, stderr or a file".to_owned()),
        allowed => (arg, format!("; {allowed}")),
    };
    let summary = summary.trim_end_matches('.');
    let short = format!("{summary}{range} [default: {default}]");
    let long = paragraphs.fold(short.clone(), |text, next| format!("{text}\n\n{next}"));
    Some(arg.help(short).long_help(long))
}

impl FromArgMatches for SettingsArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = SETTINGS.iter().filter_map(|setting| {
            let value: &String = matches.get_one(setting.option()?)?;
            Some((setting, value.clone()))
        });
        Ok(Self {
            given: given.collect(),
            config: matches.get_one("config").cloned(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl SettingsArguments {
    /// What the options give, with an absolute path of the log.
    fn given(&self) -> anyhow::Result<Vec<Given>> {
        let given = self.given.iter().map(|(setting, value)| {
            let value = match setting.key {
                "log" => absolute_log(value)?,
                _ => value.clone(),
            };
            Ok((*setting, value))
        });
        given.collect()
    }
}

/// The value that the options give a variable.
fn value_of(options: &[Given], name: &str) -> Option<String> {
    let mut options = options.iter();
    let (_, value) = options.find(|(setting, _)| setting.variable == name)?;
    Some(value.clone())
}

/// What the options give, as variables; nothing of this program's own environment.
pub fn variables(arguments: &SettingsArguments) -> anyhow::Result<Vec<(&'static str, String)>> {
    let options = arguments.given()?;
    let given = |name: &str| value_of(&options, name);
    Config::from_sources(None, given).map_err(|error| option_error(&error))?;
    let mut variables: Vec<_> = options
        .into_iter()
        .map(|(setting, value)| (setting.variable, value))
        .collect();
    if let Some(path) = &arguments.config {
        variables.push(("COLDSTREAM_CONFIG", absolute("--config", path)?));
    }
    Ok(variables)
}

/// The program may change its directory; the file stays where the user meant it.
fn absolute_log(log: &str) -> anyhow::Result<String> {
    if matches!(log, "" | "none" | "stderr") {
        return Ok(log.to_owned());
    }
    absolute("--log", Path::new(log))
}

/// The absolute path that an option names, as the value of a variable.
fn absolute(option: &str, path: &Path) -> anyhow::Result<String> {
    let path = std::path::absolute(path)?;
    path.into_os_string().into_string().map_err(|path| {
        let message = format!("{option} {}: the path must be UTF-8", path.display());
        failure(Exit::Usage, message)
    })
}

/// The configuration that options, environment and file make together.
pub fn effective(arguments: &SettingsArguments) -> anyhow::Result<Config> {
    let options = arguments.given()?;
    if let Some((setting, _)) = options.iter().find(|(_, value)| value.is_empty()) {
        let option = setting.option().unwrap_or_default();
        let message = format!("--{option}: its value is empty: give one, or leave it out");
        return Err(failure(Exit::Usage, message));
    }
    let given = |name: &str| value_of(&options, name);
    // Each source is checked alone first, so that the error can name it.
    Config::from_sources(None, given).map_err(|error| option_error(&error))?;
    Config::from_sources(None, from_environment)
        .map_err(|error| failure(Exit::Configuration, format!("environment: {error}")))?;
    warn_of_unknown_variables();

    let file = arguments
        .config
        .clone()
        .or_else(|| from_environment("COLDSTREAM_CONFIG").map(PathBuf::from))
        .filter(|path| !path.as_os_str().is_empty());
    let text = file.as_deref().map(read_file).transpose()?;
    let merged = |name: &str| given(name).or_else(|| from_environment(name));
    Config::from_sources(text.as_deref(), merged)
        .map_err(|error| failure(Exit::Configuration, error.to_string()))
}

/// What the environment's `COLDSTREAM` says by itself, which is the way out whatever is wrong with other
/// settings; none if it is wrong, too.
pub fn switch_alone() -> Option<Config> {
    let alone = |name: &str| from_environment(name).filter(|_| name == "COLDSTREAM");
    Config::from_sources(None, alone).ok()
}

fn from_environment(name: &str) -> Option<String> {
    let value = std::env::var_os(name)?;
    Some(value.to_string_lossy().into_owned())
}

/// A misspelt variable would otherwise be silently without effect.
fn warn_of_unknown_variables() {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if is_unknown_variable(&name) {
            output::say(&format!(
                "{name} is not a variable of Coldstream: ignored{}",
                did_you_mean(&name)
            ));
        }
    }
}

/// Whether a variable looks like one of Coldstream's, and is none.
pub fn is_unknown_variable(name: &str) -> bool {
    let is_known = VARIABLES.contains(&name) || name == library::VARIABLE;
    name.starts_with(BEGINNING) && !is_known
}

/// What to add to a message about an unknown variable: the known one with the nearest name, if one is near.
pub fn did_you_mean(unknown: &str) -> String {
    nearest_variable(unknown).map_or_else(String::new, |it| format!("; did you mean {it}?"))
}

/// A variable that is misspelt, or else one of which the name goes on or ends early.
fn nearest_variable(unknown: &str) -> Option<&'static str> {
    const TYPING_ERRORS_MAX: usize = 2;
    let rest = |name: &'static str| name.strip_prefix(BEGINNING);
    let unknown = unknown.strip_prefix(BEGINNING)?;
    let known = || VARIABLES.into_iter().chain([library::VARIABLE]);
    let misspelt = known().filter_map(|name| {
        let errors = strsim::damerau_levenshtein(rest(name)?, unknown);
        // Of a short name two errors leave nothing.
        (errors <= TYPING_ERRORS_MAX && 2 * errors < unknown.len()).then_some((errors, name))
    });
    let cut = known().filter_map(|name| {
        let rest = rest(name)?;
        let is_part = rest.starts_with(unknown) || unknown.starts_with(rest);
        (is_part && !unknown.is_empty()).then_some((rest.len().abs_diff(unknown.len()), name))
    });
    let nearest = misspelt.min().or_else(|| cut.min());
    nearest.map(|(_, name)| name)
}

/// The text of a configuration file that has no error in itself.
pub fn read_file(path: &Path) -> anyhow::Result<String> {
    let text = configuration_file::read(path).map_err(|error| {
        let message = format!("cannot read configuration file {}: {error}", path.display());
        failure(Exit::Configuration, message)
    })?;
    Config::from_sources(Some(&text), |_| None).map_err(|error| {
        let message = format!("configuration file {}: {error}", path.display());
        failure(Exit::Configuration, message)
    })?;
    Ok(text)
}

/// The user wrote an option, not the variable that an error names.
fn option_error(error: &ConfigError) -> anyhow::Error {
    let message = match error {
        ConfigError::Value {
            key,
            value,
            allowed,
        } => {
            let setting = SETTINGS.iter().find(|setting| setting.variable == *key);
            let option = setting.and_then(Setting::option).unwrap_or(key);
            format!("--{option} = \"{value}\": {allowed}")
        }
        ConfigError::Toml { .. } => error.to_string(),
    };
    failure(Exit::Usage, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_was_meant_is_the_nearest() {
        for (unknown, meant) in [
            ("COLDSTREAM_MEMORY", Some("COLDSTREAM_MEMORY_BYTES")),
            ("COLDSTREAM_READ", Some("COLDSTREAM_READS")),
            ("COLDSTREAM_PROFLIE", Some("COLDSTREAM_PROFILE")),
            ("COLDSTREAM_LOG_FILE", Some("COLDSTREAM_LOG")),
            ("COLDSTREAM_LIB", Some("COLDSTREAM_LIBRARY")),
            ("COLDSTREAM_COLOUR", None),
            ("COLDSTREAM_X", None),
            ("COLDSTREAM_", None),
        ] {
            assert_eq!(nearest_variable(unknown), meant, "{unknown}");
        }
    }

    #[test]
    fn every_option_sets_what_it_is_called() {
        let command = SettingsArguments::augment_args(Command::new("run"));
        let names = command.get_arguments().filter_map(|it| it.get_long());
        let mut variables = Vec::new();
        for name in names.filter(|name| *name != "config") {
            let option = format!("--{name}");
            let value = ["auto", "on", "scans", "cached", "1", "1MiB"]
                .into_iter()
                .find_map(|value| {
                    let command = command.clone();
                    command.try_get_matches_from(["run", &option, value]).ok()
                })
                .unwrap_or_else(|| panic!("{option}: add a value to the list above"));
            let arguments = SettingsArguments::from_arg_matches(&value).unwrap();
            let given = arguments.given().unwrap();
            let [(setting, _)] = given[..] else {
                panic!("{option} sets {} settings", given.len());
            };
            assert_eq!(setting.option(), Some(name));
            assert!(VARIABLES.contains(&setting.variable));
            variables.push(setting.variable);
        }
        let options = SETTINGS.iter().filter_map(Setting::option);
        assert_eq!(variables.len(), options.count());
    }
}
