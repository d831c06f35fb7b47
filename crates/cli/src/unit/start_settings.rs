//! The shell files that are read between systemd and a node of Cassandra: `cassandra-env.sh` by the start script, and
//! `/etc/default/NAME` by an init script before it. What they set wins over a unit.

use std::path::{Path, PathBuf};

use super::root::Root;
use crate::library;

/// Where packages have `cassandra-env.sh`: Debian, then RPM.
pub const START_SETTINGS: [&str; 3] = [
    "/etc/cassandra/cassandra-env.sh",
    "/etc/cassandra/conf/cassandra-env.sh",
    "/etc/cassandra/default.conf/cassandra-env.sh",
];
/// Variables by which the start script loads libraries.
const LOADING: [&str; 2] = ["LD_PRELOAD", "CASSANDRA_LIBJEMALLOC"];

/// A line that changes a variable by which libraries are loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadingLine {
    /// The file, as it is inside of the root.
    pub file: PathBuf,
    /// Its number, from 1.
    pub number: usize,
    /// The variable.
    pub name: &'static str,
}

/// The first such line of a shell file. A line counts that has the variable's name, unless in a comment or behind `$`:
/// there are too many ways to set one. A line that names the library does not count.
pub fn loading_line(text: &str) -> Option<(usize, &'static str)> {
    let mut lines = text.lines().enumerate();
    lines.find_map(|(place, line)| {
        let code = if line.trim_start().starts_with('#') {
            ""
        } else {
            line.split(" #").next().unwrap_or_default()
        };
        let name = LOADING.into_iter().find(|name| changes(code, name))?;
        library::named_in(code)
            .is_none()
            .then_some((place + 1, name))
    })
}

/// The packaged `cassandra-env.sh` that loads the library, by our lines or by those of somebody else, with its text.
pub fn loading_library(root: &Root) -> anyhow::Result<Option<(&'static str, String)>> {
    for path in START_SETTINGS {
        let text = root.text(Path::new(path))?.unwrap_or_default();
        let loads =
            |line: &str| !line.trim_start().starts_with('#') && library::named_in(line).is_some();
        if text.lines().any(loads) {
            return Ok(Some((path, text)));
        }
    }
    Ok(None)
}

/// The `COLDSTREAM…` variables that a shell file exports, with their values.
pub fn settings(text: &str) -> impl Iterator<Item = (String, String)> {
    text.lines().filter_map(|line| {
        let assignment = line.trim().strip_prefix("export ")?;
        let (name, value) = assignment.split_once('=')?;
        let value = value.trim_matches(['\'', '"']);
        name.starts_with("COLDSTREAM")
            .then(|| (name.to_owned(), value.to_owned()))
    })
}

/// Whether the code of a line has the name as a word, and not only its value.
fn changes(code: &str, name: &str) -> bool {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
    code.match_indices(name).any(|(place, _)| {
        let (before, behind) = (&code[..place], &code[place + name.len()..]);
        !before.ends_with(is_part) && !before.ends_with(['$', '{']) && !behind.starts_with(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_set_a_variable_is_found() {
        for (text, found) in [
            (
                "A=1\nCASSANDRA_LIBJEMALLOC=/j.so\n",
                Some((2, "CASSANDRA_LIBJEMALLOC")),
            ),
            (
                "if true; then LD_PRELOAD=/j.so; fi",
                Some((1, "LD_PRELOAD")),
            ),
            (
                "export A=1 CASSANDRA_LIBJEMALLOC=-",
                Some((1, "CASSANDRA_LIBJEMALLOC")),
            ),
            ("unset LD_PRELOAD", Some((1, "LD_PRELOAD"))),
            (
                "true && export LD_PRELOAD=$LD_PRELOAD:/a",
                Some((1, "LD_PRELOAD")),
            ),
            ("# CASSANDRA_LIBJEMALLOC=-\n  #LD_PRELOAD=/a", None),
            ("A=1 # LD_PRELOAD=/a", None),
            ("echo $LD_PRELOAD \"${CASSANDRA_LIBJEMALLOC:-}\"", None),
            ("MY_LD_PRELOAD=/a LD_PRELOAD_32=/b", None),
            ("export LD_PRELOAD=/opt/libcoldstream.so", None),
        ] {
            assert_eq!(loading_line(text), found, "{text}");
        }
    }

    #[test]
    fn exported_settings_are_found() {
        let text = "export COLDSTREAM_PROFILE='cassandra'\nexport A=1\n#export COLDSTREAM=off\n";
        let found: Vec<_> = settings(text).collect();
        assert_eq!(found, [("COLDSTREAM_PROFILE".into(), "cassandra".into())]);
    }
}
