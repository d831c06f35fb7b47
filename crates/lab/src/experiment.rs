//! The experiment, the same for every engine: cases one after another, in each case the modes in
//! turn, run by run. It ends in a report, even when an error or an interrupt ends it early.

use crate::engine::{Engine, Mode, Run};
use crate::error::LabError;
use crate::interrupt;
use crate::library_log::library_log;
use crate::preloaded::Libraries;
use crate::report::{self, CaseDescription, CaseReport, Report};
use crate::run_report::RunReport;
use crate::smallest_limit;
use crate::testbed::Testbed;
use anyhow::{Context, Error, Result, bail};
use chrono::{DateTime, Utc};
use serde_json::json;
use std::fmt::Display;
use std::time::SystemTime;

/// Measures an engine, prints the report and writes it.
///
/// # Errors
/// See [`LabError`]. What was measured before the error is reported all the same.
pub fn execute<E: Engine>(arguments: E::Arguments) -> Result<(), LabError> {
    interrupt::watch();
    Ok(measure(&E::find(arguments)?)?)
}

fn measure<E: Engine>(engine: &E) -> Result<()> {
    let plan = engine.plan();
    if plan.modes.is_empty() || plan.cases.is_empty() {
        bail!("nothing to measure: give at least one mode and one case");
    }
    let preloaded = plan.modes.iter().filter_map(Mode::preloaded);
    let libraries = Libraries::find(preloaded, plan.work_dir.coldstream_library.as_deref())?;
    let begun: DateTime<Utc> = SystemTime::now().into();
    let mut testbed = Testbed::open(plan.work_dir)?;
    let dataset = engine.prepare(&mut testbed)?;
    let runs = plan.cases.len() * plan.modes.len() * plan.turns as usize;
    testbed.progress.begin_runs(runs);
    let mut turns = Turns::new(plan.turns);
    let (mut cases, mut smallest_limits) = (Vec::new(), Vec::new());
    for case in &plan.cases {
        let one_run = |testbed: &mut Testbed, title: &str, mode: &E::Mode, limit_bytes, turn| {
            let log = testbed.log_file()?;
            let mut run = Run {
                title,
                mode,
                condition: &case.condition,
                turn,
                copy: engine.copy_dataset(&dataset, mode, testbed.directory())?,
                limits: testbed.limits(limit_bytes),
                command_prefix: match mode.preloaded() {
                    Some(it) => it.prefix(&libraries.of(it)?, E::PROFILE, log.path()),
                    None => Vec::new(),
                },
                attached_process: None,
            };
            let measurement = engine.run(testbed, &dataset, &mut run);
            if measurement.is_err() && run.limits.were_too_small() {
                bail!(
                    "the database does not fit its limit of {} MiB, and the kernel killed it: raise --memory-mib, or \
                     give it less memory of its own (--heap-mib, or its caches)",
                    limit_bytes >> 20
                );
            }
            let measurement = measurement?;
            let has_status_page = measurement.has_library();
            let lines = library_log(mode, log.path(), has_status_page)?;
            measurement.report(lines)
        };
        let description = case.description.clone();
        match plan.work_dir.smallest_limit_for_p99_us {
            None => cases.extend(turns.measure(
                &mut testbed,
                description,
                plan.modes,
                |testbed, title, mode, turn| one_run(testbed, title, mode, case.limit_bytes, turn),
            )),
            Some(bound_us) if turns.ended_by.is_none() => {
                let own = (description.title.as_str(), case.limit_bytes);
                match smallest_limit::search(
                    &mut testbed,
                    own,
                    plan.modes,
                    plan.turns,
                    bound_us,
                    one_run,
                ) {
                    Ok(answers) => smallest_limits.extend(answers),
                    Err(error) => turns.ended_by = Some(error),
                }
            }
            Some(_) => {}
        }
    }
    let mut description = engine.describe();
    description.parameters["device_rate"] = json!(testbed.device_rate);
    let report = Report {
        version: env!("CARGO_PKG_VERSION").into(),
        begun: begun.format("%Y-%m-%d %H:%M UTC").to_string(),
        engine: description.engine,
        load: description.load,
        parameters: description.parameters,
        modes: plan.modes.iter().map(E::Mode::to_string).collect(),
        runs: plan.turns,
        limitations: std::mem::take(&mut testbed.limitations),
        machine: testbed.machine.clone(),
        cases,
        smallest_limits,
    };
    testbed.progress.clear();
    if !report.cases.is_empty() || !report.smallest_limits.is_empty() {
        report::publish(&report, &plan.work_dir.output, Vec::new())?;
    }
    turns.ended_by.map_or(Ok(()), Err)
}

