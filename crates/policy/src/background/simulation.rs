//! A simulated device with queues, a foreground that reads at random times, and compactions that read and
//! write as fast as they may. Time is simulated too: nothing here depends on the machine.

use super::{Bucket, Controller, Latencies, Observed, Pace, TICK_NS};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const SECOND_NS: u64 = 1_000_000_000;
pub(super) const MIB: u64 = 1 << 20;

/// A device. Its servers take chunks of requests in the order of arrival. Each request takes a fixed time in
/// addition.
#[derive(Clone)]
pub(super) struct Device {
    free_ns: Vec<u64>,
    chunk_bytes: u64,
    chunk_ns: u64,
    server_bytes_per_second: u64,
    /// The seek of a request that does not begin at the end of the last one of its stream.
    seek_ns: u64,
    last_stream: u32,
    latency_ns: u64,
}

impl Device {
    fn new(servers: usize, chunk_bytes: u64, chunk_ns: u64, bytes_per_second: u64) -> Self {
        Self {
            free_ns: vec![0; servers],
            chunk_bytes,
            chunk_ns,
            server_bytes_per_second: bytes_per_second,
            seek_ns: 0,
            last_stream: 0,
            latency_ns: 0,
        }
    }

    /// Twelve channels, 3 GB/s.
    pub(super) fn nvme() -> Self {
        Self::new(12, 128 << 10, 60_000, 300_000_000)
    }

    /// 250 MB/s and 6,000 operations per second of up to 256 KiB, whichever comes first.
    pub(super) fn cloud() -> Self {
        Self {
            latency_ns: 600_000,
            ..Self::new(1, 256 << 10, 166_667, 300_000_000)
        }
    }

    /// Four channels behind 550 MB/s.
    pub(super) fn sata() -> Self {
        Self {
            latency_ns: 60_000,
            ..Self::new(1, 128 << 10, 10_000, 550_000_000)
        }
    }

    /// Seeks of 8 ms, 180 MB/s.
    pub(super) fn disk() -> Self {
        Self {
            seek_ns: 8_000_000,
            ..Self::new(1, 1 << 20, 100_000, 180_000_000)
        }
    }

    /// Submits a request. Returns the time of its end.
    fn submit(&mut self, now_ns: u64, bytes: u64, stream: u32) -> u64 {
        let mut seek_ns = if stream == 0 || stream != self.last_stream {
            self.seek_ns
        } else {
            0
        };
        self.last_stream = stream;
        let mut done_ns = now_ns;
        let mut left = bytes;
        while left > 0 {
            let chunk = left.min(self.chunk_bytes);
            left -= chunk;
            let service_ns = self.chunk_ns + chunk * SECOND_NS / self.server_bytes_per_second;
            let server = self.free_ns.iter_mut().min().expect("a server");
            *server = (*server).max(now_ns) + service_ns + std::mem::take(&mut seek_ns);
            done_ns = done_ns.max(*server);
        }
        done_ns + self.latency_ns
    }
}

/// What goes on.
#[derive(Clone)]
pub(super) struct Scene {
    pub(super) device: Device,
    /// Device reads of the foreground per second, of 4 KiB each, with their begin and end.
    pub(super) reads_per_second: u64,
    pub(super) reads_from_ns: u64,
    pub(super) reads_until_ns: u64,
    /// One read in this number is timed.
    pub(super) one_of: u64,
    /// Compaction threads, the begin of their work, and its size at first.
    pub(super) threads: u32,
    pub(super) compaction_from_ns: u64,
    pub(super) work_bytes: u64,
    /// Processor time of a compaction for each MiB.
    pub(super) work_ns: u64,
    /// 64 MiB are flushed once in this time; compactions move this multiple of it.
    pub(super) flush_every_ns: Option<u64>,
    pub(super) flush_cost: u64,
    pub(super) until_ns: u64,
    /// With the controller, and this floor.
    pub(super) floor: Option<u64>,
}

impl Scene {
    pub(super) fn of(device: Device, reads_per_second: u64) -> Self {
        Self {
            device,
            reads_per_second,
            reads_from_ns: 0,
            reads_until_ns: u64::MAX,
            one_of: if reads_per_second < 100 { 1 } else { 4 },
            threads: 2,
            compaction_from_ns: 5 * SECOND_NS,
            work_bytes: u64::MAX,
            work_ns: 500_000,
            flush_every_ns: None,
            flush_cost: 8,
            until_ns: 30 * SECOND_NS,
            floor: None,
        }
    }

    pub(super) fn paced(&self, floor: u64) -> Self {
        Self {
            floor: Some(floor),
            ..self.clone()
        }
    }
}

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Latencies of the foreground before compactions begin, and from five seconds after on.
    idle_ns: Vec<u64>,
    busy_ns: Vec<u64>,
    /// Bytes that compactions moved, by the second.
    pub(super) moved: Vec<u64>,
    pub(super) owed_bytes: u64,
    pub(super) most_owed_bytes: u64,
    pub(super) debt_bytes_max: u64,
    pub(super) controller: Controller,
}

fn percentile(sorted: &mut [u64], per_mille: usize) -> f64 {
    sorted.sort_unstable();
    let place = (sorted.len() * per_mille / 1000).min(sorted.len().saturating_sub(1));
    sorted.get(place).map_or(f64::NAN, |ns| *ns as f64)
}

impl Outcome {
    pub(super) fn idle(&mut self, per_mille: usize) -> f64 {
        percentile(&mut self.idle_ns, per_mille)
    }

