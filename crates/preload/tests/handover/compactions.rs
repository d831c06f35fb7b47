//! Kinds of compactions, and of threads that compact.

use super::case::{
    AGED, Case, Found, SCANNED, SCATTERED, SMALL, TRIES, assert_handed_over, exact, program,
    run_logged,
};
use coldstream_testkit::database::make_cold;
use coldstream_testkit::exit_log::ExitLog;
use coldstream_testkit::library::Preload;
use coldstream_testkit::process::Program;
use coldstream_testkit::{files, tools};
use std::path::Path;

#[test]
fn subcompactions_in_several_threads() {
    assert_handed_over(&Case {
        keys: 60_000,
        runs: 2,
        value_bytes: 1000,
        overwrite: true,
        stride: 50,
        hot: 2,
        table_options: "block_size=4096;data_block_index_type=kDataBlockBinaryAndHash",
        options: "max_subcompactions=3;max_background_jobs=4;",
        ..SCATTERED
    });
}

/// The compaction thread writes young keys to an SSTable of the last but one level, and old keys to one of
/// the last level.
#[test]
fn young_and_old_keys_side_by_side() {
    assert_handed_over(&Case {
        written: AGED,
        options: "compaction_style=kCompactionStyleUniversal;num_levels=5;\
                  preclude_last_level_data_seconds=8;",
        ..SCATTERED
    });
}

/// Below a limit of 256 the library has no descriptors of its own. That is no failure, and no SSTable's fault.
#[test]
fn few_descriptors_are_no_failed_handover() {
    let directory = coldstream_testkit::directories::on_disk();
    let Some(program) = program(directory.path()) else {
        return;
    };
    let (database, log) = (directory.path().join("one"), directory.path().join("log"));
    SMALL.load(&program, &database);
    let shell = ["-c", "ulimit -n 200 && exec \"$@\"", "limited"];
    let limited = SMALL
        .compaction(&program, &database)
        .behind(Path::new("/bin/sh"), &shell);
    let log = run_logged(&limited, "on", &log).text;
    assert!(
        log.contains("fallback_descriptor_limit=") && !log.contains("handover_failed="),
        "{log}"
    );
}

#[test]
fn universal_compaction() {
    assert_handed_over(&Case {
        runs: 4,
        options: "compaction_style=kCompactionStyleUniversal;num_levels=5;",
        ..SMALL
    });
}

/// It merges SSTables of level 0 into one that stays there.
#[test]
fn fifo_compaction() {
    assert_handed_over(&Case {
        runs: 4,
        options: "compaction_style=kCompactionStyleFIFO;num_levels=1;level0_file_num_compaction_trigger=2;\
                  compaction_options_fifo={allow_compaction=true;max_table_files_size=10737418240};",
        ..SMALL
    });
}

/// `CompactFiles` compacts in the thread that calls it, whose name tells nothing.
#[test]
fn compact_files_in_a_foreground_thread() {
    let directory = coldstream_testkit::directories::on_disk();
    let Some(program) = program(directory.path()) else {
        return;
    };
    let output = directory.path().join("compact_files");
    let options = ["-std=c++17", "-lrocksdb"];
    let compiled = tools::compile_by(Path::new("c++"), "compact_files.cc", &output, &options);
    let compact_files = compiled.unwrap_or_else(|ended| panic!("{ended:?}"));
    let (database, log) = (directory.path().join("one"), directory.path().join("log"));
    let run = |handover: &str, way: &str| {
        let _ = std::fs::remove_dir_all(&database);
        let case = Case {
            options: match way {
                "subcompactions" => "max_subcompactions=3;",
                _ => "",
            },
            ..SCATTERED
        };
        case.load(&program, &database);
        let log = run_logged(&case.compaction(&compact_files, &database), handover, &log);
        let found = case.find(&database);
        println!("{handover} {way}: {found:?}");
        let scan = Case {
            read: SCANNED,
            ..case
        };
        scan.compaction(&program, &database).run().well();
        (found, log)
    };
    for way in ["", "subcompactions"] {
        let (without, log) = run("off", way);
        assert!(without.warm_hot_blocks * 10 < without.hot_blocks);
        let data_bytes = SCATTERED.keys * SCATTERED.value_bytes;
        assert!(log.written_direct_bytes > data_bytes * 9 / 10);
        assert!(log.direct_bytes > data_bytes * 9 / 10);
        let is_exact = |found: &Found| found.is_warm() && found.wasted_pages <= 2 * found.hot_pages;
        assert!((0..TRIES).any(|_| is_exact(&run("on", way).0)));
    }
}

