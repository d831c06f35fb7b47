//! The laboratory from the command line, on a real RocksDB that is too small to mean anything.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use coldstream_testkit::exit_log::ExitLog;
use coldstream_testkit::process::{Ended, output_within};
use coldstream_testkit::tools::find;
use coldstream_testkit::{library, memory_cgroup, plugin, skip};

/// How a run of the laboratory ends. A node takes most of its time to start.
fn measured(command: &mut Command) -> Ended {
    output_within(Duration::from_secs(600), command)
}

/// `coldstream lab rocksdb` in a directory of its own, with few reads a second.
fn lab(directory: &Path, words: &[&str]) -> Option<Command> {
    let mut command = lab_at_any_rate(directory, words)?;
    command.args(["--reads-per-second", "500"]);
    Some(command)
}

/// `coldstream lab rocksdb` in a directory of its own. `None`, and a line on standard error, where the
/// driver is not built.
fn lab_at_any_rate(directory: &Path, words: &[&str]) -> Option<Command> {
    lab_with_memory("128", directory, words)
}

fn lab_with_memory(mib: &str, directory: &Path, words: &[&str]) -> Option<Command> {
    let executable = PathBuf::from(env!("CARGO_BIN_EXE_coldstream"));
    let driver = executable.with_file_name("coldstream-rocksdb-driver");
    if !driver.exists() {
        skip(format!("{} is not built (`make driver`)", driver.display()));
        return None;
    }
    let mut command = Command::new(executable);
    command
        .args(["lab", "rocksdb", "--keys", "3000", "--memory-mib", mib])
        .args(["--warm-up-seconds", "1", "--idle-seconds", "1"])
        .args(["--after-seconds", "1", "--work-dir", "work"])
        .args(words)
        .current_dir(directory)
        .stdin(Stdio::null());
    Some(command)
}

/// Whether one of three runs is as it should be, or cannot be made here. A machine that reclaims pages
/// by itself may take some during a run, but not during each.
fn any_of_three<T>(run: fn() -> Option<T>, is_as_meant: impl Fn(&T) -> bool) -> bool {
    (0..3).any(|_| run().is_none_or(|found| is_as_meant(&found)))
}

#[test]
fn a_tiny_run_reports_every_mode_and_leaves_nothing() {
    // The warm-up of a second reads half of the hot keys at most. The first reads of the others must
    // not be in the idle phase.
    assert!(any_of_three(tiny_run, |idle| *idle < 0.3));
}

/// What the foreground reads from the device in the idle phase, MiB/s.
fn tiny_run() -> Option<f64> {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("scratch directory");
    let words = [
        "--runs",
        "1",
        "--modes",
        "buffered,direct-writes",
        "--verify",
        "--hot-keys",
        "1000",
        "--json",
        "--html",
        "report.html",
    ];
    let mut command = lab(directory.path(), &words)?;
    let ended = measured(&mut command);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    let report: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    assert_eq!(report["modes"].as_array().map(Vec::len), Some(2));
    let run = &report["cases"][0]["runs"][1][0];
    assert!(
        run["compacted_read_bytes"].as_u64() > Some(3000 * 4096),
        "{run}"
    );
    assert!(run["phases"][1]["service_us"]["p99"].as_f64() > Some(0.0));
    let idle = &run["phases"][0]["rates"]["foreground_read_mib_per_second"];
    let page = std::fs::read_to_string(directory.path().join("report.html")).expect("report");
    assert!(page.contains("<svg") && page.ends_with("</html>\n"));
    assert!(
        !page.contains("<script") && !page.contains("src="),
        "self-contained"
    );
    assert!(!directory.path().join("work").exists());
    Some(idle.as_f64().expect("a number"))
}

