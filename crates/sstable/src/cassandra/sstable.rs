//! A table: its files, its partitions, its chunks.

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
use crate::{Error, ReadAt, Result};

/// The files of a table that its index is made of.
#[derive(Debug)]
pub struct Components<R> {
    /// `Index.db` of a BIG table, `Partitions.db` of a BTI one.
    pub keys: R,
    /// `Rows.db` of a BTI table.
    pub rows: Option<R>,
    /// `CompressionInfo.db`; `None` if the table is not compressed.
    pub compression_info: Option<R>,
    /// `Statistics.db`.
    pub statistics: R,
    /// Length of `Data.db`, which itself is not read, in bytes.
    pub data_length: u64,
}

impl<R> Components<R> {
    /// Opens the files of a table by `open`, whose error tells `is_missing` for a file that does not
    /// exist; `data_length` is asked last.
    ///
    /// # Errors
    /// Those of `open`; that of a missing file if the table is not finished, or not there.
    pub fn open<E>(
        format: Format,
        open: impl Fn(Component) -> std::result::Result<R, E>,
        is_missing: impl Fn(&E) -> bool,
        data_length: impl FnOnce() -> std::result::Result<u64, E>,
    ) -> std::result::Result<Self, E> {
        // The last one to be written is opened first: if it is there, then so are all others, and
        // no CompressionInfo.db means that there is no compression.
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

/// A finished table.
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
    /// Opens the table that the file at `path` is part of, whichever file it is.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the file's name is not one of a known version's table, or the
    /// partitioner is not Murmur3. If a file cannot be read, or its beginning or its end is
    /// malformed. That of a table that is still being written is
    /// [`io::ErrorKind::NotFound`].
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| Error::Unsupported("no file name in UTF-8".into()))?;
        let descriptor = Descriptor::parse(name)?;
        let open = |component| File::open(path.with_file_name(descriptor.file_name(component)));
        let data_length = || open(Component::Data)?.metadata().map(|data| data.len());
        let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let components = Components::open(descriptor.format(), open, is_missing, data_length)?;
        Self::new(&descriptor, components)
    }
}

impl<R: ReadAt> SsTable<R> {
    /// Makes a table of its files.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the partitioner is not Murmur3, or a BTI table's `Rows.db` is not
    /// given. If a file cannot be read, or its beginning or its end is malformed.
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
                return Err(Error::Unsupported("a BTI table without Rows.db".into()));
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
    /// If the index cannot be read.
    pub fn partitions(&self) -> Result<Partitions<'_, R>> {
        self.partitions_from(IndexCursor::default())
    }

    /// The partitions from a place of this very table on.
    ///
    /// # Errors
    /// If the index cannot be read, or is malformed on the way there.
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

    /// How the table's chunks are compressed; `None` if they are not.
    #[must_use]
    pub fn compression(&self) -> Option<&Compression> {
        self.chunks.compression()
    }

    /// The positions of the uncompressed data, in bytes.
    #[must_use]
    pub fn uncompressed(&self) -> Range<u64> {
        0..self.chunks.uncompressed_length()
    }
}
