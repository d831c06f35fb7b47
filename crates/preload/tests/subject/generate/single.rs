//! Single operations: descriptors, reads, writes and sizes.

use super::super::operations::{Action, Buffer, Change, ClosingAll, HIGH_NUMBER, Position, Target};
use super::{Author, OPENS, PREADS};

impl Author {
    /// Any operation.
    pub(super) fn single(&mut self) {
        let thread = self.any_thread();
        let action = self.action();
        self.push(thread, action);
    }

    fn action(&mut self) -> Action {
        match self.random.weighted(&[10, 7, 9, 8, 4, 4, 5, 3, 2]) {
            0 => self.descriptor_action(),
            1 => self.write_action(),
            2 => self.read_action(),
            3 => self.size_action(),
            4 => self.mapping_action(),
            5 => self.transfer_action(),
            6 => self.name_action(),
            7 => self.thread_action(),
            _ => match self.random.below(8) {
                0 => Action::Spawn,
                1..=3 => Action::Settle,
                4 => Action::Fork {
                    scans: 1 + self.random.index(2),
                },
                _ => Action::DropPages,
            },
        }
    }

    fn descriptor_action(&mut self) -> Action {
        match self.random.weighted(&[10, 1, 4, 1, 1, 6, 2, 1]) {
            0 => {
                let flags = self.open_flags();
                let creates = flags & libc::O_CREAT != 0;
                // The fortified variants end the process on O_CREAT.
                let call = if creates {
                    self.random.pick(&OPENS[..4])
                } else {
                    self.random.pick(&OPENS)
                };
                Action::Open {
                    call,
                    path: self.path(),
                    flags,
                    slot: self.slot(),
                }
            }
            1 => Action::Open {
                call: self.random.pick(&["creat", "creat64"]),
                path: self.path(),
                flags: 0,
                slot: self.slot(),
            },
            2 => Action::Close {
                how: self.closing(),
                slot: self.slot(),
            },
            3 => Action::CloseNumber {
                number: self.random.pick(&[
                    -1,
                    63,
                    HIGH_NUMBER,
                    HIGH_NUMBER + 1,
                    HIGH_NUMBER + 2,
                    i32::MAX,
                ]),
            },
            4 => Action::CloseAll {
                how: self
                    .random
                    .pick(&[ClosingAll::Range, ClosingAll::From, ClosingAll::Loop]),
            },
            5 => Action::Duplicate {
                how: self.duplication(),
                from: self.slot(),
                to: self.slot(),
                target: self.target(),
            },
            6 => Action::StatusFlags {
                call: self.random.pick(&["fcntl", "fcntl64"]),
                slot: self.slot(),
                flags: self.random.pick(&[
                    0,
                    libc::O_APPEND,
                    libc::O_NONBLOCK,
                    libc::O_NOATIME,
                    libc::O_DIRECT,
                ]),
            },
            _ => Action::DescriptorFlags {
                slot: self.slot(),
                flags: self.random.pick(&[0, libc::FD_CLOEXEC]),
            },
        }
    }

    fn target(&mut self) -> Target {
        match self.random.below(6) {
            0 => Target::Number(40 + self.random.below(4) as i32),
            1 => Target::Number(HIGH_NUMBER + self.random.below(4) as i32),
            _ => Target::Variable,
        }
    }

    fn read_action(&mut self) -> Action {
        match self.random.weighted(&[2, 8, 3]) {
            0 => Action::Read {
                call: self.random.pick(&["read", "__read_chk", "readv"]),
                slot: self.slot(),
                length: self.length(),
            },
            1 => Action::ReadAt {
                call: self.random.pick(&PREADS),
                slot: self.slot(),
                position: self.position(),
                length: self.length(),
                buffer: match self.random.below(12) {
                    0 => Buffer::Null,
                    1 => Buffer::ReadOnly,
                    2 => Buffer::Guarded {
                        room: self.random.index(9000),
                    },
                    3..=5 => Buffer::Good {
                        misaligned: self.random.index(4096),
                    },
                    _ => Buffer::Good { misaligned: 0 },
                },
                flags: self
                    .random
                    .pick(&[0, 0, 0, 0, libc::RWF_HIPRI, 0x4000_0000]),
            },
            _ => Action::Scan {
                call: self.random.pick(&PREADS),
                slot: self.slot(),
                position: if self.random.once_in(2) {
                    Position::Continue
                } else {
                    self.sane_position()
                },
                chunk: self.random.pick(&[100, 4096, 4122, 65_536]),
                count: 1 + self.random.index(60),
            },
        }
    }

