//! The smallest memory limits that hold a bound, as the report has them.

/// The answer for one mode of a case.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SmallestLimit {
    /// The case.
    pub case: String,
    /// The mode.
    pub mode: String,
    /// p99 in compaction was at most this, µs.
    pub p99_bound_us: f64,
    /// Limits differ by this, bytes: the answer is no more exact.
    pub step_bytes: u64,
    /// The smallest limit that held. `None` if not even the case's own did.
    pub holds: Option<Tried>,
    /// The largest limit below it that did not. `None` if the smallest one that is tried held.
    pub fails: Option<Tried>,
}

/// The runs at one limit.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Tried {
    /// The limit, bytes.
    pub limit_bytes: u64,
    /// p99 in compaction, median of the runs, µs. `None` if a run did not end.
    pub p99_us: Option<f64>,
    /// Mean working set in compaction, median of the runs, MiB.
    pub working_set_mib: f64,
    /// Bytes that compaction read and wrote a second, median of the runs, MiB.
    pub compaction_mib_per_second: f64,
    /// The error of the run that did not end.
    pub error: Option<String>,
}
