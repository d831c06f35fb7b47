//! A service of systemd, read from its files. No manager needs to run: the files may be those of an image.
//!
//! Read are the unit, its drop-ins, and its environment files, in systemd's order. Specifiers other than `%%` stay as
//! they are.

mod file;
mod root;
pub mod start_settings;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::exit::{Exit, failure};
pub use root::Root;
use start_settings::LoadingLine;

/// Where units are, most important first. A unit of an init script is in none of them.
const DIRECTORIES: [&str; 6] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];
/// Where init scripts are, for services that have no unit.
const INIT_SCRIPTS: &str = "/etc/init.d";
/// Where init scripts have their settings: a shell file of the script's name.
const DEFAULTS: &str = "/etc/default";
/// Programs beside Cassandra, whose units have its name too.
const BESIDE_CASSANDRA: [&str; 4] = ["reaper", "exporter", "medusa", "sidecar"];
/// Aliases of aliases that are followed.
const LINKS_MAX: usize = 8;

/// A setting of the section `[Service]`.
#[derive(Debug)]
pub struct Setting {
    /// The key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// The file that has it.
    pub file: PathBuf,
}

/// A variable of the service, and the file that sets it.
#[derive(Debug)]
pub struct Variable {
    /// Its value.
    pub value: String,
    /// The file that sets it.
    pub file: PathBuf,
    /// Whether that is an environment file: it wins over `Environment=`.
    pub is_of_environment_file: bool,
}

/// A service.
#[derive(Debug)]
pub struct Unit {
    /// Its name, with `.service`.
    pub name: String,
    /// The files that were read.
    pub files: Vec<PathBuf>,
    settings: Vec<Setting>,
}

impl Unit {
    /// Reads a service. `name` may lack `.service`, and may be an alias.
    pub fn find(root: &Root, name: &str) -> anyhow::Result<Self> {
        if name.is_empty() || name.contains('/') {
            return Err(failure(
                Exit::Usage,
                format!("{name:?} is not the name of a unit: write it as `cassandra.service`"),
            ));
        }
        let mut name = if name.ends_with(".service") {
            name.to_owned()
        } else {
            format!("{name}.service")
        };
        let mut fragment = fragment(root, &name);
        for _ in 0..LINKS_MAX {
            let Some(target) = fragment
                .as_ref()
                .and_then(|path| fs::read_link(root.at(path)).ok())
            else {
                break;
            };
            if target == Path::new("/dev/null") {
                let message =
                    format!("{name} is masked: `systemctl unmask {name}` makes it startable again");
                return Err(failure(Exit::Failure, message));
            }
            match target.file_name().and_then(|file| file.to_str()) {
                // A link elsewhere with the same name is how `systemctl link` works.
                Some(alias) if alias != name => name = alias.to_owned(),
                _ => break,
            }
            fragment = self::fragment(root, &name).or(fragment);
        }
        if fragment.is_none() {
            fragment = init_script(root, &name);
        }
        let Some(fragment) = fragment else {
            return Err(failure(
                Exit::NotFound,
                format!(
                    "no unit {name} below {}, and no script in {}: `systemctl list-units --type=service` lists those \
                     that run",
                    DIRECTORIES
                        .map(|it| root.at(it).display().to_string())
                        .join(", "),
                    root.at(INIT_SCRIPTS).display()
                ),
            ));
        };
        let mut unit = Self {
            files: Vec::new(),
            settings: Vec::new(),
            name,
        };
        let is_unit = !fragment.starts_with(INIT_SCRIPTS);
        for (path, is_read) in std::iter::once((fragment, is_unit))
            .chain(drop_ins(root, &unit.name).into_iter().map(|it| (it, true)))
        {
            let text = root.text(&path)?.filter(|_| is_read).unwrap_or_default();
            let lines = file::lines(&text).into_iter();
            let service = lines.filter(|line| line.section == "Service");
            unit.settings.extend(service.map(|line| Setting {
                key: line.key,
                value: line.value,
                file: path.clone(),
            }));
            unit.files.push(path);
        }
        Ok(unit)
    }

    /// Where a drop-in of the administrator belongs.
    pub fn drop_in(&self, file_name: &str) -> PathBuf {
        Path::new(DIRECTORIES[0])
            .join(format!("{}.d", self.name))
            .join(file_name)
    }

