//! A program that reads and writes as an engine does: the test program, started once more. And `attach` to it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Lines, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use coldstream_testkit::process::{Ended, Program};
use coldstream_testkit::residency::{drop_pages, resident_pages};
use coldstream_testkit::{directories, skip};
use rustix::process::{Resource, Signal, getrlimit, setrlimit};

pub(crate) const COLDSTREAM: &str = env!("CARGO_BIN_EXE_coldstream");
pub(crate) const SUBJECT: &str = "COLDSTREAM_TEST_ATTACH_SUBJECT";
pub(crate) const PAGE: usize = 4096;
pub(crate) const PAGES: usize = 1024;
/// Pages of a large read: 64 KiB.
pub(crate) const LARGE_PAGES: usize = 16;
/// Of a small read.
const FEW_BYTES: usize = 10;
pub(crate) const NOBODY: u32 = 65_534;
pub(crate) const SYSTEM_CALL_BPF: &str = if cfg!(target_arch = "x86_64") {
    "321"
} else {
    "280"
};

/// Reads or writes as standard input says: `THREAD ADVICE PATH FIRST END`, pages; or compacts PATH, or starts
/// the program PATH, or has a thread from then on, or changes its root directory, or opens END new SSTables in the directory PATH, or becomes the program PATH.
/// With the advice `few` it reads some bytes of each page, with `often` the page FIRST, until it has done so END times.
/// The end of input is its end. Does nothing in a run of the tests.
pub(crate) fn work() {
    let Some(path) = std::env::var_os(SUBJECT) else {
        return;
    };
    let _open = File::open(path).unwrap();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let (name, stays) = (words[0].clone(), words[1] == "stay");
        let work = move || {
            match words[1].as_str() {
                "write" => {
                    let pages = words[4].parse::<usize>().unwrap();
                    return fs::write(&words[2], vec![7; pages * PAGE]).unwrap();
                }
                "compact" => return compact(Path::new(&words[2])),
                "stay" => loop {
                    println!("\ndone");
                    std::thread::sleep(Duration::MAX);
                },
                "chroot" => return rustix::process::chroot(&words[2]).unwrap(),
                "open" => return open_many(Path::new(&words[2]), words[4].parse().unwrap()),
                "fork" => return drop(Command::new(&words[2]).arg(&words[4]).spawn().unwrap()),
                "exec" => panic!("{}", Command::new(&words[2]).arg(&words[4]).exec()),
                _ => {}
            }
            let file = File::open(&words[2]).unwrap();
            let (advice, step) = match words[1].as_str() {
                "sequential" => (rustix::fs::Advice::Sequential, 1),
                "large" => (rustix::fs::Advice::Normal, LARGE_PAGES),
                _ => (rustix::fs::Advice::Random, 1),
            };
            rustix::fs::fadvise(&file, 0, None, advice).unwrap();
            let bytes = match words[1].as_str() {
                "few" => FEW_BYTES,
                _ => step * PAGE,
            };
            let mut buffer = vec![0; bytes];
            let pages = words[3].parse::<usize>().unwrap()..words[4].parse().unwrap();
            let mut read = |page: usize| {
                let at = (page * PAGE) as u64;
                file.read_exact_at(&mut buffer, at).unwrap();
            };
            match words[1].as_str() {
                "often" => (0..pages.end).for_each(|_| read(pages.start)),
                _ => pages.step_by(step).for_each(read),
            }
        };
        let thread = std::thread::Builder::new().name(name).spawn(work).unwrap();
        if stays {
            continue;
        }
        thread.join().unwrap();
        println!("\ndone");
    }
}

/// What a compaction makes of a single input, in this directory.
pub(crate) const OUTPUT: &str = "000021.sst";

/// Reads the SSTable, writes it anew, and reads the end of that, as RocksDB does before it publishes an output.
pub(crate) fn compact(input: &Path) {
    let file = File::open(input).unwrap();
    // RocksDB's compactions call `readahead(2)`: pages come in by a call that reads nothing.
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::WillNeed).unwrap();
    let bytes = fs::read(input).unwrap();
    let path = input.with_file_name(OUTPUT);
    fs::write(&path, &bytes).unwrap();
    let output = File::open(path).unwrap();
    output.sync_all().unwrap();
    let end = bytes.len() - PAGE;
    output
        .read_exact_at(&mut vec![0; PAGE], end as u64)
        .unwrap();
}

/// Opens new SSTables for as long as the process lives, as far as its limit allows.
pub(crate) fn open_many(directory: &Path, count: usize) {
    /// Descriptors for everything else.
    const OTHERS: u64 = 64;
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    let most = limit.maximum.map_or(u64::MAX, |most| most - OTHERS);
    for number in 0..most.min(count as u64) {
        let path = directory.join(format!("{:06}.sst", 1000 + number));
        std::mem::forget(File::create_new(path).unwrap());
    }
}

/// A program with an SSTable, ended when dropped.
pub(crate) struct Subject {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) child: Child,
    answers: Lines<BufReader<std::process::ChildStdout>>,
}

