//! The append writer against a model: a kernel that only has what it was given, and a reference
//! file that has what every call was told. Millions of random operations, with faults.
//!
//! `COLDSTREAM_LONG=1` makes ten million operations; `COLDSTREAM_SEED=n` repeats a run.

use coldstream_io::Errno;
use coldstream_io::alignment::Alignment;
use coldstream_io::append::{Buffers, KernelIo, Operation, Staging, Verdict};
use std::cell::Cell;

/// A generator of which nothing is asked but to differ (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// Whether bytes are in flight, and their buffer set aside: what the buffers and the kernel know of
/// each other.
#[derive(Default)]
struct Tower {
    in_flight: Cell<bool>,
    set_aside: Cell<bool>,
}

impl Tower {
    fn may_fill(&self) -> bool {
        !self.in_flight.get() || self.set_aside.get()
    }
}

/// One buffer or two.
struct Memory<'a> {
    buffers: [Vec<u8>; 2],
    filling: usize,
    tower: &'a Tower,
}

impl Buffers for Memory<'_> {
    fn to_fill(&mut self) -> &mut [u8] {
        assert!(self.tower.may_fill(), "bytes in flight could be changed");
        &mut self.buffers[self.filling]
    }

    fn to_write(&self) -> &[u8] {
        &self.buffers[1 - self.filling]
    }

    fn swap(&mut self) {
        let was_set_aside = self.tower.set_aside.replace(true);
        assert!(!was_set_aside || !self.tower.in_flight.get());
        self.filling = 1 - self.filling;
    }
}

/// A write that was begun.
struct Flight {
    bytes: Vec<u8>,
    offset: u64,
    /// How it ended, once the kernel made it.
    result: Option<Result<usize, Errno>>,
}

/// What the kernel was given.
struct Kernel<'a> {
    file: Vec<u8>,
    /// Block by block, whether the page cache has a page of it.
    cached: Vec<bool>,
    alignment: Alignment,
    random: Random,
    /// Faults come once in so many calls; 0 is never.
    fault_every: u64,
    /// Errors that end a cached write are on.
    full: bool,
    reference: &'a [u8],
    direct_bytes: u64,
    calls: u64,
    tower: &'a Tower,
    flight: Option<Flight>,
    flights: u64,
    failed_flights: u64,
}

impl Kernel<'_> {
    fn fault(&mut self) -> Option<Errno> {
        self.calls += 1;
        (self.fault_every > 0 && self.random.once_in(self.fault_every)).then(|| {
            let errors = [
                libc::EINTR,
                libc::EIO,
                libc::ENOSPC,
                libc::EAGAIN,
                libc::EINVAL,
            ];
            Errno(errors[self.random.below(5) as usize])
        })
    }

    fn take(&mut self, bytes: &[u8], offset: u64, unit: u64) -> usize {
        assert_eq!(offset, self.file.len() as u64, "only ever at the end");
        let mut count = bytes.len();
        if self.fault_every > 0 && self.random.once_in(self.fault_every) && count as u64 > unit {
            // A short write.
            count = (self.random.below(count as u64 / unit) * unit).max(1) as usize;
        }
        let end = self.file.len() + count;
        // What goes to the kernel is what the application wrote there, and not one byte more.
        assert_eq!(&bytes[..count], &self.reference[self.file.len()..end]);
        self.file.extend_from_slice(&bytes[..count]);
        count
    }
}

impl Kernel<'_> {
    /// Nothing fails but for a fault.
    fn assert_possible<T: std::fmt::Debug>(&self, result: &Result<T, Errno>) {
        assert!(result.is_ok() || self.fault_every > 0, "{result:?}");
    }

    /// Whether a write was begun that the kernel has not made yet.
    fn is_pending(&self) -> bool {
        let flight = self.flight.as_ref();
        flight.is_some_and(|flight| flight.result.is_none())
    }

    /// The moment at which the write in flight is made.
    fn make_flight(&mut self) {
        let Some(mut flight) = self.flight.take() else {
            return;
        };
        if flight.result.is_none() {
            let result = self.make_direct(&flight.bytes, flight.offset);
            self.failed_flights += u64::from(result != Ok(flight.bytes.len()));
            flight.result = Some(result);
        }
        self.flight = Some(flight);
    }

    fn make_direct(&mut self, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        let block = self.alignment.bytes();
        assert_eq!(offset % block, 0);
        assert_eq!(bytes.len() as u64 % block, 0);
        for number in offset / block..(offset + bytes.len() as u64) / block {
            let cached = self.cached.get(number as usize).copied().unwrap_or(false);
            assert!(!cached, "a direct write over a page of the page cache");
        }
        if let Some(errno) = self.fault() {
            return Err(errno);
        }
        let count = self.take(bytes, offset, 512);
        self.direct_bytes += count as u64;
        Ok(count)
    }
}

