//! Reports for the tests of this folder.

use super::data::{CaseDescription, CaseReport, Report};
use crate::machine::Machine;
use crate::phase::Phase;
use crate::run_report::{
    BacklogReport, MemoryReport, PausesReport, Percentiles, PhaseReport, RunReport, Second,
};
use crate::sampler::Rates;
use serde_json::Value;

/// p99 idle and in compaction, µs, and the speed of compaction, MiB/s.
pub type Figures = (f64, f64, f64);

pub fn phase(phase: Phase, p99: f64) -> PhaseReport {
    let service_us = Percentiles {
        p50: p99 / 4.0,
        p90: p99 / 2.0,
        p99,
        p99_9: p99 * 2.0,
        p99_99: p99 * 4.0,
        max: p99 * 8.0,
        mean: p99 / 4.0,
    };
    PhaseReport {
        phase,
        seconds: 5.0,
        reads: 1000,
        failed_reads: 0,
        failed_updates: 0,
        unstarted_reads: 0,
        reads_per_second: 200.0,
        service_us,
        response_us: service_us,
        fast_reads_percent: 0.0,
        rates: Rates::default(),
        memory: MemoryReport::default(),
        curve: (0..=40)
            .map(|step| {
                let nines = f64::from(step) / 10.0;
                (1.0 - 10_f64.powf(-nines), p99 / 4.0 * (1.0 + nines))
            })
            .collect(),
        pauses: PausesReport::default(),
        backlog: BacklogReport::default(),
    }
}

fn run((idle, compaction, mib_per_second): Figures) -> RunReport {
    let second = |second: u32| Second {
        second: f64::from(second),
        reads: 200,
        p50_us: idle / 4.0,
        p99_us: if (5..10).contains(&second) {
            compaction
        } else {
            idle
        },
        rates: Rates::default(),
    };
    RunReport {
        phases: vec![
            phase(Phase::Idle, idle),
            phase(Phase::Compaction, compaction),
            phase(Phase::After, idle),
        ],
        boundaries: vec![
            (Phase::WarmUp, 0.0),
            (Phase::Idle, 2.0),
            (Phase::Compaction, 5.0),
            (Phase::After, 10.0),
            (Phase::End, 15.0),
        ],
        compaction_mib_per_second: mib_per_second,
        compaction_tax_p99: compaction / idle,
        timeline: (0..15).map(second).collect(),
        ..RunReport::default()
    }
}

/// A case of these modes; `runs` runs of each, which differ by 1 % around the figures.
pub fn case(modes: &[Figures], runs: u32) -> CaseReport {
    let runs_of = |figures: &Figures| {
        let scaled = (0..runs).map(|number| {
            let from_median = f64::from(number) - f64::from(runs - 1) / 2.0;
            let scale = 1.0 + 0.01 * from_median / f64::from(runs);
            run((figures.0 * scale, figures.1 * scale, figures.2 * scale))
        });
        scaled.collect()
    };
    let description = CaseDescription {
        title: "most".into(),
        text: "9216 hot keys".into(),
        parameters: Value::Null,
        published: None,
    };
    CaseReport::new(description, modes.iter().map(runs_of).collect())
}

/// The same of a load that has the compaction phase only, and tells nothing second by second.
pub fn case_without_idle(modes: &[Figures], runs: u32) -> CaseReport {
    let mut case = case(modes, runs);
    for run in case.runs.iter_mut().flatten() {
        run.phases
            .retain(|report| report.phase == Phase::Compaction);
        run.boundaries = vec![(Phase::Compaction, 0.0), (Phase::End, 5.0)];
        run.compaction_tax_p99 = 0.0;
        run.timeline.clear();
    }
    CaseReport::new(case.description, case.runs)
}

/// The same with the user's writes of each mode, MiB/s.
pub fn case_with_writes(modes: &[(Figures, f64)], runs: u32) -> CaseReport {
    let figures: Vec<Figures> = modes.iter().map(|(figures, _)| *figures).collect();
    let mut case = case(&figures, runs);
    for (runs, (_, mib_per_second)) in case.runs.iter_mut().zip(modes) {
        for run in runs {
            run.user_writes_mib_per_second = *mib_per_second;
        }
    }
    CaseReport::new(case.description, case.runs)
}

/// A report of cases of the same modes.
pub fn report(modes: &[&str], cases: Vec<CaseReport>) -> Report {
    Report {
        version: "0.1.0".into(),
        begun: "2026-11-28 21:35 UTC".into(),
        machine: Machine {
            kernel: "6.18".into(),
            cores: 2,
            memory_bytes: 1 << 30,
            filesystem: "ext4".into(),
            device: None,
            multi_generational_lru: "not built in".into(),
            kept_awake: false,
            awake_refused: false,
            reclaimers: Vec::new(),
        },
        engine: "RocksDB 7.8.3".into(),
        load: "3000 reads/s".into(),
        parameters: Value::Null,
        modes: modes.iter().map(|mode| (*mode).to_owned()).collect(),
        runs: 4,
        limitations: Vec::new(),
        cases,
        smallest_limits: Vec::new(),
    }
}
