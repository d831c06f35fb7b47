//! Random programs: sequences of operations, each made by one of a few threads. An operation names its
//! descriptor, path or mapping by a variable. So every subsequence of a program is a program, and a failing
//! one can be reduced.

/// Threads of the program, by their names at the start.
pub const THREAD_NAMES: [&std::ffi::CStr; 4] = [
    c"rocksdb:low",
    c"CompactionExecu",
    c"reader",
    c"rocksdb:high",
];

/// Names that threads get later.
pub const NAMES: [&std::ffi::CStr; 7] = [
    c"rocksdb:low",
    c"rocksdb:bottom",
    c"rocksdb:high",
    c"CompactionExecu",
    c"ValidationExecu",
    c"reader",
    c"a name that is too long for a thread",
];

/// Paths of the program, with their sizes at the start. `None` is a missing file. Two thirds are SSTables, or a blob file.
pub const PATHS: [(&std::ffi::CStr, Option<u64>); 11] = [
    (c"000001.sst", Some((3 << 20) + 123)),
    (c"000002.sst", Some(1 << 20)),
    (c"000003.ldb", Some(700_001)),
    (c"nb-1-big-Data.db", Some((5 << 20) + 4097)),
    (c"./deeper/da-2-bti-Data.db", Some(3 * 65_536)),
    (c"000004.blob", None),
    (c"deeper/000005.sst", Some(0)),
    (c"000006.log", Some(200_000)),
    (c"other.tmp", None),
    (c"alias.tmp", None),
    (c"missing/000007.sst", None),
];

/// Number of SSTables and blob files in [`PATHS`]. They come first.
pub const TABLES: usize = 7;

/// Variables for descriptors.
pub const SLOTS: usize = 10;
/// Variables for mappings.
pub const MAPPINGS: usize = 3;

/// The highest number of a descriptor is one less than this.
pub const DESCRIPTOR_LIMIT: u64 = 4096;
/// The library's private descriptors begin here: in the last eighth of the limit. Cases that need one check
/// that there is one.
pub const HIGH_NUMBER: i32 = (DESCRIPTOR_LIMIT - DESCRIPTOR_LIMIT / 8) as i32;

/// One step, and its thread.
#[derive(Clone, Debug)]
pub struct Operation {
    pub thread: usize,
    pub action: Action,
}

/// A way to close a descriptor.
#[derive(Clone, Copy, Debug)]
pub enum Closing {
    Close,
    Range,
    /// `fdopen` and `fclose`.
    Stream,
    /// `syscall(2)`: the library does not see it.
    Raw,
}

/// A way to close all descriptors at once.
#[derive(Clone, Copy, Debug)]
pub enum ClosingAll {
    Range,
    From,
    Loop,
}

/// A new number for an open file.
#[derive(Clone, Copy, Debug)]
pub enum Duplication {
    Dup,
    Dup2,
    Dup3,
    Fcntl { lowest: i32 },
    FcntlCloexec { lowest: i32 },
    Raw,
}

/// The number of a duplicate by `dup2` and `dup3`.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// The number of the target variable, if it is open.
    Variable,
    Number(i32),
}

/// The buffer of a read.
#[derive(Clone, Copy, Debug)]
pub enum Buffer {
    /// Ordinary memory, at this offset in a page.
    Good {
        misaligned: usize,
    },
    Null,
    ReadOnly,
    /// Memory that ends at a guard page after this number of bytes.
    Guarded {
        room: usize,
    },
}

/// The offset of a read or write.
#[derive(Clone, Copy, Debug)]
pub enum Position {
    At(i64),
    /// This far before the present end of the file; behind it, if negative.
    BeforeEnd(i64),
    /// The end of the last scan of this descriptor.
    Continue,
}