    /// The same service as if a file were not there.
    pub fn without(mut self, file: &Path) -> Self {
        self.settings.retain(|setting| setting.file != file);
        self.files.retain(|it| it != file);
        self
    }

    /// The settings with this key that are in force: an empty value takes back those before it.
    pub fn settings(&self, key: &str) -> Vec<&Setting> {
        let mut found = Vec::new();
        for setting in self.settings.iter().filter(|setting| setting.key == key) {
            if setting.value.is_empty() {
                found.clear();
            } else {
                found.push(setting);
            }
        }
        found
    }

    /// The last setting with this key.
    pub fn setting(&self, key: &str) -> Option<&Setting> {
        self.settings(key).pop()
    }

    /// Whether the service runs as root. An init script may change its user, so nobody knows.
    pub fn is_of_root(&self) -> bool {
        if self.is_of_init_script() {
            return false;
        }
        let user = self.setting("User").map(|setting| setting.value.as_str());
        self.setting("DynamicUser").is_none() && matches!(user, None | Some("root" | "0"))
    }

    /// The variables that the service gets from its files.
    pub fn variables(&self, root: &Root) -> anyhow::Result<BTreeMap<String, Variable>> {
        let mut variables = BTreeMap::new();
        for setting in self.settings("Environment") {
            for (name, value) in file::assignments(&setting.value) {
                variables.insert(
                    name,
                    Variable {
                        value,
                        file: setting.file.clone(),
                        is_of_environment_file: false,
                    },
                );
            }
        }
        for setting in self.settings("EnvironmentFile") {
            let path = Path::new(setting.value.trim_start_matches('-'));
            for (name, value) in file::variables(&root.text_inside(path)?.unwrap_or_default()) {
                variables.insert(
                    name,
                    Variable {
                        value,
                        file: path.to_owned(),
                        is_of_environment_file: true,
                    },
                );
            }
        }
        for setting in self.settings("UnsetEnvironment") {
            for word in file::words(&setting.value) {
                variables.remove(word.split('=').next().unwrap_or_default());
            }
        }
        Ok(variables)
    }

    /// The setting that takes a variable away again, if there is one.
    pub fn unsets(&self, variable: &str) -> Option<&Setting> {
        let unsets = |setting: &&Setting| {
            let words = file::words(&setting.value);
            words
                .iter()
                .any(|word| word.split('=').next() == Some(variable))
        };
        self.settings("UnsetEnvironment").into_iter().find(unsets)
    }

    /// The line of a shell file that sets a variable behind the unit: it wins.
    pub fn overridden_by(&self, root: &Root, variable: &str) -> Option<LoadingLine> {
        let mut files: Vec<PathBuf> = Vec::new();
        if self.is_cassandra_by_script() {
            files.extend(start_settings::START_SETTINGS.map(PathBuf::from));
        }
        if self.is_of_init_script() {
            files.push(Path::new(DEFAULTS).join(self.name.trim_end_matches(".service")));
        }
        files.into_iter().find_map(|file| {
            let text = root.glance(&file);
            let number = start_settings::setting_line(&text, variable)?;
            Some(LoadingLine { file, number })
        })
    }

    fn is_of_init_script(&self) -> bool {
        let first = self.files.first();
        first.is_some_and(|path| path.starts_with(INIT_SCRIPTS))
    }

    /// Whether it starts Cassandra.
    pub fn is_cassandra(&self) -> bool {
        let starts = self.settings("ExecStart");
        if BESIDE_CASSANDRA.iter().any(|it| self.name.contains(it)) {
            return false;
        }
        self.name.contains("cassandra") || starts.iter().any(|it| it.value.contains("cassandra"))
    }

    /// The packaged start settings that load the library, with their text, if it starts Cassandra: nothing else reads them.
    pub fn loading_start_settings(&self, root: &Root) -> Option<(&'static str, String)> {
        self.is_cassandra()
            .then(|| start_settings::loading_library(root))
            .flatten()
    }

    /// Whether `bin/cassandra` runs between systemd and the node. It replaces `LD_PRELOAD`.
    pub fn is_cassandra_by_script(&self) -> bool {
        let starts = self.settings("ExecStart");
        self.is_cassandra() && !starts.iter().any(|it| it.value.contains("CassandraDaemon"))
    }
}

