//! Compares the append writer with a model, by millions of random operations with faults.
//!
//! The model has two files. The kernel's file has the bytes that it got. The reference has the bytes that the
//! application was allowed to rely on.
//!
//! `COLDSTREAM_LONG=1` makes ten million operations; `COLDSTREAM_SEED=n` repeats a run.

use coldstream_io::Errno;
use coldstream_io::alignment::Alignment;
use coldstream_io::append::{Buffers, KernelIo, Operation, Staging, Verdict};
use std::cell::Cell;

/// A simple generator of random numbers (splitmix64).
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

/// What the buffers and the kernel must know of each other.
#[derive(Default)]
struct FlightState {
    /// A write is in flight.
    in_flight: Cell<bool>,
    /// The buffers were exchanged since it started: its bytes are not in the buffer to fill.
    set_aside: Cell<bool>,
}

impl FlightState {
    fn may_fill(&self) -> bool {
        !self.in_flight.get() || self.set_aside.get()
    }
}

/// One buffer or two.
struct Memory<'a> {
    buffers: [Vec<u8>; 2],
    to_fill: usize,
    state: &'a FlightState,
}

impl Buffers for Memory<'_> {
    fn to_fill(&mut self) -> &mut [u8] {
        assert!(self.state.may_fill(), "bytes in flight could be changed");
        &mut self.buffers[self.to_fill]
    }

    fn to_write(&self) -> &[u8] {
        &self.buffers[1 - self.to_fill]
    }

    fn swap(&mut self) {
        let was_set_aside = self.state.set_aside.replace(true);
        assert!(!was_set_aside || !self.state.in_flight.get());
        self.to_fill = 1 - self.to_fill;
    }
}

/// A started write.
struct Flight {
    bytes: Vec<u8>,
    offset: u64,
    /// Its result, once the kernel has made it.
    result: Option<Result<usize, Errno>>,
}

/// The model of the kernel.
struct Kernel<'a> {
    file: Vec<u8>,
    /// For each block, whether the page cache has a page of it.
    cached: Vec<bool>,
    alignment: Alignment,
    random: Random,
    /// One call in `fault_every` fails; 0 is none.
    fault_every: u64,
    /// The disk is full: every cached write fails.
    full: bool,
    reference: &'a [u8],
    /// The first byte that went through the page cache and was not written back.
    unordered_from: Option<u64>,
    /// How often such bytes were written back before a direct write.
    write_backs: u64,
    direct_bytes: u64,
    calls: u64,
    state: &'a FlightState,
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
        assert_eq!(
            offset,
            self.file.len() as u64,
            "writes are always at the end"
        );
        let mut count = bytes.len();
        if self.fault_every > 0 && self.random.once_in(self.fault_every) && count as u64 > unit {
            // A short write.
            count = (self.random.below(count as u64 / unit) * unit).max(1) as usize;
        }
        let end = self.file.len() + count;
        // The kernel gets the application's bytes, and not one byte more.
        assert_eq!(&bytes[..count], &self.reference[self.file.len()..end]);
        self.file.extend_from_slice(&bytes[..count]);
        count
    }
}

impl Kernel<'_> {
    /// Without faults nothing may fail.
    fn assert_possible<T: std::fmt::Debug>(&self, result: &Result<T, Errno>) {
        assert!(result.is_ok() || self.fault_every > 0, "{result:?}");
    }

    /// Before a direct write everything before it is on the device.
    fn assert_ordered(&self) {
        assert_eq!(self.unordered_from, None, "a power cut would leave a gap");
    }

    /// Whether a write was started that the kernel has not made yet.
    fn is_pending(&self) -> bool {
        let flight = self.flight.as_ref();
        flight.is_some_and(|flight| flight.result.is_none())
    }

    /// Makes the write in flight.
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
        self.assert_ordered();
        self.make_direct(bytes, offset)
    }

    fn start_direct(&mut self, bytes: &[u8], offset: u64) -> bool {
        assert!(self.flight.is_none(), "a second write in flight");
        self.assert_ordered();
        if self.random.once_in(10) {
            return false;
        }
        assert_eq!(offset, self.file.len() as u64);
        self.state.in_flight.set(true);
        self.state.set_aside.set(false);
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
        self.state.in_flight.set(false);
        flight.result.expect("made just now")
    }

    fn write_back_before(&mut self, start: u64, end: u64) {
        assert!(start < end && end == self.file.len() as u64);
        assert!(self.flight.is_none());
        let first = self.unordered_from.take();
        assert!(
            first.is_some_and(|first| start <= first),
            "{start}: {first:?}"
        );
        self.write_backs += 1;
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
        self.unordered_from.get_or_insert(offset);
        let block = self.alignment.bytes();
        let last = ((offset + count as u64 - 1) / block) as usize;
        if self.cached.len() <= last {
            self.cached.resize(last + 1, false);
        }
        self.cached[(offset / block) as usize..=last].fill(true);
        Ok(count)
    }
}