impl KernelIo for Kernel<'_> {
    fn write_direct(&mut self, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        assert!(self.flight.is_none(), "a second write at once");
        self.make_direct(bytes, offset)
    }

    fn start_direct(&mut self, bytes: &[u8], offset: u64) -> bool {
        assert!(self.flight.is_none(), "a second write in flight");
        if self.random.once_in(10) {
            return false;
        }
        assert_eq!(offset, self.file.len() as u64);
        self.tower.in_flight.set(true);
        self.tower.set_aside.set(false);
        self.flights += 1;
        self.flight = Some(Flight {
            bytes: bytes.to_vec(),
            offset,
            result: None,
        });
        true
    }

    fn direct_is_finished(&mut self) -> bool {
        if self.random.once_in(20) {
            self.make_flight();
        }
        let flight = self.flight.as_ref().expect("asked only in flight");
        flight.result.is_some()
    }

    fn finish_direct(&mut self) -> Result<usize, Errno> {
        self.make_flight();
        let flight = self.flight.take().expect("a write in flight");
        self.tower.in_flight.set(false);
        flight.result.expect("made just now")
    }

    fn write_back_before(&mut self, start: u64, end: u64) {
        assert!(start < end && end == self.file.len() as u64);
        assert!(self.flight.is_none());
    }

    fn write_cached(&mut self, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        assert!(self.flight.is_none(), "a second write at once");
        if self.full {
            return Err(Errno(libc::ENOSPC));
        }
        if let Some(errno) = self.fault() {
            return Err(errno);
        }
        let count = self.take(bytes, offset, 1);
        let block = self.alignment.bytes();
        let last = ((offset + count as u64 - 1) / block) as usize;
        if self.cached.len() <= last {
            self.cached.resize(last + 1, false);
        }
        self.cached[(offset / block) as usize..=last].fill(true);
        Ok(count)
    }
}

/// A file is begun anew when it has grown to this.
const FILE_BYTES_MAX: usize = 6 << 20;

struct Run {
    operations: u64,
    files: u64,
    direct_bytes: u64,
    calls: u64,
    writes: u64,
    flights: u64,
    failed_flights: u64,
    /// Made when the file had been truncated.
    late_flights: u64,
}

impl Run {
    fn has_all(&self) -> bool {
        [
            self.direct_bytes,
            self.flights,
            self.failed_flights,
            self.late_flights,
        ]
        .iter()
        .all(|count| *count > 0)
    }
}

