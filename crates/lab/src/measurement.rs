//! Collects the events and samples of one run, and makes the run's report of them.

use crate::attached::AttachReport;
use crate::pauses::Pauses;
use crate::phase::{Backlog, Event, Phase};
use crate::run_report::{
    BacklogReport, Level, MemoryReport, PausesReport, Percentiles, PhaseReport, RunReport, Second,
    curve,
};
use crate::sampler::{Rates, Sample};
use crate::units::mib;
use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// Latencies from 1 ns to 60 s with three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("constant bounds are valid")
}

/// What happened in a phase.
struct Latencies {
    service: Histogram<u64>,
    response: Histogram<u64>,
    fast: u64,
    failed: u64,
    failed_updates: u64,
}

impl Latencies {
    fn new() -> Self {
        Self {
            service: histogram(),
            response: histogram(),
            fast: 0,
            failed: 0,
            failed_updates: 0,
        }
    }
}

/// The start of a phase.
#[derive(Clone, Copy)]
struct Boundary {
    phase: Phase,
    at_ns: u64,
    process_cpu_ns: u64,
    load_cpu_ns: u64,
}

impl Boundary {
    /// Processor seconds until a later boundary: of the process, and without the threads that make
    /// the load.
    fn cpu_seconds_until(&self, end: &Self) -> (f64, f64) {
        let process_ns = end.process_cpu_ns.saturating_sub(self.process_cpu_ns);
        let load_ns = end.load_cpu_ns.saturating_sub(self.load_cpu_ns);
        let engine_ns = process_ns.saturating_sub(load_ns);
        (process_ns as f64 / 1e9, engine_ns as f64 / 1e9)
    }
}

/// Collects a run's events and samples.
pub struct Measurement {
    phases: BTreeMap<Phase, Latencies>,
    boundaries: Vec<Boundary>,
    seconds: BTreeMap<u64, Histogram<u64>>,
    samples: Vec<Sample>,
    compacted: Compacted,
    updated: Updated,
    written: Written,
    backlogs: Vec<(Phase, Backlog)>,
    hit_ns_max: u64,
    /// Every read, where the virtual machine pauses.
    reads: Option<Vec<ReadTime>>,
    pauses: Pauses,
    summary: Option<ReadSummary>,
    attached: Option<AttachReport>,
}

/// Bytes that the compaction moved.
#[derive(Clone, Copy, Default)]
struct Compacted {
    read_bytes: u64,
    written_bytes: u64,
}

/// Updates during compaction.
#[derive(Clone, Copy, Default)]
struct Updated {
    updates: u64,
    late_ns_max: u64,
    debt_bytes: u64,
}

/// What the user wrote during compaction.
#[derive(Clone, Copy, Default)]
struct Written {
    user_bytes: u64,
    stall_us: u64,
}

/// The reads of the compaction phase, where the load program does not tell each of them.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadSummary {
    /// Their number.
    pub reads: u64,
    /// Duration of the load. The phase ends with it, and may begin earlier.
    pub seconds: f64,
    /// Reads a second.
    pub reads_per_second: f64,
    /// Service times, µs.
    pub service_us: Percentiles,
    /// Quantiles and their service times, µs.
    pub curve: Vec<(f64, f64)>,
}

/// Start and end of a read.
struct ReadTime {
    phase: Phase,
    start_ns: u64,
    end_ns: u64,
}

impl Measurement {
    /// An empty measurement. Reads that take less than `hit_ns_max` count as fast. It is 0 for
    /// engines whose reads from memory take longer than some devices.
    pub fn new(hit_ns_max: u64) -> Self {
        Self {
            hit_ns_max,
            phases: BTreeMap::new(),
            boundaries: Vec::new(),
            seconds: BTreeMap::new(),
            samples: Vec::new(),
            compacted: Compacted::default(),
            updated: Updated::default(),
            written: Written::default(),
            backlogs: Vec::new(),
            reads: None,
            pauses: Pauses::default(),
            summary: None,
            attached: None,
        }
    }

    /// Takes what `coldstream attach` did.
    pub fn set_attached(&mut self, attached: Option<AttachReport>) {
        self.attached = attached;
    }

