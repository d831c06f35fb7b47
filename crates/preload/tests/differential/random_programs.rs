//! Random programs on every filesystem, under every I/O mode.

use crate::differential::compare::{Bench, difference};
use crate::subject::Script;
use crate::subject::generate::APPENDS;
use coldstream_testkit::directories::{self, Filesystem};
use coldstream_testkit::exit_log::ExitLog;
use coldstream_testkit::library::Preload;
use coldstream_testkit::{long, number_from_environment, seed};

/// A setting of the library, and whether the short form runs every program with it.
struct Setting {
    name: &'static str,
    preload: Preload,
    always: bool,
}

/// Mechanisms that are off by default, too: another thread, timed reads, waiting threads.
const EVERYTHING: [(&str, &str); 5] = [
    ("COLDSTREAM_PACING", "on"),
    ("COLDSTREAM_PACING_FLOOR", "1"),
    ("COLDSTREAM_EVICTION", "on"),
    ("COLDSTREAM_EVICTION_MARGIN", "25%"),
    ("COLDSTREAM_READAHEAD", "scans-and-mapped"),
];

fn settings() -> Vec<Setting> {
    vec![
        setting("auto", true, &[]),
        setting(
            "direct, small windows",
            true,
            &[
                ("COLDSTREAM_READS", "direct"),
                ("COLDSTREAM_WINDOW_BYTES", "64KiB"),
            ],
        ),
        setting(
            "direct, many windows",
            false,
            &[
                ("COLDSTREAM_READS", "direct"),
                ("COLDSTREAM_WINDOW_BYTES", "2MiB"),
                ("COLDSTREAM_WINDOWS_IN_FLIGHT", "4"),
            ],
        ),
        setting(
            "direct, little memory",
            false,
            &[
                ("COLDSTREAM_READS", "direct"),
                ("COLDSTREAM_MEMORY_BYTES", "1MiB"),
            ],
        ),
        setting("dontcache", false, &[("COLDSTREAM_READS", "dontcache")]),
        setting("drop-behind", false, &[("COLDSTREAM_READS", "drop-behind")]),
        setting("buffered", false, &[("COLDSTREAM_READS", "buffered")]),
        setting("everything", false, &EVERYTHING),
        setting("off", false, &[("COLDSTREAM", "off")]),
        setting(
            "written with drop-behind",
            false,
            &[("COLDSTREAM_WRITES", "drop-behind")],
        ),
    ]
}

/// Settings for programs that write SSTables in background threads. In all of them only the writing process
/// sees a staging buffer before the kernel has it.
fn settings_of_appends() -> Vec<Setting> {
    let small = ("COLDSTREAM_STAGING_BYTES", "256KiB");
    vec![
        staged("staged", true, &[("COLDSTREAM_WRITES", "direct"), small]),
        staged("auto", false, &[]),
        staged(
            "staged, flushes too",
            false,
            &[small, ("COLDSTREAM_FLUSH", "bypass")],
        ),
        staged(
            "staged, little memory",
            false,
            &[small, ("COLDSTREAM_MEMORY_BYTES", "1MiB")],
        ),
        staged("drop-behind", true, &[("COLDSTREAM_WRITES", "drop-behind")]),
        staged("everything", false, &EVERYTHING),
        staged("dontcache", false, &[("COLDSTREAM_WRITES", "dontcache")]),
        setting("through", true, &[("COLDSTREAM_WRITES", "direct"), small]),
    ]
}

/// Written bytes are visible everywhere when `write` returns. These programs have writers in other processes,
/// and calls that the library does not see.
fn setting(name: &'static str, always: bool, variables: &[(&'static str, &str)]) -> Setting {
    configured(name, always, "everywhere", variables)
}

fn staged(name: &'static str, always: bool, variables: &[(&'static str, &str)]) -> Setting {
    configured(name, always, "process", variables)
}