/// Writes one file and looks at it; returns how many operations that took.
fn one_file(random: &mut Random, run: &mut Run) {
    let alignment = Alignment::covering(1, 1 << (12 + random.below(3))).unwrap();
    let buffer_bytes = 1 << (17 + random.below(3));
    let tower = Tower::default();
    let mut memory = Memory {
        buffers: [
            vec![0; buffer_bytes],
            // Often there is no memory for a second one.
            vec![0; if random.once_in(3) { 0 } else { buffer_bytes }],
        ],
        filling: 0,
        tower: &tower,
    };
    let source: Vec<u8> = {
        let mut word = random.next();
        (0..FILE_BYTES_MAX + (1 << 20))
            .map(|_| {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (word >> 56) as u8
            })
            .collect()
    };
    let mut kernel = Kernel {
        file: Vec::new(),
        cached: Vec::new(),
        alignment,
        random: Random(random.next()),
        fault_every: [0, 0, 5, 40][random.below(4) as usize],
        full: false,
        reference: &source,
        direct_bytes: 0,
        calls: 0,
        tower: &tower,
        flight: None,
        flights: 0,
        failed_flights: 0,
    };
    let mut staging = Staging::default();
    // What the application was told that the file is: always a prefix of `source`.
    let mut told: u64 = 0;
    let through = random.once_in(4);
    let size_of_writes = [100, 5000, 70_000, 1_000_000][random.below(4) as usize];
    loop {
        run.operations += 1;
        // A full disk comes and goes.
        if kernel.fault_every > 0 && random.once_in(50) {
            kernel.full = !kernel.full;
        }
        // The write in flight is made whenever it is made.
        if random.once_in(10) {
            kernel.make_flight();
        }
        let operation = if kernel.is_pending() && random.once_in(8) {
            39
        } else {
            random.below(41)
        };
        match operation {
            0..=29 => {
                let length = match random.below(4) {
                    0 => 4118,
                    1 => 4,
                    _ => 1 + random.below(size_of_writes),
                } as usize;
                let bytes = &source[told as usize..told as usize + length];
                assert_eq!(staging.verdict(Operation::Append), Verdict::Buffer);
                let result = if through {
                    staging.append_write_through(&mut kernel, &mut memory, alignment, bytes)
                } else {
                    staging.append(&mut kernel, &mut memory, alignment, bytes)
                };
                run.writes += 1;
                kernel.assert_possible(&result);
                if let Ok(taken) = result {
                    assert!(taken > 0 && taken <= length);
                    assert!(taken == length || kernel.fault_every > 0);
                    told += taken as u64;
                    if through {
                        assert_eq!(kernel.file.len() as u64, told);
                    }
                }
            }
            30 => {
                let drained = staging.drain(&mut kernel, &mut memory, alignment);
                kernel.assert_possible(&drained);
                assert_eq!(drained.is_ok(), staging.staged_bytes() == 0);
                assert!(kernel.flight.is_none());
            }
            31..=35 => {
                let start = random.below(told + 5000);
                let end = start + random.below(20_000);
                match staging.verdict(Operation::ReadAt { start, end }) {
                    Verdict::Proceed => {}
                    Verdict::Drain => {
                        if staging.drain(&mut kernel, &mut memory, alignment).is_err() {
                            continue;
                        }
                    }
                    other => panic!("{other:?}"),
                }
                let clip = |at: u64, size: usize| (at as usize).min(size);
                let seen =
                    &kernel.file[clip(start, kernel.file.len())..clip(end, kernel.file.len())];
                let size = told as usize;
                assert_eq!(seen, &source[clip(start, size)..clip(end, size)]);
            }
            36 | 37 => match staging.verdict(Operation::AskPosition) {
                Verdict::Answer(position) => assert_eq!(position, told),
                other => panic!("{other:?}"),
            },
            38 => {
                // Truncated, and appended on from there.
                let verdict = staging.verdict(Operation::Truncate);
                assert_eq!(verdict, Verdict::Drain);
                if staging.drain(&mut kernel, &mut memory, alignment).is_ok() {
                    let size = random.below(told + 1);
                    kernel.file.truncate(size as usize);
                    let blocks = size.div_ceil(alignment.bytes()) as usize;
                    kernel.cached.truncate(blocks);
                    // Cutting a block brings its page in.
                    if !size.is_multiple_of(alignment.bytes()) {
                        kernel.cached.resize(blocks, false);
                        kernel.cached[blocks - 1] = true;
                    }
                    staging.set_size_and_position(size, size);
                    told = size;
                }
            }
            39 if kernel.is_pending() || random.once_in(40) => {
                // Truncated by its name: before or after what is in flight is made.
                kernel.file.clear();
                kernel.cached.clear();
                let pending = kernel
                    .flight
                    .as_ref()
                    .filter(|flight| flight.result.is_none());
                let late = pending.map(|flight| flight.offset as usize + flight.bytes.len());
                if let Some(end) = late {
                    // Made now, it leaves a hole before it.
                    run.late_flights += 1;
                    kernel.file.resize(end, 0);
                    let flight = kernel.flight.as_mut().expect("pending");
                    flight.result = Some(Ok(flight.bytes.len()));
                }
                let was_in_flight = kernel.flight.is_some();
                assert_eq!(staging.discard(&mut kernel), was_in_flight);
                assert!(kernel.flight.is_none());
                if was_in_flight {
                    kernel.file.clear();
                }
                assert_eq!((staging.staged_bytes(), staging.end()), (0, 0));
                assert_eq!(staging.position(), told);
                staging.set_size_and_position(0, 0);
                told = 0;
            }
            _ => {
                for operation in [Operation::Observe, Operation::Sync, Operation::MovePosition] {
                    assert_eq!(staging.verdict(operation), Verdict::Drain);
                }
                if staging.drain(&mut kernel, &mut memory, alignment).is_ok() {
                    assert_eq!(kernel.file.len() as u64, told);
                }
            }
        }
        assert_eq!(staging.end(), told);
        let drained = told - staging.staged_bytes();
        if let Some(flight) = &kernel.flight {
            assert_eq!(flight.offset, drained, "it is what is staged first");
            let made = flight.result.unwrap_or(Ok(0)).unwrap_or(0) as u64;
            assert_eq!(kernel.file.len() as u64, drained + made);
        } else {
            assert_eq!(kernel.file.len() as u64, drained);
        }
        if told as usize >= FILE_BYTES_MAX || random.once_in(20_000) {
            break;
        }
    }
    kernel.full = false;
    kernel.fault_every = 0;
    staging.drain(&mut kernel, &mut memory, alignment).unwrap();
    assert_eq!(&kernel.file, &source[..told as usize]);
    run.files += 1;
    run.direct_bytes += kernel.direct_bytes;
    run.calls += kernel.calls;
    run.flights += kernel.flights;
    run.failed_flights += kernel.failed_flights;
}

#[test]
fn the_kernel_has_a_prefix_of_what_was_appended() {
    let number = |name| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    let long = std::env::var_os("COLDSTREAM_LONG").is_some_and(|value| value != "0");
    let operations = if long { 10_000_000 } else { 200_000 };
    let seed = number("COLDSTREAM_SEED").unwrap_or_else(|| match long {
        true => std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64,
        false => 1,
    });
    println!("seed {seed}");
    let mut random = Random(seed);
    let mut run = Run {
        operations: 0,
        files: 0,
        direct_bytes: 0,
        calls: 0,
        writes: 0,
        flights: 0,
        failed_flights: 0,
        late_flights: 0,
    };
    // A short run may have none of the rarer things; then it goes on.
    while run.operations < operations || (!run.has_all() && run.operations < 20 * operations) {
        one_file(&mut random, &mut run);
    }
    println!(
        "{} operations on {} files: {} writes in {} calls of the kernel, {} MiB directly, \
         {} writes beside the application, {} of which failed",
        run.operations,
        run.files,
        run.writes,
        run.calls,
        run.direct_bytes >> 20,
        run.flights,
        run.failed_flights,
    );
    assert!(run.has_all());
}