    pub(super) fn busy(&mut self, per_mille: usize) -> f64 {
        percentile(&mut self.busy_ns, per_mille)
    }

    /// Bytes per second over these seconds.
    pub(super) fn throughput(&self, seconds: std::ops::Range<usize>) -> f64 {
        let count = seconds.len() as f64;
        self.moved[seconds].iter().sum::<u64>() as f64 / count
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Read,
    /// A timed read is done.
    Timed(u64),
    /// A compaction's request: its thread, and bytes of the one that is just done.
    Work(u32, u64),
    Flush,
}

/// xorshift, so that every run is the same.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Time to the next of events that come independently of one another.
    fn gap_ns(&mut self, per_second: u64) -> u64 {
        let uniform = ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        (-uniform.ln() * SECOND_NS as f64 / per_second as f64) as u64
    }
}

/// Runs a scene and says what it came to.
#[expect(
    clippy::too_many_lines,
    reason = "a loop over events, and each of them changes the same dozen variables"
)]
pub(super) fn run(scene: &Scene) -> Outcome {
    let mut device = scene.device.clone();
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    let mut outcome = Outcome {
        moved: vec![0; (scene.until_ns / SECOND_NS) as usize + 1],
        ..Outcome::default()
    };
    let bucket = Bucket::default();
    let mut pace = Pace::default();
    let mut reads = Latencies::default();
    let (mut unseen_bytes, mut unseen_flushed) = (0, 0);
    let mut ticked_ns = 0;
    outcome.owed_bytes = scene.work_bytes;
    let mut number = 0_u64;

    let mut events = BinaryHeap::new();
    events.push(Reverse((scene.reads_from_ns, Event::Read)));
    for thread in 0..scene.threads {
        // One request is read ahead of the consumer, as is one written behind it.
        for _ in 0..2 {
            events.push(Reverse((scene.compaction_from_ns, Event::Work(thread, 0))));
        }
    }
    if let Some(every_ns) = scene.flush_every_ns {
        events.push(Reverse((scene.compaction_from_ns + every_ns, Event::Flush)));
    }
    while let Some(Reverse((now, event))) = events.pop() {
        if now >= scene.until_ns {
            break;
        }
        match event {
            Event::Read => {
                let done = device.submit(now, 4096, 0);
                number += 1;
                if number.is_multiple_of(scene.one_of) {
                    events.push(Reverse((done, Event::Timed(done - now))));
                }
                if now < scene.compaction_from_ns {
                    outcome.idle_ns.push(done - now);
                } else if now >= scene.compaction_from_ns + 5 * SECOND_NS {
                    outcome.busy_ns.push(done - now);
                }
                let next = now + random.gap_ns(scene.reads_per_second);
                if next < scene.reads_until_ns {
                    events.push(Reverse((next, Event::Read)));
                }
            }
            Event::Timed(ns) => reads.record(ns),
            Event::Flush => {
                let bytes = 64 * MIB;
                for _ in 0..64 {
                    device.submit(now, MIB, u32::MAX);
                }
                unseen_flushed += bytes;
                outcome.owed_bytes = outcome.owed_bytes.saturating_add(scene.flush_cost * bytes);
                outcome.most_owed_bytes = outcome.most_owed_bytes.max(outcome.owed_bytes);
                if let Some(every_ns) = scene.flush_every_ns {
                    events.push(Reverse((now + every_ns, Event::Flush)));
                }
            }
            Event::Work(thread, done_bytes) => {
                if let Some(floor) = scene.floor {
                    if now >= ticked_ns + TICK_NS {
                        let observed = Observed {
                            reads: Some(&reads),
                            background_bytes: unseen_bytes,
                            compacted_bytes: unseen_bytes,
                            flushed_bytes: unseen_flushed,
                            busy_until_ns: 0,
                            ..Observed::default()
                        };
                        pace = outcome.controller.tick(now, &observed, Some(floor)).pace;
                        assert!(pace.bytes_per_second == 0 || pace.bytes_per_second >= floor);
                        let figures = outcome.controller.figures();
                        outcome.debt_bytes_max = outcome.debt_bytes_max.max(figures.debt_bytes);
                        reads.clear();
                        (unseen_bytes, unseen_flushed) = (0, 0);
                        ticked_ns = now;
                    }
                    let wait = if pace.bytes_per_second == 0 {
                        0
                    } else {
                        bucket.wait_ns(now)
                    };
                    if wait > 0 {
                        let again = now + wait.min(100_000_000);
                        events.push(Reverse((again, Event::Work(thread, done_bytes))));
                        continue;
                    }
                }
                if outcome.owed_bytes == 0 {
                    let again = now + 1_000_000;
                    events.push(Reverse((again, Event::Work(thread, 0))));
                    continue;
                }
                let bytes = match pace.request_bytes {
                    0 => MIB,
                    bytes => bytes as u64,
                }
                .min(outcome.owed_bytes);
                let done = device.submit(now, bytes, 1 + thread);
                if scene.floor.is_some() {
                    bucket.take(bytes, pace.bytes_per_second, now);
                }
                unseen_bytes += bytes;
                outcome.owed_bytes -= if scene.work_bytes == u64::MAX {
                    0
                } else {
                    bytes
                };
                outcome.moved[(now / SECOND_NS) as usize] += bytes;
                let next = done + scene.work_ns * bytes / MIB;
                events.push(Reverse((next, Event::Work(thread, bytes))));
            }
        }
    }
    outcome
}