    /// Keeps the times of every read (24 bytes each), to find the reads that a pause delayed.
    pub fn with_read_times(mut self) -> Self {
        self.reads = Some(Vec::new());
        self
    }

    /// Sets all pauses of the run.
    pub fn set_pauses(&mut self, pauses: Pauses) {
        self.pauses = pauses;
    }

    /// Sets what is known of the reads. The run then has the compaction phase only.
    pub fn set_summary(&mut self, summary: ReadSummary) {
        self.summary = Some(summary);
    }

    /// Takes an event. Returns the phase that begins with it, if one does.
    pub fn take(&mut self, event: Event) -> Option<Phase> {
        match event {
            Event::Read {
                phase,
                intended_ns,
                start_ns,
                end_ns,
                failed,
            } => {
                let times = ReadTime {
                    phase,
                    start_ns,
                    end_ns,
                };
                self.take_read(times, intended_ns, failed);
                None
            }
            Event::FailedUpdate { phase } => {
                let latencies = self.phases.entry(phase).or_insert_with(Latencies::new);
                latencies.failed_updates += 1;
                None
            }
            Event::Phase {
                phase,
                at_ns,
                process_cpu_ns,
                load_cpu_ns,
            } => {
                self.boundaries.push(Boundary {
                    phase,
                    at_ns,
                    process_cpu_ns,
                    load_cpu_ns,
                });
                Some(phase)
            }
            Event::Compacted {
                read_bytes,
                written_bytes,
            } => {
                self.compacted = Compacted {
                    read_bytes,
                    written_bytes,
                };
                None
            }
            Event::Updated {
                updates,
                late_ns_max,
                debt_bytes,
            } => {
                self.updated = Updated {
                    updates,
                    late_ns_max,
                    debt_bytes,
                };
                None
            }
            Event::Written {
                user_bytes,
                stall_us,
            } => {
                self.written = Written {
                    user_bytes,
                    stall_us,
                };
                None
            }
            Event::Backlog { phase, backlog } => {
                self.backlogs.push((phase, backlog));
                None
            }
        }
    }

    fn take_read(&mut self, times: ReadTime, intended_ns: u64, failed: bool) {
        let service_ns = times.end_ns.saturating_sub(times.start_ns);
        let response_ns = times.end_ns.saturating_sub(intended_ns);
        let phase = self.phases.entry(times.phase);
        let latencies = phase.or_insert_with(Latencies::new);
        latencies.failed += u64::from(failed);
        latencies.service.saturating_record(service_ns);
        latencies.response.saturating_record(response_ns);
        latencies.fast += u64::from(service_ns < self.hit_ns_max);
        let since_start_ns = times.start_ns.saturating_sub(self.start_ns());
        let second = self.seconds.entry(since_start_ns / 1_000_000_000);
        let second = second.or_insert_with(histogram);
        second.saturating_record(service_ns);
        if let Some(reads) = &mut self.reads {
            reads.push(times);
        }
    }

    /// Takes a sample of the kernel's counters.
    pub fn sample(&mut self, sample: Sample) {
        self.samples.push(sample);
    }

    fn start_ns(&self) -> u64 {
        self.boundaries.first().map_or(0, |first| first.at_ns)
    }

    /// The sample nearest to a time.
    fn nearest_sample(&self, at_ns: u64) -> Option<&Sample> {
        self.samples
            .iter()
            .min_by_key(|sample| sample.at_ns.abs_diff(at_ns))
    }

    /// p99 of the service times in a phase so far, µs; none without a read.
    pub fn p99_us(&self, phase: Phase) -> Option<f64> {
        let service = &self.phases.get(&phase)?.service;
        (!service.is_empty()).then(|| service.value_at_quantile(0.99) as f64 / 1000.0)
    }

    /// Whether any sample found Coldstream's library in a process.
    pub fn has_library(&self) -> bool {
        self.samples.iter().any(|sample| sample.library.pages > 0)
    }

