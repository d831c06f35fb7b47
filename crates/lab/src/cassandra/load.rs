//! Open-loop CQL reads: each is sent when it is due, whatever has become of the ones before.

use super::chooser::Chooser;
use super::dataset::KEYSPACE;
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
/// The same in the first pass, which is to end.
const FIRST_PASS_IN_FLIGHT_MAX: u32 = 64;

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
    first_pass_over: AtomicBool,
    over: AtomicBool,
}

impl Baton {
    /// Before the first phase.
    pub fn new() -> Self {
        Self {
            phase: AtomicU8::new(Phase::WarmUp as u8),
            first_pass_over: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    /// Every hot key has been read once, and nothing of it is on its way.
    fn end_first_pass(&self) {
        self.first_pass_over.store(true, Ordering::Relaxed);
    }

    /// Whether it has.
    pub fn is_first_pass_over(&self) -> bool {
        self.first_pass_over.load(Ordering::Relaxed)
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

    /// Bytes that compactions of the laboratory's tables have read and written, ever, as the node
    /// keeps account of them.
    pub fn compacted_bytes(&self) -> Result<(u64, u64)> {
        let statement = "SELECT keyspace_name, bytes_in, bytes_out FROM system.compaction_history";
        let history = self
            .runtime
            .block_on(self.session.query_unpaged(statement, ()))
            .context(statement)?
            .into_rows_result()
            .context("an answer without rows")?;
        let (mut read, mut written) = (0, 0);
        for row in history.rows::<(String, i64, i64)>()? {
            let (keyspace, bytes_in, bytes_out) = row?;
            if keyspace == KEYSPACE {
                read += bytes_in.cast_unsigned();
                written += bytes_out.cast_unsigned();
            }
        }
        Ok((read, written))
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
    /// says that it is over. Blocks until then; answers may still be on their way, and each of them
    /// is sent: who waits until there are no senders misses none, of which the last are the slowest.
    pub fn run(
        &self,
        statements: &Arc<Statements>,
        plan: &Plan,
        mut chooser: Chooser,
        baton: &Arc<Baton>,
        events: &Sender<Result<Event>>,
    ) {
        let asker = Asker {
            load: self,
            statements,
            value_bytes: plan.value_bytes,
            baton,
            events,
        };
        asker.first_pass(plan.first_reads_per_second, &mut chooser);
        baton.end_first_pass();
        let in_flight = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
        let mut due_ns = now_ns();
        while !baton.is_over() {
            let update = chooser.update(plan.update_percent);
            due_ns += 1_000_000_000 / plan.requests_per_second.max(1);
            sleep_until(due_ns);
            asker.ask(chooser.key(), update, due_ns, &in_flight);
        }
    }
}

/// Asks what is due.
struct Asker<'a> {
    load: &'a Load,
    statements: &'a Arc<Statements>,
    value_bytes: u64,
    baton: &'a Arc<Baton>,
    events: &'a Sender<Result<Event>>,
}

impl Asker<'_> {
    /// Reads each key of the first pass, and waits for the answers: at this rate if the node keeps up,
    /// and else as fast as it can. What it cannot do at once, a virtual machine that has just been
    /// started, must not be owed, or the phases after it would pay.
    fn first_pass(&self, rate: u64, chooser: &mut Chooser) {
        let in_flight = Arc::new(Semaphore::new(FIRST_PASS_IN_FLIGHT_MAX as usize));
        let mut due_ns = now_ns();
        while !self.baton.is_over()
            && let Some(key) = chooser.first()
        {
            due_ns = now_ns().max(due_ns + 1_000_000_000 / rate.max(1));
            sleep_until(due_ns);
            self.ask(key, None, due_ns, &in_flight);
        }
        let all = in_flight.acquire_many(FIRST_PASS_IN_FLIGHT_MAX);
        drop(self.load.runtime.block_on(all));
    }

    /// Sends one request as soon as there is room for it.
    fn ask(&self, key: u64, update: Option<u64>, due_ns: u64, in_flight: &Arc<Semaphore>) {
        let runtime = &self.load.runtime;
        let permit = runtime.block_on(Arc::clone(in_flight).acquire_owned());
        let request = Request {
            session: Arc::clone(&self.load.session),
            statements: Arc::clone(self.statements),
            key,
            value_bytes: self.value_bytes,
            due_ns,
        };
        let (baton, events) = (Arc::clone(self.baton), self.events.clone());
        runtime.spawn(async move {
            let phase = baton.phase();
            let event = match update {
                None => request.read(phase).await.map(Some),
                Some(number) => request.update(phase, number).await,
            };
            drop(permit);
            if let Some(event) = event.transpose() {
                // Nobody listens any more where the run ended before its time.
                let _ = events.send(event);
            }
        });
    }
}

fn sleep_until(due_ns: u64) {
    let now = now_ns();
    if due_ns > now {
        std::thread::sleep(Duration::from_nanos(due_ns - now));
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