#[test]
fn a_recipe_reads_in_a_closed_loop_while_compaction_never_ends() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("scratch directory");
    let words = [
        "--recipe",
        "pr14743",
        "--runs",
        "1",
        "--cases",
        "recipe-small,recipe-large",
        "--modes",
        "buffered,direct-writes@max_background_jobs=4",
        "--compaction-seconds",
        "2",
        "--engine-options",
        "write_buffer_size=1048576;target_file_size_base=1048576;max_bytes_for_level_base=4194304",
        "--all",
        "--json-file",
        "report.json",
    ];
    let Some(mut command) = lab_at_any_rate(directory.path(), &words) else {
        return;
    };
    let ended = measured(&mut command);
    let error = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{error}");
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(
        said.contains("recipe pr14743 at 0.12 of its scale"),
        "{said}"
    );
    assert!(said.contains("68959 / "), "{said}");
    let text = std::fs::read_to_string(directory.path().join("report.json")).expect("report");
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["parameters"]["loop"], "closed");
    for (case, hot_keys) in [(0, 915), (1, 3000)] {
        let case = &report["cases"][case];
        assert_eq!(case["parameters"]["hot_keys"], hot_keys);
        for mode in 0..2 {
            let run = &case["runs"][mode][0];
            assert!(run["compacted_read_bytes"].as_u64() > Some(0), "{run}");
            assert!(run["updates_per_second"].as_f64() > Some(0.0), "{run}");
            for phase in 0..3 {
                let phase = &run["phases"][phase];
                assert!(phase["reads"].as_u64() > Some(0), "{phase}");
                assert_eq!(phase["response_us"], phase["service_us"]);
            }
        }
    }
}

#[test]
fn a_stalled_writer_of_a_closed_loop_makes_up_for_little() {
    // More updates than any machine makes: the writer is late all the time.
    let late_ms = |words: &[&str]| {
        let directory =
            tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("scratch directory");
        let mut command = lab_at_any_rate(directory.path(), words)?;
        command.args(["--runs", "1", "--modes", "buffered", "--value-bytes", "100"]);
        command.args(["--update-mib-per-second", "1000000", "--json"]);
        command.args(["--compaction-seconds", "3", "--engine-options"]);
        command.arg("write_buffer_size=67108864");
        let ended = measured(&mut command);
        let error = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{error}");
        let report: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
        report["cases"][0]["runs"][0][0]["update_late_ms_max"].as_f64()
    };
    let Some(closed) = late_ms(&["--closed-loop"]) else {
        return;
    };
    let open = late_ms(&["--reads-per-second", "500"]).expect("the driver is there");
    assert!(closed * 4.0 < open, "{closed} ms, {open} ms");
}

/// `coldstream lab rocksdb` of a tiny recipe, with `db_bench`.
fn lab_by_db_bench(directory: &Path, db_bench: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coldstream"));
    command
        .args(["lab", "rocksdb", "--recipe", "pr14743", "--runs", "1"])
        .arg("--db-bench")
        .arg(db_bench)
        .args(["--keys", "3000", "--memory-mib", "128", "--work-dir", "work"])
        .args(["--compaction-seconds", "2", "--engine-options"])
        .arg("write_buffer_size=1048576;target_file_size_base=1048576;max_bytes_for_level_base=4194304")
        .args(words)
        .current_dir(directory)
        .stdin(Stdio::null());
    command
}

