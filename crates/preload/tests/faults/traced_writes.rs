//! Faults in the calls that write staged files. A writer sees what a plain file would have shown, or an
//! error. No write is lost in silence. The writer itself checks that (`writes.rs`).

use crate::faults::traced::{BUFFER_IS_READABLE, WHEN, faults, launcher};
use crate::faults::writes;
use crate::subject::{self, journal::Journal};
use coldstream_testkit::directories::{self, Filesystem};
use coldstream_testkit::exit_log::ExitLog;
use coldstream_testkit::library::{Preload, WRITE_WAYS};
use coldstream_testkit::long;
use coldstream_testkit::process::{Ended, Program};
use coldstream_testkit::tools::tracer;
use std::path::Path;

/// Runs the writers in a directory. Fails on a broken promise, or if they fail. Returns the reported errors.
#[track_caller]
fn held_to_their_word(
    what: &str,
    role: &str,
    place: &Path,
    run: impl FnOnce(&Program) -> Ended,
) -> Vec<String> {
    let work = place.join("work");
    let _ = std::fs::remove_dir_all(&work);
    std::fs::create_dir(&work).unwrap();
    let records = directories::on_disk();
    let journal = records.path().join("journal");
    let ended = run(&subject::program(role, &work, &journal));
    let lines = Journal::read(&journal);
    assert!(
        ended.status.success()
            && lines.last().is_some_and(|line| line == "end")
            && !lines.iter().any(|line| line.starts_with("violation")),
        "{what}\n{}\n{ended:?}",
        lines.join("\n")
    );
    lines
}

/// Injects each fault at each time into every way to write. At least one must have happened.
fn each(call: &str, errors: &[&str]) {
    each_of(call, "", errors, &WHEN);
}

/// As above, for a call that libc makes too. The library's calls contain `form`.
fn each_of(call: &str, form: &str, errors: &[&str], times: &[&str]) {
    let Some(strace) = tracer() else { return };
    let directory = directories::on_disk();
    let trace = directory.path().join("trace");
    let mut injected = 0;
    for (number, error) in errors.iter().enumerate() {
        for (place, when) in times.iter().enumerate() {
            // If every call were interrupted, it would never end.
            if (*error == "EINTR" && *when == "when=1+1") || (!long() && number % 2 != place % 2) {
                continue;
            }
            for way in WRITE_WAYS {
                let fault = format!("error={error}:{when}");
                let launcher = launcher(&strace, call, &[], &fault, &trace);
                let what = format!("{call}:{fault} {way:?}");
                held_to_their_word(&what, "writes", directory.path(), |program| {
                    program.run_under(&launcher, &Preload::writing(way))
                });
                injected += faults(&trace, form, "(INJECTED)");
            }
        }
    }
    assert!(
        injected > 0,
        "{call}({form}) was never called: nothing has been tested"
    );
}

#[test]
fn staged_bytes_cannot_be_written() {
    each(
        "pwrite64",
        &["ENOSPC", "EIO", "EINTR", "EAGAIN", "EINVAL", "EDQUOT"],
    );
}

#[test]
fn staged_bytes_are_written_in_part() {
    let Some(strace) = tracer() else { return };
    let directory = directories::on_disk();
    let trace = directory.path().join("trace");
    for way in WRITE_WAYS {
        // `strace` skips a call whose result it injects. Only a result of 0 is true then.
        let launcher = launcher(&strace, "pwrite64", &[], "retval=0:when=2+3", &trace);
        held_to_their_word(&format!("{way:?}"), "writes", directory.path(), |program| {
            program.run_under(&launcher, &Preload::writing(way))
        });
        let injected = faults(&trace, "", "(INJECTED)");
        assert!(injected > 0 || way.0 != "direct", "{way:?}: no fault");
    }
}

