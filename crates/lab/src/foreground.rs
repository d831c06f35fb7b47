//! Counts the bytes that the device delivered for the threads that serve reads.
//!
//! No other figure separates reads of the foreground from those of a compaction and of a handover.
//! The kernel charges a read of the device to the thread that causes it
//! (`Documentation/filesystems/proc.rst`, `/proc/PID/io: read_bytes`).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::path::Path;

/// The counter, for the processes of a cgroup.
#[derive(Debug)]
pub struct Foreground {
    /// Beginnings of the names of the threads that serve reads.
    prefixes: &'static [&'static str],
    threads: HashMap<String, Thread>,
    calls: u32,
}

/// The name of a thread outside the foreground is read again every 4 calls: a virtual machine has a
/// hundred such threads.
const CALLS_A_NAME: u32 = 4;

#[derive(Debug, Default)]
struct Thread {
    is_foreground: bool,
    read_bytes: u64,
}

impl Foreground {
    /// Counts threads whose names begin with any of `prefixes`.
    pub fn new(prefixes: &'static [&'static str]) -> Self {
        Self {
            prefixes,
            threads: HashMap::new(),
            calls: 0,
        }
    }

    /// Bytes up to now, for the processes that a cgroup's `processes_file` lists. A thread that has
    /// ended counts up to the last call before its end.
    pub fn read_bytes(&mut self, processes_file: &Path) -> u64 {
        self.calls = self.calls.wrapping_add(1);
        let processes = fs::read_to_string(processes_file).unwrap_or_default();
        for process in processes.lines() {
            let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else {
                continue;
            };
            for task in tasks.flatten() {
                self.count(&task.path());
            }
        }
        self.threads.values().map(|thread| thread.read_bytes).sum()
    }

    /// Reads the counter of a thread, given by its directory under `/proc`.
    fn count(&mut self, task: &Path) {
        let (is_turn, thread) = match self.threads.entry(task.to_string_lossy().into_owned()) {
            Entry::Vacant(free) => (true, free.insert(Thread::default())),
            Entry::Occupied(known) => (self.calls.is_multiple_of(CALLS_A_NAME), known.into_mut()),
        };
        // A thread takes its name a moment after its start. The threads of Cassandra's stages change
        // their names: a thread has the name of the stage that it works for.
        if is_turn && !thread.is_foreground {
            let name = fs::read_to_string(task.join("comm")).unwrap_or_default();
            let mut prefixes = self.prefixes.iter();
            thread.is_foreground = prefixes.any(|prefix| name.starts_with(prefix));
        }
        if thread.is_foreground
            && let Ok(text) = fs::read_to_string(task.join("io"))
        {
            thread.read_bytes = read_bytes_of(&text).unwrap_or(thread.read_bytes);
        }
    }
}

fn read_bytes_of(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("read_bytes: "))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_line_is_read() {
        let text = "rchar: 9\nread_bytes: 4096\nwrite_bytes: 7\n";
        assert_eq!(read_bytes_of(text), Some(4096));
        assert_eq!(read_bytes_of("rchar: 9\n"), None);
    }

    #[test]
    fn a_thread_that_takes_such_a_name_counts_from_then_on() {
        let task = tempfile::tempdir().unwrap();
        let set = |name: &str, text: &str| fs::write(task.path().join(name), text).unwrap();
        set("comm", "MutationStage-3\n");
        set("io", "read_bytes: 4096\n");
        let mut foreground = Foreground::new(&["ReadStage"]);
        let mut look = || {
            foreground.count(task.path());
            foreground
                .threads
                .values()
                .map(|it| it.read_bytes)
                .sum::<u64>()
        };
        assert_eq!(look(), 0);
        set("comm", "ReadStage-3\n");
        assert_eq!(look(), 4096);
        set("comm", "MutationStage-3\n");
        set("io", "read_bytes: 8192\n");
        assert_eq!(look(), 8192);
    }

    #[test]
    fn only_threads_of_these_names_count() {
        let mut processes = tempfile::NamedTempFile::new().unwrap();
        writeln!(processes, "{}", std::process::id()).unwrap();
        let mut nobody = Foreground::new(&["no such thread"]);
        assert_eq!(nobody.read_bytes(processes.path()), 0);
        assert!(nobody.threads.values().all(|thread| !thread.is_foreground));
        let mut all = Foreground::new(&[""]);
        all.read_bytes(processes.path());
        assert!(all.threads.values().all(|thread| thread.is_foreground));
        assert!(!all.threads.is_empty());
    }
}