#[test]
fn a_recipe_is_measured_with_db_bench() {
    let Some(db_bench) = find("db_bench") else {
        return;
    };
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("scratch directory");
    let words = [
        "--modes",
        "buffered,direct-writes@use_direct_reads=true,coldstream",
        "--all",
        "--html",
        "report.html",
        "--json-file",
        "report.json",
    ];
    let ended = measured(&mut lab_by_db_bench(directory.path(), &db_bench, &words));
    let error = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{error}");
    let said = String::from_utf8_lossy(&ended.stdout);
    for part in [
        "p99 in compaction",
        "4 readers of db_bench",
        "68959 / ",
        "do not compare",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("NaN") && !said.contains("inf"), "{said}");
    let page = std::fs::read_to_string(directory.path().join("report.html")).expect("report");
    assert!(!page.contains("NaN"));
    let text = std::fs::read_to_string(directory.path().join("report.json")).expect("report");
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    for case in 0..2 {
        let case = &report["cases"][case];
        for mode in 0..3 {
            let run = &case["runs"][mode][0];
            assert_eq!(run["phases"].as_array().map(Vec::len), Some(1), "{run}");
            let phase = &run["phases"][0];
            assert!(phase["reads_per_second"].as_f64() > Some(0.0), "{phase}");
            let us = |name: &str| phase["service_us"][name].as_f64().expect("a number");
            assert!(0.0 < us("p50") && us("p50") <= us("p99") && us("p99") <= us("max"));
            assert!(phase["seconds"].as_f64() >= Some(2.0), "{phase}");
            for figure in ["compacted_read_bytes", "user_written_bytes"] {
                assert!(run[figure].as_u64() > Some(0), "{figure}: {run}");
            }
            assert_eq!(run["compaction_tax_p99"].as_f64(), Some(0.0));
        }
    }
    let range = &report["cases"][0]["parameters"]["read_random_exp_range"];
    assert!(range.as_f64() > Some(5.0), "{range}");
    assert!(!directory.path().join("work").exists());
}

#[test]
fn a_db_bench_that_cannot_be_used_is_named() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("scratch directory");
    let plain = directory.path().join("plain");
    std::fs::write(&plain, "#!/bin/sh\n").expect("file");
    let refused = |db_bench: &Path, words: &[&str], said: &str| {
        let ended = measured(&mut lab_by_db_bench(directory.path(), db_bench, words));
        let error = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success(), "{error}");
        assert!(error.contains(said), "{said}: {error}");
        assert!(!directory.path().join("work").exists());
    };
    let modes = ["--modes", "buffered"];
    let missing = Path::new("/no/such/db_bench");
    refused(
        missing,
        &modes,
        "/no/such/db_bench: there is no such program",
    );
    refused(&plain, &modes, "plain: it is not executable");
    refused(
        Path::new("/bin/cat"),
        &modes,
        "/bin/cat: this is no db_bench",
    );
    let Some(db_bench) = find("db_bench") else {
        return;
    };
    for (words, said) in [
        (
            &["--modes", "buffered@no_such_flag=1"][..],
            "--no_such_flag",
        ),
        (
            &["--modes", "buffered", "--cases", "in-memory"],
            "in-memory",
        ),
        (
            &["--modes", "buffered", "--update-mib-per-second", "0"],
            "--update-mib-per-second",
        ),
        (&["--modes", "buffered", "--verify"], "--verify"),
    ] {
        refused(&db_bench, words, said);
    }
    let help = Command::new(&db_bench).arg("--help").output();
    let help = help.expect("start").stdout;
    if !String::from_utf8_lossy(&help).contains("use_direct_io_for_compaction_reads") {
        let words = ["--modes", "direct-reads"];
        refused(&db_bench, &words, "mode direct-reads: ");
        refused(&db_bench, &words, "--use_direct_io_for_compaction_reads");
    }
}

#[test]
fn a_warm_start_has_the_database_in_the_cgroups_page_cache() {
    // Two sorted runs of 3,000 keys of 4 KiB; a few pages may rest long enough to be trimmed.
    let database_mib = 0.95 * 2.0 * 3000.0 * 4096.0 / f64::from(1 << 20);
    assert!(any_of_three(cached_after_a_warm_start, |cached_mib| {
        cached_mib.iter().all(|mib| *mib > database_mib)
    }));
}

/// What is in the page cache in the idle phase of two modes, MiB.
fn cached_after_a_warm_start() -> Option<[f64; 2]> {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("scratch directory");
    let words = [
        "--runs",
        "1",
        "--modes",
        "buffered,coldstream:auto+buffered",
        "--cases",
        "small,in-memory",
        "--json",
    ];
    let mut command = lab(directory.path(), &words)?;
    let ended = measured(&mut command);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    let report: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    assert_eq!(report["cases"][0]["parameters"]["start"], "cold");
    assert_eq!(report["cases"][1]["parameters"]["start"], "warm");
    let warm = &report["cases"][1]["runs"];
    let cached_mib = [0, 1].map(|mode: usize| {
        let cached = &warm[mode][0]["phases"][0]["rates"]["page_cache_mib"];
        cached.as_f64().expect("a number")
    });
    let cpu_seconds = &warm[1][0]["compaction_cpu_seconds"];
    assert!(cpu_seconds.as_f64() > Some(0.0), "{cpu_seconds}");
    Some(cached_mib)
}

