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

    /// Adds what to change about the machine. Nodes, services and running processes have limits of their own.
    pub fn advise_on_machine(&mut self) {
        let is_started_here =
            self.cassandra.is_empty() && self.services.is_empty() && self.processes.is_empty();
        self.machine.advice = self.machine.to_change(is_started_here);
    }

    /// Whether anything is to change.
    pub fn has_advice(&self) -> bool {
        let of_paths = self.paths.iter().map(|it| &it.advice);
        let of_nodes = self.nodes().map(|it| &it.advice);
        let of_services = self.services.iter().map(|it| &it.advice);
        let of_processes = self.processes.iter().map(|it| &it.advice);
        let of_subjects = of_paths
            .chain(of_nodes)
            .chain(of_services)
            .chain(of_processes);
        !self.machine.advice.is_empty() || of_subjects.into_iter().any(|advice| !advice.is_empty())
    }

    /// Configurations that were named, and those of processes.
    fn nodes(&self) -> impl Iterator<Item = &Node> {
        let of_processes = self.processes.iter();
        let of_processes = of_processes.filter_map(|process| process.cassandra.as_ref());
        self.cassandra.iter().chain(of_processes)
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
        self.nodes()
            .flat_map(|node| &node.data_directories)
            .filter(|directory| directory.exists())
            .cloned()
            .collect()
    }
}