/// Faults in the calls of the library's writer thread, which writes while the application fills the next
/// buffer.
#[test]
fn what_was_handed_over_cannot_be_written() {
    let Some(strace) = tracer() else { return };
    let directory = directories::on_disk();
    let trace = directory.path().join("trace");
    let faults = [
        "error=ENOSPC:when=1+2",
        "error=EIO:when=2+1",
        "error=EINTR:when=1+2",
        "error=EDQUOT:when=3",
        "retval=0:when=2+2",
    ];
    let mut injected = 0;
    for fault in faults {
        let mut launcher = launcher(&strace, "pwrite64", &[], fault, &trace);
        launcher.extend(["-e", "trace=pwrite64,prctl"].map(str::to_owned));
        let way = WRITE_WAYS[0];
        held_to_their_word(fault, "writes", directory.path(), |program| {
            program.run_under(&launcher, &Preload::writing(way))
        });
        let text = std::fs::read_to_string(&trace).unwrap_or_default();
        let thread_of = |line: &str| line.split(' ').next().map(str::to_owned);
        let own: Vec<_> = text
            .lines()
            .filter(|line| line.contains("PR_SET_NAME, \"coldstream-io\""))
            .map(thread_of)
            .collect();
        injected += text
            .lines()
            .filter(|line| line.contains("(INJECTED)") && own.contains(&thread_of(line)))
            .count();
    }
    assert!(injected > 0, "no fault in a thread of the library's own");
}

#[test]
fn no_thread_can_be_had() {
    // The application starts its own threads with `clone3`.
    each("clone", &["EAGAIN", "EPERM", "ENOMEM"]);
}

/// A write is in flight at every call of the application.
#[test]
fn writes_take_long() {
    let Some(strace) = tracer() else { return };
    let directory = directories::on_disk();
    let (trace, log) = (directory.path().join("trace"), directory.path().join("log"));
    for delay in ["delay_enter=20000:when=2+2", "delay_exit=20000:when=2+2"] {
        let launcher = launcher(&strace, "pwrite64", &[], delay, &trace);
        let preload = Preload::writing(WRITE_WAYS[0]).with("COLDSTREAM_LOG", log.display());
        held_to_their_word(delay, "writes", directory.path(), |program| {
            program.run_under(&launcher, &preload)
        });
    }
    let log = ExitLog::read(&log);
    assert!(log.overlapped_bytes > 4 << 20, "{}", log.text);
}

#[test]
fn forks_and_exits_wait_for_what_is_in_flight() {
    let Some(strace) = tracer() else { return };
    let directory = directories::on_disk();
    let trace = directory.path().join("trace");
    let role = "writes, then forks and exits";
    let launcher = launcher(&strace, "pwrite64", &[], "delay_enter=200000", &trace);
    held_to_their_word(role, role, directory.path(), |program| {
        program.run_under(&launcher, &Preload::writing(WRITE_WAYS[0]))
    });
    assert!(faults(&trace, "", "(DELAYED)") > 0, "nothing was in flight");
    let last = directory.path().join("work/nb-3-big-Data.db");
    let last = std::ffi::CString::new(last.to_str().unwrap()).unwrap();
    assert!(writes::is_complete(&last, 3));
}

#[test]
fn a_table_is_truncated_by_its_name_before_what_is_in_flight_arrives() {
    let Some(strace) = tracer() else { return };
    let directory = directories::on_disk();
    let trace = directory.path().join("trace");
    let role = "writes, then truncates by name";
    let plain = held_to_their_word("plain", role, directory.path(), Program::run);
    let launcher = launcher(&strace, "pwrite64", &[], "delay_enter=200000", &trace);
    for way in WRITE_WAYS {
        let lines = held_to_their_word(&format!("{way:?}"), role, directory.path(), |program| {
            program.run_under(&launcher, &Preload::writing(way))
        });
        assert_eq!(lines, plain, "{way:?}");
        let delayed = faults(&trace, "", "(DELAYED)");
        assert!(delayed > 0 || way.0 != "direct", "{way:?}: no delay");
    }
}

#[test]
fn positions_cannot_be_set() {
    each("lseek", &["EINVAL", "EIO"]);
}

#[test]
fn flagged_writes_are_refused() {
    each("pwritev2", &["EOPNOTSUPP", "EIO", "ENOSPC", "EINTR"]);
}

#[test]
fn written_files_cannot_be_looked_at() {
    each("fstat", &["EIO", "EBADF"]);
    each("statx", &["ENOSYS", "EINVAL"]);
    each("fstatfs", &["EIO"]);
}

#[test]
fn writeback_cannot_be_started() {
    each("sync_file_range", &["EIO", "ENOSPC", "ESPIPE"]);
    each("fadvise64", &["EINVAL"]);
}

