//! What a node has to do: requests and compactions.

use clap::ValueEnum;

/// The requests to the node, and its compactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Reads, and one major compaction.
    Reads,
    /// Half reads, half updates (YCSB's workload A), and one major compaction after the other.
    YcsbA,
    /// Reads, and one update in twenty requests (YCSB's workload B), and compactions as with ycsb-a.
    YcsbB,
    /// Reads only (YCSB's workload C), and compactions as with ycsb-a.
    YcsbC,
}

impl Workload {
    /// Percentage of updates among the requests.
    pub fn update_percent(self) -> u32 {
        match self {
            Workload::Reads | Workload::YcsbC => 0,
            Workload::YcsbA => 50,
            Workload::YcsbB => 5,
        }
    }
}
