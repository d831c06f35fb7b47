//! Asks a process under the preload library to switch mechanisms, as `coldstream ctl` does, and looks at it from
//! outside.

use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use coldstream_control::{Counter, Mechanism, Mechanisms, Outcome, PageView, Snapshot};
use coldstream_host::process;
use coldstream_host::status_page::StatusPage;
use coldstream_io::sys::thread_priority::{io_priority, nice};
use coldstream_policy::Priorities;

/// A process that has not answered by then hangs. `off` and `on` take milliseconds, but a slow device may need time
/// for staged bytes, and a busy machine for everything.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Time between two looks at a process.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
const ANSWER_INTERVAL: Duration = Duration::from_millis(100);

/// A client of the status page of one process.
#[derive(Debug)]
pub struct StatusClient {
    process: u32,
    page: StatusPage,
    /// The longest time until an answer.
    pub longest: Duration,
}

impl StatusClient {
    /// The client of a process that is about to open its first SSTable.
    ///
    /// # Panics
    /// The process makes no page, or has ended. One that waits for input has it (`Program`'s is `/dev/null`).
    #[must_use]
    pub fn of(process: u32) -> Self {
        let started = Instant::now();
        loop {
            if let Some(client) = Self::try_of(process) {
                return client;
            }
            assert!(started.elapsed() < PATIENCE, "no page of {process}");
            assert!(
                !process::has_ended(process),
                "{process} ended without a page"
            );
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    fn try_of(process: u32) -> Option<Self> {
        let page = StatusPage::open_for_requests(process).ok()?;
        page.snapshot().ok()?;
        Some(Self {
            process,
            page,
            longest: Duration::ZERO,
        })
    }

    /// The page.
    #[must_use]
    pub fn page(&self) -> PageView<'static> {
        self.page.view()
    }

    /// The words of the page, to write nonsense into it.
    #[must_use]
    pub fn words(&self) -> &'static [AtomicU64] {
        self.page.words()
    }

    /// Header and counters, whether the process is alive or not.
    ///
    /// # Panics
    /// The page is damaged.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.page().snapshot().expect("a whole page")
    }

    /// A counter.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        self.page().get(counter)
    }

    /// Sends a request and returns the answer.
    ///
    /// # Panics
    /// The process has ended or does not answer.
    pub fn ask(&mut self, off_bits: u64, priorities_bits: u64) -> Outcome {
        let outcome = self.try_ask(off_bits, priorities_bits);
        outcome.unwrap_or_else(|| panic!("{} has ended", self.process))
    }

    /// As [`StatusClient::ask`]; `None` if the process has ended.
    ///
    /// # Panics
    /// The process does not answer.
    pub fn try_ask(&mut self, off_bits: u64, priorities_bits: u64) -> Option<Outcome> {
        let started = Instant::now();
        let number = self.page.send_request(off_bits, priorities_bits);
        loop {
            if let Some(outcome) = self.page.wait_for_answer(number, ANSWER_INTERVAL) {
                self.longest = self.longest.max(started.elapsed());
                return Some(outcome);
            }
            if process::has_ended(self.process) {
                return None;
            }
            let waited = started.elapsed();
            assert!(waited < PATIENCE, "{} does not answer", self.process);
        }
    }

    /// Switches these mechanisms off and all others on.
    ///
    /// # Panics
    /// As [`StatusClient::ask`], or the page shows other switches afterwards.
    pub fn off(&mut self, mechanisms: &[Mechanism]) -> Outcome {
        let off = Mechanisms::of(mechanisms);
        let priorities = self.page().switches().priorities_bits;
        let outcome = self.ask(u64::from(off.bits()), priorities);
        assert_eq!(self.page().switches().off, off);
        outcome
    }

    /// Sets the priorities of background threads.
    ///
    /// # Panics
    /// As [`StatusClient::ask`].
    pub fn set(&mut self, priorities: Priorities) -> Outcome {
        let off = self.page().switches().off;
        self.ask(u64::from(off.bits()), priorities.to_bits())
    }

    /// Nice value and I/O priority of each thread with this name.
    #[must_use]
    pub fn threads(&self, name: &str) -> Vec<(i32, i32)> {
        let threads = process::threads(self.process).into_iter();
        threads
            .filter(|thread| thread.name == name.as_bytes())
            .filter_map(|thread| Some((nice(thread.id).ok()?, io_priority(thread.id).ok()?)))
            .collect()
    }

    /// Time that the threads with this name were ready to run and waited for a processor, in nanoseconds.
    #[must_use]
    pub fn waited_ns(&self, name: &str) -> u64 {
        let threads = process::threads(self.process).into_iter();
        threads
            .filter(|thread| thread.name == name.as_bytes())
            .filter_map(|thread| {
                let path = format!("/proc/{}/task/{}/schedstat", self.process, thread.id);
                let schedstat = std::fs::read_to_string(path).ok()?;
                schedstat.split(' ').nth(1)?.parse::<u64>().ok()
            })
            .sum()
    }

    /// Waits until there is a thread with this name, and all of them fulfil the condition.
    ///
    /// # Panics
    /// That does not happen.
    #[track_caller]
    pub fn wait_for(&self, name: &str, condition: impl Fn(i32, i32) -> bool) {
        self.wait_until(name, |threads| {
            !threads.is_empty() && threads.iter().all(|(nice, io)| condition(*nice, *io))
        });
    }

    /// Waits until the condition holds for the priorities of the threads with this name.
    ///
    /// # Panics
    /// That does not happen.
    #[track_caller]
    pub fn wait_until(&self, name: &str, condition: impl Fn(&[(i32, i32)]) -> bool) {
        let started = Instant::now();
        loop {
            let threads = self.threads(name);
            if condition(&threads) {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "{name}: {threads:?}");
            std::thread::sleep(LOOK_INTERVAL);
        }
    }
}

/// Resident memory of a process, KiB; 0 if it has ended.
#[must_use]
pub fn resident_kib(process: u32) -> u64 {
    process::usage(process).map_or(0, |usage| usage.resident_bytes >> 10)
}
