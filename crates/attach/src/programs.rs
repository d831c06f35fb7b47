//! The programs that the kernel runs at its tracepoints. Each lets other processes pass after one look-up.
//!
//! They read fields of the kernel's structures. This crate knows their places in 64-bit kernels. [`crate::tracer`]
//! checks the places with a file of its own before it believes any event.

use crate::assembler::{Assembler, Helper, Register, Size, When};
use crate::event::{ADDED, EVENT_WORDS, READ};
use Register::{Frame, R0, R1, R2, R3, R4, R6, R7, R8, R9};
use Size::{Double, Word};

/// Where a kernel has the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// `i_ino` of `struct inode`.
    pub(crate) inode_number: i16,
    /// `i_sb` of `struct inode`.
    pub(crate) superblock: i16,
}

/// With and without `CONFIG_SECURITY`, with and without `CONFIG_FS_POSIX_ACL` (`include/linux/fs.h`).
pub(crate) const LAYOUTS: [Layout; 4] = [
    Layout::of(64, 40),
    Layout::of(56, 40),
    Layout::of(48, 24),
    Layout::of(40, 24),
];

impl Layout {
    const fn of(inode_number: i16, superblock: i16) -> Self {
        Self {
            inode_number,
            superblock,
        }
    }
}

/// Descriptors of the maps that the programs use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Maps {
    /// The processes that are followed.
    pub(crate) targets: i32,
    pub(crate) ring: i32,
    /// How many events found the ring full.
    pub(crate) lost: i32,
    /// Process and descriptor, if `FADV_SEQUENTIAL` was given to it.
    pub(crate) advised: i32,
    /// Process and thread, while it reads by such a descriptor: its number and one.
    pub(crate) reading: i32,
}

/// `s_dev` of `struct super_block`.
const DEVICE: i16 = 16;
/// `mapping`, `index` and the second page's flags of `struct folio` (`include/linux/mm_types.h`).
const FOLIO_MAPPING: i16 = 24;
const FOLIO_INDEX: i16 = 32;
const FOLIO_MORE_FLAGS: i16 = 64;

/// Places on the stack.
const KEY: i16 = -8;
const PROCESS_KEY: i16 = -16;
const PLACE: i16 = -24;
const INDEX: i16 = -32;
const FLAGS: i16 = -40;
const MORE: i16 = -48;
const INODE: i16 = -56;
const DEVICE_PLACE: i16 = -64;
/// `BPF_RB_NO_WAKEUP`: the reader looks by itself.
const NO_WAKEUP: i32 = 1;

impl Assembler {
    /// Ends unless the process is followed. `R7` has process and thread.
    fn only_targets(&mut self, maps: Maps) {
        self.call(Helper::CurrentProcessAndThread);
        self.copy(R7, R0);
        self.store(Double, Frame, PROCESS_KEY, R7);
        self.shift_right(R0, 32);
        self.store(Word, Frame, KEY, R0);
        self.look_up(maps.targets, KEY);
        self.jump(When::Equal, R0, 0, "end");
    }

    fn look_up(&mut self, map: i32, key: i16) {
        self.map(R1, map);
        self.copy(R2, Frame);
        self.add_number(R2, i32::from(key));
        self.call(Helper::MapLookup);
    }

    /// Reads eight bytes at `from + offset` into the stack. `from` is `R6`, `R8` or `R9`.
    fn read_kernel(&mut self, place: i16, from: Register, offset: i16) {
        self.copy(R1, Frame);
        self.add_number(R1, i32::from(place));
        self.set(R2, 8);
        self.copy(R3, from);
        self.add_number(R3, i32::from(offset));
        self.call(Helper::ReadKernel);
    }

    /// Inode and device of the mapping in `R8`, into the stack.
    fn identify(&mut self, layout: Layout) {
        self.read_kernel(PLACE, R8, 0);
        self.load(Double, R9, Frame, PLACE);
        self.read_kernel(INODE, R9, layout.inode_number);
        self.read_kernel(PLACE, R9, layout.superblock);
        self.load(Double, R9, Frame, PLACE);
        self.read_kernel(DEVICE_PLACE, R9, DEVICE);
    }

    /// Puts the event into the ring, from the stack.
    fn send(&mut self, kind: i32, maps: Maps) {
        self.look_up(maps.reading, PROCESS_KEY);
        self.set(R9, kind);
        self.jump(When::Equal, R0, 0, "kind");
        // 24 bits of it, behind the kind.
        self.load(Word, R9, R0, 0);
        self.shift_left(R9, 40);
        self.shift_right(R9, 32);
        self.set(R1, kind);
        self.or(R9, R1);
        self.label("kind");
        self.map(R1, maps.ring);
        self.set(R2, EVENT_WORDS as i32 * 8);
        self.set(R3, 0);
        self.call(Helper::RingReserve);
        self.jump(When::Equal, R0, 0, "lost");
        self.copy(R8, R0);
        self.store(Double, R8, 0, R7);
        self.load(Word, R1, Frame, DEVICE_PLACE);
        self.shift_left(R1, 32);
        self.or(R1, R9);
        self.store(Double, R8, 8, R1);
        for (at, place) in [(16, INODE), (24, INDEX), (32, FLAGS), (40, MORE)] {
            self.load(Double, R1, Frame, place);
            self.store(Double, R8, at, R1);
        }
        self.copy(R1, R8);
        self.add_number(R1, 48);
        self.set(R2, 16);
        self.call(Helper::CurrentName);
        self.copy(R1, R8);
        self.set(R2, NO_WAKEUP);
        self.call(Helper::RingSubmit);
        self.jump(When::Always, R0, 0, "end");
        self.label("lost");
        self.store_number(Word, Frame, KEY, 0);
        self.look_up(maps.lost, KEY);
        self.jump(When::Equal, R0, 0, "end");
        self.set(R1, 1);
        self.add_atomically(R0, 0, R1);
        self.label("end");
        self.exit();
    }
}

