//! The kind of a file, from its name.

use crate::profile::Profile;

/// The kind of a file. Coldstream acts on SSTables and blob files only. It never touches other files:
/// write-ahead logs, manifests, commit logs, indexes, and all unknown ones.
///
/// A file counts as one of them by its name alone. Its engine must write it once from the beginning to
/// the end, and must never change it after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, strum::FromRepr)]
#[repr(u8)]
pub enum FileKind {
    /// Neither an SSTable nor a blob file.
    #[default]
    Untracked = 0,
    /// `000123.sst` of RocksDB.
    RocksDbSsTable = 1,
    /// `000123.ldb` of LevelDB; `.sst` in its old databases.
    LevelDbSsTable = 2,
    /// `nb-1-big-Data.db` or `da-3-bti-Data.db` of Cassandra.
    CassandraData = 3,
    /// `000123.blob` of RocksDB: values that its SSTables point to. Their garbage collection is part of
    /// compaction.
    RocksDbBlob = 4,
}

impl FileKind {
    /// The kind with this number; anything unknown is untracked.
    #[inline]
    pub fn from_u8(number: u8) -> Self {
        Self::from_repr(number).unwrap_or_default()
    }

    /// Whether the file is an SSTable.
    pub fn is_sstable(self) -> bool {
        !matches!(self, FileKind::Untracked | FileKind::RocksDbBlob)
    }
}

impl Profile {
    /// The kind of the file at `path`, as given to `open`. Only the last component counts.
    pub fn kind_of_file(self, path: &[u8]) -> FileKind {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        let all = self == Profile::Auto;
        if (all || self == Profile::Cassandra) && is_cassandra_data(name) {
            return FileKind::CassandraData;
        }
        if (all || self == Profile::RocksDb) && is_numbered(name, b".sst") {
            return FileKind::RocksDbSsTable;
        }
        if (all || self == Profile::RocksDb) && is_numbered(name, b".blob") {
            return FileKind::RocksDbBlob;
        }
        if (all || self == Profile::LevelDb) && is_numbered(name, b".ldb")
            || self == Profile::LevelDb && is_numbered(name, b".sst")
        {
            return FileKind::LevelDbSsTable;
        }
        FileKind::Untracked
    }
}

/// `<digits><suffix>`, as RocksDB and LevelDB name their files (`db/filename.cc`, `MakeFileName`).
/// `rocksdb-plugin/coldstream_fs.cc: IsTable` knows `.sst` alone: the plugin passes blob files on.
fn is_numbered(name: &[u8], suffix: &[u8]) -> bool {
    name.strip_suffix(suffix)
        .is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}

/// `<version>-<generation>-<format>-Data.db` (`io/sstable/Descriptor.java`).
fn is_cassandra_data(name: &[u8]) -> bool {
    name.strip_suffix(b"-Data.db")
        .is_some_and(|stem| stem.contains(&b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::select;
    use strum::VariantArray;

    #[test]
    fn only_sstables_and_blob_files_are_tracked() {
        let kind = |name: &str| Profile::Auto.kind_of_file(name.as_bytes());
        assert_eq!(kind("/db/000123.sst"), FileKind::RocksDbSsTable);
        assert_eq!(kind("000123.ldb"), FileKind::LevelDbSsTable);
        assert_eq!(kind("/db/000124.blob"), FileKind::RocksDbBlob);
        assert!(!FileKind::RocksDbBlob.is_sstable());
        assert_eq!(kind("/d/nb-1-big-Data.db"), FileKind::CassandraData);
        assert_eq!(
            kind("/d/da-3g8w_0k2c_1j4sg2o5n6l3d1-bti-Data.db"),
            FileKind::CassandraData
        );
        for other in [
            "/db/000123.log",
            "/db/MANIFEST-000001",
            "/db/CURRENT",
            "/db/.sst",
            "/db/a1.sst",
            "/db/000123.sst/",
            "/db/000123.sst.trash",
            "/db/blob_dir/.blob",
            "/db/a1.blob",
            "/d/nb-1-big-Index.db",
            "/d/Data.db",
            "/d/-Data.db",
            "/d/CommitLog-7-1.log",
            "/d/nb-1-big-CompressionInfo.db",
            "",
            "/",
        ] {
            assert_eq!(kind(other), FileKind::Untracked, "{other}");
        }
        assert_eq!(
            Profile::LevelDb.kind_of_file(b"1.sst"),
            FileKind::LevelDbSsTable
        );
        assert_eq!(
            Profile::Cassandra.kind_of_file(b"1.sst"),
            FileKind::Untracked
        );
    }

    proptest! {
        #[test]
        fn no_path_panics(
            path in proptest::collection::vec(any::<u8>(), 0..60),
            profile in select(Profile::VARIANTS),
        ) {
            let kind = profile.kind_of_file(&path);
            prop_assert_eq!(FileKind::from_u8(kind as u8), kind);
        }
    }
}
