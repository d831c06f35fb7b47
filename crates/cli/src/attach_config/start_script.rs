//! The lines in Cassandra's `cassandra-env.sh` that load the library into a node. `bin/cassandra` reads that file
//! before it looks for jemalloc, and so before it replaces `LD_PRELOAD`.

use std::path::Path;

use super::change::Change;
use super::plan::{Plan, Wanted, note_of_lost_settings};
use crate::exit::{Exit, failure};
use crate::library::PRELOAD;
use crate::run::jemalloc;
use crate::unit::{Root, start_settings};

const BEGIN: &str = "# coldstream: begin. Made by `coldstream attach-config`, which takes it away with --remove --write.";
const END: &str = "# coldstream: end";
/// Where packages have the file.
const PACKAGED: &str = start_settings::START_SETTINGS[0];

/// The change for a file; without `wanted` the one that takes the lines away.
pub fn plan(root: &Root, path: &Path, wanted: Option<&Wanted>) -> anyhow::Result<Plan> {
    let path = std::path::absolute(path)?;
    let there = root.at(&path).display().to_string();
    if wanted.is_some() && path.extension().is_none_or(|it| it != "sh") {
        let message =
            format!("{there} has not the name of a shell script: name the node's cassandra-env.sh");
        return Err(failure(Exit::Usage, message));
    }
    let Some(before) = root.text(&path)? else {
        return Err(failure(
            Exit::NotFound,
            format!("no file {there}: {}", advice_without_file(root, &path)),
        ));
    };
    let original = without_block(&before, &there)?;
    let former = before.strip_suffix(original.as_str()).unwrap_or_default();
    let mut notes = Vec::from_iter(wanted.and_then(Wanted::note_of_closed_settings));
    let (after, text) = match wanted {
        Some(wanted) => {
            let lines_before = before.lines().count() - original.lines().count();
            check_free(&original, lines_before, &there)?;
            let block = block(root, wanted);
            notes.extend(note_of_lost_settings(former, &block));
            (block.clone() + &original, block)
        }
        None => (original.clone(), former.to_owned()),
    };
    Ok(Plan {
        change: Change::new(root, &path, Some(before), Some(after), Some(original))?,
        text,
        notes,
        next: vec!["drain the node, and restart it".to_owned()],
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
    match rest.split_once(&format!("\n{END}")) {
        Some((ours, original)) => {
            check_ours(ours, path)?;
            let original = original.strip_prefix('\r').unwrap_or(original);
            Ok(original.strip_prefix('\n').unwrap_or(original).to_owned())
        }
        None => {
            let message = format!("{path} has a line {BEGIN:?} without {END:?}: mend it by hand");
            Err(failure(Exit::Failure, message))
        }
    }
}

/// Refuses a file that sets a variable itself: the later line would win, or be lost. `lines_before` are ours.
fn check_free(text: &str, lines_before: usize, path: &str) -> anyhow::Result<()> {
    for name in [jemalloc::VARIABLE, PRELOAD] {
        if let Some(number) = start_settings::setting_line(text, name) {
            let message = format!(
                "{path}, line {} sets {name}: set the variable before Cassandra starts instead, then its value is kept",
                lines_before + number
            );
            return Err(failure(Exit::Failure, message));
        }
    }
    Ok(())
}

/// Refuses lines that somebody else put between ours: they would be lost.
fn check_ours(lines: &str, path: &str) -> anyhow::Result<()> {
    let exports = [jemalloc::VARIABLE, PRELOAD].map(|name| format!("export {name}=\""));
    let is_ours = |line: &str| {
        let line = line.trim();
        let assignment = line.strip_prefix("*) ").unwrap_or(line);
        let is_pattern = line.starts_with("*\":") && line.ends_with(":\"*) ;;");
        // Those with `if` are of versions before.
        let is_word = matches!(line, "" | "esac" | "esac ;;" | "else" | "fi");
        let is_head = [
            "case \":$",
            "\":-:\") case \":$",
            "if [ \"$CASSANDRA_LIBJEMALLOC\" = - ]",
        ]
        .iter()
        .any(|it| line.starts_with(it));
        is_word
            || is_pattern
            || is_head
            || line.starts_with("export COLDSTREAM_")
            || exports.iter().any(|it| assignment.starts_with(it))
    };
    match lines.lines().find(|line| !is_ours(line)) {
        None => Ok(()),
        Some(line) => Err(failure(
            Exit::Failure,
            format!(
                "{path}: {line:?} is between the lines of `coldstream attach-config`: move it below {END:?}"
            ),
        )),
    }
}

fn block(root: &Root, wanted: &Wanted) -> String {
    let library = wanted.library.display();
    let name = jemalloc::VARIABLE;
    // What the environment sets stays, or else the jemalloc that the start script would find.
    let others = match jemalloc::find_installed(root) {
        Some(jemalloc) => format!(":${{{name}:-{}}}", jemalloc.display()),
        // Without one the script leaves LD_PRELOAD alone. It takes no blanks in its own variable.
        None => format!("${{{name}:+:${name}}}$(echo \"${{{PRELOAD}:+:${PRELOAD}}}\" | tr ' ' :)"),
    };
    let mut lines = vec![
        BEGIN.to_owned(),
        // An init script reads the file, and the start script reads it again.
        format!("case \":${{{name}-}}:\" in"),
        format!("    *\":{library}:\"*) ;;"),
        // `-` switches jemalloc off, and leaves LD_PRELOAD alone.
        format!("    \":-:\") case \":${{{PRELOAD}-}}:\" in"),
        format!("        *\":{library}:\"*) ;;"),
        format!("        *) export {PRELOAD}=\"{library}${{{PRELOAD}:+:${PRELOAD}}}\" ;;"),
        "        esac ;;".to_owned(),
        format!("    *) export {name}=\"{library}{others}\" ;;"),
        "esac".to_owned(),
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