/// The size in bytes at which a file is complete.
const FILE_BYTES_MAX: usize = 6 << 20;

struct Run {
    operations: u64,
    files: u64,
    direct_bytes: u64,
    calls: u64,
    writes: u64,
    flights: u64,
    failed_flights: u64,
    /// Writes in flight that were made after the file was truncated.
    late_flights: u64,
    write_backs: u64,
}

impl Run {
    fn has_all(&self) -> bool {
        [
            self.direct_bytes,
            self.flights,
            self.failed_flights,
            self.late_flights,
            self.write_backs,
        ]
        .iter()
        .all(|count| *count > 0)
    }
}

/// One file that is written, and its model.
struct OneFile<'a> {
    random: &'a mut Random,
    run: &'a mut Run,
    alignment: Alignment,
    source: &'a [u8],
    kernel: Kernel<'a>,
    memory: Memory<'a>,
    staging: Staging,
    /// The size that was reported to the application: the file is a prefix of `source` of this length.
    reported_bytes: u64,
    write_through: bool,
    write_bytes_max: u64,
}

impl OneFile<'_> {
    /// Makes a random operation, and compares with the model afterwards.
    fn step(&mut self) {
        self.run.operations += 1;
        // The disk is full for some time.
        if self.kernel.fault_every > 0 && self.random.once_in(50) {
            self.kernel.full = !self.kernel.full;
        }
        // The kernel makes the write in flight at any moment.
        if self.random.once_in(10) {
            self.kernel.make_flight();
        }
        let operation = if self.kernel.is_pending() && self.random.once_in(8) {
            39
        } else {
            self.random.below(41)
        };
        match operation {
            0..=29 => self.append(),
            30 => self.drain(),
            31..=35 => self.read_at(),
            36 | 37 => self.ask_position(),
            38 => self.truncate(),
            39 if self.kernel.is_pending() || self.random.once_in(40) => self.truncate_by_name(),
            _ => self.observe(),
        }
        self.compare();
    }

    fn append(&mut self) {
        let length = match self.random.below(4) {
            0 => 4118,
            1 => 4,
            _ => 1 + self.random.below(self.write_bytes_max),
        } as usize;
        let bytes =
            &self.source[self.reported_bytes as usize..self.reported_bytes as usize + length];
        assert_eq!(self.staging.verdict(Operation::Write), Verdict::Buffer);
        let (kernel, memory) = (&mut self.kernel, &mut self.memory);
        let result = if self.write_through {
            (self.staging).append_write_through(kernel, memory, self.alignment, bytes)
        } else {
            self.staging.append(kernel, memory, self.alignment, bytes)
        };
        self.run.writes += 1;
        self.kernel.assert_possible(&result);
        if let Ok(taken) = result {
            assert!(taken > 0 && taken <= length);
            assert!(taken == length || self.kernel.fault_every > 0);
            self.reported_bytes += taken as u64;
            if self.write_through {
                assert_eq!(self.kernel.file.len() as u64, self.reported_bytes);
            }
        }
    }

    fn drain(&mut self) {
        let drained = self.drain_staging();
        self.kernel.assert_possible(&drained);
        assert_eq!(drained.is_ok(), self.staging.staged_bytes() == 0);
        assert!(self.kernel.flight.is_none());
    }

    fn drain_staging(&mut self) -> Result<(), Errno> {
        (self.staging).drain(&mut self.kernel, &mut self.memory, self.alignment)
    }

    fn read_at(&mut self) {
        let start = self.random.below(self.reported_bytes + 5000);
        let end = start + self.random.below(20_000);
        match self.staging.verdict(Operation::ReadAt { start, end }) {
            Verdict::Proceed => {}
            Verdict::Drain => {
                if self.drain_staging().is_err() {
                    return;
                }
            }
            other => panic!("{other:?}"),
        }
        let clip = |at: u64, size: usize| (at as usize).min(size);
        let file = &self.kernel.file;
        let seen = &file[clip(start, file.len())..clip(end, file.len())];
        let size = self.reported_bytes as usize;
        assert_eq!(seen, &self.source[clip(start, size)..clip(end, size)]);
    }

    fn ask_position(&mut self) {
        match self.staging.verdict(Operation::AskPosition) {
            Verdict::Answer(position) => assert_eq!(position, self.reported_bytes),
            other => panic!("{other:?}"),
        }
    }

    /// The application truncates the file, and appends from there on.
    fn truncate(&mut self) {
        let verdict = self.staging.verdict(Operation::Truncate);
        assert_eq!(verdict, Verdict::Drain);
        if self.drain_staging().is_ok() {
            let size = self.random.below(self.reported_bytes + 1);
            self.kernel.file.truncate(size as usize);
            self.kernel.unordered_from = self.kernel.unordered_from.filter(|from| *from < size);
            let blocks = size.div_ceil(self.alignment.bytes()) as usize;
            self.kernel.cached.truncate(blocks);
            // Cutting a block brings its page in.
            if !size.is_multiple_of(self.alignment.bytes()) {
                self.kernel.cached.resize(blocks, false);
                self.kernel.cached[blocks - 1] = true;
            }
            self.staging.set_size_and_position(size, size);
            self.reported_bytes = size;
        }
    }

    /// Another process truncates the file to nothing, before or after the write in flight is made.
    fn truncate_by_name(&mut self) {
        let kernel = &mut self.kernel;
        kernel.file.clear();
        kernel.unordered_from = None;
        kernel.cached.clear();
        let pending = kernel
            .flight
            .as_ref()
            .filter(|flight| flight.result.is_none());
        let late = pending.map(|flight| flight.offset as usize + flight.bytes.len());
        if let Some(end) = late {
            // Made now, it leaves a hole before it.
            self.run.late_flights += 1;
            kernel.file.resize(end, 0);
            let flight = kernel.flight.as_mut().expect("pending");
            flight.result = Some(Ok(flight.bytes.len()));
        }
        let was_in_flight = kernel.flight.is_some();
        assert_eq!(self.staging.discard(kernel), was_in_flight);
        assert!(kernel.flight.is_none());
        if was_in_flight {
            kernel.file.clear();
        }
        assert_eq!((self.staging.staged_bytes(), self.staging.end()), (0, 0));
        assert_eq!(self.staging.position(), self.reported_bytes);
        self.staging.set_size_and_position(0, 0);
        self.reported_bytes = 0;
    }

    fn observe(&mut self) {
        for operation in [Operation::Observe, Operation::Sync, Operation::MovePosition] {
            assert_eq!(self.staging.verdict(operation), Verdict::Drain);
        }
        if self.drain_staging().is_ok() {
            assert_eq!(self.kernel.file.len() as u64, self.reported_bytes);
        }
    }

    fn compare(&self) {
        assert_eq!(self.staging.end(), self.reported_bytes);
        let drained = self.reported_bytes - self.staging.staged_bytes();
        if let Some(flight) = &self.kernel.flight {
            assert_eq!(
                flight.offset, drained,
                "the first staged bytes are in flight"
            );
            let made = flight.result.unwrap_or(Ok(0)).unwrap_or(0) as u64;
            assert_eq!(self.kernel.file.len() as u64, drained + made);
        } else {
            assert_eq!(self.kernel.file.len() as u64, drained);
        }
    }

    /// Drains without faults, and compares the whole file.
    fn finish(mut self) {
        self.kernel.full = false;
        self.kernel.fault_every = 0;
        self.drain_staging().unwrap();
        assert_eq!(
            &self.kernel.file,
            &self.source[..self.reported_bytes as usize]
        );
        self.run.files += 1;
        self.run.direct_bytes += self.kernel.direct_bytes;
        self.run.calls += self.kernel.calls;
        self.run.flights += self.kernel.flights;
        self.run.failed_flights += self.kernel.failed_flights;
        self.run.write_backs += self.kernel.write_backs;
    }
}

