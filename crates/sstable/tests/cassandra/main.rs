//! Cassandra's tables: those that the tests write themselves, whatever they contain, and those
//! that Cassandra wrote, compared with what its own tools say of them.
//!
//! Of the latter, Cassandra 5.0.9 by default, and the others with `COLDSTREAM_LONG=1`. Maven gets
//! them, a JDK 17 runs them (that of `JAVA_HOME`, or `java`); where one is missing, these tests
//! say `skipped` and why.

mod counted;
mod declined;
mod engine;
mod fuzz;
mod lz4;
mod names;
mod properties;
mod real;
mod synthetic;

fn long() -> bool {
    std::env::var_os("COLDSTREAM_LONG").is_some_and(|value| value != "0")
}
