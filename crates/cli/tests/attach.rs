//! `coldstream attach` to a program that reads as an engine does: this test program, started once more.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit, setrlimit};

use coldstream_io::sys::thread_priority;
use coldstream_testkit::database::sstables;
use coldstream_testkit::directories;
use coldstream_testkit::process::{Ended, Program};
use coldstream_testkit::residency::{cached_pages, drop_pages, resident_pages};
use coldstream_testkit::{skip, tools};

const COLDSTREAM: &str = env!("CARGO_BIN_EXE_coldstream");
const SUBJECT: &str = "COLDSTREAM_TEST_ATTACH_SUBJECT";
const PAGE: usize = 4096;
const PAGES: usize = 1024;
/// Pages of a large read: 64 KiB.
const LARGE_PAGES: usize = 16;
const NOBODY: u32 = 65_534;
const SYSTEM_CALL_BPF: &str = if cfg!(target_arch = "x86_64") {
    "321"
} else {
    "280"
};

/// Reads or writes as standard input says: `THREAD ADVICE PATH FIRST END`, pages; or compacts PATH, or starts
/// the program PATH, or waits for the pipe PATH, or opens END new SSTables in the directory PATH, or becomes the program PATH. Does nothing in a run of the tests.
#[test]
fn subject() {
    let Some(path) = std::env::var_os(SUBJECT) else {
        return;
    };
    let _open = File::open(path).unwrap();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let name = words[0].clone();
        let work = move || {
            match words[1].as_str() {
                "write" => {
                    let pages = words[4].parse::<usize>().unwrap();
                    return fs::write(&words[2], vec![7; pages * PAGE]).unwrap();
                }
                "compact" => return compact(Path::new(&words[2])),
                "wait" => return drop(fs::read(&words[2])),
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
            let mut buffer = vec![0; step * PAGE];
            let pages = words[3].parse::<usize>().unwrap()..words[4].parse().unwrap();
            for page in pages.step_by(step) {
                file.read_exact_at(&mut buffer, (page * PAGE) as u64)
                    .unwrap();
            }
        };
        let thread = std::thread::Builder::new().name(name).spawn(work).unwrap();
        thread.join().unwrap();
        println!("\ndone");
    }
}

/// What a compaction makes of a single input, in this directory.
const OUTPUT: &str = "000021.sst";

