//! SSTables that a process reads through mmap: whose they are, and what its users can do.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use coldstream_policy::{FileKind, Profile};
use coldstream_sstable::rocksdb::Format;
use rustix::fs::OFlags;

/// SSTables whose footers are read: some may be deleted by now.
const FOOTERS_MAX: usize = 8;

/// Whose mapped SSTables are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Cassandra,
    RocksDb,
    LevelDb,
    /// LevelDB, written in Java (org.iq80.leveldb).
    LevelDbOfJava,
    /// Another one, or one that nothing tells.
    Other,
}

/// What to say about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// What to change.
    Advice(&'static str),
    /// What to know, where nothing can be changed.
    Note(&'static str),
}

/// The engine of mapped SSTables, by their names and footers; none if none is mapped. `files` are all mapped files, and
/// `open` opens one as the process sees it.
pub fn engine(
    sstables: &BTreeSet<PathBuf>,
    files: &BTreeSet<PathBuf>,
    open: impl Fn(&Path) -> Option<File>,
) -> Option<Engine> {
    let first = sstables.first()?;
    Some(
        match Profile::Auto.kind_of_file(first.as_os_str().as_bytes()) {
            FileKind::CassandraData => Engine::Cassandra,
            FileKind::LevelDbSsTable => Engine::LevelDb,
            // Others name theirs as RocksDB does.
            _ => {
                let footers = sstables
                    .iter()
                    .take(FOOTERS_MAX)
                    .filter_map(|path| open(path));
                let mut formats = footers.filter_map(|file| Format::by_footer(&file).ok());
                match formats.next() {
                    Some(Format::RocksDb { .. }) => Engine::RocksDb,
                    Some(Format::LevelDb) if is_java_alone(files) => Engine::LevelDbOfJava,
                    Some(Format::LevelDb) => Engine::LevelDb,
                    Some(Format::Pebble { .. }) | None => Engine::Other,
                }
            }
        },
    )
}

/// Whether a Java machine has no LevelDB of C++ in it (leveldbjni).
fn is_java_alone(files: &BTreeSet<PathBuf>) -> bool {
    let names = || files.iter().filter_map(|path| path.file_name()?.to_str());
    names().any(|name| name == "libjvm.so") && !names().any(|name| name.contains("leveldb"))
}

/// Opens a file of process `pid`, as it sees it. Something else may be in its place by now: a pipe would have no end.
pub fn open_of(pid: u32, path: &Path) -> Option<File> {
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nonblocking)
        .open(super::loaded::in_its_root(pid, path))
        .ok()?;
    file.metadata()
        .is_ok_and(|found| found.is_file())
        .then_some(file)
}

/// What to say about mapped SSTables. `looks` is how often the library has looked at them.
pub fn word(engine: Engine, looks: u64) -> Option<Word> {
    Some(match engine {
        Engine::LevelDb if looks > 0 => return None,
        Engine::LevelDb => Word::Advice(
            "LevelDB reads its SSTables through mmap, and the kernel's readahead fills the page cache: unless \
             it mostly scans, set the device's read_ahead_kb to 8, or start it with `--readahead scans-and-mapped` \
             (COLDSTREAM_READAHEAD)",
        ),
        Engine::Cassandra => Word::Advice(
            "SSTables are read through mmap, and no library sees these reads: set `disk_access_mode: mmap_index_only`",
        ),
        Engine::RocksDb => Word::Advice(
            "SSTables are read through mmap, and no library sees these reads: set `allow_mmap_reads=false`",
        ),
        Engine::LevelDbOfJava => Word::Note(
            "LevelDB of Java reads its SSTables through mmap, and its threads are not known: nothing is done for its \
             compactions",
        ),
        Engine::Other => Word::Advice(
            "SSTables are read through mmap, and no library sees these reads: let the engine read by calls, if it can",
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// The end of an SSTable: two handles of nothing, and the magic number.
    fn footer(bytes: usize, behind_handles: &[u8], magic: u64) -> Vec<u8> {
        let mut footer = vec![0; bytes - behind_handles.len() - 8];
        footer.extend(behind_handles);
        footer.extend(magic.to_le_bytes());
        footer
    }

    #[test]
    fn the_engine_is_known_by_names_and_footers() {
        let directory = tempfile::tempdir().unwrap();
        let legacy = footer(48, &[], 0xdb47_7524_8b80_fb57);
        let block_based = footer(53, &5_u32.to_le_bytes(), 0x88e2_41b7_85f4_cff7);
        let paths = |names: &[&str]| {
            names
                .iter()
                .map(|name| directory.path().join(name))
                .collect()
        };
        for (name, content, files, engine) in [
            (
                "nb-1-big-Data.db",
                &[][..],
                &["libjvm.so"][..],
                Engine::Cassandra,
            ),
            ("000005.ldb", &[], &[], Engine::LevelDb),
            ("000005.sst", &legacy, &[], Engine::LevelDb),
            ("000005.sst", &legacy, &["libjvm.so"], Engine::LevelDbOfJava),
            (
                "000005.sst",
                &legacy,
                &["libjvm.so", "libleveldbjni-1.so"],
                Engine::LevelDb,
            ),
            ("000005.sst", &block_based, &["libjvm.so"], Engine::RocksDb),
            ("000005.sst", b"something else", &[], Engine::Other),
        ] {
            fs::write(directory.path().join(name), content).unwrap();
            // The first one is deleted.
            let sstables = paths(&[name, "000001.sst"][..if content.is_empty() { 1 } else { 2 }]);
            let found = super::engine(&sstables, &paths(files), |path| File::open(path).ok());
            assert_eq!(found, Some(engine), "{name} {files:?}");
        }
        assert_eq!(engine(&BTreeSet::new(), &BTreeSet::new(), |_| None), None);
    }

    /// What one engine can set means nothing to another.
    #[test]
    fn each_engine_is_told_of_its_own_options() {
        let options = ["disk_access_mode", "allow_mmap_reads", "--readahead"];
        for (engine, own) in [
            (Engine::Cassandra, Some("disk_access_mode")),
            (Engine::RocksDb, Some("allow_mmap_reads")),
            (Engine::LevelDb, Some("--readahead")),
            (Engine::LevelDbOfJava, None),
            (Engine::Other, None),
        ] {
            let (Some(Word::Advice(text)) | Some(Word::Note(text))) = word(engine, 0) else {
                panic!("{engine:?} has no word");
            };
            let named = options.into_iter().filter(|option| text.contains(option));
            assert_eq!(
                named.collect::<Vec<_>>(),
                Vec::from_iter(own),
                "{engine:?}: {text}"
            );
            let is_advice = matches!(word(engine, 0), Some(Word::Advice(_)));
            assert_eq!(is_advice, engine != Engine::LevelDbOfJava, "{engine:?}");
        }
        assert_eq!(word(Engine::LevelDb, 1), None);
    }
}
