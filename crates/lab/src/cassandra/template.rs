//! A node's directory with the data set in it, for one release. Each run gets a copy by hard links:
//! SSTables never change after they were written. Everything else is copied.

use super::arguments::{CassandraArgs, Format};
use super::client::CqlClient;
use super::schema::{
    ADDRESS, KEYSPACE, create_keyspace, create_table, sstables_of, table_directory, tables,
};
use super::sstables::{DATA_SUFFIX, SsTables, dataset_name};
use crate::compaction_files::with_suffix;
use crate::linked::{LinkedCopy, entries};
use crate::option_name::option_name;
use anyhow::{Context, Result, bail};
use coldstream_nodes::{Distribution, Launch, Node, Settings, SstableFormat, Version};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Cassandra deletes rewritten SSTables in a thread of its own (`NonPeriodicTasks`), some time after
/// nodetool has returned.
const DELETION_TIME_MAX: Duration = Duration::from_secs(60);

/// A file that tells that a node directory is complete.
const COMPLETE: &str = "COMPLETE";

/// A node's settings that are the same in every mode.
pub fn settings(arguments: &CassandraArgs) -> Settings {
    Settings {
        heap_mib: arguments.sizes().heap_mib,
        compaction_mib_per_second: arguments.compaction_mib_per_second(),
        format: match arguments.format {
            Format::Big => SstableFormat::Big,
            Format::Bti => SstableFormat::Bti,
        },
        ..Settings::default()
    }
}

/// A complete node directory. Removed when dropped, except with `--keep`.
#[derive(Debug)]
pub struct Template {
    path: PathBuf,
    keep: bool,
}

impl Template {
    /// The directory for these parameters and this release.
    fn directory(arguments: &CassandraArgs, release: Version, work_dir: &Path) -> PathBuf {
        work_dir.join(format!(
            "node-{}-{}-{}-{release}",
            dataset_name(arguments),
            option_name(arguments.format),
            option_name(arguments.hot_table),
        ))
    }

    /// Whether an earlier measurement has kept it.
    pub fn is_kept(arguments: &CassandraArgs, release: Version, work_dir: &Path) -> bool {
        let directory = Self::directory(arguments, release, work_dir);
        directory.join(COMPLETE).exists()
    }

    /// Takes the directory for these parameters and this release, or makes it.
    pub fn prepare(
        arguments: &CassandraArgs,
        distribution: &Distribution,
        sstables: &SsTables,
        work_dir: &Path,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self> {
        // Removed if it cannot be completed.
        let mut template = Self {
            path: Self::directory(arguments, distribution.version(), work_dir),
            keep: false,
        };
        let complete = template.path.join(COMPLETE);
        if !complete.exists() {
            let mut sources = Vec::new();
            for table in tables(arguments) {
                sources.push((*table, sstables.of_table(arguments, table, progress)?));
            }
            progress(&format!(
                "importing into Cassandra {}",
                distribution.version()
            ));
            template.import(arguments, distribution, &sources)?;
            fs::write(&complete, "").with_context(|| complete.display().to_string())?;
        }
        template.keep = arguments.work_dir.keep;
        Ok(template)
    }

    /// Imports CQL tables, each from the directory beside its name.
    fn import(
        &self,
        arguments: &CassandraArgs,
        distribution: &Distribution,
        sources: &[(&str, PathBuf)],
    ) -> Result<()> {
        let _ = fs::remove_dir_all(&self.path);
        let settings = Settings {
            compaction_mib_per_second: 0,
            ..settings(arguments)
        };
        let mut node = Node::start(
            distribution,
            &settings,
            &self.path,
            ADDRESS,
            ADDRESS,
            &Launch::default(),
        )?;
        let client = CqlClient::connect(&node.cql())?;
        client.execute(&create_keyspace())?;
        for (table, source) in sources {
            client.execute(&create_table(arguments, table))?;
            self.import_table(&mut node, table, source)?;
            self.wait_for_deletions(distribution, table)?;
        }
        drop(client);
        Ok(node.stop()?)
    }

    fn import_table(&self, node: &mut Node, table: &str, source: &Path) -> Result<()> {
        for sstable in entries(source)? {
            // An import moves the files, so it gets links. Cassandra takes keyspace and CQL table
            // from the names of their directories.
            let links = self.path.join("import").join(KEYSPACE).join(table);
            link_files(&sstable.path(), &links)?;
            node.nodetool()
                .run(&["import", KEYSPACE, table, &links.display().to_string()])?;
            fs::remove_dir_all(&links).with_context(|| links.display().to_string())?;
        }
        // The writer does not know the number of keys beforehand: its bloom filters are of no use.
        // It also writes its own release's format. So this release rewrites the SSTables.
        node.nodetool()
            .run(&["upgradesstables", "-a", KEYSPACE, table])?;
        Ok(())
    }

    fn wait_for_deletions(&self, distribution: &Distribution, table: &str) -> Result<()> {
        let directory = table_directory(&self.path, table)?;
        let until = Instant::now() + DELETION_TIME_MAX;
        loop {
            let imported = with_suffix(&directory, DATA_SUFFIX).len();
            if imported as u64 == sstables_of(table) {
                return Ok(());
            }
            if Instant::now() > until {
                bail!(
                    "Cassandra {} has {imported} SSTables of {table} after the import, not {}",
                    distribution.version(),
                    sstables_of(table)
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A copy that a node may change, removed when dropped. No page of its SSTables is in the page
    /// cache.
    pub fn copy(&self, work_dir: &Path) -> Result<LinkedCopy> {
        let copy = LinkedCopy::make(&self.path, "db", work_dir)?;
        copy.drop_pages()?;
        Ok(copy)
    }
}

impl Drop for Template {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

fn link_files(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| to.display().to_string())?;
    for entry in entries(from)? {
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        fs::hard_link(&source, &target)
            .with_context(|| format!("{} to {}", source.display(), target.display()))?;
    }
    Ok(())
}
