//! A CQL client: one connection to a node.

use super::schema::KEYSPACE;
use anyhow::{Context, Result};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::response::query_result::QueryRowsResult;
use scylla::statement::prepared::PreparedStatement;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// A connection to a node. Its methods block.
pub struct CqlClient {
    // Before the runtime, because its connections are tasks of the runtime.
    session: Arc<Session>,
    runtime: Runtime,
}

/// The statements of one CQL table.
#[derive(Clone, Debug)]
pub struct Statements {
    /// Reads the value of a key.
    pub read: PreparedStatement,
    /// Gives a key a value.
    pub update: PreparedStatement,
}

impl CqlClient {
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

    /// The runtime of the connection, for requests that do not block.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The connection, for requests that do not block.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Runs a statement and drops its result.
    pub fn execute(&self, statement: &str) -> Result<()> {
        self.runtime
            .block_on(self.session.query_unpaged(statement, ()))
            .with_context(|| statement.to_owned())?;
        Ok(())
    }

    /// Bytes that compactions of the laboratory's CQL tables have read and written since the node's
    /// directory was made, by the node's own count.
    pub fn compacted_bytes(&self) -> Result<(u64, u64)> {
        let statement = "SELECT keyspace_name, bytes_in, bytes_out FROM system.compaction_history";
        let (mut read, mut written) = (0, 0);
        for row in self.ask(statement)?.rows::<(String, i64, i64)>()? {
            let (keyspace, bytes_in, bytes_out) = row?;
            if keyspace == KEYSPACE {
                read += bytes_in.cast_unsigned();
                written += bytes_out.cast_unsigned();
            }
        }
        Ok((read, written))
    }

    /// Compactions of this node that wait or run, and the bytes that those which run have yet to read.
    pub fn backlog(&self) -> Result<(u64, u64)> {
        let statement = "SELECT active_tasks, pending_tasks FROM system_views.thread_pools WHERE \
                         name = 'CompactionExecutor'";
        let mut tasks = 0;
        for row in self.ask(statement)?.rows::<(i32, i32)>()? {
            let (active, pending) = row?;
            tasks += u64::try_from(active + pending).unwrap_or(0);
        }
        let statement = "SELECT keyspace_name, progress, total FROM system_views.sstable_tasks";
        let mut debt_bytes = 0;
        for row in self.ask(statement)?.rows::<(String, i64, i64)>()? {
            let (keyspace, progress, total) = row?;
            if keyspace == KEYSPACE {
                debt_bytes += u64::try_from(total - progress).unwrap_or(0);
            }
        }
        Ok((tasks, debt_bytes))
    }

    /// The rows that answer a statement.
    fn ask(&self, statement: &str) -> Result<QueryRowsResult> {
        self.runtime
            .block_on(self.session.query_unpaged(statement, ()))
            .with_context(|| statement.to_owned())?
            .into_rows_result()
            .context("an answer without rows")
    }

    /// Prepares the statements of a CQL table.
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
}
