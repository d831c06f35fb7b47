//! Single operations: mappings, transfers between files, names of files and of threads.

use super::super::operations::{Action, MAPPINGS, NAMES, Position};
use super::Author;
use coldstream_testkit::random::Random;

impl Author {
    pub(super) fn mapping_action(&mut self) -> Action {
        let mapping = self.random.index(MAPPINGS);
        match self.random.weighted(&[4, 5, 2, 1, 1]) {
            0 => Action::Map {
                call: self.random.pick(&["mmap", "mmap64"]),
                slot: self.slot(),
                mapping,
                protection: self
                    .random
                    .pick(&[libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE]),
                flags: self
                    .random
                    .pick(&[libc::MAP_SHARED, libc::MAP_SHARED, libc::MAP_PRIVATE]),
                position: Position::At(((self.random.below(2 << 20) >> 12) << 12) as i64),
                length: 4096 * (1 + self.random.index(64)),
            },
            1 => Action::Store {
                mapping,
                offset: self.random.index(256 << 10),
                length: 1 + self.random.index(9000),
                by_child: self.random.once_in(4),
            },
            2 => Action::Load { mapping },
            3 => Action::SyncMapping { mapping },
            _ => Action::Unmap { mapping },
        }
    }

    pub(super) fn transfer_action(&mut self) -> Action {
        let offset = |random: &mut Random| random.once_in(2).then(|| random.below(2 << 20) as i64);
        match self.random.below(3) {
            0 => Action::SendFile {
                call: self.random.pick(&["sendfile", "sendfile64"]),
                from: self.slot(),
                to: self.slot(),
                offset: offset(&mut self.random),
                length: self.random.index(200_000),
            },
            1 => Action::CopyRange {
                from: self.slot(),
                from_offset: offset(&mut self.random),
                to: self.slot(),
                to_offset: offset(&mut self.random),
                length: self.random.index(200_000),
            },
            _ => Action::SpliceOut {
                from: self.slot(),
                offset: offset(&mut self.random),
                length: 1 + self.random.index(60_000),
            },
        }
    }

    pub(super) fn name_action(&mut self) -> Action {
        let (from, to) = (self.path(), self.path());
        match self.random.weighted(&[3, 1, 3, 2, 3, 3]) {
            0 => Action::Link {
                call: self.random.pick(&["link", "linkat"]),
                from,
                to,
            },
            1 => Action::LinkDescriptor {
                slot: self.slot(),
                to,
            },
            2 => Action::Rename {
                call: self.random.pick(&["rename", "renameat", "renameat2"]),
                from,
                to,
                flags: self
                    .random
                    .pick(&[0, 0, libc::RENAME_NOREPLACE, libc::RENAME_EXCHANGE]),
            },
            3 => Action::Unlink {
                call: self.random.pick(&["unlink", "unlinkat"]),
                path: from,
            },
            4 => Action::Status {
                call: self.random.pick(&[
                    "fstat",
                    "fstat64",
                    "__fxstat",
                    "__fxstat64",
                    "statx",
                    "fstatat",
                ]),
                slot: self.slot(),
            },
            _ => Action::PathStatus {
                call: self.random.pick(&[
                    "stat",
                    "stat64",
                    "lstat",
                    "lstat64",
                    "fstatat",
                    "fstatat64",
                    "statx",
                ]),
                path: from,
            },
        }
    }

    pub(super) fn thread_action(&mut self) -> Action {
        match self.random.below(4) {
            0 => Action::Seek {
                call: self.random.pick(&["lseek", "lseek64"]),
                slot: self.slot(),
                offset: self.random.below(3 << 20) as i64 - 1000,
                whence: self
                    .random
                    .pick(&[libc::SEEK_SET, libc::SEEK_CUR, libc::SEEK_END, 77]),
            },
            1 => Action::NameOther {
                thread: self.any_thread(),
                name: self.random.index(NAMES.len()),
            },
            _ => Action::NameSelf {
                call: self.random.pick(&["prctl", "pthread_setname_np"]),
                name: self.random.index(NAMES.len()),
            },
        }
    }
}