    /// What the memory of the samples of an interval consisted of.
    fn memory_of(&self, begin_ns: u64, end_ns: u64) -> MemoryReport {
        let level = |bytes: fn(&Sample) -> u64| {
            let samples = self.samples.iter();
            let samples = samples.filter(|sample| (begin_ns..=end_ns).contains(&sample.at_ns));
            Level::of(samples.map(|sample| mib(bytes(sample))))
        };
        MemoryReport {
            dirty_mib: level(|sample| sample.dirty_bytes),
            working_set_mib: level(|sample| sample.working_set_bytes),
            inputs_cached_mib: level(|sample| sample.inputs_cached_bytes),
            outputs_cached_mib: level(|sample| sample.outputs_cached_bytes),
        }
    }

    /// How far compaction was behind in a phase.
    fn backlog_of(&self, phase: Phase) -> BacklogReport {
        let samples = self.backlogs.iter().filter(|(of, _)| *of == phase);
        let samples: Vec<&Backlog> = samples.map(|(_, backlog)| backlog).collect();
        let level = |of: fn(&Backlog) -> f64| Level::of(samples.iter().map(|backlog| of(backlog)));
        BacklogReport {
            level0_files: level(|backlog| backlog.level0_files as f64),
            sstables: level(|backlog| backlog.sstables as f64),
            pending_compactions: level(|backlog| backlog.pending_compactions as f64),
            debt_mib: level(|backlog| mib(backlog.debt_bytes)),
            compacting_percent: 100.0 * level(|backlog| f64::from(backlog.is_compacting)).mean,
        }
    }

    /// Pauses of a phase, and the reads that none of them delayed.
    fn pauses_of(&self, phase: Phase, begin_ns: u64, end_ns: u64) -> PausesReport {
        let Some(reads) = &self.reads else {
            return PausesReport::default();
        };
        let (mut others, mut delayed) = (histogram(), 0_u64);
        for read in reads.iter().filter(|read| read.phase == phase) {
            if self.pauses.delay(read.start_ns, read.end_ns) {
                delayed += 1;
            } else {
                others.saturating_record(read.end_ns.saturating_sub(read.start_ns));
            }
        }
        let all = (others.len() + delayed).max(1);
        PausesReport {
            rates: self.pauses.rates(begin_ns, end_ns),
            touched_reads_percent: delayed as f64 * 100.0 / all as f64,
            untouched_service_us: Percentiles::of(&others),
        }
    }

    /// Start and end of a phase.
    fn bounds(&self, phase: Phase) -> Result<(&Boundary, &Boundary)> {
        let name = phase.name();
        let mut boundaries = self.boundaries.iter();
        let begin = boundaries
            .find(|boundary| boundary.phase == phase)
            .with_context(|| format!("the phase {name} was not reached"))?;
        let end = (boundaries.next()).with_context(|| format!("the phase {name} did not end"))?;
        Ok((begin, end))
    }

    fn phase_report(&self, phase: Phase) -> Result<PhaseReport> {
        let (begin, end) = self.bounds(phase)?;
        if let Some(summary) = &self.summary {
            return self.summary_report(phase, summary, end.at_ns);
        }
        let (begin_ns, end_ns) = (begin.at_ns, end.at_ns);
        let latencies = self.phases.get(&phase).with_context(|| {
            let phase = phase.name();
            format!("no read of the phase {phase} was answered: this load is more than is served")
        })?;
        let seconds = end_ns.saturating_sub(begin_ns) as f64 / 1e9;
        let reads = latencies.service.len();
        Ok(PhaseReport {
            phase,
            seconds,
            reads,
            failed_reads: latencies.failed,
            failed_updates: latencies.failed_updates,
            reads_per_second: reads as f64 / seconds,
            service_us: Percentiles::of(&latencies.service),
            response_us: Percentiles::of(&latencies.response),
            fast_reads_percent: latencies.fast as f64 * 100.0 / reads as f64,
            rates: self.rates(begin_ns, end_ns)?,
            memory: self.memory_of(begin_ns, end_ns),
            curve: curve(&latencies.service),
            pauses: self.pauses_of(phase, begin_ns, end_ns),
            backlog: self.backlog_of(phase),
        })
    }

