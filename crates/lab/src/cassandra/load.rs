//! An open-loop load: each request is sent when it is due, whether or not the earlier ones have been
//! answered.

use super::chooser::Chooser;
use super::client::{CqlClient, Statements};
use super::run_state::RunState;
use super::values::{is_value_of, updated};
use crate::error::WrongValue;
use crate::phase::Event;
use crate::sampler::now_ns;
use anyhow::{Context, Result};
use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Requests in flight at most. It is far more than a node answers in a second of stalling, and few
/// enough that a dead node does not fill the memory.
const IN_FLIGHT_MAX: usize = 8192;
/// The same for the first pass, which has an end.
const FIRST_PASS_IN_FLIGHT_MAX: u32 = 64;

/// What is asked, and how fast.
#[derive(Clone, Copy, Debug)]
pub struct RequestPlan {
    /// Bytes of every value.
    pub value_bytes: u64,
    /// Reads a second of the first pass over the hot keys.
    pub first_reads_per_second: u64,
    /// Requests a second after the first pass.
    pub requests_per_second: u64,
    /// Percentage of updates among these.
    pub update_percent: u32,
}

/// The requests of one run.
pub struct Load<'a> {
    /// The connection to the node.
    pub client: &'a CqlClient,
    /// Statements of the CQL table that is read.
    pub statements: &'a Arc<Statements>,
    /// What is asked, and how fast.
    pub plan: RequestPlan,
    /// Phase and end of the run.
    pub state: &'a Arc<RunState>,
    /// Takes the outcome of each request.
    pub events: Sender<Result<Event>>,
}

impl Load<'_> {
    /// Sends the first pass of `chooser`, then its other requests at the plan's rate until the run
    /// ends. Blocks until then.
    ///
    /// Answers may come later. Each holds a sender, so whoever receives until no sender is left
    /// misses none. The last answers are the slowest.
    pub fn run(self, mut chooser: Chooser) {
        self.first_pass(&mut chooser);
        self.state.end_first_pass();
        let in_flight = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
        let gap_ns = (1_000_000_000 / self.plan.requests_per_second.max(1)).max(1);
        let mut due_ns = now_ns();
        while !self.state.is_over() {
            let update = chooser.update(self.plan.update_percent);
            due_ns += gap_ns;
            sleep_until(due_ns);
            self.send(chooser.key(), update, due_ns, &in_flight);
        }
        let unstarted = unstarted(due_ns, gap_ns, self.plan.update_percent, now_ns());
        // Nobody receives any more if the run ended early.
        let _ = unstarted.map(|event| self.events.send(Ok(event)));
    }

    /// Reads each key of the first pass, and waits for the answers.
    ///
    /// A node that keeps up gets the plan's rate; a slower one is read as fast as it answers. The load
    /// does not catch up on late requests. A JVM that has just started is slow, and the later phases
    /// would pay for it.
    fn first_pass(&self, chooser: &mut Chooser) {
        let in_flight = Arc::new(Semaphore::new(FIRST_PASS_IN_FLIGHT_MAX as usize));
        let gap_ns = 1_000_000_000 / self.plan.first_reads_per_second.max(1);
        let mut due_ns = now_ns();
        while !self.state.is_over()
            && let Some(key) = chooser.first()
        {
            due_ns = now_ns().max(due_ns + gap_ns);
            sleep_until(due_ns);
            self.send(key, None, due_ns, &in_flight);
        }
        let all = in_flight.acquire_many(FIRST_PASS_IN_FLIGHT_MAX);
        drop(self.client.runtime().block_on(all));
    }

    /// Sends one request as soon as fewer than the limit are in flight.
    fn send(&self, key: u64, update: Option<u64>, due_ns: u64, in_flight: &Arc<Semaphore>) {
        let runtime = self.client.runtime();
        let permit = runtime.block_on(Arc::clone(in_flight).acquire_owned());
        let request = Request {
            session: Arc::clone(self.client.session()),
            statements: Arc::clone(self.statements),
            key,
            value_bytes: self.plan.value_bytes,
            due_ns,
        };
        let (state, events) = (Arc::clone(self.state), self.events.clone());
        runtime.spawn(async move {
            let event = match update {
                None => request.read().await.map(Some),
                Some(number) => Ok(request.update(&state, number).await),
            };
            drop(permit);
            if let Some(event) = event.transpose() {
                // As above.
                let _ = events.send(event);
            }
        });
    }
}

/// The reads that are due by `now_ns` after the last request that was sent, if there are any. Updates are among the
/// requests.
fn unstarted(due_ns: u64, gap_ns: u64, update_percent: u32, now_ns: u64) -> Option<Event> {
    let requests = now_ns.saturating_sub(due_ns) / gap_ns;
    let reads = requests * u64::from(100_u32.saturating_sub(update_percent)) / 100;
    (reads > 0).then_some(Event::Unstarted {
        due_after_ns: due_ns,
        reads,
        at_ns: now_ns,
    })
}

fn sleep_until(due_ns: u64) {
    let now = now_ns();
    if due_ns > now {
        std::thread::sleep(Duration::from_nanos(due_ns - now));
    }
}

/// One request.
struct Request {
    session: Arc<Session>,
    statements: Arc<Statements>,
    key: u64,
    value_bytes: u64,
    due_ns: u64,
}

impl Request {
    /// Reads the value and compares it.
    async fn read(&self) -> Result<Event> {
        let start_ns = now_ns();
        let value = read(&self.session, &self.statements.read, self.key).await;
        let read = |failed| Event::Read {
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
            // A node that stalls lets reads time out. That is a result, not an error.
            Err(_) => Ok(end),
        }
    }

    /// Gives the key a new value. Only a failure is an event; the others are counted.
    async fn update(&self, state: &RunState, number: u64) -> Option<Event> {
        let phase = state.phase();
        let value = updated(self.key, number, self.value_bytes);
        let bytes = (size_of_val(&self.key) + value.len()) as u64;
        let parameters = (value, self.key as i64);
        let written = self
            .session
            .execute_unpaged(&self.statements.update, parameters)
            .await;
        if written.is_err() {
            return Some(Event::FailedUpdate { phase });
        }
        state.count_update(phase, bytes);
        None
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_that_were_due_and_not_sent_are_told_of() {
        let told = |due_ns, update_percent| unstarted(due_ns, 100, update_percent, 10_000);
        let reads = |due_after_ns, reads| {
            Some(Event::Unstarted {
                due_after_ns,
                reads,
                at_ns: 10_000,
            })
        };
        assert_eq!(told(0, 0), reads(0, 100));
        assert_eq!(told(5_000, 50), reads(5_000, 25));
        for due_ns in [9_901, 10_000, 20_000] {
            assert_eq!(told(due_ns, 0), None);
        }
    }
}