fn configured(
    name: &'static str,
    always: bool,
    visible: &str,
    variables: &[(&'static str, &str)],
) -> Setting {
    let preload = Preload::logging().with("COLDSTREAM_VISIBLE", visible);
    Setting {
        name,
        preload: variables
            .iter()
            .fold(preload, |preload, (name, value)| preload.with(name, value)),
        always,
    }
}

fn on(filesystem: Filesystem) {
    run(filesystem, settings(), 0);
    run(filesystem, settings_of_appends(), APPENDS);
}

fn run(filesystem: Filesystem, settings: Vec<Setting>, kind: u64) {
    let Some(place) = directories::on(filesystem) else {
        return;
    };
    let records = directories::on_disk();
    let bench = Bench {
        place: place.path(),
        records: records.path(),
    };
    let count =
        number_from_environment("COLDSTREAM_OPERATIONS").unwrap_or(if long() { 2000 } else { 260 })
            as usize;
    let is_repeated = number_from_environment("COLDSTREAM_SEED").is_some();
    let programs = match (
        number_from_environment("COLDSTREAM_PROGRAMS"),
        is_repeated,
        long(),
    ) {
        (Some(number), ..) => number,
        (None, true, _) => 1,
        (None, false, true) => 40,
        (None, false, false) => 4,
    };
    let only = std::env::var("COLDSTREAM_SETTING").ok();
    let first = seed();
    let mut sums: Vec<ExitLog> = settings.iter().map(|_| ExitLog::default()).collect();
    for number in 0..programs {
        let seed = (first + number) | kind;
        println!("{filesystem:?}: seed {seed}, {count} operations");
        let script = Script {
            seed,
            count,
            keep: None,
        };
        let plain = bench.run(&script, None);
        assert_eq!(
            plain.lines.last().map(String::as_str),
            Some("end"),
            "{:?}",
            plain.lines.last()
        );
        if number == 0 {
            // Otherwise a difference would not prove anything about the library.
            let again = bench.run(&script, None);
            assert_eq!(
                difference(&plain, &again),
                None,
                "seed {seed} is not reproducible"
            );
        }
        for (place, setting) in settings.iter().enumerate() {
            let due = match &only {
                Some(name) => setting.name == name,
                None => setting.always || long() || is_repeated || place as u64 % 3 == number % 3,
            };
            if due {
                let log = bench.check(&script, &plain, &setting.preload);
                sums[place].direct_bytes += log.direct_bytes;
                sums[place].drop_behind_bytes += log.drop_behind_bytes;
                sums[place].dontcache_bytes += log.dontcache_bytes;
                sums[place].cache_bytes += log.cache_bytes;
                sums[place].buffered_bytes += log.buffered_bytes;
                sums[place].written_direct_bytes += log.written_direct_bytes;
                sums[place].overlapped_bytes += log.overlapped_bytes;
                sums[place].staged_writes += log.staged_writes;
            }
        }
    }
    for (setting, sum) in settings.iter().zip(&sums) {
        println!(
            "{filesystem:?}, {}: direct {}, dontcache {}, drop-behind {}, page cache {}, buffered {}; written \
             directly {}, of these overlapped {}, {} writes staged",
            setting.name,
            sum.direct_bytes,
            sum.dontcache_bytes,
            sum.drop_behind_bytes,
            sum.cache_bytes,
            sum.buffered_bytes,
            sum.written_direct_bytes,
            sum.overlapped_bytes,
            sum.staged_writes
        );
    }
    if kind == APPENDS && !is_repeated && only.is_none() && filesystem == Filesystem::Ext4 {
        assert!(sums[0].staged_writes > 100 && sums[0].written_direct_bytes > 0);
        assert!(sums[0].overlapped_bytes > 0);
    }
    if kind == 0
        && !is_repeated
        && only.is_none()
        && matches!(filesystem, Filesystem::Ext4 | Filesystem::Xfs)
    {
        for place in [0, 1] {
            let bytes = sums[place].direct_bytes;
            assert!(
                bytes > 0,
                "{}: nothing was read directly",
                settings[place].name
            );
        }
    }
}

#[test]
fn on_the_current_filesystem() {
    on(Filesystem::Current);
}

#[test]
fn on_ext4() {
    on(Filesystem::Ext4);
}

#[test]
fn on_xfs() {
    on(Filesystem::Xfs);
}

#[test]
fn on_btrfs() {
    on(Filesystem::Btrfs);
}

#[test]
fn on_tmpfs() {
    on(Filesystem::Tmpfs);
}