#[test]
fn cassandra_compacts_around_the_page_cache_while_every_read_is_answered() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("scratch directory");
    let ended = measured(
        Command::new(env!("CARGO_BIN_EXE_coldstream"))
            .args(["lab", "cassandra", "--runs", "1", "--keys", "12000"])
            .args(["--hot-keys", "500", "--requests-per-second", "200"])
            .args(["--heap-mib", "512", "--memory-mib", "1600"])
            .args(["--compaction-mib-per-second", "20"])
            .args(["--warm-up-seconds", "1", "--idle-seconds", "2"])
            .args(["--after-seconds", "2", "--work-dir", "work"])
            .args([
                "--modes",
                "5.0/stock@read_request_timeout=60000ms,5.0/coldstream@read_request_timeout=60000ms",
            ])
            .args(["--json", "--html", "report.html"])
            .current_dir(directory.path())
            .stdin(Stdio::null()),
    );
    let said = String::from_utf8_lossy(&ended.stderr);
    if said.contains("no JDK 17 was found") || said.contains("mvn was not found") {
        skip(said);
        return;
    }
    assert!(ended.status.success(), "{said}");
    let report: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    let run = |mode: usize| &report["cases"][0]["runs"][mode][0];
    for mode in 0..2 {
        // Two SSTables of 6,000 keys of 4 KiB.
        for way in ["compacted_read_bytes", "compacted_written_bytes"] {
            assert!(run(mode)[way].as_u64() > Some(12_000 * 4096), "{way}");
            assert!(run(mode)[way].as_u64() < Some(13_000 * 4096), "{way}");
        }
        for phase in 0..3 {
            assert!(run(mode)["phases"][phase]["reads"].as_u64() > Some(0));
            assert_eq!(run(mode)["phases"][phase]["failed_reads"], 0, "{said}");
        }
    }
    // What the inputs gained since the compaction began, and the most that its output had.
    let cached_mib = |mode: usize| {
        let run = run(mode);
        let began = run["boundaries"][2][1].as_f64().expect("a beginning");
        let before = &run["phases"][0]["rates"]["inputs_cached_mib"];
        let timeline = run["timeline"].as_array().expect("a timeline").iter();
        let most = |name| {
            let later = timeline
                .clone()
                .filter(|second| second["second"].as_f64() >= Some(began));
            let values = later.filter_map(move |second| second["rates"][name].as_f64());
            values.fold(0.0, f64::max)
        };
        let gained = most("inputs_cached_mib") - before.as_f64().expect("a number");
        (gained, most("outputs_cached_mib"))
    };
    // The whole table is 47 MiB. What 500 hot keys and the device's readahead bring in is there
    // before the compaction; of its output they bring in a part again.
    let (stock, coldstream) = (cached_mib(0), cached_mib(1));
    assert!(stock.1 > 40.0, "{stock:?}");
    assert!(coldstream.0 < 8.0 && coldstream.1 < 24.0, "{coldstream:?}");
    let page = std::fs::read_to_string(directory.path().join("report.html")).expect("report");
    assert!(page.contains("inputs hold, MiB"));
    assert!(!directory.path().join("work").exists());
}

