//! The append writer against a model: a kernel that only has what it was given, and a reference
//! file that has what every call was told. Millions of random operations, with faults.
//!
//! `COLDSTREAM_LONG=1` makes ten million operations; `COLDSTREAM_SEED=n` repeats a run.

use coldstream_io::Errno;
use coldstream_io::alignment::Alignment;
use coldstream_io::append::{Edge, Operation, Staging, Verdict};

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

impl Edge for Kernel<'_> {
    fn write_direct(&mut self, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
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

    fn write_back_before(&mut self, start: u64, end: u64) {
        assert!(start < end && end == self.file.len() as u64);
    }

    fn write_cached(&mut self, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
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
}

/// Writes one file and looks at it; returns how many operations that took.
fn one_file(random: &mut Random, run: &mut Run) {
    let alignment = Alignment::covering(1, 1 << (12 + random.below(3))).unwrap();
    let mut memory = vec![0_u8; 1 << (17 + random.below(3))];
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
        match random.below(40) {
            0..=29 => {
                let length = match random.below(4) {
                    0 => 4118,
                    1 => 4,
                    _ => 1 + random.below(size_of_writes),
                } as usize;
                let bytes = &source[told as usize..told as usize + length];
                assert_eq!(staging.verdict(Operation::Append), Verdict::Stage);
                let result = if through {
                    staging.append_through(&mut kernel, &mut memory, alignment, bytes)
                } else {
                    staging.append(&mut kernel, &mut memory, alignment, bytes)
                };
                run.writes += 1;
                if let Ok(taken) = result {
                    assert!(taken > 0 && taken <= length);
                    told += taken as u64;
                    if through {
                        assert_eq!(kernel.file.len() as u64, told);
                    }
                }
            }
            30 => {
                let settled = staging.settle(&mut kernel, &mut memory, alignment);
                assert_eq!(settled.is_ok(), staging.staged_bytes() == 0);
            }
            31..=35 => {
                let start = random.below(told + 5000);
                let end = start + random.below(20_000);
                match staging.verdict(Operation::ReadAt { start, end }) {
                    Verdict::Leave => {}
                    Verdict::Settle => {
                        if staging.settle(&mut kernel, &mut memory, alignment).is_err() {
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
                assert_eq!(verdict, Verdict::Settle);
                if staging.settle(&mut kernel, &mut memory, alignment).is_ok() {
                    let size = random.below(told + 1);
                    kernel.file.truncate(size as usize);
                    let blocks = size.div_ceil(alignment.bytes()) as usize;
                    kernel.cached.truncate(blocks);
                    // Cutting a block brings its page in.
                    if !size.is_multiple_of(alignment.bytes()) {
                        kernel.cached.resize(blocks, false);
                        kernel.cached[blocks - 1] = true;
                    }
                    staging.moved(size, size);
                    told = size;
                }
            }
            _ => {
                for operation in [Operation::Observe, Operation::Sync, Operation::MovePosition] {
                    assert_eq!(staging.verdict(operation), Verdict::Settle);
                }
                if staging.settle(&mut kernel, &mut memory, alignment).is_ok() {
                    assert_eq!(kernel.file.len() as u64, told);
                }
            }
        }
        assert_eq!(staging.end(), told);
        assert_eq!(kernel.file.len() as u64, told - staging.staged_bytes());
        if told as usize >= FILE_BYTES_MAX || random.once_in(20_000) {
            break;
        }
    }
    kernel.full = false;
    kernel.fault_every = 0;
    staging.settle(&mut kernel, &mut memory, alignment).unwrap();
    assert_eq!(&kernel.file, &source[..told as usize]);
    run.files += 1;
    run.direct_bytes += kernel.direct_bytes;
    run.calls += kernel.calls;
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
    let seed = number("COLDSTREAM_SEED").unwrap_or_else(|| {
        std::time::SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap()
            .as_nanos() as u64
    });
    println!("seed {seed}");
    let mut random = Random(seed);
    let mut run = Run {
        operations: 0,
        files: 0,
        direct_bytes: 0,
        calls: 0,
        writes: 0,
    };
    while run.operations < operations {
        one_file(&mut random, &mut run);
    }
    println!(
        "{} operations on {} files: {} writes in {} calls of the kernel, {} MiB directly",
        run.operations,
        run.files,
        run.writes,
        run.calls,
        run.direct_bytes >> 20
    );
    assert!(run.direct_bytes > 0);
}
