//! Unusual events for a process that writes an SSTable. Descriptors run out, the disk is full for a moment,
//! streams are opened, threads are cancelled, the log has no reader.

use coldstream_testkit::directories::Filesystem;
use coldstream_testkit::exit_log::ExitLog;
use coldstream_testkit::library::{Preload, WRITE_WAYS};
use coldstream_testkit::process::{Ended, Program};
use coldstream_testkit::{directories, files, tools};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The program, compiled once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, program) = PROGRAM.get_or_init(|| {
        let directory = directories::on_disk();
        // Some compilers define it by default.
        let options = ["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"];
        let program = tools::compile("odd_writers.c", directory.path(), "odd_writers", &options);
        (directory, program)
    });
    program
}

fn run(what: &str, preload: Option<&Preload>) -> Ended {
    let directory = directories::on_disk();
    let program = Program::new(program())
        .argument(what)
        .argument(directory.path().join("000001.sst"));
    program.run_either(preload).well()
}

/// Bytes wait in memory where direct writes are possible.
fn staged() -> Preload {
    Preload::writing(("direct", "process"))
}

/// Output and files are the same with and without the library, in every way to write.
#[track_caller]
fn same(what: &str) {
    let plain = run(what, None);
    println!("{}", plain.text());
    for way in WRITE_WAYS {
        let with = run(what, Some(&Preload::writing(way)));
        assert_eq!(plain, with, "{what}: {way:?}");
    }
}

#[test]
fn no_descriptor_is_left_while_no_byte_can_be_written() {
    same("room");
}

#[test]
fn calls_that_would_have_closed_the_table_fail() {
    same("target");
}

#[test]
fn another_process_sees_all_by_a_new_name() {
    same("renamed");
}

#[test]
fn a_stream_empties_the_table() {
    same("stream");
}

#[test]
fn a_fortified_program_prints_into_the_table() {
    same("fortified");
}

#[test]
fn a_thread_is_cancelled_at_a_write() {
    same("cancelled");
}

#[test]
fn a_daemon_goes_on_with_the_table() {
    same("daemon");
}

#[test]
fn a_refused_call_closes_nothing() {
    same("refused");
}

#[test]
fn a_time_that_is_set_stays() {
    same("times");
}

#[test]
fn calls_that_are_made_while_a_table_is_staged() {
    same("calls");
}

#[test]
fn nothing_is_written_to_a_number_that_was_closed_unseen() {
    same("unseen");
}

#[test]
fn buffers_that_cannot_be_read_fail_as_the_kernel_says() {
    same("bad-buffer");
}

#[test]
fn a_mapping_sees_what_comes_after_the_table_was_made_shorter() {
    same("shrunk");
}

#[test]
fn a_child_that_shares_the_memory_writes_to_its_own_descriptors() {
    same("shared");
}

#[test]
fn an_emptied_table_stays_empty() {
    same("emptied");
}

#[test]
fn what_a_signal_handler_syncs_is_there() {
    same("signalled");
}

/// Without the library the write itself would have failed. With it, the first call that would see the
/// difference fails. Only a size is told: that of what was accepted.
#[test]
fn nothing_is_done_to_what_cannot_be_written_yet() {
    let text = run("full", Some(&staged())).text();
    let mut lines = text.lines();
    for call in [
        "dprintf",
        "fdopen",
        "read",
        "mmap",
        "syncfs",
        "dup2",
        "aio_fsync",
        "truncate",
    ] {
        if call == "mmap" {
            assert_eq!(lines.next(), Some("fstat 0 40000"), "{text}");
            assert_eq!(lines.next(), Some("fstatat 0 40000"), "{text}");
        }
        let expected = format!("{call} -1 File too large");
        assert_eq!(lines.next(), Some(expected.as_str()), "{text}");
    }
    let plain = run("target", None).text();
    let table = plain.lines().last();
    assert_eq!(
        lines.next_back(),
        table,
        "as many bytes, one after the other"
    );
}

/// What is left undone is counted.
#[test]
fn an_sstable_that_is_open_twice_or_locked_is_counted() {
    for (what, counted) in [
        ("two", " fallback_write_shared=1 "),
        ("locked", " handover_locked=1 "),
    ] {
        let directory = directories::on_disk();
        let log = directory.path().join("log");
        same(what);
        run(what, Some(&Preload::logging_to(&log)));
        let log = std::fs::read_to_string(&log).unwrap();
        assert!(log.contains(counted), "{what}: {log}");
    }
}

