//! The environment that a process was started with, and the settings that the library reads in it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use coldstream_host::process::{self, proc_path};
use coldstream_policy::{Config, LogTarget, Profile, separates_libraries};
use rustix::fs::{Mode, OFlags, ResolveFlags};

use crate::{configuration_file, library, loader, run};

/// The environment of a process, as text.
pub struct Environment {
    variables: Vec<(String, String)>,
}

/// The library's verdict on its settings.
#[derive(Debug, PartialEq, Eq)]
pub enum Settings {
    /// They are in force.
    Accepted,
    /// They switch it off.
    Off,
    /// It does not understand them, for this reason, and is off.
    Refused(String),
}

impl Environment {
    /// That of a process; empty if it cannot be read.
    pub fn of_process(pid: u32) -> Self {
        Self::of_variables(process::environment(pid))
    }

    /// That of a service, from its files.
    pub fn of_pairs(variables: impl Iterator<Item = (String, String)>) -> Self {
        Self {
            variables: variables.collect(),
        }
    }

    fn of_variables(variables: Vec<(OsString, OsString)>) -> Self {
        let text = |bytes: OsString| bytes.to_string_lossy().into_owned();
        let variables = variables
            .into_iter()
            .map(|(name, value)| (text(name), text(value)));
        Self {
            variables: variables.collect(),
        }
    }

    /// The value that `getenv` returns: of the first variable with this name.
    fn value(&self, wanted: &str) -> Option<String> {
        let mut variables = self.variables.iter();
        let (_, value) = variables.find(|(name, _)| name == wanted)?;
        Some(value.clone())
    }

    /// Whether it has a variable.
    pub fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// Whether it asks the loader to preload the library.
    pub fn asks_for_library(&self) -> bool {
        let preload = self.value(library::PRELOAD);
        preload.is_some_and(|preload| preload.contains(library::FILE_NAME))
    }

    /// The library, if the loader is asked to preload it by its own name. What the loader fills in is left in it.
    pub fn library_asked_for(&self) -> Option<PathBuf> {
        library::listed_in(&self.value(library::PRELOAD)?)
    }

    /// Whether the loader is asked to preload this file, under this path.
    pub fn preloads(&self, file: &Path) -> bool {
        let preload = self.value(library::PRELOAD).unwrap_or_default();
        let mut entries = preload.as_bytes().split(|byte| separates_libraries(*byte));
        entries.any(|entry| loader::may_mean(Path::new(OsStr::from_bytes(entry)), file))
    }

    /// The C interface, if the loader is asked to preload that: its name resembles the library's.
    pub fn c_interface_preloaded(&self) -> Option<PathBuf> {
        library::c_interface_in(&self.value(library::PRELOAD)?)
    }

    /// Variables that look like Coldstream's but have no meaning.
    pub fn unknown_variables(&self) -> Vec<String> {
        let names = self.variables.iter().map(|(name, _)| name);
        names
            .filter(|name| run::is_unknown_variable(name))
            .cloned()
            .collect()
    }

    /// The library's verdict, as far as it can be known from outside. A configuration file is passed over if this
    /// user may not read it, or if its path is relative.
    pub fn settings(&self, pid: u32) -> Settings {
        self.settings_with(|path| read_in_its_root(pid, path))
    }

    /// The profile, unless the settings are refused.
    pub fn profile(&self, pid: u32) -> Option<Profile> {
        let config = self.config(|path| read_in_its_root(pid, path));
        config.ok().map(|config| config.profile)
    }

    /// The file of the log, unless the settings are refused.
    pub fn log_file(&self, pid: u32) -> Option<PathBuf> {
        let config = self.config(|path| read_in_its_root(pid, path)).ok()?;
        match config.log {
            LogTarget::File(path) if config.enabled => Some(path),
            _ => None,
        }
    }

    /// The library's verdict; `read` reads a configuration file.
    pub fn settings_with(&self, read: impl Fn(&Path) -> io::Result<String>) -> Settings {
        match self.config(read) {
            Ok(config) if config.enabled => Settings::Accepted,
            Ok(_) => Settings::Off,
            Err(why) => Settings::Refused(why),
        }
    }

