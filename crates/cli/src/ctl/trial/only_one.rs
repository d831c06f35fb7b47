//! One trial at a time: a second one would take the switches of the first for those of the process.
//!
//! The lock is on the process's directory in `/proc`. It ends with the last descriptor of it, so nothing is left behind.

use std::fs::File;

use anyhow::Context;
use rustix::fs::{FlockOperation, flock};

use crate::exit::{Exit, failure};

/// Locks a process against other trials for as long as the file is open.
///
/// # Errors
/// There is another trial, or no such process.
pub fn lock(pid: u32) -> anyhow::Result<File> {
    let path = format!("/proc/{pid}");
    let directory = File::open(&path).with_context(|| path)?;
    flock(&directory, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        let text = format!("another trial of process {pid} is under way: wait for its end");
        failure(Exit::Failure, text)
    })?;
    Ok(directory)
}
