//! The asking side of a status page, and what else can be seen of a process from outside.

use coldstream_control::{
    Answer, Counter, Mechanism, Mechanisms, Outcome, PageView, PidNamespace, Request, Snapshot,
    page_path, start_time_ticks,
};
use coldstream_io::shared::SharedPage;
use coldstream_io::sys::process::{futex_wait_shared, futex_wake_shared};
use coldstream_policy::Priorities;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

/// Whoever has not answered by then hangs: `off` and `on` take milliseconds, but a slow device may take its
/// time over what was staged, and a busy machine over everything.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Asker {
    process: u32,
    words: &'static [std::sync::atomic::AtomicU64],
    /// The longest that an answer took.
    pub longest: Duration,
}

impl Asker {
    /// Of a process that is about to open its first table.
    pub fn of(process: u32) -> Self {
        let begun = Instant::now();
        loop {
            if let Some(asker) = Self::try_of(process) {
                return asker;
            }
            assert!(begun.elapsed() < PATIENCE, "no page of {process}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn try_of(process: u32) -> Option<Self> {
        // SAFETY: takes no argument and cannot fail.
        let path = page_path(unsafe { libc::geteuid() }, process, PidNamespace::own());
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        let words = SharedPage::open_shared(&path).ok()?.words();
        let stat = std::fs::read(format!("/proc/{process}/stat")).ok()?;
        let page = PageView::new(words).ok()?;
        page.snapshot_of(process, start_time_ticks(&stat)?).ok()?;
        Some(Self {
            process,
            words,
            longest: Duration::ZERO,
        })
    }

    pub fn page(&self) -> PageView<'static> {
        PageView::new(self.words).unwrap()
    }

    pub fn words(&self) -> &'static [std::sync::atomic::AtomicU64] {
        self.words
    }

    pub fn snapshot(&self) -> Snapshot {
        self.page().snapshot().unwrap()
    }

    pub fn get(&self, counter: Counter) -> u64 {
        self.page().get(counter)
    }

    /// Asks for something; the answer.
    pub fn ask(&mut self, off_bits: u64, priorities_bits: u64) -> Outcome {
        let outcome = self.try_ask(off_bits, priorities_bits);
        outcome.unwrap_or_else(|| panic!("{} has ended", self.process))
    }

    /// As above; `None` if the process has ended.
    pub fn try_ask(&mut self, off_bits: u64, priorities_bits: u64) -> Option<Outcome> {
        let page = self.page();
        let number = page.request().number.wrapping_add(1);
        let begun = Instant::now();
        page.ask(&Request {
            number,
            off_bits,
            priorities_bits,
        });
        futex_wake_shared(page.bell().unwrap());
        loop {
            let Answer {
                number: answered,
                outcome,
            } = page.answer();
            if answered == number {
                self.longest = self.longest.max(begun.elapsed());
                return Some(outcome);
            }
            if has_ended(self.process) {
                return None;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "{} does not answer",
                self.process
            );
            futex_wait_shared(page.answered().unwrap(), answered, Some(100));
        }
    }

    /// Switches these off and all others on.
    pub fn off(&mut self, mechanisms: &[Mechanism]) -> Outcome {
        let off = Mechanisms::of(mechanisms);
        let priorities = self.page().switches().priorities_bits;
        let outcome = self.ask(u64::from(off.bits()), priorities);
        assert_eq!(self.page().switches().off, off);
        outcome
    }

    pub fn set(&mut self, priorities: Priorities) -> Outcome {
        let off = self.page().switches().off;
        self.ask(u64::from(off.bits()), priorities.to_bits())
    }

    /// Nice value and I/O priority of each thread of that name.
    pub fn threads(&self, name: &str) -> Vec<(i32, i32)> {
        use coldstream_io::sys::priority::{io_priority, nice};
        tasks(self.process)
            .into_iter()
            .filter(|(_, found)| found == name)
            .filter_map(|(id, _)| Some((nice(id).ok()?, io_priority(id).ok()?)))
            .collect()
    }

    /// Waits until every thread of that name, of which there is one at least, is like this.
    #[track_caller]
    pub fn wait_for(&self, name: &str, is_so: impl Fn(i32, i32) -> bool) {
        let begun = Instant::now();
        loop {
            let threads = self.threads(name);
            if !threads.is_empty() && threads.iter().all(|(nice, io)| is_so(*nice, *io)) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{name}: {threads:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Threads of a process, with their names.
pub fn tasks(process: u32) -> Vec<(i32, String)> {
    let directory = std::fs::read_dir(format!("/proc/{process}/task"));
    directory
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|task| {
            let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
            let id = task.file_name().to_str()?.parse().ok()?;
            Some((id, name.trim_end().to_owned()))
        })
        .collect()
}

/// Whether it is gone, or only waits for its parent.
fn has_ended(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().unwrap_or_default();
    state.is_empty() || state.starts_with(['Z', 'X'])
}

/// Open descriptors of a process.
pub fn descriptors(process: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd")).map_or(0, Iterator::count)
}

/// Resident memory of a process.
pub fn resident_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}