/// Reads the SSTable, writes it anew, and reads the end of that, as RocksDB does before it publishes an output.
fn compact(input: &Path) {
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
fn open_many(directory: &Path, count: usize) {
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
struct Subject {
    directory: tempfile::TempDir,
    child: Child,
    answers: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Subject {
    fn new() -> Self {
        Self::under(Command::new(std::env::current_exe().unwrap()))
    }

    /// The program is the last word of the command so far.
    fn under(mut command: Command) -> Self {
        let directory = directories::on_disk();
        let path = directory.path().join("000007.sst");
        fs::write(&path, vec![7; PAGES * PAGE]).unwrap();
        drop_pages(&File::open(&path).unwrap());
        let mut child = command
            .args(["subject", "--exact", "--nocapture", "--test-threads=1"])
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

    fn path(&self) -> PathBuf {
        self.directory.path().join("000007.sst")
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    fn read(&mut self, thread: &str, advice: &str, pages: Range<usize>) {
        self.ask(thread, advice, &self.path(), pages);
    }

    fn tell(&mut self, thread: &str, what: &str, path: &Path, pages: Range<usize>) {
        let (path, Range { start, end }) = (path.display(), pages);
        let stdin = self.child.stdin.as_mut().unwrap();
        writeln!(stdin, "{thread} {what} {path} {start} {end}").unwrap();
    }

    fn ask(&mut self, thread: &str, what: &str, path: &Path, pages: Range<usize>) {
        self.tell(thread, what, path, pages);
        let done = |line: &Result<String, _>| line.as_ref().is_ok_and(|line| line == "done");
        assert!(self.answers.any(|line| done(&line)));
    }

    /// Writes an SSTable, as a compaction does while it reads. Where only advice tells, that is a sign of one.
    fn write_sstable(&mut self) {
        let path = self.directory.path().join("000099.sst");
        let _ = fs::remove_file(&path);
        self.ask("client", "write", &path, 0..1);
    }

    fn resident(&self) -> Vec<usize> {
        let flags = resident_pages(&File::open(self.path()).unwrap());
        (0..PAGES).filter(|page| flags[*page]).collect()
    }

    fn descriptors(&self) -> usize {
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
fn attach(subject: &Subject) -> Option<Child> {
    attach_with(&[&subject.pid()])
}

fn attach_with(arguments: &[&str]) -> Option<Child> {
    let mut child = Command::new(COLDSTREAM)
        .arg("attach")
        .args(arguments)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr: BufReader<ChildStderr> = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    if line.contains("attached to") {
        return Some(child);
    }
    let code = child.wait().unwrap().code();
    assert!(matches!(code, Some(5 | 11)), "{code:?}: {line}");
    skip(line.trim());
    None
}

/// Waits until the condition holds, ten seconds at most.
fn eventually(mut holds: impl FnMut() -> bool) -> bool {
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
fn kept(subject: &Subject, wanted: &[Range<usize>]) -> bool {
    const FOLIO_PAGES: usize = 16;
    let wanted: Vec<usize> = wanted.iter().cloned().flatten().collect();
    let resident = subject.resident();
    let is_shared = |page: &usize| wanted.iter().any(|it| it.abs_diff(*page) < FOLIO_PAGES);
    resident.iter().all(is_shared) && wanted.iter().all(|page| resident.contains(page))
}

fn interrupt(mut child: Child) -> Option<i32> {
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    child.wait().unwrap().code()
}

#[test]
fn what_a_compaction_brought_in_is_dropped_and_nothing_else() {
    for (thread, advice) in [("rocksdb:low", "random"), ("client", "sequential")] {
        assert_drops_exactly(thread, advice, |_| ());
    }
}

/// Asserts it of a new subject, which is prepared first.
fn assert_drops_exactly(thread: &str, advice: &str, prepare: impl Fn(&mut Subject)) {
    // The machine may reclaim some pages meanwhile, but not every time.
    let mut tries = (0..3).map_while(|_| {
        let mut subject = Subject::new();
        prepare(&mut subject);
        drops_exactly(&mut subject, thread, advice)
    });
    let Some(first) = tries.next() else {
        return;
    };
    let found = first.is_ok() || tries.any(|found| found.is_ok());
    assert!(found, "{thread}: {first:?}");
}

/// The pages that stayed, as an error, if they are not those of the foreground. `None` where it cannot be tried.
fn drops_exactly(
    subject: &mut Subject,
    thread: &str,
    advice: &str,
) -> Option<Result<(), Vec<usize>>> {
    subject.read("client", "random", 100..110);
    let child = attach(subject)?;
    subject.read("client", "random", 300..310);
    subject.read(thread, advice, 0..PAGES);
    subject.write_sstable();
    subject.read("client", "random", 200..210);
    let expected = [100..110, 200..210, 300..310];
    let is_exact = eventually(|| kept(subject, &expected));
    let stayed = subject.resident();
    assert_eq!(interrupt(child), Some(0));
    // It has left: a compaction's pages stay.
    subject.read(thread, advice, 400..500);
    let resident = subject.resident();
    let is_left_alone = (400..500).all(|page| resident.contains(&page));
    Some(if is_exact && is_left_alone {
        Ok(())
    } else {
        Err(stayed)
    })
}

#[test]
fn a_users_long_scan_stays() {
    // Pebble's scans get their descriptor late. A scan from the start is known as there is no output.
    for (first, writes) in [(64, true), (0, false)] {
        // The machine may reclaim some pages meanwhile, but not every time.
        let mut tries = (0..3).map_while(|_| scan_stays(first, writes));
        let Some(first_try) = tries.next() else {
            return;
        };
        assert!(first_try || tries.any(|stays| stays), "from page {first}");
    }
}

/// Whether all pages of a scan stay. `None` where it cannot be tried.
fn scan_stays(first: usize, writes: bool) -> Option<bool> {
    let mut subject = Subject::new();
    let child = attach(&subject)?;
    subject.read("client", "sequential", first..PAGES);
    if writes {
        subject.write_sstable();
    }
    // Its pages would be dropped after a second at the latest.
    std::thread::sleep(Duration::from_millis(1500));
    let resident = subject.resident();
    assert_eq!(interrupt(child), Some(0));
    Some((first..PAGES).all(|page| resident.contains(&page)))
}

#[test]
fn large_reads_of_a_compaction_are_dropped_and_counted_as_they_are() {
    let mut subject = Subject::new();
    let Some(child) = attach(&subject) else {
        return;
    };
    subject.read("rocksdb:low", "large", 0..PAGES);
    assert!(
        eventually(|| subject.resident().is_empty()),
        "{:?}",
        subject.resident()
    );
    let read = || counter(&subject.pid(), "bytes_drop_behind");
    // The machine may have reclaimed some.
    let is_counted = |bytes: usize| bytes > PAGES * PAGE / 2 && bytes <= PAGES * PAGE;
    assert!(eventually(|| is_counted(read())), "{}", read());
    assert_eq!(interrupt(child), Some(0));
}

/// What Coldstream says to these arguments. A test fails where it does not end, as if it followed a process.
fn ended(arguments: &[&str]) -> Ended {
    Program::new(COLDSTREAM).arguments(arguments).run()
}

/// A counter of the status page.
fn counter(pid: &str, name: &str) -> usize {
    let output = ended(&["ctl", "status", pid, "--json"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let behind = text.split_once(&format!("\"{name}\":"));
    let (_, value) = behind.unwrap_or_else(|| panic!("{text}"));
    let end = value.find([',', '}']).unwrap();
    value[..end].trim().parse().unwrap()
}

#[test]
fn an_output_of_a_compaction_is_dropped_and_that_of_a_flush_stays() {
    let mut subject = Subject::new();
    let Some(child) = attach(&subject) else {
        return;
    };
    let (output, flushed) = ("000008.sst", "000009.sst");
    let path = |name: &str| subject.directory.path().join(name);
    let (output, flushed) = (path(output), path(flushed));
    subject.ask("rocksdb:low", "write", &output, 0..PAGES);
    subject.ask("rocksdb:high", "write", &flushed, 0..PAGES);
    let cached = |path: &Path| cached_pages(&File::open(path).unwrap());
    // It is no SSTable. Its last page was looked at to find that out.
    assert!(eventually(|| cached(&output) <= 1), "{}", cached(&output));
    assert!(cached(&flushed) > 0);
    assert_eq!(interrupt(child), Some(0));
}

/// The output is a copy of the input, so the same pages are hot. Large folios hold them with others.
#[test]
fn hot_pages_of_an_output_are_warm_and_the_others_are_dropped() {
    /// Pages that may stay for each hot one, and for index and filters.
    const WITH_A_HOT_PAGE: usize = 6;
    const OF_THE_END: usize = 60;
    let directory = directories::on_disk();
    let Some(sstable) = real_sstable(directory.path()) else {
        skip("db_bench is not installed");
        return;
    };
    let hot = [40, 300, 301, 900, 1500];
    let try_once = || {
        let mut subject = Subject::new();
        let input = subject.directory.path().join("000020.sst");
        fs::copy(&sstable, &input).unwrap();
        drop_pages(&File::open(&input).unwrap());
        let child = attach(&subject)?;
        for page in hot {
            subject.ask("client", "random", &input, page..page + 1);
        }
        subject.ask("rocksdb:low", "compact", &input, 0..0);
        let output = File::open(input.with_file_name(OUTPUT)).unwrap();
        let resident = || -> Vec<usize> {
            let flags = resident_pages(&output);
            (0..flags.len()).filter(|page| flags[*page]).collect()
        };
        let is_exact = |pages: &[usize]| {
            hot.iter().all(|page| pages.contains(page))
                && pages.len() <= hot.len() * WITH_A_HOT_PAGE + OF_THE_END
        };
        let holds = eventually(|| is_exact(&resident()));
        assert_eq!(interrupt(child), Some(0));
        Some(holds.then_some(()).ok_or_else(resident))
    };
    // The machine may reclaim some pages meanwhile, but not every time.
    let mut tries = (0..3).map_while(|_| try_once());
    let Some(first) = tries.next() else {
        return;
    };
    assert!(first.is_ok() || tries.any(|it| it.is_ok()), "{first:?}");
}

/// An SSTable of 8 MiB that RocksDB wrote.
fn real_sstable(directory: &Path) -> Option<PathBuf> {
    let database = directory.join("database");
    let fill = Command::new(tools::find("db_bench")?)
        .args([
            "--benchmarks=fillseq,compact",
            "--num=2000",
            "--value_size=4000",
        ])
        .args(["--compression_type=none", "--disable_wal=1"])
        .arg(format!("--db={}", database.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(fill.success());
    let sstables = sstables(&database);
    assert_eq!(sstables.len(), 1);
    sstables.into_iter().next()
}

/// Where only advice tells, all of an SSTable stays unless its hot pages are known.
#[test]
fn an_sstable_that_cannot_be_read_stays_where_only_advice_tells() {
    let mut subject = Subject::new();
    let Some(child) = attach(&subject) else {
        return;
    };
    let output = subject.directory.path().join("000008.sst");
    subject.read("client", "sequential", 0..PAGES);
    subject.ask("client", "write", &output, 0..PAGES);
    let cached = || cached_pages(&File::open(&output).unwrap());
    // Its pages would be dropped after a second at the latest.
    std::thread::sleep(Duration::from_millis(1500));
    assert!(cached() > PAGES as u64 * 9 / 10, "{}", cached());
    assert_eq!(interrupt(child), Some(0));
}

#[test]
fn a_killed_attach_leaves_nothing_behind() {
    let mut subject = Subject::new();
    let before = subject.descriptors();
    for milliseconds in [0, 3, 17, 60, 130] {
        let Some(mut child) = attach(&subject) else {
            return;
        };
        subject.read("client", "sequential", 0..PAGES);
        std::thread::sleep(Duration::from_millis(milliseconds));
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        assert_eq!(subject.descriptors(), before);
        let status = ended(&["ctl", "status", &subject.pid()]);
        assert_eq!(status.status.code(), Some(7));
        drop_pages(&File::open(subject.path()).unwrap());
        // Its readahead is as before: one page is asked for, and more come.
        subject.read("client", "sequential", 0..40);
        let resident = subject.resident();
        assert!((0..40).all(|page| resident.contains(&page)), "{resident:?}");
    }
}

#[test]
fn ctl_stops_and_resumes_it_and_shows_its_figures() {
    let mut subject = Subject::new();
    let Some(child) = attach(&subject) else {
        return;
    };
    let ctl = |action: &str| {
        let output = ended(&["ctl", action, &subject.pid()]).well();
        String::from_utf8(output.stdout).unwrap()
    };
    ctl("off");
    let pid = subject.pid();
    subject.read("client", "sequential", 0..PAGES);
    // A file that rests is forgotten after a second.
    std::thread::sleep(Duration::from_millis(1500));
    // The machine may reclaim a few.
    assert!(subject.resident().len() > PAGES / 2);
    ended(&["ctl", "on", &pid]).well();
    drop_pages(&File::open(subject.path()).unwrap());
    subject.read("client", "sequential", 0..PAGES);
    subject.write_sstable();
    assert!(eventually(|| subject.resident().is_empty()));
    // It has no priorities: a request for one is refused with words.
    let refused = ended(&["ctl", "set", &pid, "nice=5"]);
    let words = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{words}");
    assert!(words.contains("from outside"), "{words}");
    let list = String::from_utf8(ended(&["ctl", "list"]).stdout).unwrap();
    assert!(list.contains("(attach)"), "{list}");
    let status = ended(&["ctl", "status", &pid, "--all"]);
    let text = String::from_utf8(status.stdout).unwrap();
    assert!(text.contains("bytes_drop_behind"), "{text}");
    assert!(text.contains("from outside"), "{text}");
    assert_eq!(interrupt(child), Some(0));
}

#[test]
fn it_gives_every_privilege_away() {
    let subject = Subject::new();
    let Some(child) = attach(&subject) else {
        return;
    };
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    for line in [
        "CapEff:\t0000000000000000",
        "CapPrm:\t0000000000000000",
        "NoNewPrivs:\t1",
    ] {
        assert!(status.contains(line), "{line}: {status}");
    }
    // The SSTable itself is not held.
    let open = coldstream_host::process::open_files(child.id()).unwrap();
    assert!(!open.contains(&subject.path()), "{open:?}");
    assert_eq!(interrupt(child), Some(0));
}

#[test]
fn doctor_says_what_fits() {
    let doctor = |pid: u32| {
        let output = ended(&["doctor", &pid.to_string()]);
        // The lines are folded.
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let subject = Subject::new();
    assert!(doctor(subject.child.id()).contains("coldstream run"));
    if let Some(child) = attach(&subject) {
        let text = doctor(subject.child.id());
        assert!(text.contains("works for it from outside"), "{text}");
        assert!(text.contains("dropped behind compactions"), "{text}");
        assert_eq!(interrupt(child), Some(0));
    }
    let directory = directories::on_disk();
    let program = directory.path().join("static");
    let source = directory.path().join("static.c");
    fs::write(
        &source,
        "#include <unistd.h>\nint main(void) { return pause(); }\n",
    )
    .unwrap();
    let compiled = Command::new("cc")
        .arg("-static")
        .args([Path::new("-o"), &program, &source])
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        return skip("no static C library");
    }
    let mut child = Command::new(program).spawn().unwrap();
    let text = doctor(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(text.contains("the program is static"), "{text}");
}

#[test]
fn a_helper_of_another_user_in_the_cgroup_is_passed_over() {
    if !rustix::process::geteuid().is_root() {
        return skip("needs root to become nobody");
    }
    let subject = Subject::new();
    let mut helper = Command::new("sleep")
        .arg("60")
        .uid(NOBODY)
        .gid(NOBODY)
        .spawn()
        .unwrap();
    let cgroup = tempfile::tempdir().unwrap();
    let processes = format!("{}\n{}\n", subject.pid(), helper.id());
    fs::write(cgroup.path().join("cgroup.procs"), processes).unwrap();
    let child = attach_with(&["--cgroup", cgroup.path().to_str().unwrap()]);
    helper.kill().unwrap();
    helper.wait().unwrap();
    if let Some(child) = child {
        assert_eq!(interrupt(child), Some(0));
    }
}

#[test]
fn it_takes_the_groups_of_the_process() {
    if !rustix::process::geteuid().is_root() {
        return skip("needs root to change groups");
    }
    let mut command = Command::new("setpriv");
    command.args(["--regid", "65534", "--groups", "7,9", "--"]);
    if Command::new("setpriv").arg("--version").output().is_err() {
        return skip("no setpriv");
    }
    command.arg(std::env::current_exe().unwrap());
    let subject = Subject::under(command);
    let Some(child) = attach(&subject) else {
        return;
    };
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    assert_eq!(interrupt(child), Some(0));
    assert!(status.contains("Groups:\t7 9"), "{status}");
}

/// As many as a process may open: 2^20 on most machines, 20,000 in some containers.
#[test]
fn a_process_with_very_many_sstables_is_followed() {
    const SSTABLES: usize = 100_000;
    assert_drops_exactly("rocksdb:low", "random", |subject| {
        let directory = subject.directory.path().to_owned();
        subject.ask("client", "open", &directory, 0..SSTABLES);
        println!("{} descriptors", subject.descriptors());
    });
}

#[test]
fn a_process_that_forks_and_becomes_another_program_is_followed_to_its_end() {
    let mut subject = Subject::new();
    let Some(mut child) = attach(&subject) else {
        return;
    };
    let sleep = Path::new("/bin/sleep");
    subject.ask("client", "fork", sleep, 0..5);
    subject.read("rocksdb:low", "random", 0..PAGES);
    subject.write_sstable();
    let is_dropped = eventually(|| subject.resident().len() < PAGES / 8);
    assert!(is_dropped, "{:?}", subject.resident());
    subject.tell("client", "exec", sleep, 0..60);
    let name = format!("/proc/{}/comm", subject.child.id());
    assert!(eventually(
        || fs::read_to_string(&name).unwrap() == "sleep\n"
    ));
    // It has no SSTable any more. It might open one again.
    assert!(child.try_wait().unwrap().is_none());
    subject.child.kill().unwrap();
    subject.child.wait().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn where_a_filter_forbids_the_events_it_says_so() {
    let subject = Subject::new();
    let directory = subject.directory.path();
    let deny = coldstream_testkit::tools::compile("deny.c", directory, "deny", &[]);
    let output = Program::new(deny)
        .arguments([SYSTEM_CALL_BPF, "1", "--", COLDSTREAM])
        .arguments(["attach", &subject.pid()])
        .run();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{stderr}");
    assert!(stderr.contains("bpf"), "{stderr}");
}

#[test]
fn it_ends_with_the_process() {
    let mut subject = Subject::new();
    let Some(mut child) = attach(&subject) else {
        return;
    };
    subject.child.kill().unwrap();
    subject.child.wait().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn what_cannot_be_has_a_word_and_a_code() {
    // Not this program: other tests open SSTables in it.
    let idle = Program::new("sleep").argument("infinity").start();
    let pid = idle.process_id().to_string();
    for (arguments, code, word) in [
        (vec!["attach", "4194000"], 7, "no process"),
        (vec!["attach", &pid], 7, "no SSTable open"),
        (vec!["attach", "--cgroup", "/nowhere"], 7, "cgroup.procs"),
    ] {
        let output = ended(&arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains(word), "{stderr}");
    }
}

/// The loader maps a library and closes it, as LevelDB does with its SSTables.
#[test]
fn a_process_that_maps_its_sstables_is_not_followed() {
    let Some(library) = tools::find_library("libm.so.6") else {
        return;
    };
    let directory = directories::on_disk();
    let sstable = directory.path().join("000005.ldb");
    fs::copy(library, &sstable).unwrap();
    let mut subject = Command::new("cat")
        .env("LD_PRELOAD", &sstable)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Its answer tells that the loader is done.
    writeln!(subject.stdin.as_mut().unwrap()).unwrap();
    let mut answer = String::new();
    let mut output = BufReader::new(subject.stdout.as_mut().unwrap());
    output.read_line(&mut answer).unwrap();
    let attach = ended(&["attach", &subject.id().to_string()]);
    subject.kill().unwrap();
    subject.wait().unwrap();
    let stderr = String::from_utf8_lossy(&attach.stderr);
    assert_eq!(attach.status.code(), Some(7), "{stderr}");
    assert!(stderr.contains("through mmap"), "{stderr}");
}

#[test]
fn without_privileges_it_says_so() {
    if !rustix::process::geteuid().is_root() {
        return skip("needs root to become nobody");
    }
    let subject = Subject::new();
    let copy = tempfile::Builder::new()
        .prefix("attach")
        .tempdir_in("/tmp")
        .unwrap();
    set_world(copy.path());
    let program = copy.path().join("coldstream");
    fs::copy(COLDSTREAM, &program).unwrap();
    let output = Command::new("timeout")
        .arg("120")
        .arg(program)
        .args(["attach", &subject.pid()])
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{stderr}");
    assert!(stderr.contains("CAP_SYS_PTRACE"), "{stderr}");

    // It can list the descriptors, but not see what they are.
    let attach = format!("exec timeout 120 {COLDSTREAM} attach {}", subject.pid());
    let output = Command::new("capsh")
        .args(["--drop=cap_sys_ptrace", "--", "-c", &attach])
        .output();
    let Ok(output) = output else {
        return skip("no capsh");
    };
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{stderr}");
    assert!(stderr.contains("CAP_SYS_PTRACE"), "{stderr}");
}

fn set_world(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A line of the program's standard output, as JSON.
fn next_event(lines: &mut impl Iterator<Item = std::io::Result<String>>) -> serde_json::Value {
    serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap()
}

#[test]
fn with_json_each_event_is_a_line() {
    let subject = Subject::new();
    if attach(&subject).map(interrupt).is_none() {
        return;
    }
    let mut child = Command::new(COLDSTREAM)
        .args(["attach", "--json", &subject.pid()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let attached = next_event(&mut lines);
    assert_eq!(attached["event"], "attached");
    assert_eq!(attached["pid"].to_string(), subject.pid());
    assert_eq!(attached["compactions_known_by"], "fadv_sequential");
    assert_eq!(attached["mechanisms"][2], "handover");
    assert_eq!(interrupt(child), Some(0));
    assert_eq!(next_event(&mut lines)["event"], "detached");
    assert!(lines.next().is_none());
}

/// Nice value and I/O priority of the subject's thread with this name, once it has one.
fn priority_of(subject: &Subject, name: &str) -> Option<(i32, i32)> {
    let tasks = fs::read_dir(format!("/proc/{}/task", subject.pid())).ok()?;
    tasks.flatten().find_map(|task| {
        let is_it = fs::read_to_string(task.path().join("comm")).is_ok_and(|it| it.trim() == name);
        let id = task.file_name().to_str()?.parse().ok().filter(|_| is_it)?;
        let nice = thread_priority::nice(id).ok()?;
        let io = thread_priority::io_priority(id).ok()?;
        Some((nice, thread_priority::io_priority_with_class(io)))
    })
}

/// With a compaction's thread, which waits for a pipe.
fn with_compaction_thread() -> Option<Subject> {
    let mut subject = Subject::new();
    let pipe = subject.directory.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    if !made.is_ok_and(|it| it.success()) {
        skip("no mkfifo");
        return None;
    }
    subject.tell("rocksdb:low", "wait", &pipe, 0..0);
    let is_there = eventually(|| priority_of(&subject, "rocksdb:low").is_some());
    is_there.then_some(subject)
}

#[test]
fn priorities_are_lowered_and_given_back_even_by_a_killed_attach() {
    const LOWERED: (i32, i32) = (10, 2 << 13 | 7);
    for is_killed in [false, true] {
        let Some(subject) = with_compaction_thread() else {
            return;
        };
        let before = priority_of(&subject, "rocksdb:low");
        let of_reader = priority_of(&subject, "subject");
        let Some(mut child) = attach_with(&["--priority", &subject.pid()]) else {
            return;
        };
        let is_lowered = || priority_of(&subject, "rocksdb:low") == Some(LOWERED);
        assert!(eventually(is_lowered), "{before:?}");
        assert_eq!(priority_of(&subject, "subject"), of_reader);
        assert!(eventually(
            || counter(&subject.pid(), "priority_threads") == 1
        ));
        let switch = |word: &str| {
            ended(&["ctl", word, "--only", "priority", &subject.pid()]).well();
        };
        switch("off");
        assert!(eventually(|| priority_of(&subject, "rocksdb:low") == before));
        switch("on");
        assert!(eventually(is_lowered));
        if is_killed {
            child.kill().unwrap();
            child.wait().unwrap();
        } else {
            assert_eq!(interrupt(child), Some(0));
        }
        assert!(eventually(|| priority_of(&subject, "rocksdb:low") == before));
    }
}

#[test]
fn without_names_of_threads_there_are_no_priorities() {
    let subject = Subject::new();
    let output = ended(&["attach", "--priority", &subject.pid()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("no thread of these processes has the name"),
        "{said}"
    );
}
