//! Pebble. A load driver in Go (`pebble-driver/`) has it linked in: a static program that opens its files
//! past libc, so that no preload library reaches it.

mod arguments;
mod engine;
mod mode;
mod options;

/// Pebble, driven by the load driver.
pub type Pebble = crate::driven::engine::Driven<engine::PebbleKind>;