#[test]
fn a_record_lock_stays_after_writeback_has_failed() {
    let Some(strace) = tracer() else { return };
    let directory = directories::on_disk();
    let trace = directory.path().join("trace");
    let role = "writes, then locks a record";
    let launcher = launcher(&strace, "sync_file_range", &[], "error=EIO", &trace);
    let lines = held_to_their_word(role, role, directory.path(), |program| {
        program.run_under(&launcher, &Preload::writing(WRITE_BEHIND))
    });
    assert_eq!(lines[0], "lock 0, sync -1", "the error is reported once");
    assert!(
        faults(&trace, "", "(INJECTED)") > 0,
        "nothing was written back"
    );
}

/// The way to write in which the order of cached and direct writes counts: bytes are not in the kernel yet when `write`
/// returns.
const WRITE_BEHIND: (&str, &str) = WRITE_WAYS[0];

/// A seccomp filter refuses calls that only the library makes. The application sees no error.
#[test]
fn writeback_may_not_be_asked_for() {
    let Some(strace) = tracer() else { return };
    let directory = directories::on_disk();
    let trace = directory.path().join("trace");
    for call in ["sync_file_range", "pwritev2"] {
        let (mut injected, mut injected_behind) = (0, 0);
        let errors = ["ENOSYS", "EPERM", "EACCES", "EINVAL"];
        for (way, error) in WRITE_WAYS
            .iter()
            .flat_map(|way| errors.map(|error| (way, error)))
        {
            let fault = format!("error={error}");
            let launcher = launcher(&strace, call, &[], &fault, &trace);
            let what = format!("{call}: {fault} {way:?}");
            let lines = held_to_their_word(&what, "writes", directory.path(), |program| {
                program.run_under(&launcher, &Preload::writing(*way))
            });
            let reported: Vec<_> = (lines.iter())
                .filter(|line| line.contains("errors [") && !line.contains("errors []"))
                .collect();
            assert!(reported.is_empty(), "{what}: {reported:?}");
            let found = faults(&trace, "", "(INJECTED)");
            injected += found;
            if *way == WRITE_BEHIND {
                injected_behind += found;
            }
        }
        assert!(injected > 0, "{call} was never called");
        assert!(
            injected_behind > 0 || call != "sync_file_range",
            "nothing was written back before a direct write behind it"
        );
    }
}

#[test]
fn direct_descriptors_cannot_be_had() {
    each("fcntl", &["EMFILE", "EINVAL"]);
    // The first calls of a thread are libc's, and their number varies.
    let times = ["when=1+1", "when=20+1", "when=20+3"];
    each_of("rt_sigprocmask", BUFFER_IS_READABLE, &["EFAULT"], &times);
}

#[test]
fn files_may_not_grow_further() {
    let directory = directories::on_disk();
    let role = "writes with limited files";
    let plain = held_to_their_word("plain", role, directory.path(), Program::run);
    for way in WRITE_WAYS {
        let lines = held_to_their_word(&format!("{way:?}"), role, directory.path(), |program| {
            program.run_with(&Preload::writing(way))
        });
        for (plain, line) in plain.iter().zip(&lines) {
            assert_eq!(
                plain.contains("errors []"),
                line.contains("errors []"),
                "{way:?}: {line}, plain: {plain}"
            );
        }
    }
}

#[test]
fn the_disk_is_full() {
    for filesystem in [Filesystem::Ext4, Filesystem::Xfs, Filesystem::Btrfs] {
        let Some(place) = directories::on(filesystem) else {
            continue;
        };
        let role = "writes on a full disk";
        let reported = |line: &String| line.contains("errors [") && !line.contains("errors []");
        let plain = held_to_their_word("plain", role, place.path(), Program::run);
        assert!(
            plain.iter().any(reported),
            "{filesystem:?}: room for all of it"
        );
        for way in WRITE_WAYS {
            let what = format!("{filesystem:?} {way:?}");
            let lines = held_to_their_word(&what, role, place.path(), |program| {
                program.run_with(&Preload::writing(way))
            });
            assert!(
                lines.iter().any(reported),
                "{what}: {lines:?}, plain: {plain:?}"
            );
        }
    }
}