impl Subject {
    pub(crate) fn new() -> Self {
        Self::under(Command::new(std::env::current_exe().unwrap()))
    }

    /// With a compaction's thread that does nothing: names of threads tell.
    pub(crate) fn with_compaction_thread() -> Self {
        let mut subject = Self::new();
        subject.read("rocksdb:low", "stay", 0..0);
        subject
    }

    /// As the name of the thread that will be a compaction's wants it.
    pub(crate) fn with_compactions_by(thread: &str) -> Self {
        match thread {
            "rocksdb:low" => Self::with_compaction_thread(),
            _ => Self::new(),
        }
    }

    /// The program is the last word of the command so far.
    pub(crate) fn under(mut command: Command) -> Self {
        let directory = directories::on_disk();
        let path = directory.path().join("000007.sst");
        fs::write(&path, vec![7; PAGES * PAGE]).unwrap();
        drop_pages(&File::open(&path).unwrap());
        let mut child = command
            .args(["engine", "--exact", "--nocapture", "--test-threads=1"])
            .env(SUBJECT, &path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut subject = Self {
            directory,
            child,
            answers,
        };
        // Its SSTable is open by then.
        subject.read("client", "random", 0..0);
        subject
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("000007.sst")
    }

    pub(crate) fn pid(&self) -> String {
        self.child.id().to_string()
    }

    pub(crate) fn read(&mut self, thread: &str, advice: &str, pages: Range<usize>) {
        self.ask(thread, advice, &self.path(), pages);
    }

    pub(crate) fn tell(&mut self, thread: &str, what: &str, path: &Path, pages: Range<usize>) {
        let (path, Range { start, end }) = (path.display(), pages);
        let stdin = self.child.stdin.as_mut().unwrap();
        writeln!(stdin, "{thread} {what} {path} {start} {end}").unwrap();
    }

    pub(crate) fn ask(&mut self, thread: &str, what: &str, path: &Path, pages: Range<usize>) {
        self.tell(thread, what, path, pages);
        let done = |line: &Result<String, _>| line.as_ref().is_ok_and(|line| line == "done");
        assert!(self.answers.any(|line| done(&line)));
    }

    /// Writes an SSTable, as a compaction does while it reads. Where only advice tells, that is a sign of one.
    pub(crate) fn write_sstable(&mut self) {
        let path = self.directory.path().join("000099.sst");
        let _ = fs::remove_file(&path);
        self.ask("client", "write", &path, 0..1);
    }

    pub(crate) fn resident(&self) -> Vec<usize> {
        let flags = resident_pages(&File::open(self.path()).unwrap());
        (0..PAGES).filter(|page| flags[*page]).collect()
    }

    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id()))
            .unwrap()
            .count()
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `coldstream attach`, attached. `None` where this machine does not allow it.
pub(crate) fn attach(subject: &Subject) -> Option<Child> {
    attach_with(&[&subject.pid()])
}

pub(crate) fn attach_with(arguments: &[&str]) -> Option<Child> {
    let mut command = Command::new(COLDSTREAM);
    command.arg("attach").args(arguments);
    Some(attached(&mut command)?.0)
}

/// The same by a command, and the lines that follow.
pub(crate) fn attached(command: &mut Command) -> Option<(Child, Lines<BufReader<ChildStderr>>)> {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    if line.contains("attached to") {
        return Some((child, lines));
    }
    let code = child.wait().unwrap().code();
    assert!(matches!(code, Some(5 | 11)), "{code:?}: {line}");
    skip(line);
    None
}

/// Waits until the condition holds, ten seconds at most.
pub(crate) fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// Whether exactly these pages stayed, with the rest of the folios that they share.
pub(crate) fn kept(subject: &Subject, wanted: &[Range<usize>]) -> bool {
    const FOLIO_PAGES: usize = 16;
    let wanted: Vec<usize> = wanted.iter().cloned().flatten().collect();
    let resident = subject.resident();
    let is_shared = |page: &usize| wanted.iter().any(|it| it.abs_diff(*page) < FOLIO_PAGES);
    resident.iter().all(is_shared) && wanted.iter().all(|page| resident.contains(page))
}

pub(crate) fn signal(child: &Child, signal: Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).unwrap();
}

pub(crate) fn interrupt(mut child: Child) -> Option<i32> {
    signal(&child, Signal::INT);
    child.wait().unwrap().code()
}

/// What Coldstream says to these arguments. A test fails where it does not end, as if it followed a process.
pub(crate) fn ended(arguments: &[&str]) -> Ended {
    Program::new(COLDSTREAM).arguments(arguments).run()
}

/// A counter of the status page.
pub(crate) fn counter(pid: &str, name: &str) -> usize {
    let output = ended(&["ctl", "status", pid, "--json"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let behind = text.split_once(&format!("\"{name}\":"));
    let (_, value) = behind.unwrap_or_else(|| panic!("{text}"));
    let end = value.find([',', '}']).unwrap();
    value[..end].trim().parse().unwrap()
}
