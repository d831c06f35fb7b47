//! CQL: tables, rounds of changes, and reads of everything.

use crate::files::KEYSPACE;
use crate::rows::{self, Change, Shape};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// Requests in flight.
const WRITERS: i64 = 24;
const READERS: i64 = 8;

/// A request may wait for a compaction that uses both cores, but not for ever.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(60);

/// Distance of the timestamps of two rounds, µs. The order of rounds is that of their timestamps, not of
/// their arrival.
const ROUND_MICROSECONDS: i64 = 1000;
const FIRST_ROUND_MICROSECONDS: i64 = 1_700_000_000_000_000;

/// What was read back and was correct.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    pub partitions: u64,
    pub rows: u64,
    pub bytes: u64,
}

/// A connection to a cluster.
pub struct Client {
    runtime: Runtime,
    session: Arc<Session>,
    consistency: Consistency,
}

impl Client {
    /// Connects to the cluster of the node at `address`, with its port.
    pub fn connect(address: &str, consistency: Consistency) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("runtime");
        let session = runtime
            .block_on(SessionBuilder::new().known_node(address).build())
            .unwrap_or_else(|error| panic!("connecting to {address}: {error}"));
        Self {
            runtime,
            session: Arc::new(session),
            consistency,
        }
    }

    pub fn create_keyspace(&self, replicas: usize) {
        self.run(&format!(
            "CREATE KEYSPACE {KEYSPACE} WITH replication = \
             {{'class': 'SimpleStrategy', 'replication_factor': {replicas}}}"
        ));
    }

    /// Creates a CQL table for rows of [`crate::rows`]. `options` follow `WITH`.
    pub fn create_table(&self, name: &str, options: &str) {
        self.run(&format!(
            "CREATE TABLE {KEYSPACE}.{name} \
             (p bigint, c int, round int, value blob, PRIMARY KEY (p, c)) WITH {options}"
        ));
    }

    pub fn run(&self, statement: &str) {
        self.runtime
            .block_on(self.session.query_unpaged(statement, ()))
            .unwrap_or_else(|error| panic!("{statement}: {error}"));
    }

    pub fn prepare(&self, statement: &str) -> Arc<PreparedStatement> {
        let mut prepared = self
            .runtime
            .block_on(self.session.prepare(statement))
            .unwrap_or_else(|error| panic!("{statement}: {error}"));
        prepared.set_consistency(self.consistency);
        prepared.set_request_timeout(Some(REQUEST_TIME_MAX));
        prepared.set_is_idempotent(true);
        Arc::new(prepared)
    }

    pub fn session(&self) -> Arc<Session> {
        Arc::clone(&self.session)
    }

    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Makes all changes of a round. All are acknowledged when it returns.
    pub fn write_round(&self, table: &str, shape: Shape, round: i32) {
        let timestamp = FIRST_ROUND_MICROSECONDS + i64::from(round) * ROUND_MICROSECONDS;
        let table = format!("{KEYSPACE}.{table}");
        // Older than the writes of the round.
        let delete_partition = self.prepare(&format!(
            "DELETE FROM {table} USING TIMESTAMP {} WHERE p = ?",
            timestamp - 1
        ));
        let delete = self.prepare(&format!(
            "DELETE FROM {table} USING TIMESTAMP {timestamp} WHERE p = ? AND c = ?"
        ));
        let write = self.prepare(&format!(
            "INSERT INTO {table} (p, c, round, value) VALUES (?, ?, ?, ?) \
             USING TIMESTAMP {timestamp}"
        ));
        self.in_parts(WRITERS, |part, session| {
            let (delete_partition, delete, write) = (
                Arc::clone(&delete_partition),
                Arc::clone(&delete),
                Arc::clone(&write),
            );
            async move {
                for p in (part..shape.partitions).step_by(WRITERS as usize) {
                    if rows::deletes_partition(p, round) {
                        let done = session.execute_unpaged(&delete_partition, (p,)).await;
                        done.unwrap_or_else(|error| panic!("deleting {p}: {error}"));
                    }
                    for c in 0..rows::rows_of(p) {
                        let done = match rows::change(p, c, round) {
                            Some(Change::Write) => {
                                let values = (p, c, round, rows::value(p, c, round));
                                session.execute_unpaged(&write, values).await
                            }
                            Some(Change::Delete) => session.execute_unpaged(&delete, (p, c)).await,
                            None => continue,
                        };
                        done.unwrap_or_else(|error| panic!("changing {p}/{c}: {error}"));
                    }
                }
                Found::default()
            }
        });
    }

    /// Reads every partition. Asserts that it has exactly the rows and values of rounds `0..rounds`.
    pub fn check(&self, table: &str, shape: Shape, rounds: i32) -> Found {
        let name = format!("{KEYSPACE}.{table}");
        let read = self.prepare(&format!("SELECT c, round, value FROM {name} WHERE p = ?"));
        self.in_parts(READERS, |part, session| {
            let (read, name) = (Arc::clone(&read), name.clone());
            async move {
                let mut found = Found::default();
                for p in (part..shape.partitions).step_by(READERS as usize) {
                    let answer = session.execute_unpaged(&read, (p,)).await;
                    let answer =
                        answer.unwrap_or_else(|error| panic!("reading {name} {p}: {error}"));
                    let answer = answer.into_rows_result().expect("rows");
                    let there: Vec<(i32, i32, Vec<u8>)> = answer
                        .rows()
                        .expect("columns")
                        .collect::<Result<_, _>>()
                        .unwrap_or_else(|error| panic!("{name} {p}: {error}"));
                    let keys: Vec<_> = there.iter().map(|(c, round, _)| (*c, *round)).collect();
                    assert_eq!(keys, rows::surviving(p, rounds), "{name}, partition {p}");
                    for (c, round, value) in &there {
                        assert!(
                            *value == rows::value(p, *c, *round),
                            "{name}: the value of {p}/{c}, written in round {round}, is another"
                        );
                        found.bytes += value.len() as u64;
                    }
                    found.partitions += u64::from(!there.is_empty());
                    found.rows += there.len() as u64;
                }
                found
            }
        })
    }

    /// Runs `parts` tasks to their ends, and adds up their results.
    fn in_parts<F>(&self, parts: i64, task: impl Fn(i64, Arc<Session>) -> F) -> Found
    where
        F: Future<Output = Found> + Send + 'static,
    {
        self.runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for part in 0..parts {
                tasks.spawn(task(part, Arc::clone(&self.session)));
            }
            let mut all = Found::default();
            while let Some(done) = tasks.join_next().await {
                match done {
                    Ok(found) => {
                        all.partitions += found.partitions;
                        all.rows += found.rows;
                        all.bytes += found.bytes;
                    }
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                }
            }
            all
        })
    }
}
