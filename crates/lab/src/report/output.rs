//! Where a report goes: standard output and files.

use super::data::Report;
use super::{html, picture, terminal};
use anyhow::{Context, Result};
use clap::Args;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Where the report goes.
#[derive(Args, Clone, Debug, Default)]
pub struct OutputArgs {
    /// Print every row, and not the verdict alone
    #[arg(long)]
    pub all: bool,
    /// Print the report as JSON on standard output instead of the verdict
    #[arg(long)]
    pub json: bool,
    /// Also write the report as JSON
    #[arg(long, value_name = "FILE")]
    pub json_file: Option<PathBuf>,
    /// Also write the report as one HTML page that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Also write the percentiles, idle and in compaction, as an SVG picture for any background: the
    /// first mode against Coldstream, of the first case
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

impl OutputArgs {
    fn files(&self) -> impl Iterator<Item = &Path> {
        let files = [&self.json_file, &self.html, &self.svg];
        files.into_iter().flatten().map(PathBuf::as_path)
    }

    /// Checks that the files can be written, before hours are spent on the measurement.
    pub fn check(&self) -> Result<()> {
        self.files().try_for_each(|path| {
            make_parent(path)?;
            let present = fs::symlink_metadata(path);
            if present.as_ref().is_ok_and(|it| !it.is_file()) {
                // A link, or a pipe without a reader so far.
                return Ok(());
            }
            (File::options().append(true).create(true))
                .open(path)
                .with_context(|| format!("write {}", path.display()))?;
            if present.is_err() {
                // An empty file is no report.
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

/// Writes the report's files and prints it, with the paths of its files; `written` are there already.
/// A failure does not stop the rest; the first error is the result.
pub fn publish(report: &Report, output: &OutputArgs, mut written: Vec<PathBuf>) -> Result<()> {
    let json = serde_json::to_string_pretty(report).context("encode the report")?;
    let mut write = |path: &'_ Option<PathBuf>, text: &dyn Fn() -> String| {
        let Some(path) = path else {
            return Ok(());
        };
        make_parent(path)?;
        fs::write(path, text()).with_context(|| format!("write {}", path.display()))?;
        written.push(path.clone());
        Ok(())
    };
    let page = write(&output.html, &|| html::page(report));
    let picture = write(&output.svg, &|| picture::percentiles_alone(report));
    let data = write(&output.json_file, &|| json.clone());
    let text = if output.json {
        for path in &written {
            eprintln!("lab: report written to {}", path.display());
        }
        json
    } else if output.all {
        let (rows, verdicts) = (
            terminal::every_row(report),
            terminal::verdicts(report, &written),
        );
        format!("{rows}\n{verdicts}")
    } else {
        terminal::verdicts(report, &written)
    };
    // Removes the colours where standard output is no terminal, or NO_COLOR is set.
    let mut standard = anstream::stdout().lock();
    let printed = standard.write_all(text.trim_end().as_bytes());
    let printed = (printed.and_then(|()| standard.write_all(b"\n"))).context("standard output");
    page.and(picture).and(data).and(printed)
}