/// `mm_filemap_get_pages(mapping, index, last_index)`: a buffered read found its pages.
pub(crate) fn read(layout: Layout, maps: Maps) -> Vec<u64> {
    let mut program = Assembler::default();
    program.copy(R6, R1);
    program.only_targets(maps);
    program.load(Double, R8, R6, 0);
    for (place, argument) in [(INDEX, 8), (FLAGS, 16)] {
        program.load(Double, R1, R6, argument);
        program.store(Double, Frame, place, R1);
    }
    program.store_number(Double, Frame, MORE, 0);
    program.identify(layout);
    program.send(READ, maps);
    program.finish()
}

/// `mm_filemap_add_to_page_cache(folio)`.
pub(crate) fn added(layout: Layout, maps: Maps) -> Vec<u64> {
    let mut program = Assembler::default();
    program.copy(R6, R1);
    program.only_targets(maps);
    program.load(Double, R6, R6, 0);
    program.read_kernel(FLAGS, R6, 0);
    program.read_kernel(INDEX, R6, FOLIO_INDEX);
    program.read_kernel(MORE, R6, FOLIO_MORE_FLAGS);
    program.read_kernel(PLACE, R6, FOLIO_MAPPING);
    program.load(Double, R8, Frame, PLACE);
    program.identify(layout);
    program.send(ADDED, maps);
    program.finish()
}

/// Where `struct pt_regs` has the first and the fourth argument of a system call.
#[cfg(target_arch = "x86_64")]
const ARGUMENTS: (i16, i16) = (112, 56);
#[cfg(target_arch = "aarch64")]
const ARGUMENTS: (i16, i16) = (0, 24);

/// `sys_enter(registers, number)`: which thread reads by a descriptor that was advised to be sequential.
pub(crate) fn entered(maps: Maps) -> Vec<u64> {
    let mut program = Assembler::default();
    program.copy(R6, R1);
    program.load(Double, R9, R6, 8);
    // `readahead` brings pages in, too: not for the descriptor of the last read.
    let readers = [
        libc::SYS_pread64,
        libc::SYS_read,
        libc::SYS_preadv,
        libc::SYS_readahead,
    ];
    for number in readers {
        program.jump(When::Equal, R9, number as i32, "wanted");
    }
    program.jump(When::Equal, R9, libc::SYS_fadvise64 as i32, "wanted");
    program.jump(When::NotEqual, R9, libc::SYS_close as i32, "end");
    program.label("wanted");
    program.only_targets(maps);
    program.load(Double, R8, R6, 0);
    program.read_kernel(PLACE, R8, ARGUMENTS.0);
    // Process in the upper half, descriptor in the lower half.
    program.copy(R1, R7);
    program.shift_right(R1, 32);
    program.shift_left(R1, 32);
    program.load(Word, R2, Frame, PLACE);
    program.or(R1, R2);
    program.store(Double, Frame, INDEX, R1);
    program.add_number(R2, 1);
    program.store(Word, Frame, KEY, R2);
    program.jump(When::Equal, R9, libc::SYS_fadvise64 as i32, "advice");
    program.jump(When::Equal, R9, libc::SYS_close as i32, "forget");
    program.look_up(maps.advised, INDEX);
    program.jump(When::Equal, R0, 0, "plain");
    program.store_under(maps.reading, PROCESS_KEY);
    program.jump(When::Always, R0, 0, "end");
    program.label("plain");
    program.look_up(maps.reading, PROCESS_KEY);
    program.jump(When::Equal, R0, 0, "end");
    program.remove(maps.reading, PROCESS_KEY);
    program.jump(When::Always, R0, 0, "end");
    program.label("advice");
    program.read_kernel(PLACE, R8, ARGUMENTS.1);
    program.load(Word, R1, Frame, PLACE);
    // `FADV_DONTNEED` and `FADV_WILLNEED` say nothing about the way of reading.
    program.jump(When::Equal, R1, libc::POSIX_FADV_DONTNEED, "end");
    program.jump(When::Equal, R1, libc::POSIX_FADV_WILLNEED, "end");
    program.jump(When::NotEqual, R1, libc::POSIX_FADV_SEQUENTIAL, "forget");
    program.store_under(maps.advised, INDEX);
    program.jump(When::Always, R0, 0, "end");
    program.label("forget");
    program.remove(maps.advised, INDEX);
    program.label("end");
    program.exit();
    program.finish()
}

impl Assembler {
    /// Stores the word at [`KEY`] under the key at `key`.
    fn store_under(&mut self, map: i32, key: i16) {
        self.map(R1, map);
        self.copy(R2, Frame);
        self.add_number(R2, i32::from(key));
        self.copy(R3, Frame);
        self.add_number(R3, i32::from(KEY));
        self.set(R4, 0);
        self.call(Helper::MapUpdate);
    }

    fn remove(&mut self, map: i32, key: i16) {
        self.map(R1, map);
        self.copy(R2, Frame);
        self.add_number(R2, i32::from(key));
        self.call(Helper::MapDelete);
    }
}
