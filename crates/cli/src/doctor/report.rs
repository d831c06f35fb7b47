//! The report of `coldstream doctor` as data. `text.rs` shows it to people, `serde` to programs.

use std::path::PathBuf;

use serde::Serialize;

use super::cassandra::Node;
use super::machine::{self, Machine};
use super::path_facts::PathFacts;
use super::process::Process;
use super::service::Service;

/// What was found.
#[derive(Serialize)]
pub struct Report {
    pub machine: Machine,
    pub paths: Vec<PathFacts>,
    pub cassandra: Vec<Node>,
    pub services: Vec<Service>,
    pub processes: Vec<Process>,
}

impl Report {
    /// A report about the machine, with no subject yet.
    pub fn of_machine() -> Self {
        Self {
            machine: machine::examine(),
            paths: Vec::new(),
            cassandra: Vec::new(),
            services: Vec::new(),
            processes: Vec::new(),
        }
    }

    /// Whether any subject could be examined.
    pub fn has_subjects(&self) -> bool {
        !(self.paths.is_empty()
            && self.processes.is_empty()
            && self.cassandra.is_empty()
            && self.services.is_empty())
    }

    /// The data directories of all nodes. Only existing ones: a configuration may belong to another
    /// machine.
    pub fn data_directories(&self) -> Vec<PathBuf> {
        let of_processes = self
            .processes
            .iter()
            .filter_map(|process| process.cassandra.as_ref());
        let nodes = self.cassandra.iter().chain(of_processes);
        nodes
            .flat_map(|node| &node.data_directories)
            .filter(|directory| directory.exists())
            .cloned()
            .collect()
    }
}
