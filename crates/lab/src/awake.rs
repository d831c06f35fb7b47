//! Keeps idle processors awake.
//!
//! An idle processor halts. On a virtual machine the host then takes it away, and may need
//! milliseconds to run it again when a request comes. This tail is the host's. It is larger the less
//! there is to do, so p99 idle is too high and the compaction tax too low. On real hardware deep sleep
//! states have the same effect on a smaller scale.

use coldstream_host::kernel_setting::KernelSetting;
use coldstream_io::sys::thread_priority::run_only_when_idle;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The kernel's switch for autogroups: the scheduler makes a group of each session (`sched(7)`).
const AUTOGROUPS: &str = "/proc/sys/kernel/sched_autogroup_enabled";

/// On each processor a thread that spins in the lowest scheduling class. The threads end when this
/// is dropped.
#[derive(Debug)]
pub struct Awake {
    _autogroups: Option<KernelSetting>,
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Awake {
    /// Keeps all processors awake that this process may run on.
    ///
    /// # Errors
    /// - The scheduler's system calls, and the start of threads.
    /// - Processor time is divided among cgroups of version 2, or among autogroups that cannot be
    ///   switched off. A class is the lowest only within its own group: these threads would get as
    ///   much time as the database.
    pub fn keep() -> io::Result<Self> {
        let shares = fs::read_to_string("/sys/fs/cgroup/cgroup.subtree_control");
        if shares.is_ok_and(|controllers| controllers.split_whitespace().any(|it| it == "cpu")) {
            return Err(io::Error::other(
                "processor time is divided among cgroups of version 2 here (cpu in \
                 /sys/fs/cgroup/cgroup.subtree_control)",
            ));
        }
        let allowed = sched_getaffinity(None)?;
        let mut awake = Self {
            _autogroups: without_autogroups()?,
            is_over: Arc::default(),
            threads: Vec::new(),
        };
        for processor in (0..CpuSet::MAX_CPU).filter(|&processor| allowed.is_set(processor)) {
            let is_over = Arc::clone(&awake.is_over);
            let (started, has_started) = std::sync::mpsc::channel();
            let thread = std::thread::Builder::new()
                .name("lab-awake".into())
                .spawn(move || {
                    stay_on(processor)?;
                    let _ = started.send(());
                    while !is_over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                    Ok(())
                })?;
            // A thread outside the lowest class would take the processor from the database.
            if has_started.recv().is_err() {
                return Err(thread
                    .join()
                    .map_or_else(|_| io::Error::other("a panic"), |ended| ended.unwrap_err()));
            }
            awake.threads.push(thread);
        }
        Ok(awake)
    }
}

/// Switches autogroups off until the result is dropped. `None` where there are none.
fn without_autogroups() -> io::Result<Option<KernelSetting>> {
    match fs::read_to_string(AUTOGROUPS) {
        Ok(text) if text.trim() != "0" => KernelSetting::set(AUTOGROUPS, "0")
            .map(Some)
            .map_err(|error| io::Error::new(error.kind(), format!("{AUTOGROUPS}: {error}"))),
        _ => Ok(None),
    }
}

fn stay_on(processor: usize) -> io::Result<()> {
    let mut one = CpuSet::new();
    one.set(processor);
    sched_setaffinity(None, &one)?;
    Ok(run_only_when_idle()?)
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::time::{Duration, Instant};

    /// Scheduling policy and processors of each thread that keeps a processor awake. The policy is
    /// field 41 of `/proc/PID/stat` (`proc(5)`); 5 is `SCHED_IDLE`.
    fn spinning_threads() -> Vec<(String, String)> {
        let mut found = Vec::new();
        for task in fs::read_dir("/proc/self/task").unwrap().flatten() {
            let read = |name| fs::read_to_string(task.path().join(name)).unwrap_or_default();
            if read("comm") == "lab-awake\n" {
                let stat = read("stat");
                let status = read("status");
                let allowed = status
                    .lines()
                    .find_map(|line| line.strip_prefix("Cpus_allowed_list:\t"));
                // Both are empty for a thread that is just ending.
                let (Some((_, fields)), Some(allowed)) = (stat.rsplit_once(") "), allowed) else {
                    continue;
                };
                let policy = fields.split(' ').nth(41 - 3).unwrap();
                found.push((policy.into(), allowed.into()));
            }
        }
        found.sort();
        found
    }

    #[test]
    fn one_thread_of_the_lowest_class_on_each_processor_and_none_afterwards() {
        let awake = match Awake::keep() {
            Ok(awake) => awake,
            Err(error) => {
                // The harness would capture what a macro prints.
                let _ = writeln!(std::io::stderr(), "skipped: {error}");
                return;
            }
        };
        let allowed = sched_getaffinity(None).unwrap();
        let mut expected: Vec<(String, String)> = (0..CpuSet::MAX_CPU)
            .filter(|&processor| allowed.is_set(processor))
            .map(|processor| ("5".into(), processor.to_string()))
            .collect();
        expected.sort();
        assert_eq!(spinning_threads(), expected);
        drop(awake);
        // A joined thread may still be in /proc for a moment.
        let deadline = Instant::now() + Duration::from_secs(30);
        while !spinning_threads().is_empty() {
            assert!(Instant::now() < deadline, "{:?}", spinning_threads());
            std::thread::yield_now();
        }
    }
}
