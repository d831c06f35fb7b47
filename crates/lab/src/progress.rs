//! Progress of the experiment, on standard error.
//!
//! - On a terminal: a bar with the run, its phase, the p99 so far and the time left.
//! - Elsewhere: one line a run, and nothing between.

use crate::phase::Phase;
use crate::run_report::RunReport;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Instant;

/// Steps of the bar: more than any terminal has columns.
const STEPS: u64 = 1000;

/// Tells what goes on.
#[derive(Debug)]
pub struct Progress {
    /// None where standard error is no terminal.
    bar: Option<ProgressBar>,
    pace: Pace,
    /// Start of the current run.
    run_start: Instant,
}

impl Progress {
    /// Nothing is planned so far.
    pub fn new() -> Self {
        Self {
            bar: std::io::stderr().is_terminal().then(new_bar),
            pace: Pace::default(),
            run_start: Instant::now(),
        }
    }

    /// The first of `runs` runs begins.
    pub fn begin_runs(&mut self, runs: usize) {
        self.pace = Pace {
            runs,
            seconds_of_runs: Vec::new(),
        };
        self.run_start = Instant::now();
        if let Some(bar) = &self.bar {
            bar.set_position(0);
        }
    }

    /// A line that stays.
    pub fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("lab: {text}")),
            None => eprintln!("lab: {text}"),
        }
    }

    /// The state of the current run. `p99_us` is called on a terminal only.
    pub fn update(&self, title: &str, phase: Phase, p99_us: impl FnOnce() -> Option<f64>) {
        let Some(bar) = &self.bar else {
            return;
        };
        let elapsed = self.run_start.elapsed().as_secs_f64();
        let share = self.pace.share(phase, elapsed);
        // The phases of the first run and the time of the later ones tell different shares: it never goes back.
        bar.set_position(bar.position().max((share * STEPS as f64) as u64));
        bar.set_message(message(
            title,
            phase,
            p99_us(),
            self.pace.seconds_left(elapsed),
        ));
    }

    /// A run is over: its result in one line.
    pub fn finish_run(&mut self, title: &str, report: &RunReport) {
        self.pace
            .seconds_of_runs
            .push(self.run_start.elapsed().as_secs_f64());
        self.run_start = Instant::now();
        self.line(&format!("{title}: {}", result(report)));
    }

    /// Removes the bar for good.
    pub fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn new_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:24.cyan/dim} {wide_msg}")
        .expect("a constant template")
        .progress_chars("━━─");
    ProgressBar::new(STEPS).with_style(style)
}

/// p99 of each phase that there was.
fn result(report: &RunReport) -> String {
    let p99 = |phase| report.phase(phase).map(|report| report.service_us.p99);
    let compaction = p99(Phase::Compaction).unwrap_or(0.0);
    match (p99(Phase::Idle), p99(Phase::After)) {
        (Some(idle), Some(after)) => format!(
            "p99 {idle:.0} µs idle, {compaction:.0} in compaction, {after:.0} after; tax {:.2}",
            report.compaction_tax_p99
        ),
        _ => format!("p99 {compaction:.0} µs in compaction"),
    }
}

fn message(title: &str, phase: Phase, p99_us: Option<f64>, seconds_left: Option<f64>) -> String {
    let mut message = format!("{title}, {}", phase.name());
    if let Some(us) = p99_us {
        message += &format!(", p99 so far {us:.0} µs");
    }
    match seconds_left {
        Some(seconds) => message + &format!("; {} left", duration(seconds)),
        None => message + "; time left: known after the first run",
    }
}

/// `45 s`, `3 min`, `2 h 5 min`.
fn duration(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    match seconds {
        seconds if seconds < 90.0 => format!("{seconds:.0} s"),
        _ if minutes < 60 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

/// How far the experiment is, by the time that its complete runs took.
#[derive(Debug, Default)]
struct Pace {
    runs: usize,
    /// Of the complete runs.
    seconds_of_runs: Vec<f64>,
}

impl Pace {
    fn mean_seconds(&self) -> Option<f64> {
        let runs = self.seconds_of_runs.len();
        (runs > 0).then(|| self.seconds_of_runs.iter().sum::<f64>() / runs as f64)
    }

    /// Time that is left, `elapsed` seconds after the start of the current run; unknown during the
    /// first run.
    fn seconds_left(&self, elapsed: f64) -> Option<f64> {
        let mean = self.mean_seconds()?;
        let after_this = self.runs.saturating_sub(self.seconds_of_runs.len() + 1);
        Some(f64::max(mean - elapsed, 0.0) + mean * after_this as f64)
    }

    /// Share of all runs that is complete. The phases stand for the time during the first run.
    fn share(&self, phase: Phase, elapsed: f64) -> f64 {
        let of_run = match self.mean_seconds() {
            Some(mean) => (elapsed / mean).min(1.0),
            None => match phase {
                Phase::WarmUp => 0.0,
                Phase::Idle => 0.25,
                Phase::Compaction => 0.5,
                Phase::After => 0.75,
                Phase::End => 1.0,
            },
        };
        (self.seconds_of_runs.len() as f64 + of_run) / self.runs.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_comes_from_the_complete_runs() {
        let mut pace = Pace {
            runs: 4,
            seconds_of_runs: Vec::new(),
        };
        assert_eq!(pace.seconds_left(3.0), None);
        assert_eq!(pace.share(Phase::Compaction, 3.0), 0.125);
        pace.seconds_of_runs = vec![20.0, 40.0];
        assert_eq!(pace.seconds_left(10.0), Some(50.0));
        assert_eq!(
            pace.seconds_left(100.0),
            Some(30.0),
            "a run that takes longer"
        );
        assert_eq!(pace.share(Phase::Idle, 15.0), 0.625);
        assert_eq!(pace.share(Phase::Idle, 100.0), 0.75);
    }

    #[test]
    fn the_result_has_the_phases_that_there_were() {
        assert_eq!(result(&RunReport::default()), "p99 0 µs in compaction");
    }

    #[test]
    fn the_message_has_phase_p99_and_time_left() {
        assert_eq!(
            message(
                "most: turn 1 of 2, buffered",
                Phase::Compaction,
                Some(203.4),
                Some(200.0)
            ),
            "most: turn 1 of 2, buffered, compaction, p99 so far 203 µs; 3 min left"
        );
        assert_eq!(
            message("most", Phase::WarmUp, None, None),
            "most, warm-up; time left: known after the first run"
        );
        assert_eq!(
            [45.0, 100.0, 7500.0].map(duration),
            ["45 s", "2 min", "2 h 5 min"]
        );
    }
}