    /// What the library reads, or why it refuses it.
    fn config(&self, read: impl Fn(&Path) -> io::Result<String>) -> Result<Config, String> {
        let file = self.value("COLDSTREAM_CONFIG").map(PathBuf::from);
        let file = file.filter(|path| path.is_absolute());
        let text = match file.as_deref().map(|path| (path, read(path))) {
            Some((path, Err(error))) if is_refused(&error) => {
                return Err(format!("COLDSTREAM_CONFIG = {}: {error}", path.display()));
            }
            Some((_, text)) => text.ok(),
            None => None,
        };
        Config::from_sources(text.as_deref(), |name| self.value(name))
            .map_err(|error| error.to_string())
    }
}

/// Whether the library also refuses a file that is read with this error.
fn is_refused(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::InvalidData
    )
}

/// The file at an absolute path, as the process sees it. It may be in a container.
fn read_in_its_root(pid: u32, path: &Path) -> io::Result<String> {
    let root = fs::File::open(proc_path(pid, "root"))?;
    let flags = configuration_file::FLAGS | OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat2(&root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)?;
    configuration_file::read_open(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[&str]) -> Environment {
        let environ = variables.join("\0");
        Environment::of_variables(process::parse_environment(environ.as_bytes()))
    }

    fn settings(variables: &[&str]) -> Settings {
        environment(variables).settings_with(|path| match path.to_str() {
            Some("/etc/wrong.toml") => Ok("reads = \"fast\"\n".to_owned()),
            Some("/etc/secret.toml") => Err(io::ErrorKind::PermissionDenied.into()),
            _ => Err(io::ErrorKind::NotFound.into()),
        })
    }

    #[test]
    fn the_library_is_asked_for_by_the_first_variable() {
        let preload = "LD_PRELOAD=/opt/libcoldstream.so:/a.so";
        assert!(environment(&["A=1", preload, ""]).asks_for_library());
        assert!(!environment(&["LD_PRELOAD=/a.so", preload]).asks_for_library());
        assert!(!environment(&[]).asks_for_library());
    }

    #[test]
    fn what_the_loader_fills_in_cuts_no_path() {
        for path in [
            "/usr/$LIB/libcoldstream.so",
            "${ORIGIN}/../libcoldstream.so",
        ] {
            let asked = environment(&[&format!("LD_PRELOAD=/a.so:{path}")]);
            assert_eq!(asked.library_asked_for(), Some(path.into()));
        }
        let other = environment(&["LD_PRELOAD=/usr/${LIB}/other.so"]);
        assert!(other.preloads(Path::new("/usr/lib64/other.so")));
        assert!(!other.preloads(Path::new("/opt/other.so")));
    }

    #[test]
    fn misspelt_names_are_reported() {
        let variables = [
            "COLDSTREAM_WRITE=buffered",
            "COLDSTREAM_WRITES=direct",
            "X=1",
        ];
        assert_eq!(
            environment(&variables).unknown_variables(),
            ["COLDSTREAM_WRITE"]
        );
    }

    #[test]
    fn settings_are_accepted_off_or_refused() {
        assert_eq!(settings(&["COLDSTREAM_WRITES=direct"]), Settings::Accepted);
        assert_eq!(settings(&["COLDSTREAM=off"]), Settings::Off);
        assert_eq!(settings(&["COLDSTREAM_CONFIG="]), Settings::Accepted);
        for path in ["/etc/secret.toml", "here.toml"] {
            let variable = format!("COLDSTREAM_CONFIG={path}");
            assert_eq!(settings(&[&variable]), Settings::Accepted, "{path}");
        }
        for (variable, words) in [
            ("COLDSTREAM_WRITES=fast", "COLDSTREAM_WRITES"),
            (
                "COLDSTREAM_CONFIG=/etc/wrong.toml",
                "/etc/wrong.toml: line 1: reads",
            ),
            ("COLDSTREAM_CONFIG=/etc/gone.toml", "/etc/gone.toml"),
        ] {
            let Settings::Refused(why) = settings(&[variable]) else {
                panic!("{variable} is not refused");
            };
            assert!(why.contains(words), "{why}");
        }
    }
}
