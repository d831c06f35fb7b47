//! The loop of a run: takes the load's events, and samples the kernel's counters between them.

use crate::error::Interrupted;
use crate::foreground::Foreground;
use crate::interrupt;
use crate::measurement::Measurement;
use crate::phase::{Event, Phase};
use crate::processes::Processes;
use crate::sampler::{Sampler, now_ns};
use crate::testbed::Testbed;
use anyhow::Result;
use coldstream_host::own_cgroup::MemoryCgroup;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Short enough that a short phase has a mean of its dirty memory. A sample takes 0.1 ms.
const SAMPLE_INTERVAL_NS: u64 = 250_000_000;

/// The longest wait for an event: samples and interrupts are checked at least this often.
const EVENT_WAIT: Duration = Duration::from_millis(50);

/// Records one run.
pub struct Recording<'a> {
    /// Case, turn and mode, for the progress line.
    pub title: &'a str,
    /// The engine's cgroup, where one could be made.
    pub cgroup: Option<&'a MemoryCgroup>,
    /// Beginnings of the names of the engine's threads that serve reads.
    pub reader_threads: &'static [&'static str],
    /// `coldstream attach`, where it runs beside the engine.
    pub attached_process: Option<u32>,
}

impl Recording<'_> {
    /// Takes events until the last sender is gone. `cached_bytes` returns the bytes of inputs and
    /// outputs in the page cache; it is called with each sample.
    ///
    /// # Errors
    /// The first error among the events, or [`Interrupted`].
    pub fn run(
        self,
        testbed: &mut Testbed,
        measurement: &mut Measurement,
        events: &Receiver<Result<Event>>,
        mut cached_bytes: impl FnMut() -> (u64, u64),
    ) -> Result<()> {
        let device = testbed.machine.device.as_ref();
        let number = device.map(|device| device.number.clone());
        let foreground = Foreground::new(self.reader_threads);
        let processes = Processes::without(self.attached_process);
        let mut sampler = Sampler::new(number, self.cgroup, foreground, processes);
        for missing in std::mem::take(&mut sampler.missing) {
            testbed.add_limitation(missing);
        }
        let mut sample = |measurement: &mut Measurement| {
            let (inputs, outputs) = cached_bytes();
            measurement.sample(sampler.sample(self.cgroup, inputs, outputs));
        };
        let update = |testbed: &Testbed, measurement: &Measurement, phase| {
            let p99_us = || measurement.p99_us(phase);
            testbed.progress.update(self.title, phase, p99_us);
        };
        sample(measurement);
        let mut next_sample_ns = now_ns();
        let mut phase = Phase::WarmUp;
        loop {
            if interrupt::is_requested() {
                return Err(Interrupted.into());
            }
            match events.recv_timeout(EVENT_WAIT) {
                Ok(event) => {
                    if let Some(begun) = measurement.take(event?) {
                        phase = begun;
                        sample(measurement);
                        update(testbed, measurement, phase);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if now_ns() >= next_sample_ns && phase != Phase::End {
                sample(measurement);
                next_sample_ns = now_ns() + SAMPLE_INTERVAL_NS;
                update(testbed, measurement, phase);
            }
        }
    }
}
