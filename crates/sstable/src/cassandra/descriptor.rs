//! File names of SSTables: `nb-1-big-Data.db`, `da-3gtn_0w2g_0mkjk2ttp0ueyhbnc4-bti-Partitions.db`.
//!
//! Source: `io/sstable/Descriptor.java`, `SequenceBasedSSTableId.java`, `UUIDBasedSSTableId.java`,
//! `format/Version.java`, `format/SSTableFormat.java`, `format/big/BigFormat.java` and
//! `format/bti/BtiFormat.java` (Cassandra 5.0.9 and 6.0-alpha2).

use std::fmt;

use crate::memory::formatted;
use crate::{Error, Result, unsupported};

/// The format of an SSTable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// With an `Index.db`. The only format up to Cassandra 4.1, the default of 5.0.
    Big,
    /// With a `Partitions.db` and a `Rows.db`.
    Bti,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Big => "big",
            Self::Bti => "bti",
        }
    }

    /// The versions that this reader knows for certain.
    fn versions(self) -> &'static [&'static str] {
        match self {
            Self::Big => &["na", "nb", "oa", "pa"],
            Self::Bti => &["da", "ea"],
        }
    }
}

/// A file of an SSTable that this reader uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// The partitions themselves, possibly compressed.
    Data,
    /// Keys and positions of a BIG SSTable.
    Index,
    /// Keys and positions of a BTI SSTable.
    Partitions,
    /// Indexes of the rows of a BTI SSTable's large partitions.
    Rows,
    /// Where the chunks of compressed data begin.
    CompressionInfo,
    /// Metadata of the whole SSTable. This reader needs the partitioner.
    Statistics,
}

impl Component {
    /// The end of its file's name, behind the [`Descriptor`] and a hyphen.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Data => "Data.db",
            Self::Index => "Index.db",
            Self::Partitions => "Partitions.db",
            Self::Rows => "Rows.db",
            Self::CompressionInfo => "CompressionInfo.db",
            Self::Statistics => "Statistics.db",
        }
    }
}

/// The common part of the file names of one SSTable: `nb-1-big`. Its version is always a known one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    version: &'static str,
    id: String,
    format: Format,
}

impl Descriptor {
    /// Parses the name of any file of an SSTable, without directories.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if it is no such name, or its version is not known.
    pub fn parse(file_name: &str) -> Result<Self> {
        let unsupported = |why: &str| Err(unsupported(format_args!("{file_name}: {why}")));
        let mut parts = file_name.split('-');
        let four = [(); 4].map(|()| parts.next());
        let ([Some(version), Some(id), Some(format), Some(component)], None) = (four, parts.next())
        else {
            return unsupported("not a file of an SSTable");
        };
        let format = match format {
            "big" => Format::Big,
            "bti" => Format::Bti,
            _ => return unsupported("unknown format"),
        };
        if component.is_empty() || component.ends_with(".tmp") {
            return unsupported("not a file of an SSTable");
        }
        if !is_sequence_number(id) && !is_time_uuid(id) {
            return unsupported("not the identifier of an SSTable");
        }
        let known = format.versions().iter().find(|&&known| known == version);
        let Some(&version) = known else {
            return unsupported("unknown version");
        };
        Ok(Self {
            version,
            id: formatted(format_args!("{id}")).ok_or(Error::OutOfMemory)?,
            format,
        })
    }

    /// The format of the SSTable.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Version of the format, two letters.
    #[must_use]
    pub fn version(&self) -> &str {
        self.version
    }

    /// The identifier of the SSTable, unique in its directory.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Name of a file of the SSTable, without directories.
    #[must_use]
    #[expect(
        clippy::disallowed_macros,
        reason = "for programs that may end for want of memory"
    )]
    pub fn file_name(&self, component: Component) -> String {
        format!("{self}-{}", component.name())
    }
}

impl fmt::Display for Descriptor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (version, id, format) = (self.version, &self.id, self.format.name());
        write!(formatter, "{version}-{id}-{format}")
    }
}

fn is_sequence_number(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit())
}

/// Days, seconds, then units of 100 ns with a random part, in base 36:
/// `3gtn_0w2g_0mkjk2ttp0ueyhbnc4`.
fn is_time_uuid(id: &str) -> bool {
    id.len() == 28
        && id.bytes().enumerate().all(|(index, byte)| match index {
            4 | 9 => byte == b'_',
            _ => byte.is_ascii_alphanumeric(),
        })
}
