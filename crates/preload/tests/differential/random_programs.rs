//! Random programs on every filesystem, under every treatment.

use crate::compare::{Bench, difference};
use crate::subject::Script;
use crate::support::exit_log::ExitLog;
use crate::support::library::Preload;
use crate::support::places::{self, Filesystem};
use crate::support::{long, number_from_environment};

/// A way to run the library, and whether the short form gives it every program.
struct Setting {
    name: &'static str,
    preload: Preload,
    always: bool,
}

fn settings() -> Vec<Setting> {
    let setting = |name, always, variables: &[(&'static str, &str)]| Setting {
        name,
        preload: variables
            .iter()
            .fold(Preload::talking(), |preload, (name, value)| {
                preload.with(name, value)
            }),
        always,
    };
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
        setting("window", false, &[("COLDSTREAM_READS", "window")]),
        setting("buffered", false, &[("COLDSTREAM_READS", "buffered")]),
        setting("off", false, &[("COLDSTREAM", "off")]),
    ]
}

fn on(filesystem: Filesystem) {
    let Some(place) = places::on(filesystem) else {
        return;
    };
    let records = places::on_disk();
    let bench = Bench {
        place: place.path(),
        records: records.path(),
    };
    let count =
        number_from_environment("COLDSTREAM_OPERATIONS").unwrap_or(if long() { 2000 } else { 260 })
            as usize;
    let fixed = number_from_environment("COLDSTREAM_SEED");
    let programs = match (
        number_from_environment("COLDSTREAM_PROGRAMS"),
        fixed,
        long(),
    ) {
        (Some(number), ..) => number,
        (None, Some(_), _) => 1,
        (None, None, true) => 40,
        (None, None, false) => 4,
    };
    let only = std::env::var("COLDSTREAM_SETTING").ok();
    let first = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap()
        .as_nanos() as u64
        % 1_000_000;
    let settings = settings();
    let mut sums: Vec<ExitLog> = settings.iter().map(|_| ExitLog::default()).collect();
    for number in 0..programs {
        let seed = fixed.unwrap_or(first) + number;
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
            // Else a difference would say nothing about the library.
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
                None => {
                    setting.always || long() || fixed.is_some() || place as u64 % 3 == number % 3
                }
            };
            if due {
                let log = bench.check(&script, &plain, &setting.preload);
                sums[place].direct_bytes += log.direct_bytes;
                sums[place].window_bytes += log.window_bytes;
                sums[place].dontcache_bytes += log.dontcache_bytes;
                sums[place].cache_bytes += log.cache_bytes;
                sums[place].buffered_bytes += log.buffered_bytes;
            }
        }
    }
    for (setting, sum) in settings.iter().zip(&sums) {
        println!(
            "{filesystem:?}, {}: direct {}, dontcache {}, window {}, page cache {}, buffered {}",
            setting.name,
            sum.direct_bytes,
            sum.dontcache_bytes,
            sum.window_bytes,
            sum.cache_bytes,
            sum.buffered_bytes
        );
    }
    if fixed.is_none() && only.is_none() && matches!(filesystem, Filesystem::Ext4 | Filesystem::Xfs)
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
