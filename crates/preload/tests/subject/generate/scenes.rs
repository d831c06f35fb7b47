//! Scenes: related operations in sequence.

use super::super::operations::{Action, Buffer, Change, Closing, MAPPINGS, Position, Target};
use super::{Author, ENGINE_PREADS, OPENS};

impl Author {
    /// A file is prepared, scanned in part, changed, and scanned further.
    pub(super) fn disturbed_scan(&mut self) {
        let (path, slot) = (self.table(), self.slot());
        let scanner = self.background_thread();
        if self.random.once_in(2) {
            let length = 1 + self.random.index(4 << 20);
            let thread = self.any_thread();
            let change = Change::Refill { length };
            self.push(thread, Action::Elsewhere { path, change });
        }
        self.call_to_work(scanner);
        let opener = self.any_thread();
        let call = self.random.pick(&OPENS);
        let flags = libc::O_RDONLY | libc::O_CLOEXEC;
        self.push(
            opener,
            Action::Open {
                call,
                path,
                flags,
                slot,
            },
        );
        if self.random.once_in(3) {
            let other = self.slot();
            self.push(
                opener,
                Action::Open {
                    call: "open64",
                    path,
                    flags: libc::O_RDWR,
                    slot: other,
                },
            );
        }
        if !self.random.once_in(4) {
            self.push(opener, Action::DropPages);
        }
        if !self.random.once_in(4) {
            self.push(opener, Action::Settle);
        }
        let call = self.random.pick(&ENGINE_PREADS);
        let chunk = self
            .random
            .pick(&[4096, 4096, 4122, 8192, 16_404, 65_536, 262_144]);
        let budget = self.random.pick(&[40_000, 200_000, 800_000, 2_500_000]);
        let count = 1 + budget / chunk;
        let position = match self.random.below(3) {
            0 => Position::At(0),
            1 => Position::At(self.random.below(2 << 20) as i64),
            _ => Position::BeforeEnd(self.random.below(1 << 20) as i64),
        };
        self.push(
            scanner,
            Action::Scan {
                call,
                slot,
                position,
                chunk,
                count,
            },
        );
        for _ in 0..1 + self.random.below(4) {
            for _ in 0..self.random.below(3) {
                if self.random.once_in(2) {
                    self.disturb(path, slot);
                } else {
                    self.single();
                }
            }
            // Either old enough for windows, or just changed.
            if self.random.once_in(3) {
                self.push(scanner, Action::Settle);
            }
            let thread = if self.random.once_in(5) {
                self.any_thread()
            } else {
                scanner
            };
            self.push(
                thread,
                Action::Scan {
                    call,
                    slot,
                    position: Position::Continue,
                    chunk,
                    count,
                },
            );
        }
    }

    /// Threads lose their names on the way. Most scans should be those of background threads.
    fn call_to_work(&mut self, thread: usize) {
        if !self.random.once_in(3) {
            let call = self.random.pick(&["prctl", "pthread_setname_np"]);
            let name = self.random.pick(&[0, 1, 3, 4]);
            self.push(thread, Action::NameSelf { call, name });
        }
    }

    /// A file is scanned while it is mapped and stored to, under the name of an SSTable or another one. No
    /// call shows a store.
    #[expect(clippy::too_many_lines, reason = "one scene, in its order")]
    pub(super) fn mapped_writer(&mut self) {
        let (path, alias) = (self.table(), 9);
        let (slot, writer) = (self.random.index(5), 5 + self.random.index(5));
        let mapping = self.random.index(MAPPINGS);
        let (scanner, owner) = (self.background_thread(), self.any_thread());
        self.call_to_work(scanner);
        let length = (1 << 20) + self.random.index(1 << 20);
        self.push(
            owner,
            Action::Elsewhere {
                path,
                change: Change::Refill { length },
            },
        );
        self.push(
            owner,
            Action::Unlink {
                call: "unlink",
                path: alias,
            },
        );
        self.push(
            owner,
            Action::Link {
                call: "link",
                from: path,
                to: alias,
            },
        );
        let through = if self.random.once_in(2) { path } else { alias };
        self.push(
            owner,
            Action::Open {
                call: "open64",
                path: through,
                flags: libc::O_RDWR,
                slot: writer,
            },
        );
        let position = Position::At((self.random.below(1 << 19) & !4095) as i64);
        self.push(
            owner,
            Action::Map {
                call: "mmap64",
                slot: writer,
                mapping,
                protection: libc::PROT_READ | libc::PROT_WRITE,
                flags: libc::MAP_SHARED,
                position,
                length: 64 << 12,
            },
        );
        let offset = self.random.index(200_000);
        let store = move |by_child| Action::Store {
            mapping,
            offset,
            length: 5000,
            by_child,
        };
        if self.random.once_in(2) {
            self.push(owner, store(false));
        }
        if self.random.once_in(2) {
            self.push(
                owner,
                Action::Close {
                    how: Closing::Close,
                    slot: writer,
                },
            );
        }
        self.push(
            scanner,
            Action::Open {
                call: "open64",
                path,
                flags: libc::O_RDONLY,
                slot,
            },
        );
        if !self.random.once_in(3) {
            self.push(scanner, Action::DropPages);
        }
        self.push(scanner, Action::Settle);
        for _ in 0..2 + self.random.below(3) {
            // A little behind the start, so that the store is in the window in use.
            let before = Position::At(match position {
                Position::At(start) => start + offset as i64 - 20_000,
                Position::BeforeEnd(_) | Position::Continue => 0,
            });
            self.push(
                scanner,
                Action::Scan {
                    call: "pread64",
                    slot,
                    position: before,
                    chunk: 4096,
                    count: 3,
                },
            );
            if !self.random.once_in(4) {
                let by_child = self.random.once_in(4);
                self.push(owner, store(by_child));
            }
            self.push(
                scanner,
                Action::Scan {
                    call: "pread64",
                    slot,
                    position: Position::Continue,
                    chunk: 4096,
                    count: 20,
                },
            );
            if self.random.once_in(3) {
                self.push(owner, Action::SyncMapping { mapping });
            }
            if self.random.once_in(3) {
                self.push(scanner, Action::Settle);
            }
        }
    }

