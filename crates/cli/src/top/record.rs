//! `--record` and `--replay`: a file with one model a line, as JSON.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::model::Model;
use crate::exit::{self, failure};

/// A file that is being recorded.
pub struct Record {
    path: PathBuf,
    file: File,
}

impl Record {
    /// Makes the file. It must not exist: a record is never overwritten.
    ///
    /// # Errors
    /// It exists, or cannot be made.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        let file = File::create_new(path).with_context(|| {
            let hint = match path.exists() {
                true => ": name another file, or add one interval to it with --once",
                false => "",
            };
            format!("cannot record into {}{hint}", path.display())
        })?;
        let path = path.to_owned();
        Ok(Self { path, file })
    }

    /// Goes on with a record, if there is one, or makes the file.
    ///
    /// # Errors
    /// It exists and is no record, or cannot be written.
    pub fn go_on(path: &Path) -> anyhow::Result<Self> {
        if !path.exists() {
            return Self::create(path);
        }
        read(path)?;
        let file = File::options()
            .append(true)
            .open(path)
            .with_context(|| format!("cannot record into {}", path.display()))?;
        let path = path.to_owned();
        Ok(Self { path, file })
    }

    /// Appends a model.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append(&mut self, model: &Model) -> anyhow::Result<()> {
        let line = serde_json::to_string(model)? + "\n";
        self.file
            .write_all(line.as_bytes())
            .with_context(|| format!("cannot record into {}", self.path.display()))
    }
}

/// The models of a recorded file. A last line that was cut off is passed over.
///
/// # Errors
/// The file cannot be read, has no model, or another line is none.
pub fn read(path: &Path) -> anyhow::Result<Vec<Model>> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot replay {}", path.display()))?;
    let lines = text.lines().count();
    let mut models = Vec::new();
    for (index, line) in text.lines().enumerate() {
        match serde_json::from_str(line) {
            Ok(model) => models.push(model),
            Err(_) if index > 0 && index + 1 == lines && !text.ends_with('\n') => {}
            Err(error) => {
                let text = format!(
                    "{}, line {}: not a record of coldstream top of this version: {error}",
                    path.display(),
                    index + 1
                );
                return Err(failure(exit::Exit::Failure, text));
            }
        }
    }
    if models.is_empty() {
        let text = format!("{}: an empty record", path.display());
        return Err(failure(exit::Exit::Failure, text));
    }
    Ok(models)
}
