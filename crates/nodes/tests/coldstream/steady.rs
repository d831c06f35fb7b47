//! Rows that are written once and read all the time. Every compaction must keep them, and they are hot.

use crate::client::Client;
use crate::files::KEYSPACE;
use crate::rows;
use crate::writers::{KEYS, TABLES, is_late, table_of};
use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::task::JoinSet;

/// One partition of the writers in this number has such a row beside the written one.
const EVERY: usize = 3;
const CLUSTERING: i32 = 1;
const READERS: usize = 4;

type Reads = [Arc<PreparedStatement>; TABLES.len()];

fn partitions() -> impl Iterator<Item = i64> + Clone {
    (0..KEYS).step_by(EVERY)
}

/// Writes all of them. Call it once.
pub fn write(client: &Client) {
    let inserts = TABLES.map(|(table, _)| {
        client.prepare(&format!(
            "INSERT INTO {KEYSPACE}.{table} (p, c, round, value) VALUES (?, {CLUSTERING}, 0, ?) \
             USING TIMESTAMP 1"
        ))
    });
    let session = client.session();
    client.runtime().block_on(async {
        for p in partitions() {
            let values = (p, rows::value(p, CLUSTERING, 0));
            let done = session.execute_unpaged(&inserts[table_of(p)], values).await;
            done.unwrap_or_else(|error| panic!("writing {p}: {error}"));
        }
    });
}

fn prepared(client: &Client) -> Reads {
    TABLES.map(|(table, _)| {
        client.prepare(&format!(
            "SELECT value FROM {KEYSPACE}.{table} WHERE p = ? AND c = {CLUSTERING}"
        ))
    })
}

async fn assert_there(session: &Session, reads: &Reads, p: i64) {
    let answer = loop {
        match session.execute_unpaged(&reads[table_of(p)], (p,)).await {
            Ok(answer) => break answer,
            Err(error) if is_late(&error) => {}
            Err(error) => panic!("reading {p}: {error}"),
        }
    };
    let answer = answer.into_rows_result().expect("rows");
    let row: Option<(Vec<u8>,)> = answer.maybe_first_row().expect("columns");
    let (value,) = row.unwrap_or_else(|| panic!("row {p}/{CLUSTERING} is not there"));
    assert!(
        value == rows::value(p, CLUSTERING, 0),
        "row {p}/{CLUSTERING}: another value"
    );
}

/// Reads them until it `is_over`.
pub fn read(client: &Client, is_over: &Arc<AtomicBool>) -> JoinSet<()> {
    let reads = prepared(client);
    let mut tasks = JoinSet::new();
    for part in 0..READERS {
        let (session, reads) = (client.session(), reads.clone());
        let is_over = Arc::clone(is_over);
        let work = async move {
            for p in partitions().skip(part).step_by(READERS).cycle() {
                if is_over.load(Ordering::SeqCst) {
                    return;
                }
                assert_there(&session, &reads, p).await;
            }
        };
        tasks.spawn_on(work, client.runtime().handle());
    }
    tasks
}

/// Asserts that every row is there, with its value.
pub fn check(client: &Client) {
    let (session, reads) = (client.session(), prepared(client));
    client.runtime().block_on(async {
        for p in partitions() {
            assert_there(&session, &reads, p).await;
        }
    });
}
