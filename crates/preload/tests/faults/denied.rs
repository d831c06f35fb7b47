//! Calls that always fail, like under a container's filter or on an old kernel, and exhausted resources.

use crate::{check, expected, scan};
use coldstream_io::sys::avoid;
use coldstream_policy::AVOIDABLE_CALLS;
use coldstream_testkit::exit_log::ExitLog;
use coldstream_testkit::library::Preload;
use coldstream_testkit::process::{Ended, Program, signal};
use coldstream_testkit::{directories, files, skip, tools};

/// `cachestat(2)`, the same number on every architecture.
const SYS_CACHESTAT: i64 = 451;

/// Scans while calls with this number, and with these bits in their third argument, fail. Returns the
/// library's exit log, if a filter can be installed and the log can be opened under it.
fn deny(calls: &[(i64, i32, Option<i32>)], preload: &Preload) -> Option<ExitLog> {
    let directory = directories::on_disk();
    let deny = tools::compile("deny.c", directory.path(), "deny", &[]);
    let mut launcher = Vec::new();
    for (number, errno, mask) in calls {
        launcher.push(deny.to_str().unwrap().to_owned());
        launcher.push(number.to_string());
        launcher.push(errno.to_string());
        launcher.extend(mask.map(|mask| mask.to_string()));
        launcher.push("--".into());
    }
    // 101: the filter cannot be installed.
    let tried = coldstream_testkit::process::Program::new(&launcher[0])
        .arguments(&launcher[1..])
        .argument("/bin/true")
        .run();
    if !tried.status.success() {
        skip(format!(
            "no filter of system calls can be made here: {tried:?}"
        ));
        return None;
    }
    let path = directory.path().join("log");
    let preload = preload.clone().with("COLDSTREAM_LOG", path.display());
    check(
        &format!("{calls:?} {preload:?}"),
        "scans",
        &launcher,
        &preload,
    );
    let log = ExitLog::read(&path);
    (log.lines > 0).then_some(log)
}

/// Bytes that are read directly without a filter.
fn plainly_direct_bytes() -> u64 {
    let directory = directories::on_disk();
    let log = directory.path().join("log");
    scan("scans", |program| {
        program.run_with(&Preload::logging_to(&log)).well()
    });
    ExitLog::read(&log).direct_bytes
}

#[test]
fn residency_cannot_be_asked() {
    for reads in ["auto", "drop-behind"] {
        let preload = Preload::quiet().with("COLDSTREAM_READS", reads);
        for errno in [libc::ENOSYS, libc::EPERM, libc::EINVAL] {
            deny(&[(SYS_CACHESTAT, errno, None)], &preload);
            deny(
                &[
                    (SYS_CACHESTAT, errno, None),
                    (libc::SYS_mincore, libc::ENOSYS, None),
                ],
                &preload,
            );
        }
    }
}

#[test]
fn direct_opens_are_refused() {
    assert!(plainly_direct_bytes() > 0, "there is nothing to be denied");
    for errno in [libc::EINVAL, libc::EPERM, libc::EMFILE] {
        let denied = deny(
            &[(libc::SYS_openat, errno, Some(libc::O_DIRECT))],
            &Preload::quiet(),
        );
        if let Some(log) = denied {
            assert_eq!(log.direct_bytes, 0, "not denied: {}", log.text);
        }
        // The library's mark on its private descriptors, which scans never use. Its log cannot be opened
        // either.
        deny(
            &[(libc::SYS_openat, errno, Some(libc::O_NONBLOCK))],
            &Preload::quiet(),
        );
    }
}

#[test]
fn asynchronous_reads_do_not_exist() {
    let all = |errno| {
        [
            (libc::SYS_io_setup, errno, None),
            (libc::SYS_io_submit, errno, None),
        ]
    };
    for errno in [libc::ENOSYS, libc::EPERM] {
        if let Some(log) = deny(&all(errno), &Preload::quiet()) {
            assert!(log.direct_bytes > 0, "{}", log.text);
            assert!(log.text.contains("aio_unavailable="), "{}", log.text);
        }
    }
}

#[test]
fn the_kernel_is_an_old_one() {
    // No statx, no cachestat, no preadv2 flags, no MADV_WIPEONFORK.
    let calls = [
        (libc::SYS_statx, libc::ENOSYS, None),
        (SYS_CACHESTAT, libc::ENOSYS, None),
        (libc::SYS_preadv2, libc::ENOSYS, None),
    ];
    deny(&calls, &Preload::quiet());
    let advice = libc::MADV_WIPEONFORK & libc::MADV_DONTDUMP;
    deny(
        &[(libc::SYS_madvise, libc::EINVAL, Some(advice))],
        &Preload::quiet(),
    );
}

#[track_caller]
fn short_of(role: &str) {
    for reads in ["auto", "drop-behind", "dontcache"] {
        let preload = Preload::quiet().with("COLDSTREAM_READS", reads);
        let (lines, ended) = scan(role, |program| program.run_with(&preload));
        assert!(ended.status.success(), "reads = {reads}: {ended:?}");
        assert_eq!(lines, expected(), "reads = {reads}: {ended:?}");
    }
}

#[test]
fn there_are_no_descriptors_left() {
    short_of("scans with few descriptors");
}

#[test]
fn there_is_no_address_space_left() {
    short_of("scans with little address space");
}

/// The program under a filter that kills for each call that can be avoided.
fn under_a_filter_that_kills(preload: &Preload) -> Option<Ended> {
    let directory = directories::on_disk();
    let deny = tools::compile("deny.c", directory.path(), "deny", &[]);
    let program = tools::compile("host.c", directory.path(), "host", &[]);
    let table = directory.path().join("000001.sst");
    files::create(&table, 1, 3_000_001);
    std::thread::sleep(files::REST);
    let launcher: Vec<String> = avoid::numbers()
        .flat_map(|number| {
            let words = [deny.to_str().unwrap(), &number.to_string(), "kill", "--"];
            words.map(str::to_owned)
        })
        .collect();
    if let Err(tried) = Program::try_launcher(&launcher) {
        skip(format!("no filter of system calls: {tried:?}"));
        return None;
    }
    let program = Program::new(program).argument("write").argument(&table);
    Some(program.run_under(&launcher, preload))
}

#[test]
fn what_is_avoided_is_never_called() {
    let writing = Preload::writing(("direct", "process")).with("COLDSTREAM_EVICTION", "on");
    let Some(killed) = under_a_filter_that_kills(&writing) else {
        return;
    };
    assert_eq!(signal(&killed), Some(libc::SIGSYS), "nothing is shown");
    let all = AVOIDABLE_CALLS.join(",");
    for preload in [writing, Preload::quiet()] {
        let avoiding = preload.with("COLDSTREAM_AVOID", &all);
        let _ = under_a_filter_that_kills(&avoiding).map(Ended::well);
    }
}
