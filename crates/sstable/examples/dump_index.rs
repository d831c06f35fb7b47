//! Prints the index of an SSTable: one line for each data block or partition.
//!
//! ```text
//! cargo run --release -p coldstream-sstable --example dump_index -- FILE
//! ```

use std::error::Error;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

use coldstream_sstable::cassandra::{self, Key};
use coldstream_sstable::rocksdb;

const USAGE: &str = "\
Prints the index of an SSTable.

Usage: dump_index FILE

FILE is one of
  *.sst, *.ldb         an SSTable of RocksDB or LevelDB: one line for each data block
  *-Data.db            an SSTable of Cassandra: one line for each partition

Columns: offset in bytes, length in bytes, key. A byte that is not printable appears as \\xNN.
  RocksDB, LevelDB     the offset in the file; no key of the block is above the key shown
  Cassandra            the offset in the uncompressed data; token and key. A BTI index holds only a
                       prefix of most of them: it is shown with \"...\"";

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let [file] = &arguments[..] else {
        eprintln!(
            "dump_index: expected one file, got {}\n\n{USAGE}",
            arguments.len()
        );
        return ExitCode::from(2);
    };
    if file == "-h" || file == "--help" {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let path = Path::new(file);
    match dump(path, &mut BufWriter::new(io::stdout().lock())) {
        Ok(()) => ExitCode::SUCCESS,
        // The other end of a pipe, such as `head`, needs no more lines.
        Err(error) if is_broken_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dump_index: {}: {error}", path.display());
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// The name of a file decides which reader takes it.
fn dump(path: &Path, output: &mut impl Write) -> Result<()> {
    // Cassandra's reader opens other files than this one. So check here that it exists.
    let file = File::open(path)?;
    let extension = path.extension().and_then(|extension| extension.to_str());
    match extension {
        Some("sst" | "ldb") => dump_blocks(&file, output)?,
        Some("db") => dump_partitions(path, output)?,
        _ => return Err("the name must end with .sst, .ldb or -Data.db".into()),
    }
    Ok(output.flush()?)
}

fn dump_blocks(file: &File, output: &mut impl Write) -> Result<()> {
    let sstable = rocksdb::SsTable::open(file)?;
    match sstable.format() {
        rocksdb::Format::LevelDb => writeln!(output, "# LevelDB")?,
        rocksdb::Format::RocksDb { format_version } => {
            writeln!(output, "# RocksDB, format_version {format_version}")?;
        }
        rocksdb::Format::Pebble { table_format } => {
            writeln!(output, "# Pebble, table format {table_format}")?;
        }
    }
    writeln!(output, "# offset length key")?;
    // Blocks borrow from the walk, hence `while` and not `for`.
    let mut blocks = sstable.blocks();
    while let Some(block) = blocks.next()? {
        let key = block.separator.escape_ascii();
        writeln!(output, "{} {} {key}", block.offset, block.length)?;
    }
    if let Some(order) = blocks.orders().first() {
        writeln!(output, "# order of keys: {order:?}")?;
    }
    Ok(())
}

fn dump_partitions(path: &Path, output: &mut impl Write) -> Result<()> {
    let sstable = match cassandra::SsTable::open(path) {
        Err(coldstream_sstable::Error::Io(error)) if error.kind() == ErrorKind::NotFound => {
            return Err(
                "Statistics.db or the index is missing: the SSTable is not finished, or \
                        its files are not all in this directory"
                    .into(),
            );
        }
        opened => opened?,
    };
    let compression = if sstable.compression().is_some() {
        "compressed"
    } else {
        "not compressed"
    };
    writeln!(output, "# Cassandra, {compression}")?;
    writeln!(output, "# offset length token key")?;
    let mut partitions = sstable.partitions()?;
    while let Some(partition) = partitions.next_partition()? {
        let range = &partition.uncompressed;
        let key = printable(partition.key);
        writeln!(output, "{} {} {key}", range.start, range.end - range.start)?;
    }
    Ok(())
}

/// Token and key, taken from the byte-comparable form.
///
/// The form consists of a separator, 8 bytes of token with the sign bit inverted, a separator, and
/// the key. Two bytes follow a complete key. Zero bytes of a key stay escaped.
fn printable(key: &Key) -> String {
    let Some((token, rest)) = (key.bytes().get(1..)).and_then(<[u8]>::split_first_chunk::<8>)
    else {
        // The prefix ends within the token.
        return format!("{}...", key.bytes().escape_ascii());
    };
    let token = i64::from_be_bytes(*token) ^ i64::MIN;
    let stored = rest.get(1..).unwrap_or_default();
    if key.is_complete() {
        let end = stored.len().saturating_sub(2);
        format!("{token} {}", stored[..end].escape_ascii())
    } else {
        format!("{token} {}...", stored.escape_ascii())
    }
}
