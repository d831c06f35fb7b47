//! The programs that the kernel runs at its tracepoints. Each lets other processes pass after one look-up.
//!
//! They read fields of the kernel's structures. This crate knows their places in 64-bit kernels. [`crate::tracer`]
//! checks the places with a file of its own before it believes any event.

use crate::assembler::{Assembler, Helper, Register, Size, When};
use crate::event::{ADDED, BY_CALL, EVENT_WORDS, READ, READ_AHEAD};
use Register::{Frame, R0, R1, R2, R3, R6, R7, R8, R9};
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
}

/// Where a kernel has the registers of the system call that a thread is in: at the end of its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registers {
    /// `stack` of `struct task_struct`.
    stack: i16,
    /// The first argument from the beginning of the stack, with the call's number in the next word.
    arguments: i32,
}

/// `struct pt_regs` has 168 bytes, `di` at 112 and `orig_ax` behind it. The stack has 16 KiB (`THREAD_SIZE`).
/// With `CONFIG_X86_FRED` 16 bytes are left free.
#[cfg(target_arch = "x86_64")]
pub(crate) const REGISTERS: [Registers; 2] = [
    Registers {
        stack: 32,
        arguments: 16_384 - 168 + 112,
    },
    Registers {
        stack: 32,
        arguments: 16_384 - 16 - 168 + 112,
    },
];
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const REGISTERS: [Registers; 0] = [];

/// `s_dev` of `struct super_block`.
const DEVICE: i16 = 16;
/// `mapping`, `index` and the second page's flags of `struct folio` (`include/linux/mm_types.h`).
const FOLIO_MAPPING: i16 = 24;
const FOLIO_INDEX: i16 = 32;
const FOLIO_MORE_FLAGS: i16 = 64;

/// `ra_pages` of `struct file_ra_state` (`include/linux/fs.h`). `FADV_SEQUENTIAL` doubles it (`mm/fadvise.c`).
const READAHEAD_PAGES: i16 = 16;

/// Places on the stack.
const KEY: i16 = -8;
const PLACE: i16 = -24;
const INDEX: i16 = -32;
const FLAGS: i16 = -40;
const MORE: i16 = -48;
const INODE: i16 = -56;
const DEVICE_PLACE: i16 = -64;
/// Two words.
const CALL: i16 = -80;
/// Four words.
const OF_INODE: i16 = -112;
/// Five words, before those of the inode are needed.
const OF_FOLIO: i16 = -120;
/// `BPF_RB_NO_WAKEUP`: the reader looks by itself.
const NO_WAKEUP: i32 = 1;

impl Assembler {
    /// Ends unless the process is followed. `R7` gets process and thread.
    fn only_targets(&mut self, maps: Maps) {
        self.call(Helper::CurrentProcessAndThread);
        self.copy(R7, R0);
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
        self.read_words(place, 1, from, i32::from(offset));
    }

    fn read_words(&mut self, place: i16, words: i32, from: Register, offset: i32) {
        self.copy(R1, Frame);
        self.add_number(R1, i32::from(place));
        self.set(R2, words * 8);
        self.copy(R3, from);
        self.add_number(R3, offset);
        self.call(Helper::ReadKernel);
    }

    /// The system call and its first argument, into the stack.
    fn find_call(&mut self, registers: Option<Registers>) {
        let Some(registers) = registers else {
            return;
        };
        self.call(Helper::CurrentTask);
        self.copy(R9, R0);
        self.read_kernel(PLACE, R9, registers.stack);
        self.load(Double, R9, Frame, PLACE);
        self.read_words(CALL, 2, R9, registers.arguments);
    }

    /// Inode and device of the mapping in `R8`, into the stack.
    fn identify(&mut self, layout: Layout) {
        self.read_kernel(PLACE, R8, 0);
        self.load(Double, R9, Frame, PLACE);
        self.identify_inode(layout);
    }

    /// Of the inode in `R9`. Its number lies at most three words behind its superblock.
    fn identify_inode(&mut self, layout: Layout) {
        self.read_words(OF_INODE, 4, R9, layout.superblock.into());
        let number = OF_INODE + layout.inode_number - layout.superblock;
        self.load(Double, R1, Frame, number);
        self.store(Double, Frame, INODE, R1);
        self.load(Double, R9, Frame, OF_INODE);
        self.read_kernel(DEVICE_PLACE, R9, DEVICE);
    }

    /// Puts the event into the ring, from the stack.
    fn send(&mut self, kind: i32, maps: Maps, registers: Option<Registers>) {
        self.find_call(registers);
        self.map(R1, maps.ring);
        self.set(R2, EVENT_WORDS as i32 * 8);
        self.set(R3, 0);
        self.call(Helper::RingReserve);
        self.jump(When::Equal, R0, 0, "lost");
        self.copy(R8, R0);
        self.store(Double, R8, 0, R7);
        self.load(Word, R1, Frame, DEVICE_PLACE);
        self.shift_left(R1, 32);
        self.set(R2, kind | registers.map_or(0, |_| BY_CALL));
        self.or(R1, R2);
        self.store(Double, R8, 8, R1);
        for (at, place) in [(16, INODE), (24, INDEX), (32, FLAGS), (40, MORE)] {
            self.load(Double, R1, Frame, place);
            self.store(Double, R8, at, R1);
        }
        if registers.is_some() {
            for (at, place) in [(64, CALL), (72, CALL + 8)] {
                self.load(Double, R1, Frame, place);
                self.store(Double, R8, at, R1);
            }
        } else {
            for at in [64, 72] {
                self.store_number(Double, R8, at, 0);
            }
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
pub(crate) fn read(layout: Layout, maps: Maps, registers: Option<Registers>) -> Vec<u64> {
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
    program.send(READ, maps, registers);
    program.finish()
}

/// `mm_filemap_add_to_page_cache(folio)`.
pub(crate) fn added(layout: Layout, maps: Maps, registers: Option<Registers>) -> Vec<u64> {
    let mut program = Assembler::default();
    program.copy(R6, R1);
    program.only_targets(maps);
    program.load(Double, R6, R6, 0);
    program.read_words(OF_FOLIO, 5, R6, 0);
    program.read_kernel(MORE, R6, FOLIO_MORE_FLAGS);
    for (place, field) in [(FLAGS, 0), (INDEX, FOLIO_INDEX)] {
        program.load(Double, R1, Frame, OF_FOLIO + field);
        program.store(Double, Frame, place, R1);
    }
    program.load(Double, R8, Frame, OF_FOLIO + FOLIO_MAPPING);
    program.identify(layout);
    program.send(ADDED, maps, registers);
    program.finish()
}

/// `page_cache_sync_ra(inode, index, readahead, pages)` and `page_cache_async_ra`: a read is about to read ahead.
pub(crate) fn read_ahead(layout: Layout, maps: Maps, registers: Registers) -> Vec<u64> {
    let mut program = Assembler::default();
    program.copy(R6, R1);
    program.only_targets(maps);
    program.load(Double, R1, R6, 8);
    program.store(Double, Frame, INDEX, R1);
    program.store_number(Double, Frame, FLAGS, 0);
    program.load(Double, R8, R6, 16);
    program.read_kernel(MORE, R8, READAHEAD_PAGES);
    program.load(Double, R9, R6, 0);
    program.identify_inode(layout);
    program.send(READ_AHEAD, maps, Some(registers));
    program.finish()
}
