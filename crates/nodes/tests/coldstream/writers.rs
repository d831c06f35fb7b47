//! Writers that rewrite the same rows, and a record of acknowledged writes.

use crate::client::Client;
use crate::files::{self, KEYSPACE};
use crate::rows;
use coldstream_nodes::Node;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use tokio::task::JoinSet;

/// Rows, spread over the CQL tables. Each is rewritten, in versions from 0 on.
pub const KEYS: i64 = 2400;
const WRITERS: i64 = 12;

pub const TABLES: [(&str, &str); 2] = [
    (
        "written_lz4_4",
        "compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 4}",
    ),
    ("written_none", "compression = {'enabled': false}"),
];

/// The one of [`TABLES`] with this partition.
pub fn table_of(p: i64) -> usize {
    usize::try_from(p).expect("from 0 on") % TABLES.len()
}

/// The highest sent version of each row, and the highest acknowledged one; -1 is none.
pub struct Ledger {
    sent: Vec<AtomicI32>,
    acknowledged: Vec<AtomicI32>,
}

impl Ledger {
    pub fn new() -> Self {
        let none = || (0..KEYS).map(|_| AtomicI32::new(-1)).collect();
        Self {
            sent: none(),
            acknowledged: none(),
        }
    }

    pub fn writes(&self) -> i64 {
        let versions = self.acknowledged.iter();
        versions
            .map(|version| i64::from(version.load(Ordering::Relaxed)) + 1)
            .sum()
    }
}

/// Writes the next version of every row in turn, for `passes` passes or until it `is_over`. Errors after that
/// are ignored.
pub fn write(
    client: &Client,
    ledger: &Arc<Ledger>,
    is_over: &Arc<AtomicBool>,
    passes: usize,
) -> JoinSet<()> {
    let inserts = TABLES.map(|(table, _)| {
        client.prepare(&format!(
            "INSERT INTO {KEYSPACE}.{table} (p, c, round, value) VALUES (?, 0, ?, ?) \
             USING TIMESTAMP ?"
        ))
    });
    let mut tasks = JoinSet::new();
    for part in 0..WRITERS {
        let (session, inserts) = (client.session(), inserts.clone());
        let (ledger, is_over) = (Arc::clone(ledger), Arc::clone(is_over));
        let work = async move {
            for _ in 0..passes {
                for p in (part..KEYS).step_by(WRITERS as usize) {
                    if is_over.load(Ordering::SeqCst) {
                        return;
                    }
                    let key = usize::try_from(p).expect("from 0 on");
                    let version = ledger.sent[key].fetch_add(1, Ordering::Relaxed) + 1;
                    // Timestamps start at 1.
                    let timestamp = i64::from(version) + 1;
                    let values = (p, version, rows::value(p, 0, version), timestamp);
                    match session.execute_unpaged(&inserts[table_of(p)], values).await {
                        Ok(_) => ledger.acknowledged[key].store(version, Ordering::Relaxed),
                        Err(_) if is_over.load(Ordering::SeqCst) => return,
                        // Not acknowledged. Continue with the next row.
                        Err(error) if is_late(&error) => {}
                        Err(error) => panic!("writing {p}: {error}"),
                    }
                }
            }
        };
        tasks.spawn_on(work, client.runtime().handle());
    }
    tasks
}

/// Whether a busy machine, not the node, caused the error: the request timed out.
pub fn is_late(error: &ExecutionError) -> bool {
    use ExecutionError::{LastAttemptError, RequestTimeout};
    matches!(
        error,
        RequestTimeout(_)
            | LastAttemptError(RequestAttemptError::DbError(
                DbError::WriteTimeout { .. } | DbError::ReadTimeout { .. },
                _
            ))
    )
}

/// Waits for all writers.
pub fn joined(client: &Client, mut tasks: JoinSet<()>) {
    client.runtime().block_on(async {
        while let Some(done) = tasks.join_next().await {
            if let Err(error) = done {
                std::panic::resume_unwind(error.into_panic());
            }
        }
    });
}

/// Asserts that every acknowledged row is there, in that version or a later sent one, with its value.
pub fn check(client: &Client, ledger: &Ledger) {
    let reads = TABLES.map(|(table, _)| {
        client.prepare(&format!(
            "SELECT round, value FROM {KEYSPACE}.{table} WHERE p = ? AND c = 0"
        ))
    });
    let session = client.session();
    client.runtime().block_on(async {
        for p in 0..KEYS {
            let key = usize::try_from(p).expect("from 0 on");
            let answer = session.execute_unpaged(&reads[table_of(p)], (p,)).await;
            let answer = answer.unwrap_or_else(|error| panic!("reading {p}: {error}"));
            let answer = answer.into_rows_result().expect("rows");
            let row: Option<(i32, Vec<u8>)> = answer.maybe_first_row().expect("columns");
            let found = row.as_ref().map_or(-1, |(version, _)| *version);
            let acknowledged = ledger.acknowledged[key].load(Ordering::Relaxed);
            let sent = ledger.sent[key].load(Ordering::Relaxed);
            assert!(
                (acknowledged..=sent).contains(&found),
                "row {p}: version {found}, {acknowledged} was acknowledged, {sent} was sent"
            );
            if let Some((version, value)) = row {
                assert!(
                    value == rows::value(p, 0, version),
                    "row {p}: another value"
                );
            }
        }
    });
}

/// Flushes and compacts until it `is_over`. Errors after that are ignored: the node may be dead.
pub fn compact(node: &mut Node, is_over: &AtomicBool) {
    let commands = [
        &["flush", KEYSPACE][..],
        &["compact", KEYSPACE, TABLES[0].0],
        &["flush", KEYSPACE],
        &["compact", KEYSPACE, TABLES[1].0],
    ];
    for words in commands.into_iter().cycle() {
        if is_over.load(Ordering::SeqCst) {
            return;
        }
        // Cached inputs are not read directly, and their outputs are not written directly.
        files::make_cold(&files::data(node, None));
        match node.nodetool().run(words) {
            Ok(_) => {}
            Err(_) if is_over.load(Ordering::SeqCst) => return,
            Err(error) => panic!("{error}"),
        }
    }
}
