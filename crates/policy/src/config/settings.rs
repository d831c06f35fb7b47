//! The list of all settings. A new setting is one entry here, and the code that reads its field.
//!
//! An entry makes: the field of [`Config`] and its default, the environment variable, the TOML key,
//! the option of `coldstream run` with its help, the error for a wrong value, `docs/configuration.md`
//! and `examples/coldstream.toml`. After a change, renew the two files as their test says.
//!
//! The comment of an entry is for operators. Its first paragraph says what the setting is; the help of
//! `coldstream run -h` shows it. The others say what the values do and cost.

use super::log_target::LogTarget;
use super::setting::{Section, Setting, settings};
use super::values::{
    Calls, GIB, IoPriorities, KIB, Log, MIB, Margins, Names, NiceValues, Number, Size, Switch, TIB,
    Values,
};
use crate::avoided_calls::AvoidedCalls;
use crate::eviction::Margin;
use crate::flush::FlushOutput;
use crate::io_mode::{IoModeSetting, Visibility};
use crate::priority::{ByRole, IoPriority};
use crate::priority::{Priorities, PriorityMode};
use crate::profile::Profile;
use crate::readahead::Readahead;

/// The names of an enum that were never others.
const NAMES: Names = Names { former: &[] };
/// The names of I/O modes.
const IO_MODES: Names = Names {
    former: &[("window", "drop-behind")],
};

