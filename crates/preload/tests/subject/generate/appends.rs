//! SSTables that background threads write. Engines' appends alternate with every call that could see or
//! change staged bytes. Events without an interposed call are left out (raw closes and duplicates, writers in
//! other processes): staged files belong to the process.

use super::super::operations::{Action, Buffer, Closing, Duplication, MAPPINGS, Position, Target};
use super::{Author, PREADS};

/// Lengths of engines' writes.
const ENGINE_WRITES: [usize; 8] = [4118, 4, 4118, 4, 16_404, 65_536, 262_144, 600_001];

impl Author {
    /// One SSTable, from its creation to its end.
    pub(super) fn appended_table(&mut self) {
        let (path, slot) = (self.table(), self.random.index(3));
        let looker = 3 + self.random.index(4);
        let writer = self.background_thread();
        let name = self.random.pick(&[0, 1, 3]);
        self.push(
            writer,
            Action::NameSelf {
                call: "prctl",
                name,
            },
        );
        let exclusive = self.random.once_in(2);
        if exclusive {
            self.push(
                writer,
                Action::Unlink {
                    call: "unlink",
                    path,
                },
            );
        }
        let how = if exclusive {
            libc::O_EXCL
        } else {
            libc::O_TRUNC
        };
        let access = self.random.pick(&[libc::O_RDWR, libc::O_WRONLY]);
        let kept = self.random.pick(&[0, libc::O_CLOEXEC]);
        let call = self.random.pick(&["open", "open64", "openat", "openat64"]);
        self.push(
            writer,
            Action::Open {
                call,
                path,
                flags: libc::O_CREAT | how | access | kept,
                slot,
            },
        );
        if self.random.once_in(3) {
            self.preallocate(writer, slot);
        }
        let mut end = 0;
        for _ in 0..4 + self.random.index(40) {
            end += self.some_appends(writer, slot);
            if self.random.once_in(2) {
                let thread = if self.random.once_in(2) {
                    writer
                } else {
                    self.any_thread()
                };
                let action = self.look(path, slot, looker, end);
                self.push(thread, action);
            }
            if self.random.once_in(12) {
                let action = self.disturbance(path, slot, looker, end);
                let thread = self.any_thread();
                self.push(thread, action);
            }
        }
        if self.random.once_in(2) {
            let call = self.random.pick(&["fsync", "fdatasync"]);
            self.push(writer, Action::Sync { call, slot });
        }
        let how = self.random.pick(&[
            Closing::Close,
            Closing::Close,
            Closing::Range,
            Closing::Stream,
        ]);
        self.push(writer, Action::Close { how, slot });
        self.push(
            writer,
            Action::PathStatus {
                call: "stat64",
                path,
            },
        );
    }

    fn preallocate(&mut self, thread: usize, slot: usize) {
        let call = self.random.pick(&["fallocate", "fallocate64"]);
        self.push(
            thread,
            Action::Allocate {
                call,
                slot,
                mode: libc::FALLOC_FL_KEEP_SIZE,
                position: Position::At(0),
                length: 1 << 20,
            },
        );
    }

    /// Returns the number of appended bytes, if no other call intervenes.
    fn some_appends(&mut self, writer: usize, slot: usize) -> u64 {
        let length = self.random.pick(&ENGINE_WRITES);
        let count = 1 + self.random.index(6);
        for _ in 0..count {
            self.push(
                writer,
                Action::Write {
                    call: "write",
                    slot,
                    length,
                },
            );
            if self.random.once_in(3) {
                let call = self.random.pick(&["lseek", "lseek64"]);
                self.push(
                    writer,
                    Action::Seek {
                        call,
                        slot,
                        offset: 0,
                        whence: libc::SEEK_CUR,
                    },
                );
            }
        }
        (length * count) as u64
    }

    /// A call that must see every byte and changes nothing.
    fn look(&mut self, path: usize, slot: usize, looker: usize, end: u64) -> Action {
        let descriptor = self.random.pick(&[slot, looker]);
        match self.random.below(12) {
            0 => Action::Open {
                call: self.random.pick(&["open64", "__open64_2"]),
                path,
                flags: libc::O_RDONLY | libc::O_CLOEXEC,
                slot: looker,
            },
            1 => Action::Status {
                call: self
                    .random
                    .pick(&["fstat", "fstat64", "__fxstat", "__fxstat64"]),
                slot: descriptor,
            },
            2 => Action::PathStatus {
                call: self.random.pick(&[
                    "stat",
                    "stat64",
                    "lstat64",
                    "fstatat",
                    "fstatat64",
                    "statx",
                ]),
                path,
            },
            3 => Action::SyncRange {
                slot,
                offset: 0,
                length: 1 << 20,
                flags: self.random.pick(&[2, 7]),
            },
            4 => Action::Sync {
                call: self.random.pick(&["fsync", "fdatasync"]),
                slot,
            },
            5 => Action::Seek {
                call: "lseek64",
                slot: looker,
                offset: 0,
                whence: libc::SEEK_END,
            },
            6 => Action::Scan {
                call: self.random.pick(&PREADS),
                slot: looker,
                position: Position::Continue,
                chunk: self.random.pick(&[4096, 4122, 65_536]),
                count: 1 + self.random.index(40),
            },
            7 => Action::Link {
                call: "link",
                from: path,
                to: 9,
            },
            8 => Action::DescriptorFlags {
                slot,
                flags: libc::FD_CLOEXEC,
            },
            9 => Action::Close {
                how: Closing::Close,
                slot: looker,
            },
            _ => Action::ReadAt {
                call: self.random.pick(&PREADS),
                slot: descriptor,
                // Mostly around the end. A call that asks for the size would drain the staged bytes first.
                position: Position::At(
                    (end + 4000).saturating_sub(self.random.below(40_000)) as i64
                ),
                length: self.random.index(50_000),
                buffer: Buffer::Good { misaligned: 0 },
                flags: 0,
            },
        }
    }

