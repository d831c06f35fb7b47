//! Samples how far a node's compactions are behind.
//!
//! nodetool's `compactionstats` has Cassandra's own estimate, but it needs JMX: a virtual machine, and
//! processor time of the node. Virtual tables answer over the connection that is there.

use super::client::CqlClient;
use super::run_state::RunState;
use super::sstables::DATA_SUFFIX;
use crate::compaction_files::with_suffix;
use crate::phase::{Backlog, Event};
use anyhow::Result;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// Two short requests in each: about a thousandth of the load.
const INTERVAL: Duration = Duration::from_secs(1);
/// The end of the run is noticed this soon.
const STEP: Duration = Duration::from_millis(20);

/// Samples until the run ends.
pub struct BacklogSampler<'a> {
    /// The connection to the node.
    pub client: &'a CqlClient,
    /// Directory of the CQL table that is compacted.
    pub directory: PathBuf,
    /// Phase and end of the run.
    pub state: &'a RunState,
    /// Takes the samples.
    pub events: Sender<Result<Event>>,
}

impl BacklogSampler<'_> {
    /// Blocks until the run ends. A node that does not answer in time has no sample.
    pub fn run(self) {
        while !self.state.is_over() {
            let next = Instant::now() + INTERVAL;
            if let Ok((pending_compactions, debt_bytes)) = self.client.backlog() {
                let backlog = Backlog {
                    sstables: with_suffix(&self.directory, DATA_SUFFIX).len() as u64,
                    pending_compactions,
                    debt_bytes,
                    is_compacting: pending_compactions > 0,
                    ..Backlog::default()
                };
                let phase = self.state.phase();
                let _ = self.events.send(Ok(Event::Backlog { phase, backlog }));
            }
            while Instant::now() < next && !self.state.is_over() {
                std::thread::sleep(STEP);
            }
        }
    }
}
