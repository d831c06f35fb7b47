//! `coldstream lab report`: the forms of a report again, from its JSON.

use super::data::Report;
use super::output::{OutputArgs, publish};
use crate::error::LabError;
use anyhow::{Context, Result};
use clap::Args;
use std::fs;
use std::path::PathBuf;

/// Shows a saved report again.
#[derive(Args, Clone, Debug)]
pub struct SavedReportArgs {
    /// A report that --json-file or --json wrote
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Where the report goes
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Reads the report, prints it and writes its files.
///
/// # Errors
/// The file cannot be read, or is no report; a file of the output cannot be written.
pub fn run(arguments: &SavedReportArgs) -> Result<(), LabError> {
    Ok(show(arguments)?)
}

fn show(arguments: &SavedReportArgs) -> Result<()> {
    let path = arguments.file.display();
    let text = fs::read_to_string(&arguments.file).with_context(|| format!("read {path}"))?;
    let report = Report::from_json(&text)
        .with_context(|| format!("{path} is no report of `coldstream lab … --json-file`"))?;
    publish(&report, &arguments.output, vec![arguments.file.clone()])
}