    /// A write that names its place: an offset, the end (`RWF_APPEND`), or the position (-1).
    fn write_elsewhere(&mut self, slot: usize, end: u64) -> Action {
        let call = (self.random).pick(&["pwrite64", "pwritev", "pwritev2", "pwritev64v2"]);
        let flags = match call {
            "pwritev2" | "pwritev64v2" => self.random.pick(&[0, libc::RWF_APPEND, libc::RWF_DSYNC]),
            _ => 0,
        };
        let offset = self.random.below(end + 10_000) as i64;
        let position = self.random.pick(&[offset, offset, offset, -1]);
        Action::WriteAt {
            call,
            slot,
            position: Position::At(position),
            length: self.random.index(9000),
            flags,
        }
    }

    /// A call after which the file is no longer staged, or is staged elsewhere.
    fn disturbance(&mut self, path: usize, slot: usize, looker: usize, end: u64) -> Action {
        match self.random.below(16) {
            0 => Action::Duplicate {
                how: self.random.pick(&[
                    Duplication::Dup,
                    Duplication::Dup2,
                    Duplication::Dup3,
                    Duplication::Fcntl { lowest: 5 },
                ]),
                from: slot,
                to: looker,
                target: Target::Variable,
            },
            1 => Action::Truncate {
                call: self.random.pick(&["ftruncate", "ftruncate64"]),
                slot,
                length: self.random.below(300_000) as i64,
            },
            2 => Action::Seek {
                call: "lseek64",
                slot,
                offset: self.random.below(300_000) as i64 - 150_000,
                whence: self
                    .random
                    .pick(&[libc::SEEK_SET, libc::SEEK_CUR, libc::SEEK_END]),
            },
            // Back to the end, to continue appending.
            3 | 4 => Action::Seek {
                call: "lseek64",
                slot,
                offset: 0,
                whence: libc::SEEK_END,
            },
            5 => self.write_elsewhere(slot, end),
            6 => Action::Write {
                call: "writev",
                slot,
                length: self.random.index(9000),
            },
            7 => Action::Map {
                call: self.random.pick(&["mmap", "mmap64"]),
                slot: self.random.pick(&[slot, looker]),
                mapping: self.random.index(MAPPINGS),
                protection: self
                    .random
                    .pick(&[libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE]),
                flags: self.random.pick(&[libc::MAP_SHARED, libc::MAP_PRIVATE]),
                position: Position::At(0),
                length: 4096 * (1 + self.random.index(20)),
            },
            8 => Action::Load {
                mapping: self.random.index(MAPPINGS),
            },
            9 => Action::SendFile {
                call: "sendfile64",
                from: self.random.pick(&[slot, looker]),
                to: 8,
                offset: self.random.pick(&[None, Some(4096)]),
                length: 20_000,
            },
            10 => Action::Read {
                call: self.random.pick(&["read", "readv"]),
                slot,
                length: self.random.index(9000),
            },
            11 => Action::Open {
                call: "open64",
                path,
                flags: self.random.pick(&[
                    libc::O_RDWR,
                    libc::O_WRONLY | libc::O_TRUNC,
                    libc::O_RDWR | libc::O_APPEND,
                ]),
                slot: looker,
            },
            12 => Action::StatusFlags {
                call: "fcntl",
                slot,
                flags: self.random.pick(&[0, libc::O_APPEND]),
            },
            13 if self.random.once_in(2) => Action::Fork { scans: 1 },
            13 => Action::Spawn,
            14 => Action::Allocate {
                call: self.random.pick(&["fallocate", "posix_fallocate"]),
                slot,
                mode: 0,
                position: Position::At(0),
                length: 300_000,
            },
            _ => Action::TruncatePath {
                call: "truncate64",
                path,
                length: self.random.below(300_000) as i64,
            },
        }
    }
}
