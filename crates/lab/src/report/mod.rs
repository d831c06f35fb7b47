//! The report, and its two faces for people; JSON is the report itself.

mod html;
mod terminal;

use crate::machine::Machine;
use crate::run_report::RunReport;
use crate::summary::{Row, Spread, TOLERANCE, Verdict};
use anyhow::{Context, Result};
use clap::Args;
use std::fs::{self, File};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Where the report goes.
#[derive(Args, Clone, Debug, Default)]
pub struct OutputArgs {
    /// Print the report as JSON on standard output instead of the table
    #[arg(long)]
    pub json: bool,
    /// Also write the report as JSON
    #[arg(long, value_name = "FILE")]
    pub json_file: Option<PathBuf>,
    /// Also write the report as one HTML page that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// All that was measured.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    /// Version of Coldstream.
    pub version: &'static str,
    /// The machine.
    pub machine: Machine,
    /// The database, with its version.
    pub engine: String,
    /// Data and load, in one sentence.
    pub load: String,
    /// What was asked for, by the names of the command line.
    pub parameters: serde_json::Value,
    /// Names of the modes.
    pub modes: Vec<String>,
    /// Turns that were asked for; a case that was ended before its time has fewer.
    pub runs: u32,
    /// What could not be done or measured here.
    pub limitations: Vec<String>,
    /// The cases.
    pub cases: Vec<CaseReport>,
}

/// What a case is.
#[derive(Clone, Debug, serde::Serialize)]
pub struct CaseDescription {
    /// Its name.
    pub title: String,
    /// What distinguishes it, with figures, for people.
    pub text: String,
    /// The same for programs.
    pub parameters: serde_json::Value,
}

/// A case.
#[derive(Clone, Debug, serde::Serialize)]
pub struct CaseReport {
    /// What it is.
    #[serde(flatten)]
    pub description: CaseDescription,
    /// Every run, by mode in the order of `Report::modes`.
    pub runs: Vec<Vec<RunReport>>,
    /// Medians and spreads.
    pub rows: Vec<Row>,
}

impl OutputArgs {
    fn files(&self) -> impl Iterator<Item = &Path> {
        let files = [&self.json_file, &self.html];
        files.into_iter().flatten().map(PathBuf::as_path)
    }

    /// Whether the files can be written: to be known before hours are spent on what goes there.
    pub fn check(&self) -> Result<()> {
        self.files().try_for_each(|path| {
            make_parent(path)?;
            let present = fs::symlink_metadata(path);
            if present.as_ref().is_ok_and(|it| !it.is_file()) {
                // A link, or a pipe that nobody reads yet.
                return Ok(());
            }
            (File::options().append(true).create(true))
                .open(path)
                .with_context(|| format!("write {}", path.display()))?;
            if present.is_err() {
                // An empty report is none.
                let _ = fs::remove_file(path);
            }
            Ok(())
        })
    }
}

fn make_parent(path: &Path) -> Result<()> {
    match path.parent() {
        Some(parent) => fs::create_dir_all(parent).with_context(|| parent.display().to_string()),
        None => Ok(()),
    }
}

impl Report {
    /// Prints and writes it, wherever that is possible; the first error of all is the result.
    pub fn publish(&self, output: &OutputArgs) -> Result<()> {
        let json = serde_json::to_string_pretty(self).context("encode the report")?;
        let mut standard = std::io::stdout().lock();
        let text = if output.json {
            json.clone()
        } else {
            let coloured = standard.is_terminal()
                && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
            terminal::table(self, coloured)
        };
        let printed = writeln!(standard, "{text}").context("standard output");
        let write = |path: &Option<PathBuf>, text: &dyn Fn() -> Result<String>| {
            let Some(path) = path else {
                return Ok(());
            };
            make_parent(path)?;
            fs::write(path, text()?).with_context(|| format!("write {}", path.display()))?;
            eprintln!("lab: report written to {}", path.display());
            Ok(())
        };
        let written = write(&output.json_file, &|| Ok(json.clone()));
        let shown = write(&output.html, &|| html::page(self));
        printed.and(written).and(shown)
    }
}

/// A figure with three significant digits.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Median, and spread where there is one.
fn spread(spread: &Spread) -> String {
    if spread.min == spread.max {
        figure(spread.median)
    } else {
        format!(
            "{} ({}–{})",
            figure(spread.median),
            figure(spread.min),
            figure(spread.max)
        )
    }
}

/// A row's name with its phase.
fn row_name(row: &Row) -> String {
    match row.phase {
        Some(phase) => format!("{}: {}", phase.name(), row.name),
        None => row.name.clone(),
    }
}

/// What no mode is if there are no [`losses`]; nothing of one mode alone.
fn not_one(modes: &[String]) -> Option<String> {
    let [first, _, ..] = modes else {
        return None;
    };
    let percent = TOLERANCE * 100.0;
    Some(format!(
        "mode is worse than {first} by more than {percent} %"
    ))
}

/// The rows in which a mode is worse than the first one, in plain words.
fn losses(rows: &[Row], modes: &[String]) -> Vec<String> {
    let mut said = Vec::new();
    for (mode, name) in modes.iter().enumerate().skip(1) {
        for row in rows {
            let verdict = row.verdict(mode);
            let (first, this) = (&row.modes[0], &row.modes[mode]);
            let noise = match verdict {
                Verdict::Loses => "",
                Verdict::LosesWithinNoise => " (within the noise)",
                Verdict::Wins | Verdict::Even => continue,
            };
            said.push(format!(
                "{name} is worse than {} in {}: {} against {}{noise}",
                modes[0],
                row_name(row),
                spread(this),
                spread(first)
            ));
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_mode_alone_is_compared_with_none() {
        let modes = ["buffered".to_owned(), "coldstream".to_owned()];
        assert_eq!(
            not_one(&modes).as_deref(),
            Some("mode is worse than buffered by more than 2 %")
        );
        assert_eq!(not_one(&modes[..1]), None);
    }
}