/// Runs the modes of each case in turn, so that a slow change of the machine meets all of them. Each turn begins with
/// the next mode, and every second one goes backwards: no mode always runs after the same one.
struct Turns {
    /// Turns of each case.
    count: u32,
    /// The error that ended the experiment early.
    ended_by: Option<Error>,
}

impl Turns {
    fn new(count: u32) -> Self {
        Self {
            count,
            ended_by: None,
        }
    }

    /// Measures one case: every mode once in each turn.
    ///
    /// An error or an interrupt ends this case and all later ones. The report then has the turns
    /// that were complete; there is none without a complete turn.
    fn measure<M: Display>(
        &mut self,
        testbed: &mut Testbed,
        case: CaseDescription,
        modes: &[M],
        mut one_run: impl FnMut(&mut Testbed, &str, &M, u32) -> Result<RunReport>,
    ) -> Option<CaseReport> {
        let mut complete: Vec<Vec<RunReport>> = vec![Vec::new(); modes.len()];
        for turn in 1..=self.count {
            if self.ended_by.is_some() {
                break;
            }
            let runs: Result<Vec<(usize, RunReport)>> = order(turn, modes.len())
                .map(|index| {
                    let mode = &modes[index];
                    let title = format!("{}: turn {turn} of {}, {mode}", case.title, self.count);
                    let report =
                        one_run(testbed, &title, mode, turn).with_context(|| title.clone())?;
                    testbed.progress.finish_run(&title, &report);
                    for note in report.notes() {
                        testbed.add_limitation(format!("{title}: {note}"));
                    }
                    Ok((index, report))
                })
                .collect();
            match runs {
                Ok(runs) => {
                    for (index, run) in runs {
                        complete[index].push(run);
                    }
                }
                Err(error) => {
                    testbed.add_limitation(format!("ended before its time: {error:#}"));
                    self.ended_by = Some(error);
                }
            }
        }
        let has_complete_turn = complete.iter().all(|runs| !runs.is_empty());
        has_complete_turn.then(|| CaseReport::new(case, complete))
    }
}

/// The modes of a turn, by their numbers.
fn order(turn: u32, modes: usize) -> impl Iterator<Item = usize> {
    let first = (turn as usize + modes - 1) % modes;
    (0..modes).map(move |place| match turn % 2 {
        0 => (first + modes - place) % modes,
        _ => (first + place) % modes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::WorkDirArgs;

    #[test]
    fn each_turn_has_another_order() {
        let turns = [1, 2, 3, 4].map(|turn| order(turn, 3).collect::<Vec<_>>());
        assert_eq!(turns, [[0, 1, 2], [1, 0, 2], [2, 0, 1], [0, 2, 1]]);
        assert_eq!(order(2, 1).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn an_error_leaves_the_turns_that_were_finished() {
        let directory = tempfile::tempdir().unwrap();
        let mut testbed = Testbed::open(&WorkDirArgs::in_directory(directory.path())).unwrap();
        let case = CaseDescription {
            title: "case".into(),
            text: String::new(),
            parameters: serde_json::Value::Null,
            published: None,
        };
        let mut turns = Turns::new(5);
        let mut run = |last: u32| {
            let case = case.clone();
            turns.measure(&mut testbed, case, &["one", "other"], |_, _, mode, turn| {
                if *mode == "other" && turn > last {
                    bail!("too slow");
                }
                Ok(RunReport::default())
            })
        };
        let report = run(3).unwrap();
        assert!(report.runs.iter().all(|runs| runs.len() == 3));
        assert!(run(5).is_none(), "the next case");
        assert!(testbed.limitations[0].ends_with("turn 4 of 5, other: too slow"));
        assert!(turns.ended_by.take().is_some());
        let none = turns.measure(&mut testbed, case, &["one"], |_, _, _, _| bail!("at once"));
        assert!(none.is_none());
    }
}
