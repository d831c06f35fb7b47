//! How small the memory limit can be: the smallest one at which a mode's p99 in compaction holds a bound.
//!
//! Each mode has a search of its own, which halves the range between a limit that holds and one that does
//! not. In each round every mode runs once a turn, at its own next limit, so that a slow change of the
//! machine meets all of them.

use crate::error::Interrupted;
use crate::phase::Phase;
use crate::report::{SmallestLimit, Tried};
use crate::run_report::RunReport;
use crate::summary::Spread;
use crate::testbed::Testbed;
use anyhow::Result;
use std::fmt::Display;

/// The limits that are tried are multiples of this part of the case's limit.
const STEPS: u64 = 16;

/// The search for one mode. Limits are counted in steps.
#[derive(Debug)]
struct Search {
    step_bytes: u64,
    bound_us: f64,
    /// All limits up to this one fail; 0 was not tried.
    fails_at: u64,
    /// All limits from this one on hold; `STEPS + 1` was not tried.
    holds_at: u64,
    holds: Option<Tried>,
    fails: Option<Tried>,
}

impl Search {
    fn new(limit_bytes: u64, bound_us: f64) -> Self {
        Self {
            step_bytes: limit_bytes / STEPS,
            bound_us,
            fails_at: 0,
            holds_at: STEPS + 1,
            holds: None,
            fails: None,
        }
    }

    /// The next limit, bytes. `None`: the search has ended.
    fn next(&self) -> Option<u64> {
        let step = match self.holds_at {
            _ if self.holds_at - self.fails_at <= 1 => return None,
            above if above > STEPS => STEPS,
            above => u64::midpoint(self.fails_at, above),
        };
        Some(step * self.step_bytes)
    }

    fn take(&mut self, tried: Tried) {
        let step = tried.limit_bytes / self.step_bytes;
        if tried.p99_us.is_some_and(|p99_us| p99_us <= self.bound_us) {
            self.holds_at = step;
            self.holds = Some(tried);
        } else {
            self.fails_at = step;
            self.fails = Some(tried);
        }
    }
}

/// What the runs at a limit tell; `error` ended one of them.
fn tried(limit_bytes: u64, runs: &[RunReport], error: Option<String>) -> Tried {
    let median = |of: &dyn Fn(&RunReport) -> Option<f64>| {
        let figures: Vec<f64> = runs.iter().filter_map(of).collect();
        (!figures.is_empty()).then(|| Spread::of(figures).median)
    };
    let compaction = |run: &RunReport| run.phase(Phase::Compaction).cloned();
    Tried {
        limit_bytes,
        p99_us: median(&|run| Some(compaction(run)?.service_us.p99)).filter(|_| error.is_none()),
        working_set_mib: median(&|run| Some(compaction(run)?.memory.working_set_mib.mean))
            .unwrap_or(0.0),
        compaction_mib_per_second: median(&|run| Some(run.compaction_mib_per_second))
            .unwrap_or(0.0),
        error,
    }
}

/// Searches for every mode of a case. `one_run` gets title, mode, limit in bytes and turn.
///
/// # Errors
/// An interrupt. Any other error of a run, such as an engine that the kernel killed for want of memory,
/// means that its limit does not hold.
pub fn search<M: Display>(
    testbed: &mut Testbed,
    (case, limit_bytes): (&str, u64),
    modes: &[M],
    turns: u32,
    bound_us: f64,
    mut one_run: impl FnMut(&mut Testbed, &str, &M, u64, u32) -> Result<RunReport>,
) -> Result<Vec<SmallestLimit>> {
    let mut searches: Vec<Search> = (modes.iter())
        .map(|_| Search::new(limit_bytes, bound_us))
        .collect();
    loop {
        let limits: Vec<Option<u64>> = searches.iter().map(Search::next).collect();
        if limits.iter().all(Option::is_none) {
            break;
        }
        let mut runs = vec![(Vec::new(), None); modes.len()];
        for turn in 1..=turns {
            for ((mode, limit), (done, failed)) in modes.iter().zip(&limits).zip(&mut runs) {
                let Some(limit) = limit.filter(|_| failed.is_none()) else {
                    continue;
                };
                let mib = limit >> 20;
                let title = format!("{case}, limit {mib} MiB: turn {turn} of {turns}, {mode}");
                match one_run(testbed, &title, mode, limit, turn) {
                    Ok(report) => {
                        testbed.progress.finish_run(&title, &report);
                        done.push(report);
                    }
                    Err(error) if error.is::<Interrupted>() => return Err(error),
                    Err(error) => {
                        testbed.progress.line(&format!("{title}: {error:#}"));
                        *failed = Some(format!("{error:#}"));
                    }
                }
            }
        }
        for ((search, limit), (done, failed)) in searches.iter_mut().zip(limits).zip(runs) {
            if let Some(limit_bytes) = limit {
                search.take(tried(limit_bytes, &done, failed));
            }
        }
    }
    let answers = modes
        .iter()
        .zip(searches)
        .map(|(mode, search)| SmallestLimit {
            case: case.into(),
            mode: mode.to_string(),
            p99_bound_us: bound_us,
            step_bytes: search.step_bytes,
            holds: search.holds,
            fails: search.fails,
        });
    Ok(answers.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_p99(limit_bytes: u64, p99_us: Option<f64>) -> Tried {
        Tried {
            limit_bytes,
            p99_us,
            working_set_mib: 0.0,
            compaction_mib_per_second: 0.0,
            error: p99_us.is_none().then(|| "killed".into()),
        }
    }

    /// Where p99 holds from this limit on, and where a smaller limit than `runs_from` kills the engine.
    fn search(holds_from: u64, runs_from: u64) -> (Option<u64>, Option<u64>, usize) {
        let mut search = Search::new(160, 1000.0);
        let mut rounds = 0;
        while let Some(limit) = search.next() {
            let p99_us = if limit >= holds_from { 900.0 } else { 1100.0 };
            search.take(with_p99(limit, (limit >= runs_from).then_some(p99_us)));
            rounds += 1;
        }
        let limit = |tried: Option<Tried>| tried.map(|tried| tried.limit_bytes);
        (limit(search.holds), limit(search.fails), rounds)
    }

    #[test]
    fn the_smallest_limit_that_holds_is_found() {
        for step in 1..=STEPS {
            let (holds, fails, rounds) = search(step * 10, 0);
            assert_eq!(holds, Some(step * 10));
            assert_eq!(fails, (step > 1).then(|| (step - 1) * 10));
            assert!(rounds <= 6, "{rounds}");
        }
    }

    #[test]
    fn a_limit_that_kills_the_engine_does_not_hold() {
        assert_eq!(search(20, 75), (Some(80), Some(70), 5));
    }

    #[test]
    fn where_the_own_limit_does_not_hold_no_other_is_tried() {
        assert_eq!(search(1000, 0), (None, Some(160), 1));
    }
}
