//! The lines in Cassandra's `cassandra-env.sh` that attach a node. `bin/cassandra` reads that file before it looks for
//! jemalloc, and so before it replaces `LD_PRELOAD`.

use std::path::Path;

use super::change::Change;
use super::plan::{PRELOAD, Plan, Wanted};
use crate::exit::{Exit, failure};
use crate::library;
use crate::run::jemalloc;
use crate::unit::Root;

const BEGIN: &str = "# coldstream: begin. Made by `coldstream attach-config`, which takes it away with --remove --write.";
const END: &str = "# coldstream: end";
/// Where packages have the file.
pub const PACKAGED: &str = "/etc/cassandra/cassandra-env.sh";

/// Whether the packaged file loads the library, by our lines or by those of somebody else.
pub fn loads_library(root: &Root) -> anyhow::Result<bool> {
    let text = root.text(Path::new(PACKAGED))?;
    let loads =
        |line: &str| !line.trim_start().starts_with('#') && library::named_in(line).is_some();
    Ok(text.is_some_and(|text| text.lines().any(loads)))
}

/// The change for a file; without `wanted` the one that takes the lines away.
pub fn plan(root: &Root, path: &Path, wanted: Option<&Wanted>) -> anyhow::Result<Plan> {
    let path = std::path::absolute(path)?;
    let there = root.at(&path).display().to_string();
    let Some(before) = root.text(&path)? else {
        return Err(failure(
            Exit::NotFound,
            format!("no file {there}: {}", advice_without_file(root, &path)),
        ));
    };
    let original = without_block(&before, &there)?;
    let (after, text) = match wanted {
        Some(wanted) => {
            check_free(&original, &there)?;
            let block = block(root, wanted);
            (block.clone() + &original, block)
        }
        None => {
            let block = before.strip_suffix(original.as_str()).unwrap_or_default();
            (original.clone(), block.to_owned())
        }
    };
    Ok(Plan {
        change: Change::new(root.at(&path), Some(before), Some(after), Some(original)),
        text,
        notes: (wanted.and_then(Wanted::note_of_closed_settings))
            .into_iter()
            .collect(),
        next: vec!["restart the node".to_owned()],
    })
}

/// What to name instead of a file that is not there.
fn advice_without_file(root: &Root, path: &Path) -> String {
    let packaged = Path::new(PACKAGED);
    if path.file_name() != packaged.file_name() {
        return "correct the path, or write the name of a unit without a slash".to_owned();
    }
    if path == packaged {
        return "name the file of your installation; a tarball has it in its directory conf"
            .to_owned();
    }
    format!("packages have it at {}", root.at(packaged).display())
}

/// The text without our lines. They are at the beginning: later lines are not theirs to change.
fn without_block(text: &str, path: &str) -> anyhow::Result<String> {
    let Some(rest) = text.strip_prefix(BEGIN) else {
        if text.lines().any(|line| line == BEGIN) {
            let message = format!(
                "{path}: somebody moved the lines of `coldstream attach-config`: delete them by hand"
            );
            return Err(failure(Exit::Failure, message));
        }
        return Ok(text.to_owned());
    };
    match rest.split_once(&format!("\n{END}\n")) {
        Some((_, original)) => Ok(original.to_owned()),
        None => {
            let message = format!("{path} has a line {BEGIN:?} without {END:?}: mend it by hand");
            Err(failure(Exit::Failure, message))
        }
    }
}

/// Refuses a file that sets the variable itself: the later line would win.
fn check_free(text: &str, path: &str) -> anyhow::Result<()> {
    let sets = |line: &str| {
        let line = line.trim_start();
        let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
        [PRELOAD, jemalloc::VARIABLE]
            .iter()
            .find(|name| {
                line.strip_prefix(**name)
                    .is_some_and(|it| it.starts_with('='))
            })
            .copied()
    };
    let mut lines = text.lines().enumerate();
    match lines.find_map(|(place, line)| Some((place + 1, sets(line)?))) {
        None => Ok(()),
        Some((number, name)) => Err(failure(
            Exit::Failure,
            format!(
                "{path}, line {number} sets {name}: set the variable before Cassandra starts instead, then its value \
                 is kept"
            ),
        )),
    }
}

fn block(root: &Root, wanted: &Wanted) -> String {
    let library = wanted.library.display();
    let name = jemalloc::VARIABLE;
    // What the environment sets stays, or else the jemalloc that the start script would find.
    let others = match jemalloc::find_installed(&root.at("/")) {
        Some(jemalloc) => format!(":${{{name}:-{}}}", jemalloc.display()),
        None => format!("${{{name}:+:${name}}}"),
    };
    let mut lines = vec![
        BEGIN.to_owned(),
        // `-` switches jemalloc off, and leaves LD_PRELOAD alone.
        format!("if [ \"${name}\" = - ]; then"),
        format!("    export {PRELOAD}=\"{library}${{{PRELOAD}:+:${PRELOAD}}}\""),
        "else".to_owned(),
        format!("    export {name}=\"{library}{others}\""),
        "fi".to_owned(),
    ];
    let variables = wanted.with_profile(Some("cassandra"));
    lines.extend(
        variables
            .iter()
            .map(|(name, value)| format!("export {name}='{value}'")),
    );
    lines.push(END.to_owned());
    lines.join("\n") + "\n"
}
