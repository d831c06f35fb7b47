//! The C interface as C programs use it: linked with the archive and with the shared library.

mod common;

use coldstream_control::{Counter, Mechanism, Outcome};
use coldstream_testkit::library::Preload;
use coldstream_testkit::process::Program;
use coldstream_testkit::residency::{assert_there, cached_pages, drop_pages, resident_pages};
use coldstream_testkit::status_client::StatusClient;
use coldstream_testkit::{directories, long, skip, tools};
use common::{Linked, compiled, program, shared_library};
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

/// Sorted records of 64 bytes, as `examples/compact.c` reads them.
fn write_records(path: &Path, first: u64, step: u64) {
    let records = (0..32_768).map(|number| format!("{:016x}{number:048}", first + number * step));
    std::fs::write(path, records.collect::<String>()).unwrap();
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    drop_pages(&file);
}

#[test]
fn two_sorted_files_are_compacted_around_the_page_cache() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/compact.c");
    let mut ways = vec![Linked::Archive, Linked::Shared, Linked::Static];
    match long() && tools::find("musl-gcc").is_some() {
        true => ways.push(Linked::Musl),
        false => skip("musl: needs musl-gcc, the target for musl, and COLDSTREAM_LONG=1"),
    }
    for linked in ways {
        let directory = directories::on_disk();
        let path = |name: &str| directory.path().join(name);
        write_records(&path("first"), 1, 3);
        write_records(&path("second"), 2, 5);
        // A file that changed a moment ago is read plainly.
        std::thread::sleep(std::time::Duration::from_millis(30));
        let compact = compiled(&source, directory.path(), linked);
        let told = program(&compact).run();
        let usage = b"FIRST SECOND OUTPUT\n";
        assert!(told.stderr.ends_with(usage), "{told:?}");
        let ended = program(&compact)
            .with_variable("COLDSTREAM_READS", "direct")
            .with_variable("COLDSTREAM_WRITES", "direct")
            .arguments(["first", "second", "output"].map(path))
            .run()
            .well();
        let both = [path("first"), path("second")].map(|path| std::fs::read(path).unwrap());
        let mut expected: Vec<_> = both.iter().flat_map(|file| file.chunks(64)).collect();
        expected.sort_by_key(|record| &record[..16]);
        assert_eq!(std::fs::read(path("output")).unwrap(), expected.concat());
        let text = ended.text();
        if text.contains("direct_written=0 ") {
            skip("direct I/O does not work here");
            continue;
        }
        assert!(
            text.contains(
                "written=4194304 direct_read=4194304 cached_read=0 direct_written=4194304"
            ),
            "{text}"
        );
        // This test has read the output and the inputs.
        compact_again_and_look(&compact, directory.path());
    }
}

/// Compacts once more, and counts what is in the page cache afterwards.
fn compact_again_and_look(compact: &Path, directory: &Path) {
    let path = |name: &str| directory.join(name);
    for name in ["first", "second", "output"] {
        drop_pages(&File::open(path(name)).unwrap());
    }
    program(compact)
        .with_variable("COLDSTREAM_READS", "direct")
        .with_variable("COLDSTREAM_WRITES", "direct")
        .arguments(["first", "second", "output"].map(path))
        .run()
        .well();
    for name in ["first", "second", "output"] {
        let pages = cached_pages(&File::open(path(name)).unwrap());
        assert!(pages <= 8, "{name}: {pages} pages");
    }
}

#[test]
fn random_operations_end_as_plain_ones() {
    let directory = directories::on_disk();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/differential.c");
    let differential = compiled(&source, directory.path(), Linked::Archive);
    let seeds = match std::env::var_os("COLDSTREAM_LONG") {
        Some(_) => 1..200,
        None => 1..2,
    };
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    for options in [
        "reads=direct;writes=direct",
        "reads=drop-behind;writes=drop-behind",
        "reads=buffered;writes=buffered",
        "writes=direct;visible=everywhere;memory=1MiB",
        "enabled=off",
    ] {
        for seed in seeds.clone() {
            for place in [directory.path(), memory.path()] {
                program(&differential)
                    .argument(seed.to_string())
                    .argument(options)
                    .argument(place)
                    .run()
                    .well();
            }
        }
    }
}