    /// The report of a phase whose reads are known by a summary. They are of a closed loop.
    fn summary_report(
        &self,
        phase: Phase,
        summary: &ReadSummary,
        end_ns: u64,
    ) -> Result<PhaseReport> {
        let begin_ns = end_ns.saturating_sub((summary.seconds * 1e9) as u64);
        Ok(PhaseReport {
            phase,
            seconds: summary.seconds,
            reads: summary.reads,
            failed_reads: 0,
            failed_updates: 0,
            reads_per_second: summary.reads_per_second,
            service_us: summary.service_us,
            response_us: summary.service_us,
            fast_reads_percent: 0.0,
            rates: self.rates(begin_ns, end_ns)?,
            memory: self.memory_of(begin_ns, end_ns),
            curve: summary.curve.clone(),
            pauses: PausesReport::default(),
            backlog: self.backlog_of(phase),
        })
    }

    /// Rates of the kernel's counters between two times.
    fn rates(&self, begin_ns: u64, end_ns: u64) -> Result<Rates> {
        let sample = |at_ns| {
            (self.nearest_sample(at_ns))
                .context("the kernel's counters were not read in every phase")
        };
        Ok(Rates::between(sample(begin_ns)?, sample(end_ns)?))
    }

    /// The run's report.
    ///
    /// # Errors
    /// A counted phase is missing, or no read was answered in it.
    pub fn report(&self, mut library_log: Vec<String>) -> Result<RunReport> {
        let attached = self.attached.as_ref();
        library_log.extend(attached.iter().flat_map(|it| it.lines.iter().cloned()));
        let counted = match self.summary {
            Some(_) => &[Phase::Compaction][..],
            None => &Phase::COUNTED,
        };
        let phases = counted.iter().map(|phase| self.phase_report(*phase));
        let phases: Vec<PhaseReport> = phases.collect::<Result<_>>()?;
        let of = |phase| phases.iter().find(|report| report.phase == phase);
        let compaction = of(Phase::Compaction).context("no compaction was measured")?;
        let idle = of(Phase::Idle);
        // Only this phase has the same threads at its start and at its end.
        let (begin, end) = self.bounds(Phase::Compaction)?;
        let (compaction_cpu_seconds, compaction_engine_cpu_seconds) = begin.cpu_seconds_until(end);
        let compaction_seconds = compaction.seconds;
        let write_stall_seconds = self.written.stall_us as f64 / 1e6;
        // Without an idle phase there is none.
        let tax = |of: fn(&PhaseReport) -> f64| {
            idle.map_or(0.0, |idle| of(compaction) / of(idle).max(0.001))
        };
        let Compacted {
            read_bytes,
            written_bytes,
        } = self.compacted;
        Ok(RunReport {
            boundaries: self
                .boundaries
                .iter()
                .map(|boundary| {
                    let since_start_ns = boundary.at_ns - self.start_ns();
                    (boundary.phase, since_start_ns as f64 / 1e9)
                })
                .collect(),
            compacted_read_bytes: read_bytes,
            compacted_written_bytes: written_bytes,
            compaction_input_mib_per_second: mib(read_bytes) / compaction_seconds,
            compaction_mib_per_second: mib(read_bytes + written_bytes) / compaction_seconds,
            updates_per_second: self.updated.updates as f64 / compaction_seconds,
            update_late_ms_max: self.updated.late_ns_max as f64 / 1e6,
            compaction_debt_mib: mib(self.updated.debt_bytes),
            user_written_bytes: self.written.user_bytes,
            user_writes_mib_per_second: mib(self.written.user_bytes) / compaction_seconds,
            write_stall_seconds,
            write_stall_percent: write_stall_seconds * 100.0 / compaction_seconds,
            compaction_cpu_seconds,
            compaction_engine_cpu_seconds,
            compaction_tax_p99: tax(|phase| phase.service_us.p99),
            compaction_tax_p99_9: tax(|phase| phase.service_us.p99_9),
            compaction_tax_p99_outside_pauses: tax(|phase| phase.pauses.untouched_service_us.p99),
            timeline: self.timeline(),
            library_log,
            attached_core_percent: attached.map_or(0.0, |it| it.core_percent),
            phases,
        })
    }

