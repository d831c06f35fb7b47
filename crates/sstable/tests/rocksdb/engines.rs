//! SSTables written by the engines themselves.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use coldstream_testkit::rocksdb_java;
use tempfile::TempDir;

/// Why a test could not run here.
pub type Skipped = String;

/// An SSTable, and its contents according to the engine.
pub struct EngineSsTable {
    pub name: String,
    pub bytes: Vec<u8>,
    /// The output of `sst_dump --command=raw`.
    pub dump: Option<Vec<u8>>,
    /// All user keys in order, each once.
    pub keys: Option<Vec<Vec<u8>>>,
}

fn run(command: &mut Command) -> Result<Output, Skipped> {
    let output = command
        .output()
        .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output)
}

fn files_with(extension: &str, directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    files
}

fn unhex(digits: &str) -> Vec<u8> {
    let pair = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(pair).collect()
}

pub fn keys_of(lines: &str) -> Vec<Vec<u8>> {
    lines.lines().map(unhex).collect()
}

/// An SSTable of `db_bench` with `options`, without a dump.
pub fn db_bench(options: &[&str]) -> Result<EngineSsTable, Skipped> {
    let directory = TempDir::new().unwrap();
    let sstable = write_with_db_bench(&directory, options)?;
    let bytes = fs::read(sstable).unwrap();
    Ok(EngineSsTable {
        name: options.join(" "),
        bytes,
        dump: None,
        keys: None,
    })
}

/// An SSTable of `db_bench` with `options`, with the dump of `sst_dump`.
pub fn dumped_db_bench(options: &[&str]) -> Result<EngineSsTable, Skipped> {
    let directory = TempDir::new().unwrap();
    let sstable = write_with_db_bench(&directory, options)?;
    run(Command::new("sst_dump")
        .arg("--command=raw")
        .arg(format!("--file={}", sstable.display())))?;
    let bytes = fs::read(sstable).unwrap();
    let dump = files_with("txt", directory.path())
        .first()
        .map(|dump| fs::read(dump).unwrap());
    Ok(EngineSsTable {
        name: options.join(" "),
        bytes,
        dump,
        keys: None,
    })
}

fn write_with_db_bench(directory: &TempDir, options: &[&str]) -> Result<PathBuf, Skipped> {
    run(Command::new("db_bench")
        .arg("--benchmarks=fillrandom,compact")
        .arg(format!("--db={}", directory.path().display()))
        .args(options))?;
    Ok(files_with("sst", directory.path())
        .pop()
        .expect("an SSTable"))
}

/// An SSTable that was written outside a database and then ingested.
///
/// Its keys overlap those of the database. So ingestion wrote a sequence number into the file.
pub fn ingested() -> Result<EngineSsTable, Skipped> {
    let directory = TempDir::new().unwrap();
    let database = format!("--db={}", directory.path().join("db").display());
    let outside = directory.path().join("outside");
    let lines: String = (0..2000)
        .map(|at| format!("key{at:06} ==> value{at}\n"))
        .collect();
    let with_input = |arguments: &[&str]| {
        let mut child = Command::new("ldb")
            .arg(&database)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("ldb: {error}"))?;
        child
            .stdin
            .take()
            .unwrap()
            .write_all(lines.as_bytes())
            .unwrap();
        assert!(child.wait().unwrap().success());
        Ok::<_, Skipped>(())
    };
    with_input(&["load", "--create_if_missing"])?;
    with_input(&["write_extern_sst", outside.to_str().unwrap()])?;
    let before = fs::read(&outside).unwrap();
    run(Command::new("ldb")
        .arg(&database)
        .arg("ingest_extern_sst")
        .arg(&outside)
        .args([
            "--allow_global_seqno",
            "--write_global_seqno",
            "--allow_blocking_flush",
        ]))?;
    let database = directory.path().join("db");
    let bytes = files_with("sst", &database)
        .iter()
        .map(|path| fs::read(path).unwrap())
        .find(|bytes| bytes.len() == before.len() && *bytes != before)
        .expect("an SSTable with a sequence number written into it");
    let keys = (0..2000)
        .map(|at| format!("key{at:06}").into_bytes())
        .collect();
    Ok(EngineSsTable {
        name: "ingested".into(),
        bytes,
        dump: None,
        keys: Some(keys),
    })
}

/// SSTables of `specifications` (`helpers/Tables.java`), written by a current release of RocksDB.
pub fn java(specifications: &[String]) -> Result<Vec<EngineSsTable>, Skipped> {
    let jar = java_archive()?;
    let directory = TempDir::new().unwrap();
    let helper = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rocksdb/helpers/Tables.java");
    let mut child = Command::new("java")
        .arg("-cp")
        .arg(jar)
        .arg(helper)
        .arg(directory.path())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("java: {error}"))?;
    child
        .stdin
        .take()
        .unwrap()
        .write_all(specifications.join("\n").as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let read = |specification: &String| {
        let name = specification.split(' ').next().unwrap();
        let keys = fs::read_to_string(directory.path().join(format!("{name}.keys"))).unwrap();
        EngineSsTable {
            name: specification.clone(),
            bytes: fs::read(directory.path().join(format!("{name}.sst"))).unwrap(),
            dump: None,
            keys: Some(keys_of(&keys)),
        }
    };
    Ok(specifications.iter().map(read).collect())
}

fn java_archive() -> Result<PathBuf, Skipped> {
    rocksdb_java::archive(Path::new(env!("CARGO_TARGET_TMPDIR")))
}

/// An SSTable of LevelDB (`helpers/leveldb.c`).
///
/// The arguments: compression, block size, filter bits, keys, versions.
pub fn leveldb(arguments: [u32; 5]) -> Result<EngineSsTable, Skipped> {
    let directory = TempDir::new().unwrap();
    let helper = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rocksdb/helpers/leveldb.c");
    let program = directory.path().join("leveldb");
    let compiled = Command::new("cc")
        .arg(helper)
        .arg("-o")
        .arg(&program)
        .arg("-lleveldb")
        .stderr(Stdio::null())
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        return Err("no C compiler, or no LevelDB to link".into());
    }
    let database = directory.path().join("db");
    let output = run(Command::new(program)
        .arg(&database)
        .args(arguments.map(|argument| argument.to_string())))?;
    let sstables = files_with("ldb", &database);
    assert_eq!(sstables.len(), 1, "{sstables:?}");
    Ok(EngineSsTable {
        name: format!("leveldb {arguments:?}"),
        bytes: fs::read(&sstables[0]).unwrap(),
        dump: None,
        keys: Some(keys_of(&String::from_utf8(output.stdout).unwrap())),
    })
}
