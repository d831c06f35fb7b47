//! Leads a run of a node through its phases, beside the load.

use super::arguments::{CassandraArgs, Workload};
use super::dataset::{COMPACTED, KEYSPACE};
use super::load::Baton;
use crate::phase::{Event, Phase};
use crate::sampler::now_ns;
use anyhow::{Result, bail};
use coldstream_control::stat_field;
use coldstream_nodes::Nodetool;
use std::fs;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// The first pass may take so many times as long as it would at its rate.
const FIRST_PASS_TIMES_MAX: u64 = 10;
/// And so long in any case: a node that has just been started is slow.
const FIRST_PASS_SECONDS_MIN: u64 = 60;

/// Leads a run through its phases.
pub struct Conductor<'a> {
    /// What was asked for.
    pub arguments: &'a CassandraArgs,
    /// The node's.
    pub nodetool: &'a mut Nodetool,
    /// The node's process.
    pub process: u32,
    /// Tells the load.
    pub baton: &'a Baton,
    /// How long every hot key takes to be read once, at its rate.
    pub first_pass_seconds: u64,
    /// Takes what happens.
    pub events: Sender<Result<Event>>,
}

impl Conductor<'_> {
    /// Until the last phase is over, or the run.
    pub fn conduct(mut self) {
        if let Err(error) = self.phases() {
            let _ = self.events.send(Err(error));
        }
        self.baton.end();
    }

    fn phases(&mut self) -> Result<()> {
        let sizes = self.arguments.sizes();
        self.begin(Phase::WarmUp);
        // Loads what the command needs, so that the compaction's start does not.
        self.nodetool.run(&["compactionstats"])?;
        self.wait_for_first_pass()?;
        self.wait(sizes.warm_up_seconds);
        self.begin(Phase::Idle);
        self.wait(sizes.idle_seconds);
        self.begin(Phase::Compaction);
        let until = Instant::now() + Duration::from_secs(self.arguments.compaction_seconds);
        loop {
            self.nodetool.run(&["compact", KEYSPACE, COMPACTED])?;
            let over = Instant::now() >= until || self.baton.is_over();
            if over || self.arguments.workload == Workload::Reads {
                break;
            }
            self.nodetool.run(&["flush", KEYSPACE, COMPACTED])?;
        }
        self.begin(Phase::After);
        self.wait(sizes.after_seconds);
        self.begin(Phase::End);
        Ok(())
    }

    fn begin(&self, phase: Phase) {
        self.baton.begin(phase);
        let _ = self.events.send(Ok(Event::Phase {
            phase,
            at_ns: now_ns(),
            process_cpu_ns: cpu_ns(self.process),
            // The load is made by another process.
            load_cpu_ns: 0,
        }));
    }

    fn wait_for_first_pass(&self) -> Result<()> {
        let seconds = (FIRST_PASS_TIMES_MAX * self.first_pass_seconds).max(FIRST_PASS_SECONDS_MIN);
        let is_done = || self.baton.is_first_pass_over();
        self.wait_until(seconds, is_done);
        if !is_done() && !self.baton.is_over() {
            bail!(
                "not every hot key was read once within {seconds} s: --first-reads-per-second is far more \
                 than the node serves"
            );
        }
        Ok(())
    }

    fn wait(&self, seconds: u64) {
        self.wait_until(seconds, || false);
    }

    /// Until it is so, the time is over, or the run.
    fn wait_until(&self, seconds: u64, is_done: impl Fn() -> bool) {
        let until = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < until && !is_done() && !self.baton.is_over() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// CPU time of a process, user and system (`proc_pid_stat(5)`, fields 14 and 15, in ticks of
/// 10 ms on every architecture that Linux supports here).
fn cpu_ns(process: u32) -> u64 {
    let stat = fs::read(format!("/proc/{process}/stat")).unwrap_or_default();
    let ticks = |number| stat_field(&stat, number).unwrap_or(0);
    (ticks(14) + ticks(15)) * 10_000_000
}
