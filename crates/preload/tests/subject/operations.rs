//! What a random program does: a sequence of operations, each made by one of a few threads. An
//! operation names its descriptor, path or mapping by a variable, so that every subsequence of
//! a program is a program too, and a failing one can be made small.

/// Threads of the program, and the names with which they start.
pub const THREAD_NAMES: [&std::ffi::CStr; 4] = [
    c"rocksdb:low",
    c"CompactionExecu",
    c"reader",
    c"rocksdb:high",
];

/// Names that threads are given on the way.
pub const NAMES: [&std::ffi::CStr; 7] = [
    c"rocksdb:low",
    c"rocksdb:bottom",
    c"rocksdb:high",
    c"CompactionExecu",
    c"ValidationExecu",
    c"reader",
    c"a name that is too long for a thread",
];

/// Paths of the program and their sizes at the start; a size of none is a file that is not
/// there. Two thirds are tables.
pub const PATHS: [(&std::ffi::CStr, Option<u64>); 11] = [
    (c"000001.sst", Some((3 << 20) + 123)),
    (c"000002.sst", Some(1 << 20)),
    (c"000003.ldb", Some(700_001)),
    (c"nb-1-big-Data.db", Some((5 << 20) + 4097)),
    (c"./deeper/da-2-bti-Data.db", Some(3 * 65_536)),
    (c"000004.sst", None),
    (c"deeper/000005.sst", Some(0)),
    (c"000006.log", Some(200_000)),
    (c"other.tmp", None),
    (c"alias.tmp", None),
    (c"missing/000007.sst", None),
];

/// How many of [`PATHS`], from the first, are tables.
pub const TABLES: usize = 7;

/// Variables for descriptors.
pub const SLOTS: usize = 10;
/// Variables for mappings.
pub const MAPPINGS: usize = 3;

/// The highest number of a descriptor is one less than this.
pub const DESCRIPTOR_LIMIT: u64 = 4096;
/// From here on the library has its own descriptors: in the last eighth of the limit. The cases that
/// need one there look whether there is one.
pub const HIGH_NUMBER: i32 = (DESCRIPTOR_LIMIT - DESCRIPTOR_LIMIT / 8) as i32;

/// One step, and the thread that makes it.
#[derive(Clone, Debug)]
pub struct Operation {
    pub thread: usize,
    pub action: Action,
}

/// How a descriptor is closed.
#[derive(Clone, Copy, Debug)]
pub enum Closing {
    Close,
    Range,
    /// `fdopen` and `fclose`: libc closes it by a name of its own.
    Stream,
    /// `syscall(2)`: nobody sees it.
    Raw,
}

/// How all descriptors are closed at once.
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

/// Where the number of a duplicate comes from, with `dup2` and `dup3`.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// That of the target variable, if it is open.
    Variable,
    Number(i32),
}

/// Memory that a read is told to write to.
#[derive(Clone, Copy, Debug)]
pub enum Buffer {
    /// Ordinary memory, this far behind the start of a page.
    Good {
        misaligned: usize,
    },
    Null,
    ReadOnly,
    /// Ends, after so many bytes, at a page that cannot be touched.
    Guarded {
        room: usize,
    },
}

/// Where a read or write is made.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    At(i64),
    /// So far before (or, negative, behind) the end of the file as it is then.
    BeforeEnd(i64),
    /// Where the last scan of this descriptor got to.
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
        place: Place,
        length: usize,
        buffer: Buffer,
        flags: i32,
    },
    /// Many reads, one behind the other.
    Scan {
        call: &'static str,
        slot: usize,
        place: Place,
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
        place: Place,
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
        place: Place,
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
        place: Place,
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
    /// A forked child reads all that is open, and opens and scans tables itself.
    Fork {
        scans: usize,
    },
    /// Another process (which has only the path) overwrites, truncates or replaces.
    Elsewhere {
        path: usize,
        change: Change,
    },
    /// A program is started and waited for.
    Spawn,
    /// Writes back and drops everything from the page cache.
    DropPages,
    /// Rests until changes of before count as old.
    Settle,
}

/// What another process does to a file.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    Overwrite {
        offset: i64,
        length: usize,
    },
    Truncate {
        length: i64,
    },
    /// Truncated and written anew, from its beginning.
    Refill {
        length: usize,
    },
    /// By direct I/O, whole blocks.
    OverwriteDirect {
        block: i64,
        blocks: usize,
    },
    /// By way of a shared mapping.
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