    /// A change of the file that is being scanned.
    fn disturb(&mut self, path: usize, slot: usize) {
        let thread = self.any_thread();
        let length = 1 + self.random.index(100_000);
        let offset = self.random.below(3 << 20) as i64;
        let action = match self.random.below(13) {
            12 => Action::Elsewhere {
                path,
                change: Change::Clone {
                    from: self.table(),
                    block: offset / 8192,
                    blocks: 1 + length / 4096,
                },
            },
            0 => Action::Elsewhere {
                path,
                change: Change::Overwrite { offset, length },
            },
            1 => Action::Elsewhere {
                path,
                change: Change::Truncate { length: offset },
            },
            2 => Action::Elsewhere {
                path,
                change: Change::OverwriteDirect {
                    block: offset / 4096,
                    blocks: 1 + length / 8192,
                },
            },
            3 => Action::Elsewhere {
                path,
                change: Change::OverwriteMapped {
                    page: offset / 4096,
                    pages: 1 + length / 8192,
                },
            },
            4 => Action::Elsewhere {
                path,
                change: Change::PunchHole {
                    offset,
                    length: length as i64,
                },
            },
            5 => Action::Close {
                how: self.closing(),
                slot,
            },
            6 => Action::Duplicate {
                how: self.duplication(),
                from: self.slot(),
                to: slot,
                target: Target::Variable,
            },
            7 => Action::TruncatePath {
                call: self.random.pick(&["truncate", "truncate64"]),
                path,
                length: offset,
            },
            8 => Action::Unlink {
                call: self.random.pick(&["unlink", "unlinkat"]),
                path,
            },
            9 => Action::Fork { scans: 1 },
            10 => Action::DropPages,
            _ => Action::ReadAt {
                call: "pread64",
                slot,
                position: Position::At(offset),
                length: 300_000,
                buffer: Buffer::Good { misaligned: 0 },
                flags: 0,
            },
        };
        self.push(thread, action);
    }

    /// The number of a descriptor gets another file, seen by the library or not, and is read again at once.
    pub(super) fn reopened_over(&mut self) {
        let (slot, other) = (self.slot(), self.slot());
        let thread = self.background_thread();
        let (first, second) = (self.table(), self.path());
        let flags = libc::O_RDONLY;
        self.push(
            thread,
            Action::Open {
                call: "open64",
                path: first,
                flags,
                slot,
            },
        );
        self.push(
            thread,
            Action::Open {
                call: "open64",
                path: second,
                flags,
                slot: other,
            },
        );
        self.push(thread, Action::DropPages);
        self.push(thread, Action::Settle);
        let scan = |position| Action::Scan {
            call: "pread64",
            slot,
            position,
            chunk: 4096,
            count: 30,
        };
        self.push(thread, scan(Position::At(0)));
        let how = self.duplication();
        self.push(
            thread,
            Action::Duplicate {
                how,
                from: other,
                to: slot,
                target: Target::Variable,
            },
        );
        self.push(thread, scan(Position::Continue));
        let how = self.closing();
        self.push(thread, Action::Close { how, slot });
        self.push(
            thread,
            Action::Open {
                call: "openat64",
                path: second,
                flags,
                slot,
            },
        );
        self.push(thread, scan(Position::Continue));
    }
}
