//! A finished SSTable: its files, its partitions, its chunks.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

use super::bti::Footer;
use super::compression::Compression;
use super::compression_info::{ChunkCursor, ChunkMap};
use super::descriptor::{Component, Descriptor, Format};
use super::partitions::{Entries, IndexCursor, Partitions};
use super::statistics::require_murmur3_partitioner;
use super::{big, bti};
use crate::{ReadAt, Result, unsupported};

/// The files of an SSTable that its reader needs.
#[derive(Debug)]
pub struct Components<R> {
    /// `Index.db` of a BIG SSTable, `Partitions.db` of a BTI one.
    pub keys: R,
    /// `Rows.db` of a BTI SSTable.
    pub rows: Option<R>,
    /// `CompressionInfo.db`. `None` if the SSTable is not compressed.
    pub compression_info: Option<R>,
    /// `Statistics.db`.
    pub statistics: R,
    /// Length of `Data.db` in bytes. The file itself is not read.
    pub data_length: u64,
}

impl<R> Components<R> {
    /// Opens the files of an SSTable with `open`.
    ///
    /// `is_missing` says whether an error of `open` means that the file does not exist. `data_length`
    /// is called last.
    ///
    /// # Errors
    /// Those of `open`. That of a missing file if the SSTable is not finished, or does not exist.
    pub fn open<E>(
        format: Format,
        open: impl Fn(Component) -> std::result::Result<R, E>,
        is_missing: impl Fn(&E) -> bool,
        data_length: impl FnOnce() -> std::result::Result<u64, E>,
    ) -> std::result::Result<Self, E> {
        // Cassandra writes Statistics.db last. If it exists, all other files do. A missing
        // CompressionInfo.db then means that the data is not compressed.
        let statistics = open(Component::Statistics)?;
        let (keys, rows) = match format {
            Format::Big => (open(Component::Index)?, None),
            Format::Bti => (open(Component::Partitions)?, Some(open(Component::Rows)?)),
        };
        let compression_info = match open(Component::CompressionInfo) {
            Err(error) if is_missing(&error) => None,
            opened => Some(opened?),
        };
        Ok(Self {
            keys,
            rows,
            compression_info,
            statistics,
            data_length: data_length()?,
        })
    }
}

/// A finished SSTable, open for reading. Threads may share it if its files can be shared.
#[derive(Debug)]
pub struct SsTable<R> {
    index: Index<R>,
    chunks: ChunkMap<R>,
}

#[derive(Debug)]
enum Index<R> {
    Big {
        index: R,
    },
    Bti {
        partitions: R,
        rows: R,
        footer: Footer,
    },
}

impl SsTable<File> {
    /// Opens the SSTable that the file at `path` belongs to. Any of its files will do.
    ///
    /// # Errors
    /// - [`Error::Unsupported`](crate::Error::Unsupported) if the name is not that of a known version, or the partitioner is not
    ///   Murmur3.
    /// - [`Error::Io`](crate::Error::Io) if a file cannot be read; [`io::ErrorKind::NotFound`] if the SSTable is still
    ///   being written.
    /// - [`Error::Malformed`](crate::Error::Malformed) if the beginning or the end of a file is damaged.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.file_name().and_then(|name| name.to_str());
        let name =
            name.ok_or_else(|| unsupported(format_args!("a file name that is not UTF-8")))?;
        let descriptor = Descriptor::parse(name)?;
        let open = |component| File::open(path.with_file_name(descriptor.file_name(component)));
        let data_length = || open(Component::Data)?.metadata().map(|data| data.len());
        let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let components = Components::open(descriptor.format(), open, is_missing, data_length)?;
        Self::new(&descriptor, components)
    }
}

impl<R: ReadAt> SsTable<R> {
    /// Opens the SSTable that consists of `components`.
    ///
    /// # Errors
    /// - [`Error::Unsupported`](crate::Error::Unsupported) if the partitioner is not Murmur3, or `Rows.db` of a BTI SSTable is
    ///   absent.
    /// - [`Error::Io`](crate::Error::Io) if a file cannot be read.
    /// - [`Error::Malformed`](crate::Error::Malformed) if the beginning or the end of a file is damaged.
    pub fn new(descriptor: &Descriptor, components: Components<R>) -> Result<Self> {
        require_murmur3_partitioner(&components.statistics)?;
        let index = match (descriptor.format(), components.rows) {
            (Format::Big, _) => Index::Big {
                index: components.keys,
            },
            (Format::Bti, Some(rows)) => Index::Bti {
                footer: Footer::read(&components.keys)?,
                partitions: components.keys,
                rows,
            },
            (Format::Bti, None) => {
                return Err(unsupported(format_args!("a BTI SSTable without Rows.db")));
            }
        };
        let chunks = match components.compression_info {
            Some(compression_info) => ChunkMap::read(compression_info, components.data_length)?,
            None => ChunkMap::identity(components.data_length),
        };
        Ok(Self { index, chunks })
    }

    /// The partitions, from the first to the last.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) if the index cannot be read.
    pub fn partitions(&self) -> Result<Partitions<'_, R>> {
        self.partitions_from(IndexCursor::default())
    }

    /// The partitions from `cursor` on, a cursor of the same SSTable.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) or [`Error::Malformed`](crate::Error::Malformed) of the index before `cursor`.
    pub fn partitions_from(&self, cursor: IndexCursor) -> Result<Partitions<'_, R>> {
        let entries = match &self.index {
            Index::Big { index } => Entries::Big(big::Entries::from(index, cursor.0)?),
            Index::Bti {
                partitions,
                rows,
                footer,
            } => Entries::Bti(bti::Entries::new(footer, partitions, rows)?),
        };
        let is_in_data = matches!(entries, Entries::Bti(_)) && cursor.0 > 0;
        let mut partitions = Partitions::new(entries, self.chunks.uncompressed_length());
        if is_in_data {
            partitions.skip_to_position(cursor.0)?;
        }
        Ok(partitions)
    }

    /// Where positions of the uncompressed data lie in `Data.db`.
    #[must_use]
    pub fn chunks(&self) -> ChunkCursor<'_, R> {
        self.chunks.cursor()
    }

    /// How the chunks are compressed. `None` if they are not.
    #[must_use]
    pub fn compression(&self) -> Option<&Compression> {
        self.chunks.compression()
    }

    /// All positions of the uncompressed data, in bytes.
    #[must_use]
    pub fn uncompressed(&self) -> Range<u64> {
        0..self.chunks.uncompressed_length()
    }
}