/// The file of a unit, or of its template.
fn fragment(root: &Root, name: &str) -> Option<PathBuf> {
    let template = name
        .split_once('@')
        .map(|(prefix, _)| format!("{prefix}@.service"));
    let names = std::iter::once(name.to_owned()).chain(template);
    let paths =
        names.flat_map(|name| DIRECTORIES.map(|directory| Path::new(directory).join(&name)));
    paths
        .into_iter()
        .find(|path| root.at(path).symlink_metadata().is_ok())
}

/// The init script of which systemd makes a unit.
fn init_script(root: &Root, name: &str) -> Option<PathBuf> {
    let path = Path::new(INIT_SCRIPTS).join(name.strip_suffix(".service")?);
    root.at(&path).is_file().then_some(path)
}

/// The drop-ins of a unit in the order in which they are read: by file name, each from the most important directory.
fn drop_ins(root: &Root, name: &str) -> Vec<PathBuf> {
    let mut by_name: BTreeMap<OsString, PathBuf> = BTreeMap::new();
    let template = name
        .split_once('@')
        .map(|(prefix, _)| format!("{prefix}@.service"));
    let folders = std::iter::once(name.to_owned())
        .chain(template)
        .chain(std::iter::once("service".to_owned()));
    for folder in folders {
        for directory in DIRECTORIES {
            let directory = Path::new(directory).join(format!("{folder}.d"));
            for entry in fs::read_dir(root.at(&directory))
                .into_iter()
                .flatten()
                .flatten()
            {
                let file_name = entry.file_name();
                let is_drop_in = Path::new(&file_name)
                    .extension()
                    .is_some_and(|it| it == "conf");
                if is_drop_in {
                    let path = directory.join(&file_name);
                    by_name.entry(file_name).or_insert(path);
                }
            }
        }
    }
    by_name.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::new(directory.path());
        for (path, text) in files {
            fs::create_dir_all(root.at(path).parent().unwrap()).unwrap();
            fs::write(root.at(path), text).unwrap();
        }
        (directory, root)
    }

    #[test]
    fn drop_ins_win_in_the_order_of_their_names() {
        let (_directory, root) = root(&[
            (
                "/lib/systemd/system/db.service",
                "[Service]\nUser=db\nEnvironment=A=1 B=1\n",
            ),
            (
                "/lib/systemd/system/db.service.d/20.conf",
                "[Service]\nEnvironment=A=hidden\n",
            ),
            (
                "/etc/systemd/system/db.service.d/20.conf",
                "[Service]\nEnvironment=A=2\n",
            ),
            (
                "/etc/systemd/system/db.service.d/10.conf",
                "[Service]\nEnvironment=A=0\nEnvironmentFile=-/etc/gone\nEnvironmentFile=-/etc/db.env\n",
            ),
            ("/etc/db.env", "B=file\n"),
        ]);
        let unit = Unit::find(&root, "db").unwrap();
        assert_eq!(unit.files.len(), 3);
        assert!(!unit.is_of_root());
        let variables = unit.variables(&root).unwrap();
        assert_eq!(variables["A"].value, "2");
        assert_eq!(variables["B"].value, "file");
        assert!(variables["B"].is_of_environment_file);
        let unit = unit.without(Path::new("/etc/systemd/system/db.service.d/20.conf"));
        assert_eq!(unit.variables(&root).unwrap()["A"].value, "0");
    }

    #[test]
    fn aliases_templates_and_init_scripts_are_found() {
        let (_directory, root) = root(&[
            (
                "/lib/systemd/system/mariadb.service",
                "[Service]\nExecStart=/usr/sbin/mariadbd\n",
            ),
            ("/lib/systemd/system/db@.service", "[Service]\n"),
            ("/etc/init.d/cassandra", "#!/bin/sh\nEnvironment=A\n"),
        ]);
        let link = |target: &str, name: &str| {
            std::os::unix::fs::symlink(target, root.at(format!("/lib/systemd/system/{name}")))
                .unwrap();
        };
        link("mariadb.service", "mysql.service");
        link("/dev/null", "masked.service");
        assert_eq!(Unit::find(&root, "mysql").unwrap().name, "mariadb.service");
        assert_eq!(
            Unit::find(&root, "db@a.service").unwrap().name,
            "db@a.service"
        );
        let cassandra = Unit::find(&root, "cassandra").unwrap();
        assert!(cassandra.is_cassandra_by_script() && !cassandra.is_of_root());
        for (name, words) in [
            ("masked", "unmask"),
            ("none", "no unit none.service"),
            ("a/b", "not the name"),
        ] {
            let error = Unit::find(&root, name).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
