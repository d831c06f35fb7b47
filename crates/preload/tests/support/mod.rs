//! What the suites share: finding the library, running programs with and without it, places on
//! several filesystems. Each suite uses its part of it.
#![allow(
    dead_code,
    reason = "every suite is a crate of its own and uses a part"
)]

pub mod built;
pub mod database;
pub mod exit_log;
pub mod files;
pub mod library;
pub mod places;
pub mod process;
pub mod random;
pub mod residency;
mod skip;
pub mod tools;

pub use skip::skip;

/// Whether the long form was asked for.
pub fn long() -> bool {
    std::env::var_os("COLDSTREAM_LONG").is_some_and(|value| value != "0")
}

/// The seed of what is random: `COLDSTREAM_SEED`, or in the short form the same each time, and in the long
/// one another each time.
pub fn seed() -> u64 {
    number_from_environment("COLDSTREAM_SEED").unwrap_or_else(|| match long() {
        true => std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64 % 1_000_000,
        false => 1,
    })
}

/// A number from the environment, to repeat or to lengthen a run.
pub fn number_from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number")),
    )
}
