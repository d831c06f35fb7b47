//! Open-loop CQL reads: each is sent when it is due, whatever has become of the ones before.

use super::chooser::Chooser;
use super::values::{is_value_of, updated};
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

/// What is asked, and how fast.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Bytes of every value.
    pub value_bytes: u64,
    /// Reads a second of the first pass over the hot keys.
    pub first_reads_per_second: u64,
    /// Requests a second from then on.
    pub requests_per_second: u64,
    /// Updates among these.
    pub update_percent: u32,
}

/// The statements of a table.
#[derive(Clone, Debug)]
pub struct Statements {
    read: PreparedStatement,
    update: PreparedStatement,
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

    /// Reads and updates of one key of `table`.
    pub fn prepare(&self, table: &str) -> Result<Statements> {
        let prepare = |text: String| {
            self.runtime
                .block_on(self.session.prepare(text.as_str()))
                .with_context(|| text.clone())
        };
        Ok(Statements {
            read: prepare(format!("SELECT value FROM {table} WHERE key = ?"))?,
            update: prepare(format!("UPDATE {table} SET value = ? WHERE key = ?"))?,
        })
    }

    /// Reads the chooser's first pass, then asks what it chooses at the plan's rate until the baton
    /// says that it is over. Blocks until then; answers may still be on their way.
    pub fn run(
        &self,
        statements: &Arc<Statements>,
        plan: &Plan,
        mut chooser: Chooser,
        baton: &Arc<Baton>,
        events: &Sender<Result<Event>>,
    ) {
        let in_flight = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
        let mut due_ns = now_ns();
        while !baton.is_over() {
            let (key, update, rate) = match chooser.first() {
                Some(key) => (key, None, plan.first_reads_per_second),
                None => {
                    let update = chooser.update(plan.update_percent);
                    (chooser.key(), update, plan.requests_per_second)
                }
            };
            due_ns += 1_000_000_000 / rate.max(1);
            let now = now_ns();
            if due_ns > now {
                std::thread::sleep(Duration::from_nanos(due_ns - now));
            }
            let permit = self
                .runtime
                .block_on(Arc::clone(&in_flight).acquire_owned());
            let request = Request {
                session: Arc::clone(&self.session),
                statements: Arc::clone(statements),
                key,
                value_bytes: plan.value_bytes,
                due_ns,
            };
            let (baton, events) = (Arc::clone(baton), events.clone());
            self.runtime.spawn(async move {
                let phase = baton.phase();
                let event = match update {
                    None => request.read(phase).await.map(Some),
                    Some(number) => request.update(phase, number).await,
                };
                drop(permit);
                if !baton.is_over()
                    && let Some(event) = event.transpose()
                {
                    // Nobody listens any more: the run is over.
                    let _ = events.send(event);
                }
            });
        }
    }
}

/// A request that was due at a time.
struct Request {
    session: Arc<Session>,
    statements: Arc<Statements>,
    key: u64,
    value_bytes: u64,
    due_ns: u64,
}

impl Request {
    /// Reads the value and compares it.
    async fn read(&self, phase: Phase) -> Result<Event> {
        let start_ns = now_ns();
        let value = read(&self.session, &self.statements.read, self.key).await;
        let read = |failed| Event::Read {
            phase,
            intended_ns: self.due_ns,
            start_ns,
            end_ns: now_ns(),
            failed,
        };
        let (key, end) = (self.key, read(value.is_err()));
        match value {
            Ok(value) if is_value_of(key, &value, self.value_bytes) => Ok(end),
            Ok(value) => {
                let bytes = value.len();
                Err(WrongValue(format!("key {key}: another value, of {bytes} bytes")).into())
            }
            Err(error) if error.is::<WrongValue>() => Err(error),
            // A node that stalls lets reads time out: that is what is measured here.
            Err(_) => Ok(end),
        }
    }

    /// Gives the key a new value; only a failure is an event.
    async fn update(&self, phase: Phase, number: u64) -> Result<Option<Event>> {
        let value = updated(self.key, number, self.value_bytes);
        let parameters = (value, self.key as i64);
        let written = self
            .session
            .execute_unpaged(&self.statements.update, parameters)
            .await;
        Ok(written.is_err().then_some(Event::FailedUpdate { phase }))
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
