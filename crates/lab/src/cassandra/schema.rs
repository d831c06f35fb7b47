//! The keyspace and the CQL tables that the laboratory creates.

use super::arguments::{CassandraArgs, HotTable};
use crate::linked::entries;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Keyspace of both CQL tables.
pub const KEYSPACE: &str = "coldstream";
/// The CQL table that is compacted.
pub const COMPACTED: &str = "compacted";
/// The CQL table beside it: as large, in one SSTable.
pub const BESIDE: &str = "beside";

/// The loopback address of the laboratory's nodes.
pub const ADDRESS: &str = "127.76.0.1";

/// Statement that creates the keyspace.
pub fn create_keyspace() -> String {
    format!(
        "CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', \
         'replication_factor': 1}}"
    )
}

/// Statement that creates a CQL table. Compactions start only by nodetool.
pub fn create_table(arguments: &CassandraArgs, table: &str) -> String {
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

/// The CQL tables that a measurement needs.
pub fn tables(arguments: &CassandraArgs) -> &'static [&'static str] {
    match arguments.hot_table {
        HotTable::Inside => &[COMPACTED],
        HotTable::Beside => &[COMPACTED, BESIDE],
    }
}

/// SSTables of a CQL table in the data set. A major compaction reads two and writes one.
pub fn sstables_of(table: &str) -> u64 {
    if table == COMPACTED { 2 } else { 1 }
}

/// `data/KEYSPACE/TABLE-ID` in a node's directory.
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
        .with_context(|| format!("no CQL table {table} in {}", keyspace.display()))
}
