//! Open-loop CQL reads: each is sent when it is due, whatever has become of the ones before.

use super::values::{SplitMix, hot_key, is_value_of};
use crate::error::WrongValue;
use crate::phase::{Event, Phase};
use crate::sampler::now_ns;
use anyhow::{Context, Result};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::prepared::PreparedStatement;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

/// Requests in flight at most: far more than a node answers in a second of stalling, and few
/// enough that a dead node does not fill the memory.
const IN_FLIGHT_MAX: usize = 8192;

/// A connection to a node.
pub struct Load {
    // Before the runtime: its connections are tasks there.
    session: Arc<Session>,
    runtime: Runtime,
}

/// What is read, and how fast.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Keys of the table.
    pub keys: u64,
    /// Keys that are read.
    pub hot_keys: u64,
    /// Bytes of every value.
    pub value_bytes: u64,
    /// Reads a second.
    pub reads_per_second: u64,
    /// Varies the order.
    pub seed: u32,
}

/// Shared by the load and whoever conducts a run.
#[derive(Debug)]
pub struct Baton {
    phase: AtomicU8,
    over: AtomicBool,
}

impl Baton {
    /// Before the first phase.
    pub fn new() -> Self {
        Self {
            phase: AtomicU8::new(Phase::WarmUp as u8),
            over: AtomicBool::new(false),
        }
    }

    /// Reads that start from now on belong to this phase.
    pub fn begin(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// No further read.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    fn phase(&self) -> Phase {
        Phase::from_number(u32::from(self.phase.load(Ordering::Relaxed)))
    }

    /// Whether it was ended.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

impl Load {
    /// Connects to a node.
    pub fn connect(address: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .context("start the CQL client")?;
        let session = runtime
            .block_on(SessionBuilder::new().known_node(address).build())
            .with_context(|| format!("connect to {address}"))?;
        Ok(Self {
            session: Arc::new(session),
            runtime,
        })
    }

    /// Runs a statement that returns nothing of interest.
    pub fn execute(&self, statement: &str) -> Result<()> {
        self.runtime
            .block_on(self.session.query_unpaged(statement, ()))
            .with_context(|| statement.to_owned())?;
        Ok(())
    }

    /// A read of the value of one key of `table`.
    pub fn prepare(&self, table: &str) -> Result<PreparedStatement> {
        let text = format!("SELECT value FROM {table} WHERE key = ?");
        self.runtime
            .block_on(self.session.prepare(text.as_str()))
            .with_context(|| text.clone())
    }

    /// Reads every hot key once at this rate, in no order; then hot keys at random at the plan's
    /// rate until the baton says that it is over. Blocks until the last answer is there.
    pub fn run(
        &self,
        statement: &PreparedStatement,
        plan: &Plan,
        first_reads_per_second: u64,
        baton: &Arc<Baton>,
        events: &Sender<Result<Event>>,
    ) {
        let mut random = SplitMix(u64::from(plan.seed));
        let mut order: Vec<u64> = (0..plan.hot_keys).collect();
        for place in (1..order.len()).rev() {
            order.swap(place, random.below(place as u64 + 1) as usize);
        }
        let mut first = order.into_iter();
        let in_flight = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
        let mut due_ns = now_ns();
        while !baton.is_over() {
            let (place, rate) = match first.next() {
                Some(place) => (place, first_reads_per_second),
                None => (random.below(plan.hot_keys), plan.reads_per_second),
            };
            due_ns += 1_000_000_000 / rate.max(1);
            let now = now_ns();
            if due_ns > now {
                std::thread::sleep(Duration::from_nanos(due_ns - now));
            }
            let permit = self
                .runtime
                .block_on(Arc::clone(&in_flight).acquire_owned());
            let key = hot_key(place, plan.hot_keys, plan.keys);
            let (session, statement) = (Arc::clone(&self.session), statement.clone());
            let (baton, events) = (Arc::clone(baton), events.clone());
            let (value_bytes, intended_ns) = (plan.value_bytes, due_ns);
            self.runtime.spawn(async move {
                let phase = baton.phase();
                let start_ns = now_ns();
                let value = read(&session, &statement, key).await;
                let end_ns = now_ns();
                drop(permit);
                if baton.is_over() {
                    return;
                }
                let read = |failed| Event::Read {
                    phase,
                    intended_ns,
                    start_ns,
                    end_ns,
                    failed,
                };
                // Nobody listens any more: the run is over.
                let _ = events.send(match value {
                    Ok(value) if is_value_of(key, &value, value_bytes) => Ok(read(false)),
                    Ok(value) => {
                        let bytes = value.len();
                        Err(
                            WrongValue(format!("key {key}: another value, of {bytes} bytes"))
                                .into(),
                        )
                    }
                    Err(error) if error.is::<WrongValue>() => Err(error),
                    // A node that stalls lets reads time out: that is what is measured here.
                    Err(_) => Ok(read(true)),
                });
            });
        }
    }
}

async fn read(session: &Session, statement: &PreparedStatement, key: u64) -> Result<Vec<u8>> {
    let result = session
        .execute_unpaged(statement, (key as i64,))
        .await
        .with_context(|| format!("read key {key}"))?
        .into_rows_result()
        .context("an answer without rows")?;
    match result.maybe_first_row::<(Vec<u8>,)>()? {
        Some((value,)) => Ok(value),
        None => Err(WrongValue(format!("key {key} is not there")).into()),
    }
}