/// A thread that is inside of a compaction, as in [`compact_files_in_a_foreground_thread`], reads the inputs. Whatever
/// else it reads stays in the foreground.
#[test]
fn a_new_sstable_alone_makes_no_background_thread() {
    let directory = coldstream_testkit::directories::on_disk();
    let inside = tools::compile("inside.c", directory.path(), "inside", &[]);
    let log = directory.path().join("log");
    let elsewhere = directory.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("mkdir");
    for (new, old, reads, is_background) in [
        ("000009.sst", "000001.sst", "sequence", true),
        ("000009.sst", "000001.sst", "points", false),
        ("000009.sst", "elsewhere/000001.sst", "sequence", false),
        // RocksDB's writes of clients make blob files, too (`enable_blob_direct_write`).
        ("000009.blob", "000001.sst", "sequence", false),
        ("built.sst", "000001.sst", "sequence", false),
    ] {
        let [new_path, old_path] = [new, old].map(|name| directory.path().join(name));
        files::create(&old_path, 7, 8 << 20);
        make_cold(std::slice::from_ref(&old_path));
        let run = || {
            let _ = (std::fs::remove_file(&log), std::fs::remove_file(&new_path));
            Program::new(&inside)
                .arguments([new_path.as_os_str(), old_path.as_os_str()])
                .argument(reads)
        };
        let plain = run().run().well().text();
        let plain_output = std::fs::read(&new_path).expect("read");
        make_cold(std::slice::from_ref(&old_path));
        let with = run()
            .run_with(&exact(Preload::logging_to(&log), "on"))
            .well();
        assert_eq!(with.text(), plain, "{new} {old} {reads}");
        assert!(std::fs::read(&new_path).expect("read") == plain_output);
        let log = ExitLog::read(&log);
        println!("{new} {old} {reads}: {}", log.text);
        let moved = [log.direct_bytes, log.written_direct_bytes];
        match is_background {
            true => assert!(moved.iter().all(|moved| *moved > 7 << 20), "{moved:?}"),
            false => assert_eq!(moved, [0, 0], "{new} {old} {reads}"),
        }
    }
}

/// As in Kafka Streams: the databases share the threads of compactions.
#[test]
fn several_databases_in_one_process() {
    let directory = coldstream_testkit::directories::on_disk();
    let Some(program) = program(directory.path()) else {
        return;
    };
    let databases = ["one", "two", "three"].map(|name| directory.path().join(name));
    let founds = (0..TRIES).map(|_| {
        for database in &databases {
            let _ = std::fs::remove_dir_all(database);
            SMALL.load(&program, database);
        }
        let paths = databases.each_ref().map(|path| path.to_str().unwrap());
        (SMALL.compaction(&program, Path::new(&paths.join(":"))))
            .run_with(&exact(Preload::quiet(), "on"))
            .well();
        databases.each_ref().map(|path| SMALL.find(path))
    });
    let is_exact = |found: &Found| {
        println!("{found:?}");
        found.is_warm() && found.wasted_pages <= found.hot_pages
    };
    let mut founds = founds.map(|founds| founds.iter().all(is_exact));
    assert!(founds.any(|are_exact| are_exact));
}