settings! {
    /// Whether Coldstream works in the process at all.
    ///
    /// `off` is the way out when another setting is wrong. `coldstream run` then starts the program
    /// without the library.
    enabled: bool = true => {
        section: General,
        option: "",
        variable: "COLDSTREAM",
        key: "enabled",
        values: Switch,
    }

    /// The engine whose threads and files are recognised.
    ///
    /// `auto` recognises RocksDB, LevelDB and Cassandra at once.
    profile: Profile = Profile::Auto => {
        section: General,
        option: "--profile ENGINE",
        variable: "COLDSTREAM_PROFILE",
        key: "profile",
        values: NAMES,
    }

    /// I/O mode of background reads.
    ///
    /// - `auto`: the best mode that a probe of the filesystem finds, in the order of this list.
    /// - `direct`: `O_DIRECT` into windows; nothing enters the page cache.
    /// - `dontcache`: `RWF_DONTCACHE` into windows; the kernel drops the pages (Linux 6.14).
    /// - `drop-behind`: buffered into windows; Coldstream drops the pages that it brought in.
    /// - `buffered`: the plain call of the engine.
    ///
    /// A mode that does not work on a filesystem becomes `buffered` there (`fallback_filesystem`).
    reads: IoModeSetting = IoModeSetting::Auto => {
        section: Reads,
        option: "--reads MODE",
        variable: "COLDSTREAM_READS",
        key: "reads.io_mode" formerly "reads.treatment",
        values: IO_MODES,
    }

    /// Size of one window, the read-ahead buffer of background reads.
    ///
    /// A large window makes few, large requests to the device. `2MiB` gains nothing measurable.
    window_bytes: usize = 1 << 20 => {
        section: Reads,
        option: "--window SIZE",
        variable: "COLDSTREAM_WINDOW_BYTES",
        key: "reads.window_bytes",
        values: Size { min_bytes: 64 * KIB, max_bytes: 2 * MIB, power_of_two: true },
    }

    /// Windows that are read ahead in each SSTable that a background thread reads.
    ///
    /// More windows hide a longer delay of the device. Each takes the memory of one window.
    windows_in_flight: usize = 1 => {
        section: Reads,
        option: "--windows-in-flight N",
        variable: "COLDSTREAM_WINDOWS_IN_FLIGHT",
        key: "reads.windows_in_flight",
        values: Number { min: 1, max: 4, unit: "" },
    }

    /// The most memory for windows and staging buffers, of the whole process.
    ///
    /// At the limit a background read is a plain call (`fallback_memory_cap`). An SSTable without a
    /// staging buffer is written in mode `drop-behind` (`fallback_write_memory`).
    memory_bytes: usize = 64 << 20 => {
        section: Reads,
        option: "--memory SIZE",
        variable: "COLDSTREAM_MEMORY_BYTES",
        key: "reads.memory_bytes",
        values: Size { min_bytes: MIB, max_bytes: GIB, power_of_two: false },
    }

    /// I/O mode of background writes.
    ///
    /// - `auto`: `direct` where it works, else `drop-behind`.
    /// - `direct`: `O_DIRECT`; only the end of an SSTable goes through the page cache.
    /// - `dontcache`: `RWF_DONTCACHE`; it is broken in Linux 6.14 and 6.15, and slow at times before 7.2.
    /// - `drop-behind`: buffered; writeback starts early, and written pages are dropped.
    /// - `buffered`: the plain call of the engine.
    ///
    /// With `auto` an SSTable is written by plain calls where the data fits in memory, or where Cassandra maps its data
    /// files (`kept_cached`).
    /// Direct writes are refused on Linux 6.1.64 and 6.1.65, whose ext4 corrupts them.
    writes: IoModeSetting = IoModeSetting::Auto => {
        section: Writes,
        option: "--writes MODE",
        variable: "COLDSTREAM_WRITES",
        key: "writes.io_mode" formerly "writes.treatment",
        values: IO_MODES,
    }

    /// Which processes must see written bytes when `write` returns.
    ///
    /// - `auto`: `process` for Cassandra, `everywhere` for other engines.
    /// - `everywhere`: all processes. The bytes are in the kernel.
    /// - `process`: the threads of the database. Other processes see them up to two staging buffers late.
    ///
    /// With `process` a crash, the OOM killer or `kill -9` loses bytes that still wait in user memory.
    /// They belong to an unfinished SSTable. Cassandra writes 4 KiB at a time, which could not be direct
    /// otherwise.
    visible: Visibility = Visibility::Auto => {
        section: Writes,
        option: "--visible WHERE",
        variable: "COLDSTREAM_VISIBLE",
        key: "writes.visible",
        values: NAMES,
    }

    /// Whether SSTables of memtable flushes stay in the page cache.
    ///
    /// - `auto`: they stay, but for RocksDB's while memory is short: more evicted pages are read again than pages of flushes
    ///   are read at all.
    /// - `cached`: they stay. The newest data is what is read next.
    /// - `bypass`: they go around the page cache, like a compaction's output.
    flush: FlushOutput = FlushOutput::Cached => {
        section: Writes,
        option: "--flush auto|cached|bypass",
        variable: "COLDSTREAM_FLUSH",
        key: "writes.flush",
        values: NAMES,
    }

    /// Size of one staging buffer of an SSTable that is written directly.
    ///
    /// An SSTable has one buffer. It gets a second one when the first has been full, as long as half
    /// of `--memory` is free.
    staging_bytes: usize = 1 << 20 => {
        section: Writes,
        option: "--staging SIZE",
        variable: "COLDSTREAM_STAGING_BYTES",
        key: "writes.staging_bytes",
        values: Size { min_bytes: 256 * KIB, max_bytes: MIB, power_of_two: true },
    }

    /// Whether pages of a compaction's output are warmed for keys that were hot in its inputs.
    ///
    /// It delays the publication of an SSTable: on average by 6 to 15 ms for RocksDB, 49 to 1,064 ms for Cassandra.
    /// Only the background thread waits; reads go on with the old SSTables. Counting heat costs 13 ns
    /// for each read of an SSTable.
    handover: bool = true => {
        section: Handover,
        option: "--handover on|off",
        variable: "COLDSTREAM_HANDOVER",
        key: "handover.enabled",
        values: Switch,
    }

    /// The most that is warmed of one SSTable, or of one part that is published early.
    ///
    /// Before the publication it is never more than an eighth of the memory that the process may have.
    // The default is what memory allows.
    handover_bytes: u64 = 1 << 40 => {
        section: Handover,
        option: "--handover-size SIZE",
        variable: "COLDSTREAM_HANDOVER_BYTES",
        key: "handover.bytes",
        values: Size { min_bytes: 0, max_bytes: TIB, power_of_two: false },
    }

    /// Reads in flight while pages are warmed.
    ///
    /// More of them finish sooner, and are in the way of other reads meanwhile.
    handover_in_flight: usize = 4 => {
        section: Handover,
        option: "--handover-in-flight N",
        variable: "COLDSTREAM_HANDOVER_IN_FLIGHT",
        key: "handover.in_flight",
        values: Number { min: 1, max: 64, unit: "" },
    }

    /// The longest delay of a publication by one handover. An SSTable of Cassandra 6.0 has two.
    ///
    /// Half of it is for finding the ranges. What is not warm by then stays cold (`handover_cut_short`).
    handover_milliseconds: u32 = 2000 => {
        section: Handover,
        option: "--handover-milliseconds MS",
        variable: "COLDSTREAM_HANDOVER_MILLISECONDS",
        key: "handover.milliseconds",
        values: Number { min: 1, max: 60_000, unit: " of milliseconds" },
    }

    /// The most memory for heat: how often the foreground lately read each part of an SSTable.
    ///
    /// It is never more than a 128th of the memory that the process may have. `64MiB` hold the heat of
    /// 224 GiB of SSTables, and are used only as far as these are read. When more is read, some heat is
    /// forgotten (`heat_displaced`).
    heat_bytes: usize = 64 << 20 => {
        section: Handover,
        option: "--heat SIZE",
        variable: "COLDSTREAM_HEAT_BYTES",
        key: "handover.heat_bytes",
        values: Size { min_bytes: 64 * KIB, max_bytes: GIB, power_of_two: false },
    }

    /// Readahead of SSTables.
    ///
    /// - `scans`: none by the kernel. Coldstream reads ahead of range scans.
    /// - `scans-and-mapped`: the same, and mapped SSTables get none at all. This is good for point reads
    ///   and bad for compactions that read by mappings (Cassandra's `disk_access_mode: mmap`).
    /// - `kernel`: as the kernel does it.
    readahead: Readahead = Readahead::Scans => {
        section: Readahead,
        option: "--readahead WHEN",
        variable: "COLDSTREAM_READAHEAD",
        key: "readahead",
        values: NAMES,
    }

    /// Whether background I/O slows down while it makes the foreground's device reads slower.
    ///
    /// On a device that compactions cannot fill, it costs compaction throughput and gains nothing.
    pacing: bool = false => {
        section: Pacing,
        option: "--pacing on|off",
        variable: "COLDSTREAM_PACING",
        key: "pacing.enabled",
        values: Switch,
    }

    /// The rate that background I/O always has, all threads together.
    ///
    /// A low floor protects reads better. Compactions fall behind if they need more for long.
    // It was the default of Cassandra's limit of compaction throughput for long.
    pacing_floor: u32 = 16 => {
        section: Pacing,
        option: "--pacing-floor MIB_PER_SECOND",
        variable: "COLDSTREAM_PACING_FLOOR",
        key: "pacing.floor",
        values: Number { min: 1, max: 65_536, unit: " of MiB per second" },
    }

    /// Whether cold pages of SSTables are dropped before memory runs out (Linux 6.5).
    ///
    /// It is for background I/O that stays in the page cache (`--reads buffered --writes buffered`).
    /// Elsewhere it finds little to drop. It costs one thread, with 0.4 % of a processor in vain and a
    /// quarter at most.
    eviction: bool = false => {
        section: Eviction,
        option: "--eviction on|off",
        variable: "COLDSTREAM_EVICTION",
        key: "eviction.enabled",
        values: Switch,
    }

    /// The memory that eviction keeps free below the limit of the cgroup and the kernel's watermarks.
    ///
    /// A percentage of the limit means 4 MiB at least and 256 MiB at most. No margin is more than an
    /// eighth of the limit.
    eviction_margin: Margin = Margin::Percent(3) => {
        section: Eviction,
        option: "--eviction-margin PERCENT|SIZE",
        variable: "COLDSTREAM_EVICTION_MARGIN",
        key: "eviction.margin",
        values: Margins,
    }

    /// When background threads get a nice value and an I/O priority.
    ///
    /// - `auto`: nice values where the process may restore them, I/O priorities always. A database
    ///   that does not run as root needs `LimitNICE=+0` or `CAP_SYS_NICE`. While background threads wait for
    ///   processors for long, they have their former priorities: reads must not starve writes.
    /// - `reads-first`: as `auto`, but without that guard. On saturated processors reads are faster, and
    ///   compactions and writes much slower. Handovers take all the time that they need.
    /// - `always`: as `reads-first`, and nice values also where they can never be restored.
    /// - `off`: neither. The guard still limits the time of handovers while background threads wait for
    ///   processors for long.
    priority: PriorityMode = PriorityMode::Auto => {
        section: Priority,
        option: "--priority WHEN",
        variable: "COLDSTREAM_PRIORITY",
        key: "priority.apply",
        values: NAMES,
    }

    /// Nice values of background threads.
    ///
    /// The roles are `compaction`, `flush`, `validation` and `streaming`. A value without a role is for
    /// all but `flush`. `10` leaves a compaction thread a tenth of
    /// a request's weight where both want a processor. Writes wait for flushes, so these are left alone.
    nice: ByRole<u8> = Priorities::default().nice => {
        section: Priority,
        option: "--nice NICE",
        variable: "COLDSTREAM_NICE",
        key: "priority.nice",
        values: NiceValues,
    }

    /// I/O priorities of background threads: a level of the best-effort class, or `idle`.
    ///
    /// The roles are those of `--nice`. A value without a role is for all but `flush`. The scheduler `bfq` knows these priorities,
    /// `none` ignores them.
    io_priority: ByRole<IoPriority> = Priorities::default().io => {
        section: Priority,
        option: "--io-priority LEVEL",
        variable: "COLDSTREAM_IO_PRIORITY",
        key: "priority.io",
        values: IoPriorities,
    }

    /// The destination of the library's log lines.
    ///
    /// - `stderr`: standard error, as long as it is the file that it was at the start.
    /// - A file: lines are appended. `--log` accepts a relative path too. `coldstream run` writes its first line to standard
    ///   error, too.
    /// - `none`: no lines.
    ///
    /// A process without SSTables writes no line. `coldstream run` creates the file as the user who runs
    /// it. If the program changes its user, create the file beforehand and give it to that user.
    log: LogTarget = LogTarget::Stderr => {
        section: General,
        option: "--log none|stderr|PATH",
        variable: "COLDSTREAM_LOG",
        key: "log",
        values: Log,
    }
    /// System calls that the library does not make.
    ///
    /// For a filter of system calls that kills (`SystemCallFilter=` of systemd). `coldstream run` tries them out
    /// where there is a filter, and adds those that it kills for. With a bare `LD_PRELOAD` name them here. The
    /// names, and what is lost without each: see limits.md.
    avoid: AvoidedCalls = AvoidedCalls::default() => {
        section: General,
        option: "--avoid CALLS",
        variable: "COLDSTREAM_AVOID",
        key: "avoid",
        values: Calls,
    }
}