    fn timeline(&self) -> Vec<Second> {
        self.seconds
            .iter()
            .map(|(second, histogram)| {
                let at_ns = self.start_ns() + second * 1_000_000_000;
                let rates = match (
                    self.nearest_sample(at_ns),
                    self.nearest_sample(at_ns + 1_000_000_000),
                ) {
                    (Some(before), Some(after)) => Rates::between(before, after),
                    _ => Rates::default(),
                };
                Second {
                    second: *second as f64,
                    reads: histogram.len(),
                    p50_us: histogram.value_at_quantile(0.5) as f64 / 1000.0,
                    p99_us: histogram.value_at_quantile(0.99) as f64 / 1000.0,
                    rates,
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(phase: Phase, start_ns: u64, service_ns: u64) -> Event {
        Event::Read {
            phase,
            intended_ns: start_ns - 500,
            start_ns,
            end_ns: start_ns + service_ns,
            failed: false,
        }
    }

    #[test]
    fn tax_and_percentiles_come_from_their_phases() {
        let mut measurement = Measurement::new(40_000);
        for (phase, at) in [
            (Phase::WarmUp, 1),
            (Phase::Idle, 2),
            (Phase::Compaction, 4),
            (Phase::After, 8),
            (Phase::End, 10),
        ] {
            let at_ns = at * 1_000_000_000;
            measurement.take(Event::Phase {
                phase,
                at_ns,
                process_cpu_ns: at_ns / 2,
                load_cpu_ns: at_ns / 8,
            });
            measurement.sample(Sample {
                at_ns,
                refaults: at * 10,
                dirty_bytes: at << 20,
                ..Sample::default()
            });
        }
        for step in 0..100 {
            let at = 1_000_000 * step;
            measurement.take(read(Phase::WarmUp, 1_000_000_000 + at, 900_000));
            measurement.take(read(Phase::Idle, 2_000_000_000 + at, 10_000));
            measurement.take(read(Phase::Compaction, 4_000_000_000 + at, 50_000));
            measurement.take(read(Phase::After, 8_000_000_000 + at, 20_000));
        }
        measurement.take(Event::Compacted {
            read_bytes: 3 << 20,
            written_bytes: 1 << 20,
        });
        measurement.take(Event::Written {
            user_bytes: 40 << 20,
            stall_us: 1_000_000,
        });
        for (phase, level0_files) in [
            (Phase::Idle, 9),
            (Phase::Compaction, 2),
            (Phase::Compaction, 6),
        ] {
            let backlog = Backlog {
                level0_files,
                debt_bytes: level0_files << 20,
                is_compacting: level0_files > 2,
                ..Backlog::default()
            };
            measurement.take(Event::Backlog { phase, backlog });
        }
        let p99_us = measurement.p99_us(Phase::Compaction).unwrap();
        assert!((p99_us - 50.0).abs() < 0.05);
        assert_eq!(measurement.p99_us(Phase::End), None);
        let report = measurement.report(Vec::new()).unwrap();
        assert!((report.compaction_tax_p99 - 5.0).abs() < 0.01);
        assert_eq!(report.compaction_mib_per_second, 1.0);
        assert_eq!(report.compaction_cpu_seconds, 2.0);
        assert_eq!(report.user_written_bytes, 40 << 20);
        assert_eq!(report.user_writes_mib_per_second, 10.0);
        assert_eq!(report.write_stall_seconds, 1.0);
        assert_eq!(report.write_stall_percent, 25.0);
        assert_eq!(report.compaction_engine_cpu_seconds, 1.5);
        let compaction = report.phase(Phase::Compaction).unwrap();
        let of_samples = Level {
            mean: 6.0,
            peak: 8.0,
        };
        assert_eq!(compaction.memory.dirty_mib, of_samples);
        assert_eq!(compaction.memory.working_set_mib, Level::default());
        let behind = Level {
            mean: 4.0,
            peak: 6.0,
        };
        assert_eq!(compaction.backlog.level0_files, behind);
        assert_eq!(compaction.backlog.debt_mib, behind);
        assert_eq!(compaction.backlog.compacting_percent, 50.0);
        let after = report.phase(Phase::After).unwrap();
        assert_eq!(after.backlog, BacklogReport::default());
        let idle = report.phase(Phase::Idle).unwrap();
        assert_eq!((idle.reads, idle.fast_reads_percent), (100, 100.0));
        assert!((idle.response_us.p50 - 10.5).abs() < 0.02);
        assert_eq!(idle.rates.refaults_per_second, 10.0);
        assert_eq!(report.timeline.len(), 4);
    }

    #[test]
    fn reads_in_a_pause_have_percentiles_of_their_own() {
        let mut measurement = Measurement::new(0).with_read_times();
        let second = 1_000_000_000;
        for (phase, at) in [
            (Phase::Idle, 1),
            (Phase::Compaction, 2),
            (Phase::After, 3),
            (Phase::End, 4),
        ] {
            let at_ns = at * second;
            measurement.take(Event::Phase {
                phase,
                at_ns,
                process_cpu_ns: 0,
                load_cpu_ns: 0,
            });
            measurement.sample(Sample {
                at_ns,
                ..Sample::default()
            });
        }
        for (phase, at) in [(Phase::Idle, 1), (Phase::Compaction, 2), (Phase::After, 3)] {
            measurement.take(read(phase, at * second, 20_000));
        }
        // In the queue after a pause of 10 ms.
        measurement.take(read(
            Phase::Compaction,
            2 * second + 500_000_000,
            15_000_000,
        ));
        measurement.set_pauses(Pauses::new([coldstream_nodes::Pause {
            begin_ns: 2_500_000_000,
            end_ns: 2_510_000_000,
        }]));
        let report = measurement.report(Vec::new()).unwrap();
        assert!(report.compaction_tax_p99 > 100.0);
        assert!((report.compaction_tax_p99_outside_pauses - 1.0).abs() < 0.01);
        let pauses = report.phase(Phase::Compaction).unwrap().pauses;
        assert_eq!(pauses.touched_reads_percent, 50.0);
        assert_eq!(pauses.rates.longest_ms, 10.0);
        assert_eq!(
            report.phase(Phase::After).unwrap().pauses.rates.longest_ms,
            0.0
        );
    }

    #[test]
    fn a_summary_stands_for_the_reads_of_the_only_phase() {
        let mut measurement = Measurement::new(40_000);
        // Two seconds before the load begins.
        for (phase, at) in [(Phase::Compaction, 1), (Phase::End, 7)] {
            let at_ns = at * 1_000_000_000;
            measurement.take(Event::Phase {
                phase,
                at_ns,
                process_cpu_ns: 0,
                load_cpu_ns: 0,
            });
        }
        for (at, refaults) in [(1, 0), (3, 1000), (7, 1040)] {
            measurement.sample(Sample {
                at_ns: at * 1_000_000_000,
                refaults,
                ..Sample::default()
            });
        }
        measurement.take(Event::Compacted {
            read_bytes: 3 << 20,
            written_bytes: 1 << 20,
        });
        let service_us = Percentiles {
            p50: 10.0,
            p99: 500.0,
            ..Percentiles::default()
        };
        measurement.set_summary(ReadSummary {
            reads: 400,
            seconds: 4.0,
            reads_per_second: 100.0,
            service_us,
            curve: vec![(0.5, 10.0), (0.99, 500.0)],
        });
        let report = measurement.report(Vec::new()).unwrap();
        assert_eq!(report.phases.len(), 1);
        let phase = report.phase(Phase::Compaction).unwrap();
        assert_eq!((phase.reads, phase.reads_per_second), (400, 100.0));
        assert_eq!(
            (phase.service_us, phase.response_us),
            (service_us, service_us)
        );
        assert_eq!(phase.rates.refaults_per_second, 10.0);
        assert_eq!(report.compaction_mib_per_second, 1.0);
        assert_eq!(report.compaction_tax_p99, 0.0);
        assert!(report.timeline.is_empty());
    }

    #[test]
    fn a_run_that_was_cut_short_has_no_report() {
        let mut measurement = Measurement::new(40_000);
        measurement.take(Event::Phase {
            phase: Phase::Idle,
            at_ns: 1,
            process_cpu_ns: 0,
            load_cpu_ns: 0,
        });
        assert!(measurement.report(Vec::new()).is_err());
    }
}
