//! Leads a node through the phases of a run, beside the load.

use super::arguments::CassandraArgs;
use super::run_state::RunState;
use super::schema::{COMPACTED, KEYSPACE};
use super::workload::Workload;
use crate::phase::{Event, Phase};
use crate::sampler::now_ns;
use anyhow::{Result, bail};
use coldstream_host::process::processor_time_ns;
use coldstream_nodes::Nodetool;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// The first pass may take this many times the duration that its rate implies.
const FIRST_PASS_TIMES_MAX: u64 = 10;
/// The first pass may take this long in any case: a node that has just started is slow.
const FIRST_PASS_SECONDS_MIN: u64 = 60;

/// The phases of one run, each started by nodetool or by the clock.
pub struct PhaseSequence<'a> {
    /// The command line.
    pub arguments: &'a CassandraArgs,
    /// The node's nodetool.
    pub nodetool: &'a mut Nodetool,
    /// Id of the node's process.
    pub process: u32,
    /// Tells the load which phase it is.
    pub state: &'a RunState,
    /// Duration of the first pass over the hot keys at its rate.
    pub first_pass_seconds: u64,
    /// Takes the phases, or the error that ends the run.
    pub events: Sender<Result<Event>>,
}

impl PhaseSequence<'_> {
    /// Runs all phases and ends the run. Blocks until then.
    pub fn run(mut self) {
        if let Err(error) = self.phases() {
            let _ = self.events.send(Err(error));
        }
        self.state.end();
    }

    fn phases(&mut self) -> Result<()> {
        let sizes = self.arguments.sizes();
        self.begin(Phase::WarmUp);
        // The first command of nodetool loads classes. It must not be the compaction.
        self.nodetool.run(&["compactionstats"])?;
        self.wait_for_first_pass()?;
        self.wait(sizes.warm_up_seconds);
        self.begin(Phase::Idle);
        self.wait(sizes.idle_seconds);
        self.begin(Phase::Compaction);
        let until = Instant::now() + Duration::from_secs(self.arguments.compaction_seconds);
        loop {
            self.nodetool.run(&["compact", KEYSPACE, COMPACTED])?;
            let over = Instant::now() >= until || self.state.is_over();
            if over || self.arguments.workload() == Workload::Reads {
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
        self.state.begin(phase);
        let _ = self.events.send(Ok(Event::Phase {
            phase,
            at_ns: now_ns(),
            process_cpu_ns: processor_time_ns(self.process),
            // Another process makes the load.
            load_cpu_ns: 0,
        }));
    }

    fn wait_for_first_pass(&self) -> Result<()> {
        let seconds = (FIRST_PASS_TIMES_MAX * self.first_pass_seconds).max(FIRST_PASS_SECONDS_MIN);
        let is_done = || self.state.is_first_pass_over();
        self.wait_until(seconds, is_done);
        if !is_done() && !self.state.is_over() {
            bail!(
                "the node did not serve the first read of every hot key within {seconds} s: lower \
                 --first-reads-per-second or --hot-keys"
            );
        }
        Ok(())
    }

    fn wait(&self, seconds: u64) {
        self.wait_until(seconds, || false);
    }

    /// Waits until `is_done`, the end of the time, or the end of the run.
    fn wait_until(&self, seconds: u64, is_done: impl Fn() -> bool) {
        let until = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < until && !is_done() && !self.state.is_over() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