/// One step of a program.
#[derive(Clone, Debug)]
pub enum Action {
    Open {
        call: &'static str,
        path: usize,
        flags: i32,
        slot: usize,
    },
    Close {
        how: Closing,
        slot: usize,
    },
    CloseNumber {
        number: i32,
    },
    CloseAll {
        how: ClosingAll,
    },
    Duplicate {
        how: Duplication,
        from: usize,
        to: usize,
        target: Target,
    },
    StatusFlags {
        call: &'static str,
        slot: usize,
        flags: i32,
    },
    DescriptorFlags {
        slot: usize,
        flags: i32,
    },
    Read {
        call: &'static str,
        slot: usize,
        length: usize,
    },
    ReadAt {
        call: &'static str,
        slot: usize,
        position: Position,
        length: usize,
        buffer: Buffer,
        flags: i32,
    },
    /// Many sequential reads.
    Scan {
        call: &'static str,
        slot: usize,
        position: Position,
        chunk: usize,
        count: usize,
    },
    Write {
        call: &'static str,
        slot: usize,
        length: usize,
    },
    WriteAt {
        call: &'static str,
        slot: usize,
        position: Position,
        length: usize,
        flags: i32,
    },
    Seek {
        call: &'static str,
        slot: usize,
        offset: i64,
        whence: i32,
    },
    Truncate {
        call: &'static str,
        slot: usize,
        length: i64,
    },
    TruncatePath {
        call: &'static str,
        path: usize,
        length: i64,
    },
    Allocate {
        call: &'static str,
        slot: usize,
        mode: i32,
        position: Position,
        length: i64,
    },
    Sync {
        call: &'static str,
        slot: usize,
    },
    SyncRange {
        slot: usize,
        offset: i64,
        length: i64,
        flags: u32,
    },
    Advise {
        call: &'static str,
        slot: usize,
        offset: i64,
        length: i64,
        advice: i32,
    },
    Map {
        call: &'static str,
        slot: usize,
        mapping: usize,
        protection: i32,
        flags: i32,
        position: Position,
        length: usize,
    },
    Store {
        mapping: usize,
        offset: usize,
        length: usize,
        by_child: bool,
    },
    Load {
        mapping: usize,
    },
    SyncMapping {
        mapping: usize,
    },
    Unmap {
        mapping: usize,
    },
    SendFile {
        call: &'static str,
        from: usize,
        to: usize,
        offset: Option<i64>,
        length: usize,
    },
    CopyRange {
        from: usize,
        from_offset: Option<i64>,
        to: usize,
        to_offset: Option<i64>,
        length: usize,
    },
    SpliceOut {
        from: usize,
        offset: Option<i64>,
        length: usize,
    },
    Link {
        call: &'static str,
        from: usize,
        to: usize,
    },
    LinkDescriptor {
        slot: usize,
        to: usize,
    },
    Rename {
        call: &'static str,
        from: usize,
        to: usize,
        flags: u32,
    },
    Unlink {
        call: &'static str,
        path: usize,
    },
    Status {
        call: &'static str,
        slot: usize,
    },
    PathStatus {
        call: &'static str,
        path: usize,
    },
    NameSelf {
        call: &'static str,
        name: usize,
    },
    NameOther {
        thread: usize,
        name: usize,
    },
    /// A forked child reads all open descriptors, and opens and scans SSTables itself.
    Fork {
        scans: usize,
    },
    /// Another process, which has only the path, overwrites, truncates or replaces a file.
    Elsewhere {
        path: usize,
        change: Change,
    },
    /// A program is started and waited for.
    Spawn,
    /// Writes back and drops everything from the page cache.
    DropPages,
    /// Waits until earlier changes count as old.
    Settle,
}

/// A change of a file by another process.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    Overwrite {
        offset: i64,
        length: usize,
    },
    Truncate {
        length: i64,
    },
    /// Truncated and rewritten from its beginning.
    Refill {
        length: usize,
    },
    /// By direct I/O, whole blocks.
    OverwriteDirect {
        block: i64,
        blocks: usize,
    },
    /// Through a shared mapping.
    OverwriteMapped {
        page: i64,
        pages: usize,
    },
    PunchHole {
        offset: i64,
        length: i64,
    },
    /// Blocks of another file are shared into it, by `FICLONERANGE`.
    Clone {
        from: usize,
        block: i64,
        blocks: usize,
    },
}
