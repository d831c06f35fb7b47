//! Tests of the reader for Cassandra's SSTables.
//!
//! - The tests write SSTables themselves, with all layouts that the formats allow.
//! - Cassandra writes others. The reader must agree with Cassandra's own tools.
//!
//! Cassandra 5.0.9 runs by default, the other versions with `COLDSTREAM_LONG=1`. Maven fetches them.
//! A JDK 17 runs them: that of `JAVA_HOME`, or `java`. If one is missing, the tests print `skipped`
//! and the reason.

mod counted;
mod declined;
mod dump;
mod fuzz;
mod lz4;
mod names;
mod properties;
mod real;
mod synthetic;

fn long() -> bool {
    std::env::var_os("COLDSTREAM_LONG").is_some_and(|value| value != "0")
}
