//! `coldstream attach-config`: what makes an installed database load the library, and takes it away again.
//!
//! For a unit of systemd that is a drop-in of its own, for Cassandra's `cassandra-env.sh` a block of lines. It prints
//! what it would do; only `--write` writes. It never touches a unit, a file that somebody else made, or
//! `/etc/ld.so.preload`. Twice is the same as once.

mod change;
mod drop_in;
mod plan;
mod start_script;

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::exit::{Exit, failure};
use crate::output::{self, Format, FormatArguments};
use crate::run::settings::SettingsArguments;
use crate::unit::start_settings::START_SETTINGS;
use crate::unit::{Root, Unit};
use change::Deed;
use plan::{Plan, Wanted};

const EXAMPLES: &str = "\
Examples:
  coldstream attach-config mariadb                                  # print the drop-in
  coldstream attach-config mariadb --write                          # make it
  coldstream attach-config cassandra --priority off --write
  coldstream attach-config mariadb --remove --write
  coldstream attach-config /etc/cassandra/cassandra-env.sh --write

A restart of the database is yours. `coldstream doctor --unit NAME` checks before it and after.
Nothing is written without --write. Before a file that exists is changed, it is copied beside \
itself as NAME.coldstream-backup; --remove deletes copies that it no longer needs.
Exit codes: 1 a file or a setting is in the way, 3 wrong configuration file, 5 no permission, \
7 no such unit, file or library, or no directory of the log.";

/// Print or write what loads Coldstream into an installed database
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct AttachArguments {
    /// A unit of systemd, or the path of a cassandra-env.sh
    #[arg(value_name = "UNIT|FILE")]
    subject: String,
    /// Write the file
    #[arg(long)]
    write: bool,
    /// Take it away again
    #[arg(long)]
    remove: bool,
    /// Read and write the files of the system in this directory
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// The preload library, as the database sees it [default: COLDSTREAM_LIBRARY, ../lib/coldstream]
    #[arg(long, value_name = "PATH")]
    library: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingsArguments,
    #[command(flatten)]
    format: FormatArguments,
}

/// The report in JSON.
#[derive(Serialize)]
struct Report<'a> {
    /// The unit or the file.
    subject: &'a str,
    /// The file that changes, in the root directory.
    file: String,
    /// `make`, `change`, `delete` or `none`.
    deed: Deed,
    /// Whether the change was written.
    written: bool,
    /// The copy of the file before the change.
    backup: Option<String>,
    /// The text for the file: the whole drop-in, or the block of lines.
    text: &'a str,
    /// What to look at.
    notes: &'a [String],
    /// The commands that make it take effect.
    next: &'a [String],
}

/// Prints the change, or makes it.
pub fn run(arguments: &AttachArguments) -> anyhow::Result<()> {
    let root = Root::new(&arguments.root);
    let wanted = if arguments.remove {
        None
    } else {
        Some(Wanted::new(
            &root,
            arguments.library.as_deref(),
            &arguments.settings,
        )?)
    };
    if wanted.is_some() {
        check_one_way(&root, &arguments.subject)?;
    }
    let plan = if arguments.subject.contains('/') {
        start_script::plan(&root, Path::new(&arguments.subject), wanted.as_ref())?
    } else {
        drop_in::plan(&root, &arguments.subject, wanted.as_ref())?
    };
    let written = arguments.write && plan.change.deed() != Deed::None;
    let backup = if arguments.write {
        plan.change.write()?
    } else {
        None
    };
    match arguments.format.format() {
        Format::Json => output::print_json(&Report {
            subject: &arguments.subject,
            file: plan.change.path().display().to_string(),
            deed: plan.change.deed(),
            written,
            backup: backup.map(|path| path.display().to_string()),
            text: &plan.text,
            notes: &plan.notes,
            next: &plan.next,
        }),
        Format::Text => print(arguments, &plan, backup.as_deref()),
    }
}

/// The unit whose start script packages install.
const PACKAGED_UNIT: &str = "cassandra";

/// Refuses what would load the library into a node twice: of two settings nobody would know which one counts.
fn check_one_way(root: &Root, subject: &str) -> anyhow::Result<()> {
    let (by, other) = if subject.contains('/') {
        let real = |path: &Path| std::fs::canonicalize(root.at(path)).ok();
        let asked = std::path::absolute(subject)
            .ok()
            .and_then(|path| real(&path));
        let mut packaged = START_SETTINGS
            .iter()
            .filter_map(|path| real(Path::new(path)));
        let is_packaged = packaged.any(|path| Some(path) == asked);
        if !is_packaged || !drop_in::loads_library(root, PACKAGED_UNIT)? {
            return Ok(());
        }
        ("its unit", PACKAGED_UNIT)
    } else {
        let unit = Unit::find(root, subject).ok();
        match unit.and_then(|unit| unit.loading_start_settings(root)) {
            Some((path, _)) => ("its start script", path),
            None => return Ok(()),
        }
    };
    let message = format!(
        "{by} loads the library already: first `coldstream attach-config {other} --remove --write`, or delete the \
         lines if somebody wrote them by hand"
    );
    Err(failure(Exit::Failure, message))
}

/// The text goes to standard output, what is said about it to standard error.
fn print(arguments: &AttachArguments, plan: &Plan, backup: Option<&Path>) -> anyhow::Result<()> {
    let path = plan.change.path().display();
    if !arguments.write && plan.change.deed() != Deed::None {
        output::print(&plan.text)?;
    }
    for note in &plan.notes {
        output::say(note);
    }
    if let Some(backup) = backup {
        output::say(&format!("copied the file to {}", backup.display()));
    }
    let then = plan.next.join(" && ");
    output::say(&match (plan.change.deed(), arguments.write) {
        (Deed::None, _) if arguments.remove => match plan.change.path().exists() {
            true => format!("{path} has nothing of `coldstream attach-config`"),
            false => format!("{path} does not exist: nothing to remove"),
        },
        (Deed::None, _) => format!("{path} is as wanted already"),
        (Deed::Delete, false) => format!("would delete {path}: repeat with --write"),
        (_, false) if arguments.remove => {
            format!("would take these lines out of {path}: repeat with --write")
        }
        (_, false) => format!("would write this to {path}: repeat with --write"),
        (Deed::Delete, true) => format!("deleted {path}. Now: {then}"),
        (_, true) => format!("wrote {path}. Now: {then}"),
    });
    Ok(())
}