/// The log is a pipe without a reader.
#[test]
fn nobody_opens_the_log() {
    let directory = directories::on_disk();
    let pipe = directory.path().join("pipe");
    let made = Program::new("mkfifo").argument(&pipe).run();
    assert!(made.status.success(), "{made:?}");
    let plain = run("fortified", None);
    assert_eq!(plain, run("fortified", Some(&Preload::logging_to(&pipe))));
}

#[test]
fn what_was_not_in_the_kernel_when_its_sync_began_is_not_synced() {
    let directory = directories::on_disk();
    let options = ["-shared", "-fPIC", "-ldl"];
    let late = tools::compile("late_sync.c", directory.path(), "late.so", &options);
    let with = run("late-sync", Some(&staged().in_front_of(&late)));
    let text = with.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..3],
        ["fsync -1 File too large", "fsync 0 ", "close 0 "]
    );
    assert!(lines[3].starts_with("40000 bytes"), "{text}");
}

/// The counters that a run logs at its end.
fn counted(what: &str, place: &Path, preload: &Preload) -> ExitLog {
    let room = directories::on_disk();
    let log = room.path().join("log");
    let program = Program::new(program())
        .argument(what)
        .argument(place.join("000001.sst"));
    let preload = preload.clone().with("COLDSTREAM_LOG", log.display());
    program.run_with(&preload).well();
    ExitLog::read(&log)
}

/// What is written there is on the device when `write` returns. So it must be in the kernel, too.
#[test]
fn a_killed_process_has_written_all_to_a_synchronous_file() {
    let killed = |place: &Path| {
        let table = place.join("000001.sst");
        Program::new(program())
            .argument("killed")
            .argument(&table)
            .run_with(&staged());
        std::fs::metadata(&table).unwrap().len()
    };
    let directory = directories::on_disk();
    assert!(killed(directory.path()) < 40_000, "nothing was staged");
    let Some(chattr) = tools::find("chattr") else {
        return;
    };
    let directory = directories::on_disk();
    let set = Program::new(chattr)
        .argument("+S")
        .argument(directory.path());
    if set.run().status.success() {
        assert_eq!(killed(directory.path()), 40_000, "chattr +S");
    }
    for filesystem in [Filesystem::Ext4, Filesystem::Xfs] {
        let Some(place) = directories::on(filesystem) else {
            continue;
        };
        let options = ["-o", "remount,sync"];
        let mount = Program::new("mount").arguments(options);
        mount.argument(place.path()).run().well();
        assert_eq!(killed(place.path()), 40_000, "{filesystem:?}");
    }
}

/// The kernel refuses a direct write that the limit cuts within a block. That says nothing about the device.
#[test]
fn a_limit_within_a_block_does_not_end_direct_writes() {
    for visible in ["process", "everywhere"] {
        let directory = directories::on_disk();
        let preload = Preload::writing(("direct", visible));
        let log = counted("limited", directory.path(), &preload).text;
        assert!(log.contains(" fallback_write_failed="), "{visible}: {log}");
        assert!(
            !log.contains("fallback_write_no_effect"),
            "{visible}: {log}"
        );
    }
}

#[test]
fn programs_look_at_a_table_whose_descriptor_they_do_not_get() {
    same("children");
    let directory = directories::on_disk();
    let log = counted("children", directory.path(), &staged());
    assert!(log.written_direct_bytes > 900 << 10, "{}", log.text);
}

#[test]
fn children_that_get_the_table_continue_it() {
    same("heirs");
    let directory = directories::on_disk();
    let log = counted("heirs", directory.path(), &staged()).text;
    assert!(log.contains(" write_bytes_drop_behind="), "{log}");
}

/// The kernel has the one before the other. All calls afterwards agree on which.
#[test]
fn a_table_is_made_shorter_while_another_thread_writes_to_it() {
    let room = directories::on_disk();
    let options = ["-shared", "-fPIC", "-ldl"];
    let late = tools::compile("late_truncate.c", room.path(), "late.so", &options);
    let cut = |preload: &Preload, variable: (&str, &str)| {
        let directory = directories::on_disk();
        let program = Program::new(program())
            .argument("cut")
            .argument(directory.path().join("000001.sst"))
            .with_variable(variable.0, variable.1);
        program.run_with(preload).well().text()
    };
    let late_only = Preload::quiet()
        .in_front_of(&late)
        .with("COLDSTREAM", "off");
    let plain = ["WRITE_EARLY", "WRITE_LATE"].map(|when| cut(&late_only, (when, "yes")));
    assert_ne!(plain[0], plain[1]);
    for way in WRITE_WAYS {
        let preload = Preload::writing(way).in_front_of(&late);
        let with = cut(&preload, ("WRITE_EARLY", "yes"));
        assert!(plain.contains(&with), "{way:?}: {with}, plain: {plain:?}");
    }
}