    fn write_action(&mut self) -> Action {
        match self.random.weighted(&[2, 5, 2]) {
            0 => Action::Write {
                call: self.random.pick(&["write", "writev"]),
                slot: self.slot(),
                length: self.write_length(),
            },
            1 => Action::WriteAt {
                call: self.random.pick(&[
                    "pwrite",
                    "pwrite64",
                    "pwritev",
                    "pwritev64",
                    "pwritev2",
                    "pwritev64v2",
                ]),
                slot: self.slot(),
                position: self.sane_position(),
                length: self.write_length(),
                flags: self
                    .random
                    .pick(&[0, 0, 0, libc::RWF_DSYNC, libc::RWF_APPEND]),
            },
            _ => {
                let path = self.path();
                let offset = self.random.below(3 << 20) as i64;
                let length = 1 + self.write_length();
                let change = match self.random.below(6) {
                    0 => Change::Truncate { length: offset },
                    1 => Change::Refill {
                        length: self.random.index(3 << 20),
                    },
                    2 => Change::OverwriteDirect {
                        block: offset / 4096,
                        blocks: 1 + length / 4096,
                    },
                    3 => Change::OverwriteMapped {
                        page: offset / 4096,
                        pages: 1,
                    },
                    _ => Change::Overwrite { offset, length },
                };
                Action::Elsewhere { path, change }
            }
        }
    }

    fn size_action(&mut self) -> Action {
        let length = self.random.below(5 << 20) as i64;
        match self.random.weighted(&[3, 1, 3, 3, 1, 3]) {
            0 => Action::Truncate {
                call: self.random.pick(&["ftruncate", "ftruncate64"]),
                slot: self.slot(),
                length: if self.random.once_in(20) { -1 } else { length },
            },
            1 => Action::TruncatePath {
                call: self.random.pick(&["truncate", "truncate64"]),
                path: self.path(),
                length,
            },
            2 => Action::Allocate {
                call: self.random.pick(&[
                    "fallocate",
                    "fallocate64",
                    "posix_fallocate",
                    "posix_fallocate64",
                ]),
                slot: self.slot(),
                mode: self.random.pick(&[
                    0,
                    libc::FALLOC_FL_KEEP_SIZE,
                    libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                    libc::FALLOC_FL_ZERO_RANGE,
                    libc::FALLOC_FL_COLLAPSE_RANGE,
                    libc::FALLOC_FL_INSERT_RANGE,
                ]),
                position: Position::At(((length >> 12) << 12) / 2),
                length: self.random.pick(&[4096, 65_536, 300_000, 1 << 20]),
            },
            3 => Action::Sync {
                call: self.random.pick(&["fsync", "fdatasync"]),
                slot: self.slot(),
            },
            4 => Action::SyncRange {
                slot: self.slot(),
                offset: length / 2,
                length: 1 << 20,
                flags: self.random.pick(&[0, 2, 7, 8]),
            },
            _ => Action::Advise {
                call: self
                    .random
                    .pick(&["posix_fadvise", "posix_fadvise64", "readahead"]),
                slot: self.slot(),
                offset: if self.random.once_in(10) {
                    -1
                } else {
                    length / 2
                },
                length: self.random.pick(&[0, 4096, 1 << 20, -1]),
                advice: self.random.pick(&[
                    libc::POSIX_FADV_NORMAL,
                    libc::POSIX_FADV_RANDOM,
                    libc::POSIX_FADV_SEQUENTIAL,
                    libc::POSIX_FADV_WILLNEED,
                    libc::POSIX_FADV_WILLNEED,
                    libc::POSIX_FADV_DONTNEED,
                    99,
                ]),
            },
        }
    }
}
