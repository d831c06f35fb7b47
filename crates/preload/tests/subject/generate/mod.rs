//! Random programs. They consist of scenes rather than of single operations. A file is synced and rests, a
//! background thread starts to scan it, the file changes, the scan continues. Single operations would rarely
//! use windows and then find them stale.

mod appends;
mod changes;
mod scenes;
mod single;

use super::operations::{
    Action, Closing, Duplication, Operation, PATHS, Position, SLOTS, TABLES, THREAD_NAMES,
};
use coldstream_testkit::random::Random;

const OPENS: [&str; 8] = [
    "open",
    "open64",
    "openat",
    "openat64",
    "__open_2",
    "__open64_2",
    "__openat_2",
    "__openat64_2",
];
const PREADS: [&str; 8] = [
    "pread64",
    "pread",
    "__pread_chk",
    "__pread64_chk",
    "preadv",
    "preadv64",
    "preadv2",
    "preadv64v2",
];
/// The calls that database engines read with.
const ENGINE_PREADS: [&str; 3] = ["pread64", "pread", "__pread64_chk"];

/// Seeds with this bit make programs that write SSTables in background threads.
pub const APPENDS: u64 = 1 << 48;

/// The program of a seed, with `count` operations.
pub fn program(seed: u64, count: usize) -> Vec<Operation> {
    let mut author = Author {
        random: Random::new(seed),
        operations: Vec::with_capacity(count + 32),
    };
    while author.operations.len() < count {
        if seed & APPENDS != 0 {
            author.appended_table();
            continue;
        }
        match author.random.weighted(&[6, 3, 1, 2]) {
            0 => author.disturbed_scan(),
            1 => author.single(),
            2 => author.reopened_over(),
            _ => author.mapped_writer(),
        }
    }
    author.operations.truncate(count);
    author.operations
}

struct Author {
    random: Random,
    operations: Vec<Operation>,
}

impl Author {
    fn push(&mut self, thread: usize, action: Action) {
        self.operations.push(Operation { thread, action });
    }

    fn any_thread(&mut self) -> usize {
        self.random.index(THREAD_NAMES.len())
    }

    fn background_thread(&mut self) -> usize {
        self.random.index(2)
    }

    fn slot(&mut self) -> usize {
        self.random.index(SLOTS)
    }

    fn table(&mut self) -> usize {
        self.random.index(TABLES)
    }

    fn path(&mut self) -> usize {
        self.random.index(PATHS.len())
    }

    fn closing(&mut self) -> Closing {
        self.random.pick(&[
            Closing::Close,
            Closing::Close,
            Closing::Range,
            Closing::Stream,
            Closing::Raw,
        ])
    }

    fn duplication(&mut self) -> Duplication {
        match self.random.below(7) {
            0 => Duplication::Dup,
            1 | 2 => Duplication::Dup2,
            3 => Duplication::Dup3,
            4 => Duplication::Fcntl {
                lowest: self.random.pick(&[0, 5, 100]),
            },
            5 => Duplication::FcntlCloexec {
                lowest: self.random.pick(&[0, 7, 200]),
            },
            _ => Duplication::Raw,
        }
    }

    fn length(&mut self) -> usize {
        match self.random.below(8) {
            0 => self
                .random
                .pick(&[0, 1, 7, 8, 9, 511, 512, 4095, 4096, 4097]),
            1..=4 => self.random.index(10_000),
            5 | 6 => self.random.index(100_000),
            _ => self.random.index(2_200_000),
        }
    }

    fn position(&mut self) -> Position {
        match self.random.below(8) {
            0 => Position::At(0),
            1 => Position::BeforeEnd(self.random.below(200_000) as i64 - 50_000),
            2 => Position::At(self.random.pick(&[-1, i64::MAX, i64::MAX - 4096, 1 << 40])),
            3 => Position::At((self.random.below(1 << 10) << 12) as i64),
            4 => Position::Continue,
            _ => Position::At(self.random.below(6 << 20) as i64),
        }
    }

    fn sane_position(&mut self) -> Position {
        match self.random.below(3) {
            0 => Position::BeforeEnd(self.random.below(100_000) as i64 - 10_000),
            _ => Position::At(self.random.below(4 << 20) as i64),
        }
    }

    fn write_length(&mut self) -> usize {
        if self.random.once_in(6) {
            self.random.index(600_000)
        } else {
            self.random.index(9_000)
        }
    }

    fn open_flags(&mut self) -> i32 {
        let access = self.random.pick(&[
            libc::O_RDONLY,
            libc::O_RDONLY,
            libc::O_RDONLY,
            libc::O_RDWR,
            libc::O_RDWR,
            libc::O_WRONLY,
        ]);
        let extra = self.random.pick(&[
            0,
            0,
            0,
            libc::O_CLOEXEC,
            libc::O_CREAT,
            libc::O_CREAT | libc::O_EXCL,
            libc::O_CREAT | libc::O_TRUNC,
            libc::O_APPEND,
            libc::O_DIRECT,
            libc::O_NONBLOCK,
            libc::O_PATH,
            libc::O_DSYNC,
            libc::O_NOFOLLOW,
            libc::O_DIRECTORY,
        ]);
        access | extra
    }
}
