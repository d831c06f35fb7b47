//! Collects the events and samples of one run, and makes the run's report of them.

use crate::attached::AttachReport;
use crate::pauses::Pauses;
use crate::phase::{Backlog, Event, FirstPass, Phase};
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
    unstarted: u64,
}

impl Latencies {
    fn new() -> Self {
        Self {
            service: histogram(),
            response: histogram(),
            fast: 0,
            failed: 0,
            failed_updates: 0,
            unstarted: 0,
        }
    }
}

/// Reads that never started are recorded in this many steps at most: each has about the same response time.
const UNSTARTED_STEPS: u64 = 1000;

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
    /// Seconds that a read has lasted through, and the longest such read, ns.
    lasted_through: BTreeMap<u64, u64>,
    samples: Vec<Sample>,
    compacted: Compacted,
    updated: Updated,
    written: Written,
    backlogs: Vec<(Phase, Backlog)>,
    first_pass: Option<FirstPass>,
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
            lasted_through: BTreeMap::new(),
            samples: Vec::new(),
            compacted: Compacted::default(),
            updated: Updated::default(),
            written: Written::default(),
            backlogs: Vec::new(),
            first_pass: None,
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

    /// Keeps the times of every read (16 bytes each), to find the reads that a pause delayed.
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
                intended_ns,
                start_ns,
                end_ns,
                failed,
            } => {
                let times = ReadTime { start_ns, end_ns };
                self.take_read(times, intended_ns, failed);
                None
            }
            Event::Unstarted {
                due_after_ns,
                reads,
                at_ns,
            } => {
                self.take_unstarted(due_after_ns, reads, at_ns);
                None
            }
            Event::FirstPass(first_pass) => {
                self.first_pass = Some(first_pass);
                None
            }
            Event::FailedUpdate { phase } => {
                self.latencies(phase).failed_updates += 1;
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
        let is_fast = service_ns < self.hit_ns_max;
        let started = self.latencies(self.phase_at(times.start_ns));
        started.failed += u64::from(failed);
        started.service.saturating_record(service_ns);
        started.fast += u64::from(is_fast);
        let due = self.latencies(self.phase_at(intended_ns));
        due.response.saturating_record(response_ns);
        let (begun, ended) = (self.second_of(times.start_ns), self.second_of(times.end_ns));
        let second = self.seconds.entry(begun).or_insert_with(histogram);
        second.saturating_record(service_ns);
        for second in begun + 1..ended {
            let longest_ns = self.lasted_through.entry(second).or_default();
            *longest_ns = service_ns.max(*longest_ns);
        }
        if let Some(reads) = &mut self.reads {
            reads.push(times);
        }
    }

    /// Takes reads that never started. What they had waited by the end is the least that their response time would be.
    fn take_unstarted(&mut self, due_after_ns: u64, reads: u64, at_ns: u64) {
        let waited_ns_max = at_ns.saturating_sub(due_after_ns);
        let steps = reads.min(UNSTARTED_STEPS);
        for step in 0..steps {
            let count = reads * (step + 1) / steps - reads * step / steps;
            // The middle of the step.
            let waited_ns = waited_ns_max * (2 * (steps - step) - 1) / (2 * steps);
            let due = self.latencies(self.phase_at(at_ns - waited_ns));
            due.response.saturating_record_n(waited_ns, count);
            due.unstarted += count;
        }
    }

    fn latencies(&mut self, phase: Phase) -> &mut Latencies {
        self.phases.entry(phase).or_insert_with(Latencies::new)
    }

    /// The phase at a time, of the phases that have begun.
    fn phase_at(&self, at_ns: u64) -> Phase {
        let mut begun = self.boundaries.iter().rev();
        let last = begun.find(|boundary| boundary.at_ns <= at_ns);
        last.map_or(Phase::WarmUp, |boundary| boundary.phase)
    }

    /// Takes a sample of the kernel's counters.
    pub fn sample(&mut self, sample: Sample) {
        self.samples.push(sample);
    }

    fn start_ns(&self) -> u64 {
        self.boundaries.first().map_or(0, |first| first.at_ns)
    }

    /// The second of the run in which a time lies.
    fn second_of(&self, at_ns: u64) -> u64 {
        at_ns.saturating_sub(self.start_ns()) / 1_000_000_000
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
    fn pauses_of(&self, begin_ns: u64, end_ns: u64) -> PausesReport {
        let Some(reads) = &self.reads else {
            return PausesReport::default();
        };
        let (mut others, mut delayed) = (histogram(), 0_u64);
        let is_of_phase = |read: &&ReadTime| (begin_ns..end_ns).contains(&read.start_ns);
        for read in reads.iter().filter(is_of_phase) {
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
        let latencies = self.phases.get(&phase);
        let latencies = latencies.filter(|latencies| !latencies.service.is_empty());
        let latencies = latencies.with_context(|| {
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
            unstarted_reads: latencies.unstarted,
            reads_per_second: reads as f64 / seconds,
            service_us: Percentiles::of(&latencies.service),
            response_us: Percentiles::of(&latencies.response),
            fast_reads_percent: latencies.fast as f64 * 100.0 / reads as f64,
            rates: self.rates(begin_ns, end_ns)?,
            memory: self.memory_of(begin_ns, end_ns),
            curve: curve(&latencies.service),
            pauses: self.pauses_of(begin_ns, end_ns),
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
            unstarted_reads: 0,
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
            first_pass: self.first_pass,
            library_log,
            attached_core_percent: attached.map_or(0.0, |it| it.core_percent),
            phases,
        })
    }

    /// Second by second. Where no read started, the latency is that of the longest read which lasted through the second:
    /// that is a stall.
    fn timeline(&self) -> Vec<Second> {
        let mut seconds: BTreeMap<u64, (u64, f64, f64)> = BTreeMap::new();
        for (second, longest_ns) in &self.lasted_through {
            let us = *longest_ns as f64 / 1000.0;
            seconds.insert(*second, (0, us, us));
        }
        for (second, histogram) in &self.seconds {
            let us = |quantile| histogram.value_at_quantile(quantile) as f64 / 1000.0;
            seconds.insert(*second, (histogram.len(), us(0.5), us(0.99)));
        }
        seconds
            .into_iter()
            .map(|(second, (reads, p50_us, p99_us))| {
                let at_ns = self.start_ns() + second * 1_000_000_000;
                let rates = match (
                    self.nearest_sample(at_ns),
                    self.nearest_sample(at_ns + 1_000_000_000),
                ) {
                    (Some(before), Some(after)) => Rates::between(before, after),
                    _ => Rates::default(),
                };
                Second {
                    second: second as f64,
                    reads,
                    p50_us,
                    p99_us,
                    rates,
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(start_ns: u64, service_ns: u64) -> Event {
        Event::Read {
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
            measurement.take(read(1_000_000_000 + at, 900_000));
            measurement.take(read(2_000_000_000 + at, 10_000));
            measurement.take(read(4_000_000_000 + at, 50_000));
            measurement.take(read(8_000_000_000 + at, 20_000));
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

    /// A phase each second, from the first one on.
    fn begin_each_second(measurement: &mut Measurement) {
        for (phase, at) in [
            (Phase::Idle, 1),
            (Phase::Compaction, 2),
            (Phase::After, 3),
            (Phase::End, 4),
        ] {
            let at_ns = at * 1_000_000_000;
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
    }

    #[test]
    fn a_read_that_waited_for_its_start_responds_for_the_phase_in_which_it_was_due() {
        let mut measurement = Measurement::new(0);
        begin_each_second(&mut measurement);
        let ms = |ms: u64| ms * 1_000_000;
        for (due_ms, start_ms, end_ms) in [
            (1500, 1500, 1501),
            (2500, 2500, 2501),
            (2600, 3200, 3202),
            (3500, 3500, 3501),
            // Its answer comes after the last phase.
            (2700, 4500, 4503),
        ] {
            measurement.take(Event::Read {
                intended_ns: ms(due_ms),
                start_ns: ms(start_ms),
                end_ns: ms(end_ms),
                failed: false,
            });
        }
        let report = measurement.report(Vec::new()).unwrap();
        let of = |phase| {
            let phase = report.phase(phase).unwrap();
            let rounded = |us: f64| (us / 1000.0).round();
            let (service, response) = (phase.service_us.max, phase.response_us.max);
            (phase.reads, rounded(service), rounded(response))
        };
        assert_eq!(of(Phase::Idle), (1, 1.0, 1.0));
        let (reads, service_ms, response_ms) = of(Phase::Compaction);
        assert_eq!((reads, service_ms), (1, 1.0));
        assert!((response_ms - 1803.0).abs() < 3.0, "{response_ms} ms");
        assert_eq!(of(Phase::After), (2, 2.0, 1.0));
        assert!(report.notes().is_empty(), "{:?}", report.notes());
    }

    #[test]
    fn reads_that_never_started_have_waited_until_the_end() {
        let mut measurement = Measurement::new(0);
        begin_each_second(&mut measurement);
        let second = 1_000_000_000;
        for at in 1..=3 {
            measurement.take(read(at * second + 1000, 20_000));
        }
        // 1,200 a second, from the middle of the compaction on; the load has stopped half a second late.
        measurement.take(Event::Unstarted {
            due_after_ns: 2 * second + second / 2,
            reads: 2400,
            at_ns: 4 * second + second / 2,
        });
        let report = measurement.report(Vec::new()).unwrap();
        let of = |phase| {
            let phase = report.phase(phase).unwrap();
            (
                phase.reads,
                phase.unstarted_reads,
                phase.response_us.p50 / 1e6,
            )
        };
        // Evenly from 2.0 to 1.5 s, and from 1.5 to 0.5 s.
        for (phase, unstarted, p50_seconds) in [
            (Phase::Idle, 0, 0.0),
            (Phase::Compaction, 600, 1.75),
            (Phase::After, 1200, 1.0),
        ] {
            let found = of(phase);
            assert_eq!((found.0, found.1), (1, unstarted));
            assert!((found.2 - p50_seconds).abs() < 0.01, "{found:?}");
        }
        let notes = report.notes();
        assert!(notes[0].starts_with("1800 of the reads that were due never started"));
        assert_eq!(notes.len(), 1);
        let mut few = report;
        few.phases[0].reads = 1_800_000;
        assert_eq!(few.notes(), Vec::<String>::new());
    }

    #[test]
    fn a_stall_is_in_every_second_of_it() {
        let mut measurement = Measurement::new(0);
        let second = 1_000_000_000;
        for (phase, at) in [
            (Phase::Idle, 1),
            (Phase::Compaction, 3),
            (Phase::After, 8),
            (Phase::End, 9),
        ] {
            measurement.take(Event::Phase {
                phase,
                at_ns: at * second,
                process_cpu_ns: 0,
                load_cpu_ns: 0,
            });
        }
        measurement.sample(Sample::default());
        for at in [1, 2, 3, 4, 8] {
            measurement.take(read(at * second + 1000, 20_000));
        }
        // Until the middle of the eighth second.
        measurement.take(read(4 * second + second / 2, 3 * second));
        measurement.take(read(7 * second + second / 2, 20_000));
        let report = measurement.report(Vec::new()).unwrap();
        let timeline = report.timeline.iter();
        let timeline: Vec<_> = timeline
            .map(|it| (it.second, it.reads, (it.p99_us / 1e6).round()))
            .collect();
        let stalled = [(3.0, 2, 3.0), (4.0, 0, 3.0), (5.0, 0, 3.0), (6.0, 1, 0.0)];
        assert_eq!(timeline[3..7], stalled, "{timeline:?}");
        // Three of six seconds.
        let spikes_us = report.spikes_us().unwrap();
        assert!((spikes_us / 1e6 - 1.5).abs() < 0.01, "{spikes_us}");
    }

    #[test]
    fn a_first_pass_that_was_cut_is_a_note() {
        let mut measurement = Measurement::new(0);
        begin_each_second(&mut measurement);
        for at in 1..=3 {
            measurement.take(read(at * 1_000_000_000 + 1000, 20_000));
        }
        let mut notes = |read_keys| {
            measurement.take(Event::FirstPass(FirstPass {
                read_keys,
                hot_keys: 70,
            }));
            measurement.report(Vec::new()).unwrap().notes()
        };
        assert!(notes(70).is_empty());
        assert!(notes(60)[0].contains("was cut at 60 of 70 keys: p99 idle has first reads"));
    }

    #[test]
    fn reads_in_a_pause_have_percentiles_of_their_own() {
        let mut measurement = Measurement::new(0).with_read_times();
        let second = 1_000_000_000;
        begin_each_second(&mut measurement);
        for at in 1..=3 {
            measurement.take(read(at * second, 20_000));
        }
        // In the queue after a pause of 10 ms.
        measurement.take(read(2 * second + 500_000_000, 15_000_000));
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
