//! A writer that has a database in `db` of its directory: `rocksdb-plugin/tests/crash_database.cc`. The same program
//! checks what is left.

use crate::crash::page::Page;
use crate::crash::{Checked, Crash, Record};
use crate::process::Program;
use std::path::{Path, PathBuf};

/// Threads of the writer.
const THREADS: usize = 2;
/// The length of a value, about that of a write.
const WRITE_BYTES: u64 = 1000;

/// The record of a writer that has a database.
#[derive(Debug)]
pub struct Database {
    page: Page,
    program: PathBuf,
}

/// What a thread promised: the numbers of its writes.
#[derive(Clone, Copy, Debug)]
pub struct Promised {
    intended: u64,
    written: u64,
    synced: u64,
}

impl Database {
    /// A new one, for this program.
    ///
    /// # Panics
    /// The page cannot be made.
    #[must_use]
    pub fn new(program: &Path) -> Self {
        Self {
            page: Page::new(THREADS * size_of::<Promised>()),
            program: program.into(),
        }
    }

    /// The writer, with these options of Coldstream.
    #[must_use]
    pub fn writer(&self, options: &str) -> Program {
        Program::new(&self.program).arguments(["write", options])
    }
}

impl Record for Database {
    type Promises = Vec<Promised>;

    fn prepare(&self, work: &Path) {
        self.page.prepare(work);
    }

    /// Eight memtables were written: tables of level 0 have been compacted.
    fn has_begun(&self) -> bool {
        let written: u64 = self.now().iter().map(|it| it.written * WRITE_BYTES).sum();
        written > 4 << 20
    }

    fn now(&self) -> Vec<Promised> {
        let words = self.page.words();
        let (promises, _) = words.as_chunks::<3>();
        let promised = promises.iter().map(|[intended, written, synced]| Promised {
            intended: *intended,
            written: *written,
            synced: *synced,
        });
        promised.collect()
    }

    fn durable(&self, promises: &Vec<Promised>) -> u64 {
        promises.iter().map(|it| it.synced * WRITE_BYTES).sum()
    }

    fn check(
        &self,
        work: &Path,
        before: &Vec<Promised>,
        after: &Vec<Promised>,
        crash: Crash,
    ) -> Result<Checked, String> {
        let least = before.iter().map(|it| match crash {
            // The kernel has every write that had returned.
            Crash::Kill => it.written,
            Crash::Power => it.synced,
        });
        let bounds = least
            .zip(after)
            .flat_map(|(least, it)| [least, it.intended]);
        let ended = Program::new(&self.program)
            .arguments(["check", ""])
            .argument(work.join("db"))
            .arguments(bounds.map(|bound| bound.to_string()))
            .run();
        let said = ended.text();
        let (torn, said) = match said.strip_prefix("MANIFEST torn, ") {
            Some(rest) if crash == Crash::Power => (1, rest),
            _ => (0, said.as_str()),
        };
        let keys = said.split(' ').next();
        let keys: Option<u64> = keys.and_then(|count| count.parse().ok());
        match (ended.status.success(), keys) {
            (true, Some(keys)) => Ok(Checked {
                bytes: keys * WRITE_BYTES,
                files_with_zeros: torn,
            }),
            _ => Err(format!("{ended:?}")),
        }
    }
}
