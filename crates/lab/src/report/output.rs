//! Where a report goes: standard output and files.

use super::data::Report;
use super::{html, terminal};
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

impl OutputArgs {
    fn files(&self) -> impl Iterator<Item = &Path> {
        let files = [&self.json_file, &self.html];
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

/// Prints the report and writes its files. A failure does not stop the rest; the first error is the
/// result.
pub fn publish(report: &Report, output: &OutputArgs) -> Result<()> {
    let json = serde_json::to_string_pretty(report).context("encode the report")?;
    let mut standard = std::io::stdout().lock();
    let text = if output.json {
        json.clone()
    } else {
        let coloured = standard.is_terminal()
            && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        terminal::table(report, coloured)
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
    let shown = write(&output.html, &|| html::page(report));
    printed.and(written).and(shown)
}
