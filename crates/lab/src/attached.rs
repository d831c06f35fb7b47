//! `coldstream attach` beside a running engine, as a mode.
//!
//! The process is in the engine's cgroups: what it warms is charged to them, and it shares their limit. Its processor
//! time is part of the report. Memory, threads and descriptors of the engine are told without it.

use anyhow::{Context, Result, bail};
use coldstream_host::process::{has_ended, open_files, processor_time_ns};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The name of the mode.
pub const ATTACH: &str = "attach";
/// The mode in which it lowers priorities, too, and its option.
pub const ATTACH_PRIORITY: (&str, &[&str]) = ("attach:priority", &["--priority"]);

/// Longest wait for its end. Until then it gives all advice back.
const END_MAX: Duration = Duration::from_secs(10);

/// Longest wait for an open SSTable.
const OPEN_MAX: Duration = Duration::from_secs(30);

/// A load driver opens each SSTable for a moment, to drop its pages, before the engine opens it for good.
const STAYS_OPEN: Duration = Duration::from_millis(300);

/// `coldstream attach` that runs. Killed when dropped.
pub struct Attached {
    child: Child,
    started: Instant,
    /// Reads its standard error, where it writes what it does.
    lines: Option<JoinHandle<Vec<String>>>,
}

/// What it did.
pub struct AttachReport {
    /// What it wrote.
    pub lines: Vec<String>,
    /// Processor time, as a share of one processor.
    pub core_percent: f64,
}

impl Attached {
    /// Attaches to an engine, as soon as it has an SSTable open: `coldstream attach` knows it by that.
    ///
    /// `command` enters the engine's cgroups and becomes its further arguments.
    pub fn start(process: u32, options: &[&str], mut command: Command) -> Result<Self> {
        // Without one, `coldstream attach` says what is wrong.
        has_sstable_open(process);
        let program = std::env::current_exe().context("the path of this program")?;
        let mut child = command
            .arg(program)
            .args([ATTACH, &process.to_string()])
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("start coldstream attach")?;
        let errors = child.stderr.take();
        let read = |errors| {
            BufReader::new(errors)
                .lines()
                .map_while(Result::ok)
                .collect()
        };
        Ok(Self {
            child,
            started: Instant::now(),
            lines: errors.map(|errors| std::thread::spawn(move || read(errors))),
        })
    }

    /// Its process id: the shell becomes the program.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it.
    ///
    /// # Errors
    /// It failed, perhaps long ago. The mode would have measured the plain engine.
    pub fn finish(mut self) -> Result<AttachReport> {
        let cpu_ns = processor_time_ns(self.child.id());
        let elapsed_ns = self.started.elapsed().as_nanos() as f64;
        if let Some(process) = Pid::from_raw(self.child.id() as i32) {
            // An error: it has ended with the engine.
            let _ = kill_process(process, Signal::TERM);
        }
        let asked = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if asked.elapsed() > END_MAX {
                bail!("coldstream attach does not end");
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let lines = self.lines.take().map(JoinHandle::join);
        let lines = lines.and_then(Result::ok).unwrap_or_default();
        if !status.success() {
            bail!(
                "coldstream attach ended with {status}: {}",
                lines.join("; ")
            );
        }
        Ok(AttachReport {
            lines,
            core_percent: 100.0 * cpu_ns as f64 / elapsed_ns,
        })
    }
}

/// Waits until an SSTable stays open. `false` if the engine has ended before, or takes too long.
fn has_sstable_open(process: u32) -> bool {
    let begun = Instant::now();
    let mut before = BTreeSet::new();
    while begun.elapsed() < OPEN_MAX && !has_ended(process) {
        let files = open_files(process).unwrap_or_default().into_iter();
        let is_sstable = |path: &PathBuf| path.extension().is_some_and(|it| it == "sst");
        let now: BTreeSet<PathBuf> = files.filter(is_sstable).collect();
        if !before.is_disjoint(&now) {
            return true;
        }
        before = now;
        std::thread::sleep(STAYS_OPEN);
    }
    false
}

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_waited_for_until_its_sstable_is_open_or_it_has_ended() {
        let directory = tempfile::tempdir().unwrap();
        let mut engine = Command::new("/bin/sh")
            .args([
                "-c",
                "> 1.log; exec 3> 1.log; sleep 0.5; exec 3> 1.sst; exec sleep 60",
            ])
            .current_dir(directory.path())
            .spawn()
            .unwrap();
        assert!(has_sstable_open(engine.id()));
        assert!(directory.path().join("1.sst").exists());
        engine.kill().unwrap();
        engine.wait().unwrap();
        assert!(!has_sstable_open(engine.id()));
    }
}