#[test]
fn the_command_switches_a_linked_engine() {
    let directory = directories::on_disk();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/switched.c");
    let switched = compiled(&source, directory.path(), Linked::Archive);
    let path = directory.path().join("000001.sst");
    std::fs::write(&path, vec![7; 8 << 20]).unwrap();
    let file = File::open(&path).unwrap();
    file.sync_all().unwrap();
    drop_pages(&file);
    std::thread::sleep(std::time::Duration::from_millis(30));
    let mut running = Command::new(switched)
        .arg(&path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut talk = common::Talk::with(&mut running);
    talk.read_all();
    let mut client = StatusClient::of(running.id());
    let before = client.get(Counter::BackgroundBytes);
    assert_eq!(before, 8 << 20);
    assert_eq!(client.off(&[Mechanism::Reads]), Outcome::Done);
    talk.read_all();
    assert!(client.get(Counter::FallbackSwitchedOff) > 0);
    assert_eq!(client.off(&[]), Outcome::Done);
    let switched_off = client.get(Counter::FallbackSwitchedOff);
    talk.read_all();
    assert_eq!(client.get(Counter::FallbackSwitchedOff), switched_off);
    drop(talk);
    assert!(running.wait().unwrap().success());
}

#[test]
fn wrong_options_are_explained() {
    let directory = directories::on_disk();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/differential.c");
    let differential = compiled(&source, directory.path(), Linked::Archive);
    for (options, why) in [
        ("reads", "option \"reads\": write name=value"),
        (
            "reeds=direct",
            "option \"reeds\": there is none of this name",
        ),
        ("reads=fast", "option \"reads\" = \"fast\": use auto"),
    ] {
        let output = Command::new(&differential)
            .args(["1", options])
            .arg(directory.path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(why), "{text}");
    }
}

#[test]
fn a_process_with_the_preload_library_is_refused() {
    let directory = directories::on_disk();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/differential.c");
    let differential = compiled(&source, directory.path(), Linked::Archive);
    let with_options = |options: &str| {
        program(&differential)
            .arguments(["1", options])
            .argument(directory.path())
    };
    let ended = with_options("reads=auto").run_with(&Preload::quiet());
    let text = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(
        text.contains("take libcoldstream.so out of LD_PRELOAD"),
        "{ended:?}"
    );
    // One that is switched off does not disturb.
    let off = Preload::quiet().with("COLDSTREAM", "off");
    with_options("enabled=on").run_with(&off).well();
}

#[test]
fn a_process_with_another_copy_is_refused() {
    let directory = directories::on_disk();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/two_copies.c");
    let program = compiled(&source, directory.path(), Linked::Archive);
    let output = Command::new(&program).arg(shared_library()).output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let answers: Vec<&str> = text.lines().collect();
    let [second, again, nowhere] = answers[..] else {
        panic!("{output:?}");
    };
    assert!(
        second.starts_with("-16: the process has another copy"),
        "{text}"
    );
    assert_eq!([again, nowhere], ["0: ", "-22: context: NULL"]);
}

#[test]
fn the_shared_library_has_the_name_of_its_interface() {
    let directory = directories::on_disk();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/compact.c");
    compiled(&source, directory.path(), Linked::Shared);
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/coldstream.h");
    let header = std::fs::read_to_string(header).unwrap();
    let version = header.split("define COLDSTREAM_INTERFACE_VERSION ").nth(1);
    let version = version.unwrap().lines().next().unwrap();
    let program = std::fs::read(directory.path().join("program")).unwrap();
    let name = format!("libcoldstream_io.so.{version}\0");
    assert!(
        program
            .windows(name.len())
            .any(|bytes| bytes == name.as_bytes()),
        "{name:?} is not needed by the program"
    );
}

#[test]
fn the_header_is_that_of_the_code() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let configuration = cbindgen::Config::from_root_or_default(directory);
    let bindings = cbindgen::generate_with_config(directory, configuration).unwrap();
    let mut generated = Vec::new();
    bindings.write(&mut generated);
    let header = std::fs::read(directory.join("include/coldstream.h")).unwrap();
    assert!(
        header == generated,
        "out of date: cargo run -p coldstream-capi --example header"
    );
}

#[test]
fn the_header_is_valid_c_and_cpp() {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/coldstream.h");
    for compiler in [["cc", "-xc", "-std=c99"], ["c++", "-xc++", "-std=c++11"]] {
        if tools::find(compiler[0]).is_none() {
            skip(format_args!("there is no {}", compiler[0]));
            continue;
        }
        let command = Program::new(compiler[0])
            .arguments(&compiler[1..])
            .arguments(["-Wall", "-Wextra", "-Werror", "-fsyntax-only"]);
        command.argument(&include).run().well();
    }
}

#[test]
fn what_was_hot_in_an_input_is_warm_in_the_output() {
    let directory = directories::on_disk();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/warm.c");
    let warm = compiled(&source, directory.path(), Linked::Archive);
    let (input, output) = (
        directory.path().join("input"),
        directory.path().join("output"),
    );
    std::fs::write(&input, vec![7; 4 << 20]).unwrap();
    let file = File::open(&input).unwrap();
    file.sync_all().unwrap();
    drop_pages(&file);
    std::thread::sleep(std::time::Duration::from_millis(30));
    let ended = program(&warm).arguments([&input, &output]).run().well();
    if cached_pages(&File::open(&output).unwrap()) > 100 {
        return skip("direct I/O does not work here");
    }
    assert_eq!(ended.text(), "ahead=1 limited=3 warmed=8 hot=11\n");
    let pages = resident_pages(&File::open(&output).unwrap());
    let warm: Vec<usize> = (0..pages.len()).filter(|page| pages[*page]).collect();
    assert_there(
        &warm,
        &[100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 700],
    );
}

#[test]
fn a_handover_follows_the_indexes_of_real_tables() {
    if !Path::new("/usr/include/rocksdb/c.h").exists() {
        return skip("librocksdb-dev is not installed");
    }
    let directory = directories::on_disk();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/handover.c");
    let handover = compiled(&source, directory.path(), Linked::WithRocksDb);
    let ended = program(&handover).argument(directory.path()).run().well();
    assert_eq!(ended.text(), "limited=3 both=22 hot=22\n");
    // Every other key of the output is of the first input, so page 500 has become 1000 and 1001. The index and what
    // else a handover itself reads is at the end.
    let pages = resident_pages(&File::open(directory.path().join("000003.sst")).unwrap());
    let of_data = 1..pages.len() * 95 / 100;
    let warm: Vec<usize> = of_data.filter(|page| pages[*page]).collect();
    assert_eq!(warm, (999..=1020).collect::<Vec<_>>());
}
