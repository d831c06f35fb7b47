//! What Cassandra's own tool shows of an SSTable.

use std::path::Path;

use coldstream_sstable::cassandra::Format;
use coldstream_testkit::cassandra::Engine;

/// A partition as `sstabledump` shows it.
#[derive(Debug)]
pub struct Dumped {
    /// The key's columns as text.
    pub key: Vec<String>,
    /// The position of the tool's reader in the uncompressed data after it read the partition's head.
    pub position: u64,
}

/// Cassandra's name of a format.
pub fn name(format: Format) -> &'static str {
    match format {
        Format::Big => "big",
        Format::Bti => "bti",
    }
}

/// The partitions of the SSTable with this `Data.db`, from `sstabledump`.
pub fn dump(engine: &Engine, scratch: &Path, format: Format, data: &Path) -> Vec<Dumped> {
    let tool = "org.apache.cassandra.tools.SSTableExport";
    let json = engine.run(scratch, name(format), tool, &[data]);
    // The tool prints one value a line. Neither keys nor values have quotes in these SSTables.
    let mut dumped = Vec::new();
    let mut lines = json.lines().map(str::trim);
    while let Some(line) = lines.next() {
        let Some(key) = line.strip_prefix("\"key\" : [ ") else {
            continue;
        };
        let key = key.strip_suffix(" ],").expect("a key on one line");
        let position = lines
            .next()
            .and_then(|line| line.strip_prefix("\"position\" : "));
        let position = position.map(|position| position.trim_end_matches(','));
        dumped.push(Dumped {
            key: key
                .split(", ")
                .map(|column| column.trim_matches('"').to_owned())
                .collect(),
            position: position
                .and_then(|text| text.parse().ok())
                .expect("a position"),
        });
    }
    dumped
}
