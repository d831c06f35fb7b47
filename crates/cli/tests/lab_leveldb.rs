//! `coldstream lab leveldb` on a real LevelDB that is too small to mean anything.

use coldstream_testkit::{directories, tools};

mod lab_drivers;

use lab_drivers::{check_first_pass, check_overload, check_runs, lab, report_of};

#[test]
fn leveldb_compacts_all_the_time_while_every_value_is_right() {
    let directory = directories::on_disk();
    let words = [
        "--modes",
        "buffered,coldstream:readahead=scans-and-mapped@max_file_size=4194304",
        "--update-mib-per-second",
        "16",
        "--compaction-seconds",
        "4",
        "--verify",
    ];
    if tools::find_library("libleveldb.so").is_none() {
        return;
    }
    let Some(report) = report_of("leveldb", directory.path(), &words) else {
        return;
    };
    let engine = report["engine"].as_str().expect("a name");
    assert!(engine.starts_with("LevelDB 1."), "{engine}");
    let figures = [
        "compacted_read_bytes",
        "compacted_written_bytes",
        "user_written_bytes",
        "updates_per_second",
        "compaction_engine_cpu_seconds",
    ];
    check_runs(&report, 2, &figures);
    assert!(!directory.path().join("work").exists());
}

#[test]
fn an_option_that_leveldb_does_not_know_is_named_before_anything_is_loaded() {
    if tools::find_library("libleveldb.so").is_none() {
        return;
    }
    let directory = directories::on_disk();
    for (option, named) in [
        ("no_such_option=1", "no_such_option"),
        ("block_size=4k", "block_size=4k"),
    ] {
        let mode = format!("buffered,buffered@{option}");
        let Some(ended) = lab("leveldb", directory.path(), &["--modes", &mode]) else {
            return;
        };
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success() && said.contains(named), "{said}");
        assert!(!directory.path().join("work").exists());
    }
}

/// The driver of RocksDB has the same loop.
#[test]
fn reads_that_no_reader_starts_count_when_they_are_due() {
    if tools::find_library("libleveldb.so").is_some() {
        check_overload("leveldb", directories::on_disk().path());
    }
}

#[test]
fn a_first_pass_tells_what_it_has_read() {
    if tools::find_library("libleveldb.so").is_some() {
        let directory = directories::on_disk();
        check_first_pass("leveldb", directory.path(), Some("libleveldb.so"));
    }
}

#[test]
fn a_missing_library_and_too_little_memory_have_a_word() {
    if tools::find_library("libleveldb.so").is_none() {
        return;
    }
    let directory = directories::on_disk();
    let missing = ["--engine-library", "libnone.so"];
    let little = ["--memory-mib", "1"];
    for (words, said) in [
        (&missing, "name it with --engine-library"),
        (&little, "--memory-mib"),
    ] {
        if said == "--memory-mib" && !tools::is_root() {
            continue;
        }
        let Some(ended) = lab("leveldb", directory.path(), words) else {
            return;
        };
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(said), "{stderr}");
    }
}