#[test]
fn nobody_reads_the_log() {
    let (reader, log) = std::io::pipe().unwrap();
    drop(reader);
    let directory = directories::on_disk();
    let program = Program::new(program())
        .argument("fortified")
        .argument(directory.path().join("000001.sst"))
        .standard_error(log);
    program.run_with(&Preload::logging()).well();
}

/// The filesystem of the status page is full.
#[test]
fn no_room_for_the_status_page() {
    if !tools::is_root() || tools::find("unshare").is_none() {
        return coldstream_testkit::skip("needs root and unshare");
    }
    let directory = directories::on_disk();
    let fill = "mount -t tmpfs -o size=4k none /dev/shm && head -c 4096 /dev/zero >/dev/shm/full && exec \"$@\"";
    let launcher = ["unshare", "-m", "sh", "-c", fill, "sh"].map(str::to_owned);
    let (unshare, options) = launcher.split_first().unwrap();
    let probe = Program::new(unshare).arguments(options).argument("true");
    if !probe.run().status.success() {
        return coldstream_testkit::skip("no mount namespace may be made");
    }
    let writer = Program::new(program())
        .argument("fortified")
        .argument(directory.path().join("000001.sst"));
    let sstable = directory.path().join("000002.sst");
    files::create(&sstable, 1, 3_000_001);
    std::thread::sleep(files::REST);
    let reader = tools::compile("host.c", directory.path(), "host", &[]);
    let reader = Program::new(&reader).argument("read").argument(&sstable);
    for (program, line) in [(writer, "event=writes"), (reader, "event=reads")] {
        let ended = program.run_under(&launcher, &Preload::logging()).well();
        let said = String::from_utf8_lossy(&ended.stderr);
        let words = format!("No status page: /dev/shm cannot be written (docs/limits.md). {line}");
        assert!(said.contains(&words), "{said}");
    }
}

/// The process may make small files only (`ulimit -f`). The status page is larger, and so is the log.
#[test]
fn files_that_may_not_grow() {
    let Some(perl) = tools::find("perl") else {
        return;
    };
    let directory = directories::on_disk();
    let log = directory.path().join("log");
    std::fs::write(&log, vec![b'\n'; 4096]).unwrap();
    let write = r#"$0 = "rocksdb:low"; open my $out, ">", "000001.sst"; syswrite $out, "x" x 1000; close $out"#;
    let program = Program::shell(r#"ulimit -f 3; exec "$PERL" -e "$WRITE""#)
        .with_variable("PERL", perl.display())
        .with_variable("WRITE", write)
        .within(directory.path());
    program.run().well();
    program.run_with(&Preload::logging_to(&log)).well();
    let table = std::fs::metadata(directory.path().join("000001.sst")).unwrap();
    assert_eq!(table.len(), 1000);
}

/// An SSTable that a thread creates while the process ends is written at once or not at all.
#[test]
fn what_was_written_while_the_process_ended_is_there() {
    let room = directories::on_disk();
    let program = tools::compile("ends.c", room.path(), "ends", &["-pthread"]);
    for number in 0..if coldstream_testkit::long() { 1000 } else { 60 } {
        let way = ["exit", "_exit", "quick_exit"][number % 3];
        let directory = directories::on_disk();
        let ended = Program::new(&program)
            .argument(way)
            .argument(directory.path())
            .argument((1 + number % 7).to_string())
            .run_with(&staged());
        assert!(ended.status.success(), "{way}: {ended:?}");
        let told = std::fs::read(directory.path().join("told")).unwrap();
        let word = |at: usize| u32::from_le_bytes(told[at..at + 4].try_into().unwrap());
        let table = directory.path().join(format!("{:06}.sst", word(4)));
        let (there, told) = (std::fs::metadata(&table).unwrap().len(), u64::from(word(0)));
        assert!(
            there >= told,
            "{way}: {table:?} has {there} bytes of {told}"
        );
    }
}

/// A handler may have interrupted its thread while it held a lock of the library.
#[test]
fn a_signal_handler_that_makes_children_waits_for_no_lock_of_its_own_thread() {
    let room = directories::on_disk();
    let program = tools::compile("handler.c", room.path(), "handler", &["-pthread"]);
    let signals = if coldstream_testkit::long() {
        "10000"
    } else {
        "2000"
    };
    for writes in ["direct", "auto"] {
        let directory = directories::on_disk();
        let ended = Program::new(&program)
            .argument(directory.path())
            .argument(signals)
            .limit(std::time::Duration::from_secs(300))
            .run_with(&staged().with("COLDSTREAM_WRITES", writes))
            .well();
        assert_eq!(ended.text(), format!("{signals} handled\n"));
    }
}
