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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn a_saved_report_gets_its_page_and_its_picture() {
        let directory = tempfile::tempdir().unwrap();
        let case = fixture::case(&[(67.0, 203.0, 100.0), (67.0, 103.0, 96.0)], 4);
        let report = fixture::report(&["buffered", "coldstream"], vec![case]);
        let file = directory.path().join("report.json");
        fs::write(&file, serde_json::to_string(&report).unwrap()).unwrap();
        let output = OutputArgs {
            html: Some(directory.path().join("new/report.html")),
            svg: Some(directory.path().join("new/percentiles.svg")),
            ..OutputArgs::default()
        };
        run(&SavedReportArgs { file, output }).unwrap();
        let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        assert!(read("new/report.html").ends_with("</html>\n"));
        assert!(read("new/percentiles.svg").starts_with("<svg"));
    }

    #[test]
    fn a_file_that_is_no_report_is_a_clear_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "{}").unwrap();
        let arguments = SavedReportArgs {
            file: file.path().to_path_buf(),
            output: OutputArgs::default(),
        };
        let error = run(&arguments).unwrap_err().to_string();
        assert!(error.contains("is no report of"), "{error}");
    }
}
