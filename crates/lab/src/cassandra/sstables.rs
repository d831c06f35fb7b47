//! The data set as SSTables outside any node, written by Cassandra's own SSTable writer.

use super::arguments::CassandraArgs;
use super::schema::{KEYSPACE, create_table, sstables_of};
use crate::linked::entries;
use anyhow::{Context, Result, bail};
use coldstream_nodes::Distribution;
use std::fs;
use std::path::{Path, PathBuf};

/// The end of the name of an SSTable's data file.
pub const DATA_SUFFIX: &str = "-Data.db";

const WRITER: &str = include_str!("WriteSsTables.java");

/// A data set that no node has seen. Removed when dropped, except with `--keep`.
#[derive(Debug)]
pub struct SsTables {
    path: PathBuf,
    keep: bool,
    writer: Distribution,
}

/// The name of these parameters' data set.
pub fn dataset_name(arguments: &CassandraArgs) -> String {
    format!(
        "{}x{}-chunk{}",
        arguments.sizes().keys,
        arguments.value_bytes,
        arguments.chunk_kib
    )
}

impl SsTables {
    /// The data set of these parameters. `writer` writes a CQL table when it is first asked for.
    pub fn of(arguments: &CassandraArgs, writer: Distribution, work_dir: &Path) -> Self {
        Self {
            path: work_dir.join(format!("sstables-{}", dataset_name(arguments))),
            keep: arguments.work_dir.keep,
            writer,
        }
    }

    /// The directory with a CQL table's SSTables, each in a directory of its own. Writes them if
    /// they are not there.
    pub fn of_table(
        &self,
        arguments: &CassandraArgs,
        table: &str,
        progress: &mut dyn FnMut(&str),
    ) -> Result<PathBuf> {
        let directory = self.path.join(table);
        if directory.exists() {
            return Ok(directory);
        }
        progress(&format!(
            "writing {} keys of {} bytes into {} SSTables with Cassandra {}",
            arguments.sizes().keys,
            arguments.value_bytes,
            sstables_of(table),
            self.writer.version()
        ));
        let partial = self.path.join(format!("{table}.partial"));
        let _ = fs::remove_dir_all(&partial);
        let written = self.write(arguments, &partial, table);
        if written.is_err() {
            let _ = fs::remove_dir_all(&partial);
        }
        written?;
        fs::rename(&partial, &directory).with_context(|| directory.display().to_string())?;
        Ok(directory)
    }

    fn write(&self, arguments: &CassandraArgs, directory: &Path, table: &str) -> Result<()> {
        let (keys, sstables) = (arguments.sizes().keys, sstables_of(table));
        fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        let source = directory.join("WriteSsTables.java");
        fs::write(&source, WRITER).with_context(|| source.display().to_string())?;
        let output = (self.writer)
            .java()
            .arg("-Xmx1g")
            .arg(&source)
            .arg(directory)
            .args([&sstables, &keys, &arguments.value_bytes].map(u64::to_string))
            .arg(create_table(arguments, table))
            .arg(format!(
                "INSERT INTO {KEYSPACE}.{table} (key, value) VALUES (?, ?)"
            ))
            .current_dir(directory)
            .output()
            .context("start java")?;
        if !output.status.success() {
            bail!(
                "Cassandra's SSTable writer ended with {}: {}",
                output.status,
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        fs::remove_file(&source).with_context(|| source.display().to_string())?;
        // The SSTables lie in directories with a number for a name. The writer leaves others, too.
        for entry in entries(directory)? {
            if entry.file_name().to_string_lossy().parse::<u64>().is_err() {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        Ok(())
    }
}

impl Drop for SsTables {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
