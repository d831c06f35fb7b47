//! Numbers that C names: activities and formats.

use coldstream_io::Errno;
use coldstream_policy::{FileKind, Role};

/// For whom bytes move: one of `COLDSTREAM_FOREGROUND`, `COLDSTREAM_COMPACTION`, …
pub type coldstream_activity = u32;

/// Requests of users.
pub const COLDSTREAM_FOREGROUND: u32 = 0;
/// Files become other files.
pub const COLDSTREAM_COMPACTION: u32 = 1;
/// Memory tables become files. A flush is never paced.
pub const COLDSTREAM_FLUSH: u32 = 2;
/// Files are verified or compared.
pub const COLDSTREAM_VALIDATION: u32 = 3;
/// Files are copied to or from elsewhere: backups, checkpoints.
pub const COLDSTREAM_STREAMING: u32 = 4;

/// What the bytes of a file mean: one of `COLDSTREAM_FORMAT_OPAQUE`, … It matters for handovers only.
pub type coldstream_format = u32;

/// Only the caller knows: it gives the mapping of a handover.
pub const COLDSTREAM_FORMAT_OPAQUE: u32 = 0;
/// A block-based table of RocksDB, or a table of LevelDB.
pub const COLDSTREAM_FORMAT_ROCKSDB: u32 = 1;
/// A `Data.db` of Cassandra. Its other components are beside it.
pub const COLDSTREAM_FORMAT_CASSANDRA: u32 = 2;

/// The role of a thread with this activity.
pub(crate) fn role_of(activity: coldstream_activity) -> Result<Role, Errno> {
    match activity {
        COLDSTREAM_FOREGROUND => Ok(Role::Foreground),
        COLDSTREAM_COMPACTION => Ok(Role::Compaction),
        COLDSTREAM_FLUSH => Ok(Role::Flush),
        COLDSTREAM_VALIDATION => Ok(Role::Validation),
        COLDSTREAM_STREAMING => Ok(Role::Streaming),
        _ => Err(Errno(libc::EINVAL)),
    }
}

/// The kind of a file with this format.
pub(crate) fn kind_of(format: coldstream_format) -> Result<FileKind, Errno> {
    match format {
        COLDSTREAM_FORMAT_OPAQUE => Ok(FileKind::Untracked),
        COLDSTREAM_FORMAT_ROCKSDB => Ok(FileKind::RocksDbSsTable),
        COLDSTREAM_FORMAT_CASSANDRA => Ok(FileKind::CassandraData),
        _ => Err(Errno(libc::EINVAL)),
    }
}
