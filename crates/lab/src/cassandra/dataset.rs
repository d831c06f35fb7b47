//! The data set: written once by Cassandra's own SSTable writer, imported once into a node of each
//! release, and copied for every run by hard links. SSTables never change after they were written;
//! everything else is copied.

use super::arguments::{CassandraArgs, Format, HotTable};
use super::load::Load;
use super::tables::Tables;
use crate::linked::{LinkedCopy, entries};
use crate::option_name::option_name;
use anyhow::{Context, Result, bail};
use coldstream_nodes::{Distribution, Launch, Node, Settings, SstableFormat};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const WRITER: &str = include_str!("WriteTables.java");

/// Keyspace of both tables.
pub const KEYSPACE: &str = "coldstream";
/// The table that is compacted.
pub const COMPACTED: &str = "compacted";
/// The table beside it: as large, in one SSTable.
pub const BESIDE: &str = "beside";

/// SSTables that were rewritten are deleted by a thread of their own (`NonPeriodicTasks`), some time
/// after nodetool says that it is done.
const DELETION_TIME_MAX: Duration = Duration::from_secs(60);

/// A loopback address of the laboratory's own.
pub const ADDRESS: &str = "127.76.0.1";

/// A major compaction reads two SSTables and writes one.
fn sstables_of(table: &str) -> u64 {
    if table == COMPACTED { 2 } else { 1 }
}

/// The tables that a measurement needs.
fn tables(arguments: &CassandraArgs) -> &'static [&'static str] {
    match arguments.hot_table {
        HotTable::Inside => &[COMPACTED],
        HotTable::Beside => &[COMPACTED, BESIDE],
    }
}

fn create_table(arguments: &CassandraArgs, table: &str) -> String {
    let compression = match arguments.chunk_kib {
        0 => "{'enabled': 'false'}".to_owned(),
        kib => format!("{{'class': 'LZ4Compressor', 'chunk_length_in_kb': '{kib}'}}"),
    };
    format!(
        "CREATE TABLE {KEYSPACE}.{table} (key bigint PRIMARY KEY, value blob) WITH compression = \
         {compression} AND compaction = {{'class': 'SizeTieredCompactionStrategy', 'enabled': \
         'false'}}"
    )
}

/// What a node's configuration is in every mode, less what the mode changes.
pub fn settings(arguments: &CassandraArgs) -> Settings {
    Settings {
        heap_mib: arguments.heap_mib,
        compaction_mib_per_second: arguments.compaction_mib_per_second,
        format: match arguments.format {
            Format::Big => SstableFormat::Big,
            Format::Bti => SstableFormat::Bti,
        },
        ..Settings::default()
    }
}

/// The data set as SSTables that no node has seen; removed when dropped unless kept.
#[derive(Debug)]
pub struct Sstables {
    path: PathBuf,
    keep: bool,
    writer: Distribution,
}

/// What distinguishes the data set of these parameters.
fn name(arguments: &CassandraArgs) -> String {
    format!(
        "{}x{}-chunk{}",
        arguments.sizes().keys,
        arguments.value_bytes,
        arguments.chunk_kib
    )
}

impl Sstables {
    /// Those for these parameters, to be written by `writer` when a table is first asked for.
    pub fn of(arguments: &CassandraArgs, writer: Distribution, work_dir: &Path) -> Self {
        Self {
            path: work_dir.join(format!("sstables-{}", name(arguments))),
            keep: arguments.work_dir.keep,
            writer,
        }
    }
}