#[test]
fn unusable_options_are_refused_before_the_measurement() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("scratch directory");
    let unloadable = directory.path().join("my work");
    std::fs::create_dir(&unloadable).expect("directory");
    let unloadable = unloadable.join("libcoldstream.so");
    std::fs::write(&unloadable, "").expect("file");
    let named = unloadable.to_str().expect("UTF-8");
    for (words, said) in [
        (
            &["--modes", "coldstream", "--coldstream-library", named][..],
            "' '",
        ),
        (
            &["--modes", "buffered", "--json-file", "/dev/null/x"],
            "/dev/null",
        ),
        (
            &["--modes", "plugin", "--plugin", "/no/plugin.so"],
            "/no/plugin.so does not exist: make it in rocksdb-plugin/",
        ),
    ] {
        let Some(mut command) = lab(directory.path(), words) else {
            return;
        };
        let ended = measured(&mut command);
        let error = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{error}");
        assert!(error.contains(said), "{error}");
        assert!(!directory.path().join("work").exists());
    }
}

#[test]
fn a_missing_jdk_or_maven_is_named() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("scratch directory");
    let ended = measured(
        Command::new(env!("CARGO_BIN_EXE_coldstream"))
            .args(["lab", "cassandra", "--runs", "1", "--modes", "5.0/stock"])
            .args(["--work-dir", "work"])
            .current_dir(directory.path())
            .env("PATH", directory.path())
            .env("XDG_CACHE_HOME", directory.path())
            .env_remove("JAVA_HOME")
            .stdin(Stdio::null()),
    );
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success(), "{said}");
    let is_said = said.contains("mvn was not found") || said.contains("no JDK 17 was found");
    assert!(is_said && said.contains("apt-get install"), "{said}");
}

#[test]
fn a_data_set_without_room_is_refused_before_it_is_written() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("scratch directory");
    let ended = measured(
        Command::new(env!("CARGO_BIN_EXE_coldstream"))
            .args(["lab", "cassandra", "--runs", "1", "--modes", "5.0/stock"])
            .args(["--keys", "4000000000", "--hot-keys", "1"])
            .args(["--work-dir", "work"])
            .current_dir(directory.path())
            // Neither a JDK nor a release is needed to see it.
            .env("PATH", directory.path())
            .env("XDG_CACHE_HOME", directory.path())
            .stdin(Stdio::null()),
    );
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success(), "{said}");
    let values = "15258.8 GiB of values need 53405.8 GiB";
    assert!(said.contains("GiB free") && said.contains(values), "{said}");
    assert!(!directory.path().join("work").exists());
}

#[test]
fn only_the_named_library_is_measured() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("scratch directory");
    let missing = directory.path().join("missing.so");
    let option = ["--coldstream-library", missing.to_str().expect("UTF-8")];
    for (words, variable, named_by) in [
        (&[][..], missing.as_path(), "COLDSTREAM_LIBRARY"),
        (&option, Path::new(""), "--coldstream-library"),
    ] {
        let Some(mut command) = lab(directory.path(), &["--runs", "1", "--modes", "coldstream"])
        else {
            return;
        };
        command.args(words).env("COLDSTREAM_LIBRARY", variable);
        let ended = measured(&mut command);
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(7), "{said}");
        assert!(
            said.contains("missing.so") && said.contains(named_by),
            "{said}"
        );
        assert!(!directory.path().join("work").exists());
    }
}

#[test]
fn a_mode_whose_library_was_not_loaded_is_an_error() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("scratch directory");
    // The loader ignores a file that is no library.
    let no_library = directory.path().join("libcoldstream.so");
    std::fs::write(&no_library, "").expect("file");
    let Some(mut command) = lab(directory.path(), &["--runs", "1", "--modes", "coldstream"]) else {
        return;
    };
    let ended = measured(command.arg("--coldstream-library").arg(&no_library));
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("the loader did not load it"), "{said}");
}

/// A stock mode would fail if it had the library, and `coldstream` if it were switched off.
#[test]
fn modes_do_not_inherit_what_the_caller_preloads() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("scratch directory");
    let modes = ["--runs", "1", "--modes", "buffered,coldstream", "--json"];
    let Some(mut command) = lab(directory.path(), &modes) else {
        return;
    };
    // The environment of the laboratory's children alone: the laboratory has the library, too.
    command.env("LD_PRELOAD", library::path());
    command.env("COLDSTREAM_HANDOVER", "off");
    let ended = measured(&mut command);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    let report: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    let log = |mode: usize| report["cases"][0]["runs"][mode][0]["library_log"].to_string();
    assert_eq!(log(0), "[]");
    assert!(log(1).contains("handover_sstables"), "{}", log(1));
}

