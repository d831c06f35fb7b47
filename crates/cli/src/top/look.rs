//! One look at the machine: status pages, memory of cgroups, memory pressure.

use std::collections::HashMap;
use std::fs;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use coldstream_host::cgroup::{self, MemoryUse};
use coldstream_host::survey::Survey;
use coldstream_host::{counters, mounts};

use crate::processes;

/// Everything that is read at one moment.
#[derive(Clone, Debug)]
pub struct Look {
    /// The moment.
    pub at: Instant,
    /// The moment, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The processes.
    pub survey: Survey,
    /// The memory of their cgroups, by process id.
    pub memory: HashMap<u32, MemoryUse>,
    /// Time in which some thread of the machine waited for memory, µs since boot.
    pub memory_stall_us: Option<u64>,
}

impl Look {
    /// Looks now, at one process or at all.
    ///
    /// # Errors
    /// The status pages cannot be listed.
    pub fn now(only: Option<u32>) -> anyhow::Result<Self> {
        let mut survey = processes::survey()?;
        if let Some(pid) = only {
            survey.processes.retain(|process| process.pid == pid);
        }
        let mounts = mounts::read();
        let memory = survey.processes.iter().filter_map(|process| {
            let memory = cgroup::memory_use(process.pid, &mounts)?;
            Some((process.pid, memory))
        });
        let memory = memory.collect();
        let pressure = fs::read_to_string("/proc/pressure/memory");
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        let unix_ms = since_1970.map_or(0, |time| time.as_millis());
        Ok(Self {
            at: Instant::now(),
            unix_ms: u64::try_from(unix_ms).unwrap_or(u64::MAX),
            survey,
            memory,
            memory_stall_us: pressure.ok().and_then(|text| counters::stall_us(&text)),
        })
    }
}
