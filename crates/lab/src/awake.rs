//! Processors that do not go to sleep.
//!
//! A processor that has nothing to do halts. On a virtual machine that gives it back to the host, which may
//! take milliseconds to run it again when a request comes: a tail that is the host's, and larger
//! where there is less to do, so that p99 idle is too high and the compaction tax too low. On
//! real hardware the states of deep sleep do the same on a smaller scale.

use coldstream_host::kernel_setting::KernelSetting;
use coldstream_io::sys::priority::run_only_when_idle;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Whether the scheduler makes a group of each session (`sched(7)`).
const AUTOGROUPS: &str = "/proc/sys/kernel/sched_autogroup_enabled";

/// On each processor a thread that spins, and that everything else goes before; until this is dropped.
#[derive(Debug)]
pub struct Awake {
    _session_groups: Option<KernelSetting>,
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Awake {
    /// Keeps all processors awake that this process may run on.
    ///
    /// # Errors
    /// Those of the scheduler's system calls, and of making threads; and where cgroups of version 2, or
    /// groups of sessions that cannot be switched off, share out processor time: the lowest class is
    /// the lowest within its own group only, and these threads would get as much as the database.
    pub fn keep() -> io::Result<Self> {
        let shares = fs::read_to_string("/sys/fs/cgroup/cgroup.subtree_control");
        if shares.is_ok_and(|controllers| controllers.split_whitespace().any(|it| it == "cpu")) {
            return Err(io::Error::other(
                "cgroups of version 2 share out processor time here (cpu in \
                 /sys/fs/cgroup/cgroup.subtree_control)",
            ));
        }
        let allowed = sched_getaffinity(None)?;
        let mut awake = Self {
            _session_groups: without_session_groups()?,
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
            // A thread that could not become the lowest would take a processor away.
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

/// From now on threads and processes are made in no group of a session, until what is returned is
/// dropped; nothing where there are no such groups.
fn without_session_groups() -> io::Result<Option<KernelSetting>> {
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

    /// Of this process's threads that keep a processor awake: scheduling policy (field 41 of
    /// `/proc/PID/stat`, `proc(5)`; 5 is `SCHED_IDLE`) and the processors they may run on.
    fn keepers() -> Vec<(String, String)> {
        let mut found = Vec::new();
        for task in fs::read_dir("/proc/self/task").unwrap().flatten() {
            let read = |name| fs::read_to_string(task.path().join(name)).unwrap_or_default();
            if read("comm") == "lab-awake\n" {
                let stat = read("stat");
                let status = read("status");
                let allowed = status
                    .lines()
                    .find_map(|line| line.strip_prefix("Cpus_allowed_list:\t"));
                // Neither says anything of one that ends in this moment.
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
        assert_eq!(keepers(), expected);
        drop(awake);
        // A thread that has been joined may still be on its way out.
        let deadline = Instant::now() + Duration::from_secs(30);
        while !keepers().is_empty() {
            assert!(Instant::now() < deadline, "{:?}", keepers());
            std::thread::yield_now();
        }
    }
}