/// Writes one file by random operations.
fn one_file(random: &mut Random, run: &mut Run) {
    let alignment = Alignment::covering(1, 1 << (12 + random.below(3))).unwrap();
    let buffer_bytes = 1 << (17 + random.below(3));
    let state = FlightState::default();
    let memory = Memory {
        buffers: [
            vec![0; buffer_bytes],
            // Often there is no memory for a second one.
            vec![0; if random.once_in(3) { 0 } else { buffer_bytes }],
        ],
        to_fill: 0,
        state: &state,
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
    let kernel = Kernel {
        file: Vec::new(),
        cached: Vec::new(),
        alignment,
        random: Random(random.next()),
        fault_every: [0, 0, 5, 40][random.below(4) as usize],
        full: false,
        reference: &source,
        unordered_from: None,
        write_backs: 0,
        direct_bytes: 0,
        calls: 0,
        state: &state,
        flight: None,
        flights: 0,
        failed_flights: 0,
    };
    let write_through = random.once_in(4);
    let write_bytes_max = [100, 5000, 70_000, 1_000_000][random.below(4) as usize];
    let mut file = OneFile {
        random,
        run,
        alignment,
        source: &source,
        kernel,
        memory,
        staging: Staging::default(),
        reported_bytes: 0,
        write_through,
        write_bytes_max,
    };
    loop {
        file.step();
        if file.reported_bytes as usize >= FILE_BYTES_MAX || file.random.once_in(20_000) {
            break;
        }
    }
    file.finish();
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
        write_backs: 0,
    };
    // A short run may lack rare events; then it goes on.
    while run.operations < operations || (!run.has_all() && run.operations < 20 * operations) {
        one_file(&mut random, &mut run);
    }
    println!(
        "{} operations on {} files: {} writes in {} calls of the kernel, {} MiB directly, \
         {} writes in flight, {} of them failed",
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