impl Drop for Sstables {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// A node's directory with the data set in it, complete; removed when dropped unless kept.
#[derive(Debug)]
pub struct Template {
    path: PathBuf,
    keep: bool,
}

impl Template {
    /// Takes the one for these parameters and this release, which can import the SSTables, making
    /// it if it is not there.
    pub fn prepare(
        arguments: &CassandraArgs,
        distribution: &Distribution,
        sstables: &Sstables,
        work_dir: &Path,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self> {
        let path = work_dir.join(format!(
            "node-{}-{}-{}-{}",
            name(arguments),
            option_name(arguments.format),
            option_name(arguments.hot_table),
            distribution.version()
        ));
        // Removed if it cannot be completed.
        let mut template = Self { path, keep: false };
        let complete = template.path.join("COMPLETE");
        if !complete.exists() {
            for table in tables(arguments) {
                write_sstables(arguments, &sstables.writer, &sstables.path, table, progress)?;
            }
            progress(&format!(
                "importing into Cassandra {}",
                distribution.version()
            ));
            template.import(arguments, distribution, &sstables.path)?;
            fs::write(&complete, "").with_context(|| complete.display().to_string())?;
        }
        template.keep = arguments.work_dir.keep;
        Ok(template)
    }

    fn import(
        &self,
        arguments: &CassandraArgs,
        distribution: &Distribution,
        dataset: &Path,
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
        let load = Load::connect(&node.cql())?;
        load.execute(&format!(
            "CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', \
             'replication_factor': 1}}"
        ))?;
        for table in tables(arguments) {
            load.execute(&create_table(arguments, table))?;
            let source = dataset.join(table);
            for sstable in entries(&source)? {
                // Importing moves the files, so they are links of our own; whose they are is told
                // by the names of their directories.
                let links = self.path.join("import").join(KEYSPACE).join(table);
                link_files(&sstable.path(), &links)?;
                node.nodetool()
                    .run(&["import", KEYSPACE, table, &links.display().to_string()])?;
                fs::remove_dir_all(&links).with_context(|| links.display().to_string())?;
            }
            // The writer knows too few keys beforehand for a bloom filter of any use, and
            // writes its own release's format: written anew, tables are as this release's.
            node.nodetool()
                .run(&["upgradesstables", "-a", KEYSPACE, table])?;
            let directory = table_directory(&self.path, table)?;
            let until = Instant::now() + DELETION_TIME_MAX;
            loop {
                let imported = Tables::watch(directory.clone()).inputs();
                if imported as u64 == sstables_of(table) {
                    break;
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
        drop(load);
        Ok(node.stop()?)
    }

    /// A copy that a node may change, removed when dropped; nothing of its tables is in the page
    /// cache.
    pub fn copy(&self, work_dir: &Path) -> Result<LinkedCopy> {
        let copy = LinkedCopy::make(&self.path, "db", work_dir)?;
        copy.cool_down()?;
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

/// `data/KEYSPACE/TABLE-ID` of a node's directory.
pub fn table_directory(node: &Path, table: &str) -> Result<PathBuf> {
    let keyspace = node.join("data").join(KEYSPACE);
    let prefix = format!("{table}-");
    entries(&keyspace)?
        .into_iter()
        .map(|entry| entry.path())
        .find(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
        })
        .with_context(|| format!("no table {table} in {}", keyspace.display()))
}

fn write_sstables(
    arguments: &CassandraArgs,
    distribution: &Distribution,
    dataset: &Path,
    table: &str,
    progress: &mut dyn FnMut(&str),
) -> Result<()> {
    let directory = dataset.join(table);
    if directory.exists() {
        return Ok(());
    }
    let (keys, sstables) = (arguments.sizes().keys, sstables_of(table));
    progress(&format!(
        "writing {keys} keys of {} bytes into {sstables} SSTables with Cassandra {}",
        arguments.value_bytes,
        distribution.version()
    ));
    let partial = dataset.join(format!("{table}.partial"));
    let _ = fs::remove_dir_all(&partial);
    let written = write_partial(arguments, distribution, &partial, table);
    if written.is_err() {
        let _ = fs::remove_dir_all(&partial);
    }
    written?;
    fs::rename(&partial, &directory).with_context(|| directory.display().to_string())
}

fn write_partial(
    arguments: &CassandraArgs,
    distribution: &Distribution,
    partial: &Path,
    table: &str,
) -> Result<()> {
    let (keys, sstables) = (arguments.sizes().keys, sstables_of(table));
    fs::create_dir_all(partial).with_context(|| partial.display().to_string())?;
    let source = partial.join("WriteTables.java");
    fs::write(&source, WRITER).with_context(|| source.display().to_string())?;
    let output = distribution
        .java()
        .arg("-Xmx1g")
        .arg(&source)
        .arg(partial)
        .args([&sstables, &keys, &arguments.value_bytes].map(u64::to_string))
        .arg(create_table(arguments, table))
        .arg(format!(
            "INSERT INTO {KEYSPACE}.{table} (key, value) VALUES (?, ?)"
        ))
        .current_dir(partial)
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
    // What the writer itself left beside the SSTables is no SSTable.
    for entry in entries(partial)? {
        if entry.file_name().to_string_lossy().parse::<u64>().is_err() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
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
