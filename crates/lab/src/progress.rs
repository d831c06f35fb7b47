//! What goes on, on standard error.

use crate::phase::Phase;
use crate::run_report::RunReport;
use std::io::{IsTerminal, Write};

/// One line that changes on a terminal, else one a run.
#[derive(Debug)]
pub struct Progress {
    terminal: bool,
}

impl Progress {
    /// Standard error, as it is.
    pub fn new() -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
        }
    }

    /// A line that stays.
    pub fn line(&mut self, text: &str) {
        self.clear();
        eprintln!("lab: {text}");
    }

    /// The phase that a run has reached.
    pub fn phase(&mut self, title: &str, phase: Phase) {
        if self.terminal {
            self.clear();
            eprint!("lab: {title}: {}", phase.name());
        }
    }

    /// A run's outcome in one line.
    pub fn finished(&mut self, title: &str, report: &RunReport) {
        let p99 = |phase| {
            report
                .phase(phase)
                .map_or(0.0, |report| report.service_us.p99)
        };
        self.line(&format!(
            "{title}: p99 {:.0} µs idle, {:.0} in compaction, {:.0} after; tax {:.2}",
            p99(Phase::Idle),
            p99(Phase::Compaction),
            p99(Phase::After),
            report.compaction_tax_p99
        ));
    }

    /// Nothing goes on any more.
    pub fn done(&mut self) {
        self.clear();
    }

    fn clear(&mut self) {
        if self.terminal {
            eprint!("\r\x1b[K");
            let _ = std::io::stderr().flush();
        }
    }
}