/// Parameters that the driver accepts. It ends at the library, which is not there.
fn driver_parameters() -> serde_json::Value {
    serde_json::json!({
        "library": "/no/library",
        "directory": "/no/directory",
        "options": "",
        "keys": 1,
        "value_bytes": 1,
        "start": "cold",
        "hot_keys": 1,
        "hot_layout": "scattered",
        "readers": 1,
        "loop": "open",
        "reads_per_second": 1,
        "load_steps": [1],
        "seed": 1,
        "first_pass_seconds": 30,
        "warm_up_seconds": 0,
        "idle_seconds": 0.5,
        "compaction_seconds": 0,
        "after_seconds": 0,
        "compaction_bytes_per_second": 0,
        "update_bytes_per_second": 0,
        "verify": false,
    })
}

#[test]
fn the_driver_refuses_wrong_parameters() {
    let driver = PathBuf::from(env!("CARGO_BIN_EXE_coldstream"));
    let driver = driver.with_file_name("coldstream-rocksdb-driver");
    if !driver.exists() {
        eprintln!("skipped: {} is not built (`make driver`)", driver.display());
        return;
    }
    let run = |parameters: &str| {
        let ended = measured(Command::new(&driver).args(["run", parameters]));
        let error = String::from_utf8_lossy(&ended.stderr).into_owned();
        (ended.status.code(), error)
    };
    let (code, error) = run(&driver_parameters().to_string());
    assert_eq!(code, Some(3), "{error}");
    assert!(error.contains("cannot load /no/library"), "{error}");
    for (field, value, said) in [
        (
            "hot_layout",
            "random".into(),
            "hot_layout is scattered or contiguous",
        ),
        ("start", "hot".into(), "start is cold or warm"),
        ("loop", "round".into(), "loop is open or closed"),
        ("start", 1.into(), "start is a string"),
        ("speed", 1.into(), "speed is no parameter"),
        ("keys", "1".into(), "keys is a whole number"),
        ("keys", 1.5.into(), "keys is a whole number of at least 1"),
        ("keys", 0.into(), "keys is a whole number of at least 1"),
        ("seed", (-1).into(), "seed is a whole number of at least 0"),
        (
            "load_steps",
            1.into(),
            "load_steps is an array of whole numbers",
        ),
        (
            "idle_seconds",
            (-1).into(),
            "idle_seconds is a number of seconds",
        ),
        ("verify", 1.into(), "verify is true or false"),
    ] {
        let mut parameters = driver_parameters();
        parameters[field] = value;
        let (code, error) = run(&parameters.to_string());
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains(said), "{error}");
    }
    for (document, said) in [
        (r#"{"library": "a"}"#, "directory is missing"),
        (
            r#"{"library": "a", "library": "b"}"#,
            "library is given twice",
        ),
        (r#"["library"]"#, "no JSON object"),
        (r#"{"library": "a",}"#, "no JSON object"),
        (r#"{"library": {}}"#, "no JSON object"),
        (r#"{"library": "\x"}"#, "no JSON object"),
        (r#"{"keys": 01}"#, "no JSON object"),
        (r#"{"keys": 1} 1"#, "no JSON object"),
        (r#"{"library": "#, "no JSON object"),
    ] {
        let (code, error) = run(document);
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn an_unknown_engine_option_is_a_clear_error() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("scratch directory");
    let words = [
        "--runs",
        "1",
        "--modes",
        "buffered",
        "--engine-options",
        "no_such_option=1",
    ];
    let Some(mut command) = lab(directory.path(), &words) else {
        return;
    };
    let ended = measured(&mut command);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("no_such_option"), "{said}");
}

/// The kernel kills it, and the report says what to raise.
#[test]
fn a_database_that_does_not_fit_its_memory_limit_is_a_clear_error() {
    if memory_cgroup(1 << 30).is_none() {
        return;
    }
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("scratch directory");
    let words = ["--runs", "1", "--modes", "buffered"];
    let Some(mut command) = lab_with_memory("2", directory.path(), &words) else {
        return;
    };
    let ended = measured(&mut command);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("does not fit its limit of 2 MiB"), "{said}");
}

#[test]
fn an_interrupt_leaves_no_process_cgroup_or_file() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("scratch directory");
    let words = ["--runs", "50", "--modes", "buffered"];
    let Some(mut command) = lab(directory.path(), &words) else {
        return;
    };
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start");
    let running = directory.path().join("work/run/CURRENT");
    let limit = Instant::now() + Duration::from_secs(60);
    while !running.exists() {
        assert!(Instant::now() < limit, "no run has started");
        assert!(child.try_wait().expect("wait").is_none(), "ended early");
        std::thread::sleep(Duration::from_millis(20));
    }
    let cgroup = format!("coldstream-lab-{}", child.id());
    let interrupted = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .expect("kill");
    assert!(interrupted.success());
    let ended = child.wait_with_output().expect("wait");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(130), "{said}");
    assert!(!directory.path().join("work").exists(), "{said}");
    for parent in ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"] {
        assert!(
            !Path::new(parent).join(&cgroup).exists(),
            "{cgroup} is left"
        );
    }
    let database = directory.path().join("work");
    let listed = Command::new("ps")
        .args(["-eo", "args"])
        .output()
        .expect("ps");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(
        !listed.contains(database.to_str().expect("UTF-8")),
        "{listed}"
    );
}

#[test]
fn the_plugin_is_measured_as_the_preload_library_is() {
    let Some(library) = plugin::made("libcoldstream_rocksdb.so") else {
        return;
    };
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("scratch directory");
    let modes = "coldstream,plugin,plugin:handover=off";
    let words = ["--runs", "1", "--verify", "--json", "--modes", modes];
    let Some(mut command) = lab(directory.path(), &words) else {
        return;
    };
    command.arg("--plugin").arg(&library);
    let ended = measured(&mut command);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    let report: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    let around = [0, 1, 2].map(|mode: usize| {
        let run = &report["cases"][0]["runs"][mode][0];
        assert_eq!(run["phases"][1]["failed_reads"], 0, "{run}");
        let read = run["compacted_read_bytes"].as_u64();
        assert!(read > Some(3000 * 4096), "{run}");
        let log = directory.path().join(format!("log-{mode}"));
        let lines = run["library_log"].as_array().expect("lines").iter();
        let lines: Vec<&str> = lines.filter_map(|line| line.as_str()).collect();
        std::fs::write(&log, lines.join("\n")).expect("log");
        let log = ExitLog::read(&log);
        assert_eq!(
            log.text.contains("handover_sstables"),
            mode != 2,
            "{}",
            log.text
        );
        (log.direct_bytes + log.cache_bytes, log.written_direct_bytes)
    });
    // Both read and write the same tables in the same way.
    let [preloaded, plugin, without] = around;
    assert!(
        plugin.0 * 10 > preloaded.0 * 9 && plugin.1 * 10 > preloaded.1 * 9,
        "{around:?}"
    );
    assert!(without.0 * 10 > preloaded.0 * 9, "{around:?}");
}

#[test]
fn a_static_driver_measures_as_the_shared_one_does() {
    let driver = Path::new(env!("CARGO_BIN_EXE_coldstream"))
        .with_file_name("coldstream-rocksdb-driver-static");
    if !driver.exists() {
        return skip(format!(
            "{} is not built (`make static-driver`)",
            driver.display()
        ));
    }
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("scratch directory");
    let words = ["--runs", "1", "--modes", "buffered", "--verify", "--json"];
    let Some(mut command) = lab(directory.path(), &words) else {
        return;
    };
    command.arg("--driver").arg(&driver);
    let ended = measured(&mut command);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    let report: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    let run = &report["cases"][0]["runs"][0][0];
    assert!(
        run["compacted_read_bytes"].as_u64() > Some(3000 * 4096),
        "{run}"
    );
}
