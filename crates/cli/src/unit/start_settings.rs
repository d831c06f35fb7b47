//! The shell files that are read between systemd and a node of Cassandra: `cassandra-env.sh` by the start script, and
//! `/etc/default/NAME` by an init script before it. What they set wins over a unit.

use std::path::{Path, PathBuf};

use super::file;
use super::root::Root;
use crate::library;

/// Where packages have `cassandra-env.sh`: Debian, then RPM.
pub const START_SETTINGS: [&str; 3] = [
    "/etc/cassandra/cassandra-env.sh",
    "/etc/cassandra/conf/cassandra-env.sh",
    "/etc/cassandra/default.conf/cassandra-env.sh",
];

/// A line that changes the variable by which the library is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadingLine {
    /// The file, as it is inside of the root.
    pub file: PathBuf,
    /// Its number, from 1.
    pub number: usize,
}

/// The number of the first line of a shell file that sets or unsets a variable, from 1. A line that keeps the former
/// value within the new one does not count.
pub fn setting_line(text: &str, name: &str) -> Option<usize> {
    setting_line_behind(text, name, 0)
}

/// The number of the first line that sets a variable behind the last line that names the library, from 1.
pub fn line_behind_library(text: &str, name: &str) -> Option<usize> {
    let lines: Vec<_> = text.lines().collect();
    let last = lines.into_iter().rposition(names_library)?;
    setting_line_behind(text, name, last + 1)
}

fn setting_line_behind(text: &str, name: &str, lines_before: usize) -> Option<usize> {
    let mut lines = text.lines().skip(lines_before);
    let place = lines.position(|line| changes(without_comment(line), name))?;
    Some(lines_before + place + 1)
}

fn names_library(line: &str) -> bool {
    library::named_in(without_comment(line)).is_some()
}

/// The packaged `cassandra-env.sh` that loads the library, by our lines or by those of somebody else, with its text.
pub(super) fn loading_library(root: &Root) -> Option<(&'static str, String)> {
    START_SETTINGS.into_iter().find_map(|path| {
        let text = root.glance(Path::new(path));
        text.lines().any(names_library).then_some((path, text))
    })
}

/// The packaged shell files without their comments.
pub fn text(root: &Root) -> String {
    let texts = START_SETTINGS.map(|path| root.glance(Path::new(path)));
    let lines = texts.iter().flat_map(|text| text.lines());
    lines.map(without_comment).collect::<Vec<_>>().join("\n")
}

/// The `COLDSTREAM…` variables that the packaged `cassandra-env.sh` exports, with their values.
pub fn settings(root: &Root) -> Vec<(String, String)> {
    let texts = START_SETTINGS.map(|path| root.glance(Path::new(path)));
    texts.iter().flat_map(|text| exported(text)).collect()
}

fn exported(text: &str) -> impl Iterator<Item = (String, String)> {
    let exports = text
        .lines()
        .filter_map(|line| without_comment(line).trim().strip_prefix("export "));
    let all = exports.flat_map(file::assignments);
    all.filter(|(name, _)| name.starts_with("COLDSTREAM"))
}

/// The line up to a `#` behind a blank, unless in quotes.
fn without_comment(line: &str) -> &str {
    let (mut quote, mut before) = (None, ' ');
    for (place, character) in line.char_indices() {
        match (quote, character) {
            (None, '#') if before.is_whitespace() => return &line[..place],
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            _ => {}
        }
        before = character;
    }
    line
}

/// Whether code sets the variable, and not only to more than it was, or unsets it.
fn changes(code: &str, name: &str) -> bool {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
    code.match_indices(name).any(|(place, _)| {
        let (before, behind) = (&code[..place], &code[place + name.len()..]);
        if before.ends_with(is_part) || before.ends_with(['$', '{']) || behind.starts_with(is_part)
        {
            return false;
        }
        let keeps = [format!("${name}"), format!("${{{name}")]
            .iter()
            .any(|former| behind.contains(former.as_str()));
        let unsets = before.split([';', '&', '|']).next_back();
        let unsets = unsets.is_some_and(|it| it.split_whitespace().any(|word| word == "unset"));
        behind.starts_with('=') && !keeps || unsets
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_set_a_variable_is_found() {
        for (text, found) in [
            ("A=1\nLD_PRELOAD=/j.so\n", Some(2)),
            ("if true; then LD_PRELOAD=/j.so; fi", Some(1)),
            ("export A=1 LD_PRELOAD=-", Some(1)),
            ("unset A LD_PRELOAD", Some(1)),
            ("true && export LD_PRELOAD=/a", Some(1)),
            ("echo \"node #1\"; LD_PRELOAD=-", Some(1)),
            ("LD_PRELOAD=/opt/libcoldstream.so", Some(1)),
            ("LD_PRELOAD=\"$LD_PRELOAD:/a\"", None),
            ("LD_PRELOAD=${LD_PRELOAD:-/a}", None),
            ("# LD_PRELOAD=-\n  #LD_PRELOAD=/a", None),
            ("A=1\t# LD_PRELOAD=/a", None),
            ("echo $LD_PRELOAD \"LD_PRELOAD is ${LD_PRELOAD:-}\"", None),
            ("env -u LD_PRELOAD java", None),
            ("MY_LD_PRELOAD=/a LD_PRELOAD_32=/b", None),
        ] {
            assert_eq!(setting_line(text, "LD_PRELOAD"), found, "{text}");
        }
    }

    #[test]
    fn exported_settings_are_found() {
        let text = "export COLDSTREAM_PROFILE='cassandra' # why\nexport A=1 COLDSTREAM=off\n\
                    #export COLDSTREAM_LOG=none\n";
        let found: Vec<_> = exported(text).collect();
        let expected = [("COLDSTREAM_PROFILE", "cassandra"), ("COLDSTREAM", "off")];
        assert_eq!(
            found,
            expected.map(|(name, value)| (name.into(), value.into()))
        );
    }
}
