//! `doctor` and `ctl` examine paths and processes, and do not change them.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use coldstream_control::Counter;
use coldstream_testkit::skip;
use common::process::Process;
use common::{Scene, assert_error, doctor_says, outcome};

/// `ctl list` removes all stale pages, those of other tests too: tests with one run one by one.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn status_of_a_process() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let scene = Scene::new();
    let process = Process::new(0);
    let pid = process.pid();
    let (code, stdout, stderr) = outcome(scene.coldstream().args(["ctl", &pid, "status"]));
    assert_eq!((code, stderr.as_str()), (0, ""));
    for words in [
        "sleep 60",
        "direct (configured: auto)",
        "3 MiB direct",
        "/data/db: keys in no order",
    ] {
        assert!(stdout.contains(words), "{words} is not in {stdout}");
    }
    assert!(!stdout.contains("eviction_bytes"), "{stdout}");
    let (code, stdout, _) = outcome(scene.coldstream().args(["ctl", &pid, "status", "--all"]));
    assert_eq!(code, 0);
    for counter in Counter::ALL {
        assert!(stdout.contains(counter.name()), "{counter:?}: {stdout}");
    }
    let (code, stdout, _) = outcome(scene.coldstream().args(["ctl", "list"]));
    assert_eq!(code, 0);
    let mut lines = stdout.lines();
    let line = lines.find(|line| line.contains(&pid)).expect("a line");
    for words in ["direct", "3 MiB", "sleep 60"] {
        assert!(line.contains(words), "{words} is not in {line}");
    }
    let (code, stdout, _) = outcome(scene.coldstream().args(["ctl", &pid, "status", "--json"]));
    let json: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(code, 0);
    assert_eq!(json["counters"]["bytes_direct"], 3 << 20);
    assert_eq!(json["handover_declined_in"][0]["directory"], "/data/db");
    let (code, stdout, _) = outcome(scene.coldstream().args(["ctl", "list", "--json"]));
    let json: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(code, 0);
    let pids = json
        .as_array()
        .unwrap()
        .iter()
        .map(|page| page["pid"].to_string());
    assert!(pids.into_iter().any(|found| found == pid));
}

/// What a command prints on a terminal of so many columns; none where no terminal can be made.
fn on_terminal(scene: &Scene, columns: u16, arguments: &str) -> Option<String> {
    let program = env!("CARGO_BIN_EXE_coldstream");
    let line = format!("stty rows 24 cols {columns}; {program} {arguments}");
    let mut script = Command::new("script");
    script
        .args(["-qec", &line, "/dev/null"])
        .env("COLDSTREAM_LIBRARY", scene.path("libcoldstream.so"))
        .env("NO_COLOR", "1")
        .stdin(Stdio::null());
    if Command::new("script").arg("--version").output().is_err() {
        skip("no script");
        return None;
    }
    let (code, stdout, _) = outcome(&mut script);
    assert_eq!(code, 0, "{stdout}");
    Some(stdout.replace('\r', ""))
}

#[test]
fn lines_fit_the_terminal_and_are_whole_elsewhere() {
    const COLUMNS: u16 = 60;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let scene = Scene::new();
    let process = Process::new(0);
    process.attach();
    let pid = process.pid();
    let doctor = format!("doctor {pid}");
    let Some(text) = on_terminal(&scene, COLUMNS, &doctor) else {
        return;
    };
    let note = "  note: `coldstream attach` works for it from outside: no\n        pacing, ";
    assert!(text.contains(note), "{text}");
    // A path stays whole.
    let fits = |line: &str| line.chars().count() <= COLUMNS.into() || line.contains("/tmp/");
    assert!(text.lines().all(fits), "{text}");
    let (_, piped, _) = outcome(scene.coldstream().args(["doctor", &pid]));
    let note = piped.lines().find(|line| line.contains("note: "));
    assert!(
        note.is_some_and(|line| line.ends_with("they are warm")),
        "{piped}"
    );

    // Just enough for the longest words of the headings.
    let list = on_terminal(&scene, 44, "ctl list").unwrap();
    assert!(list.lines().all(fits), "{list}");
    for word in ["AROUND", "CACHE", "WRITTEN", "PROGRAM"] {
        assert!(list.split_whitespace().any(|found| found == word), "{list}");
    }
}

#[test]
fn a_stale_page_is_removed() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let scene = Scene::new();
    let process = Process::new(1);
    let mut command = scene.coldstream();
    let words = ["left behind", "removed"];
    assert_error(command.args(["ctl", &process.pid(), "status"]), 7, &words);
    assert!(!process.page.exists());
    let stale = Process::new(1);
    let mut switch = scene.coldstream();
    assert_error(switch.args(["ctl", "off", &stale.pid()]), 7, &words);
    assert!(!stale.page.exists());
    let mut again = scene.coldstream();
    assert_error(
        again.args(["ctl", &process.pid(), "status"]),
        7,
        &["no status page"],
    );
}

#[test]
fn pages_of_another_namespace_of_processes_are_left_alone() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let scene = Scene::new();
    let process = Process::new(0);
    let coldstream = scene.copy_of_coldstream();
    let mut elsewhere = Command::new("unshare");
    elsewhere.args(["--pid", "--fork", "--mount-proc"]);
    if !elsewhere
        .arg("true")
        .status()
        .is_ok_and(|status| status.success())
    {
        skip("may not make a namespace of processes");
        return;
    }
    let mut list = Command::new("unshare");
    list.args(["--pid", "--fork", "--mount-proc"]);
    let (_, stdout, _) = outcome(list.arg(coldstream).args(["ctl", "list"]));
    assert!(!stdout.contains(&process.pid()), "{stdout}");
    assert!(process.page.exists());
}

#[test]
fn a_forged_page_is_an_error() {
    let scene = Scene::new();
    let process = Process::new(0);
    fs::write(&process.page, vec![1; 4096]).unwrap();
    let mut command = scene.coldstream();
    assert_error(
        command.args(["ctl", &process.pid(), "status"]),
        1,
        &["not a status page"],
    );
    let mut switch = scene.coldstream();
    assert_error(
        switch.args(["ctl", "off", &process.pid()]),
        1,
        &["not a status page"],
    );
}

#[test]
fn a_process_without_a_control_thread_cannot_be_switched() {
    let scene = Scene::new();
    let process = Process::new(0);
    let mut command = scene.coldstream();
    assert_error(
        command.args(["ctl", "off", &process.pid()]),
        1,
        &["cannot be switched", "COLDSTREAM=off"],
    );
}

#[test]
fn doctor_of_a_path() {
    let scene = Scene::new();
    let data = scene.path("data");
    fs::create_dir(&data).unwrap();
    let stdout = doctor_says(scene.coldstream().arg("doctor").arg(&data));
    for words in [
        "kernel",
        "filesystem",
        "direct read",
        "background reads",
        "RWF_DONTCACHE",
    ] {
        assert!(stdout.contains(words), "{words} is not in {stdout}");
    }
    assert!(!stdout.contains('\x1b'), "colours without a terminal");
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0);

    let stdout = doctor_says(scene.coldstream().args(["doctor", "--json"]).arg(&data));
    let json: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        json["paths"][0]["path"],
        data.canonicalize().unwrap().to_str().unwrap()
    );
    assert!(json["machine"]["kernel_release"].is_string());
}

#[test]
fn the_help_says_when_doctor_makes_a_temporary_file() {
    let scene = Scene::new();
    let data = scene.path("data");
    fs::create_dir(&data).unwrap();
    // Just written, so it is in the page cache.
    fs::write(data.join("000001.sst"), vec![1; 1 << 20]).unwrap();
    let stdout = doctor_says(scene.coldstream().arg("doctor").arg(&data));
    if stdout.contains("direct read          proven") {
        assert!(stdout.contains("probed with a temporary file"), "{stdout}");
    }
    let (_, help, _) = outcome(scene.coldstream().args(["doctor", "--help"]));
    let help = help.replace('\n', " ");
    let words =
        "Where there is none, or where it is in the page cache, doctor writes a file of 1 MiB";
    assert!(help.contains(words), "{help}");
}

#[test]
fn doctor_reports_what_it_can_and_then_the_error() {
    let scene = Scene::new();
    let (code, stdout, stderr) = outcome(scene.coldstream().args(["doctor", "/no/such", "."]));
    assert_eq!(code, 7);
    assert!(stdout.contains("background reads"), "{stdout}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn doctor_of_a_path_that_is_no_text() {
    let scene = Scene::new();
    let data = scene
        .path("data")
        .join(std::ffi::OsStr::from_bytes(b"d\xff"));
    fs::create_dir_all(&data).unwrap();
    let json = doctor_json(&scene, data.as_os_str());
    let path = json["paths"][0]["path"].as_str().unwrap();
    assert!(path.ends_with("data/d\u{fffd}"), "{path}");
}

/// As `doctor "$pid"` without a process.
#[test]
fn doctor_of_nothing_is_refused() {
    let scene = Scene::new();
    let (code, stdout, _) = outcome(scene.coldstream().args(["doctor", ""]));
    assert_eq!((code, stdout.as_str()), (2, ""));
}

#[test]
fn doctor_of_a_process() {
    let scene = Scene::new();
    let process = Process::new(0);
    let stdout = doctor_says(scene.coldstream().args(["doctor", &process.pid()]));
    for words in [
        "sleep 60",
        "not loaded",
        "the library is not loaded",
        "/data/db: keys in no order",
    ] {
        assert!(stdout.contains(words), "{words} is not in {stdout}");
    }
}

#[test]
fn little_to_gain_is_said_of_a_process_whose_inputs_were_cached() {
    let scene = Scene::new();
    let process = Process::new(0);
    for (counter, has_verdict) in [
        (Counter::BackgroundBytes, false),
        (Counter::BytesFromCache, true),
    ] {
        process.add(counter, 1 << 30);
        for command in [&["doctor"][..], &["ctl", "status"]] {
            let (_, stdout, _) = outcome(scene.coldstream().args(command).arg(process.pid()));
            let is_said = stdout.contains("  verdict ") || stdout.contains("\n verdict ");
            assert_eq!(is_said, has_verdict, "{stdout}");
        }
    }
}

#[test]
fn doctor_of_a_process_without_coldstream() {
    let scene = Scene::new();
    let mut sleep = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = sleep.id().to_string();
    let stdout = doctor_says(scene.coldstream().args(["doctor", &pid]));
    sleep.kill().unwrap();
    sleep.wait().unwrap();
    // An error has another code.
    let (code, ..) = outcome(scene.coldstream().args(["doctor", &pid, "."]));
    assert_eq!(code, 7);
    for words in ["not loaded", "coldstream run"] {
        assert!(stdout.contains(words), "{words} is not in {stdout}");
    }
}

#[test]
fn an_io_uring_is_told_and_nothing_to_change() {
    let scene = Scene::new();
    let program = "$parameters = chr(0) x 120; \
        $| = 1; print syscall(425, 1, $parameters) < 0 ? \"none\\n\" : \"open\\n\"; <STDIN>";
    let started = Command::new("perl")
        .args(["-e", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut perl) = started else {
        return skip("no perl");
    };
    let line = first_line(&mut perl);
    let pid = perl.id().to_string();
    let text = doctor_says(scene.coldstream().args(["doctor", &pid]));
    perl.kill().unwrap();
    perl.wait().unwrap();
    if line != "open\n" {
        return skip("no io_uring here");
    }
    let told = text
        .lines()
        .find(|line| line.contains("io_uring"))
        .expect(&text);
    assert!(!told.contains("change:"), "{told}");
}

/// The filter of a container is doctor's own: it tries that one out. One that a program made itself it cannot know.
#[test]
fn doctor_of_a_filtered_process() {
    const SYS_CACHESTAT: &str = "451";
    let scene = Scene::new();
    let deny = coldstream_testkit::tools::compile("deny.c", &scene.path("."), "deny", &[]);
    let under_filters = |verdicts: &[&str]| {
        let mut words = Vec::new();
        for verdict in verdicts {
            words.extend([deny.to_str().unwrap(), SYS_CACHESTAT, verdict, "--"]);
        }
        words.push("env");
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env_remove("COLDSTREAM_AVOID");
        command
    };
    if !under_filters(&["38"])
        .arg("true")
        .status()
        .is_ok_and(|it| it.success())
    {
        return skip("no filter of system calls can be made here");
    }
    let nobody_knows = Some("it was not started by `coldstream run`");
    for (of_process, of_doctor, words) in [
        (&["38"][..], &["38"][..], None),
        (&["kill"], &["kill"], Some("COLDSTREAM_AVOID=cachestat")),
        (&["38", "38"], &["38"], nobody_knows),
        (&["38"], &[], nobody_knows),
    ] {
        let library = scene.path("libcoldstream.so");
        let mut filtered = under_filters(of_process)
            .arg(format!("LD_PRELOAD={}", library.display()))
            .args(["sh", "-c", "echo started; read line"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        assert_eq!(first_line(&mut filtered), "started\n");
        let mut doctor = under_filters(of_doctor);
        if of_doctor.is_empty() {
            doctor = Command::new("env");
        }
        let pid = filtered.id().to_string();
        let text = doctor_says(doctor.args([env!("CARGO_BIN_EXE_coldstream"), "doctor", &pid]));
        filtered.kill().unwrap();
        filtered.wait().unwrap();
        let filter = text.lines().find(|line| line.contains("filter"));
        match words {
            None => assert_eq!(filter, None, "{text}"),
            Some(words) => assert!(filter.is_some_and(|line| line.contains(words)), "{text}"),
        }
    }
}

/// The first line of a program; empty if it has ended.
fn first_line(program: &mut Child) -> String {
    let mut line = String::new();
    let mut said = BufReader::new(program.stdout.take().unwrap());
    said.read_line(&mut line).unwrap();
    line
}

/// An installation like that of the tarball: `conf`, `lib` and a data directory.
fn installation(scene: &Scene, version: &str, settings: &str) -> std::path::PathBuf {
    for directory in ["conf", "lib", "data"] {
        fs::create_dir(scene.path(directory)).unwrap();
    }
    let jar = format!("lib/apache-cassandra-{version}.jar");
    fs::write(scene.path(&jar), "").unwrap();
    let configuration = scene.path("conf/cassandra.yaml");
    let data = scene.path("data");
    let text = format!(
        "# a comment\ndata_file_directories:\n    - {}\n{settings}",
        data.display()
    );
    fs::write(&configuration, text).unwrap();
    configuration
}

fn doctor_json(scene: &Scene, subject: &std::ffi::OsStr) -> serde_json::Value {
    let mut command = scene.coldstream();
    serde_json::from_str(&doctor_says(
        command.args(["doctor", "--json"]).arg(subject),
    ))
    .unwrap()
}

#[test]
fn doctor_of_a_cassandra_configuration() {
    let scene = Scene::new();
    let configuration = installation(&scene, "4.1.10", "trickle_fsync: true\n");
    let json = doctor_json(&scene, configuration.as_os_str());
    let node = &json["cassandra"][0];
    assert_eq!(node["version"], "4.1.10");
    assert_eq!(node["data_reads"], "mmap");
    let advice = node["advice"].to_string();
    assert!(advice.contains("mmap_index_only"), "{advice}");
    assert!(advice.contains("trickle_fsync"), "{advice}");
    // The data directory is examined too, for reads and for writes.
    let place = &json["paths"][0];
    assert!(place["path"].as_str().unwrap().ends_with("/data"));
    assert!(place["io_mode"].is_string() && place["write_io_mode"].is_string());
    // The former names, for one version.
    assert_eq!(place["treatment"], place["io_mode"]);
    assert_eq!(place["write_treatment"], place["write_io_mode"]);

    let stdout = doctor_says(scene.coldstream().arg("doctor").arg(&configuration));
    for words in [
        "4.1.10",
        "mmap (disk_access_mode: not set)",
        "background writes",
    ] {
        assert!(stdout.contains(words), "{words} is not in {stdout}");
    }
}

#[test]
fn doctor_of_a_cassandra_process() {
    let scene = Scene::new();
    let settings = "compaction_read_disk_access_mode: direct\n\
                    background_write_disk_access_mode: direct\n";
    let configuration = installation(&scene, "6.0-alpha2", settings);
    // A shell that waits, with the command line of a node. Only jemalloc is preloaded, as by
    // Cassandra's start script.
    let allocator = scene.path("libjemalloc.so.2");
    assert!(scene.compile("int malloc_conf;", &allocator, &["-shared", "-fPIC"]));
    let mut node = Command::new("sh")
        .env("LD_PRELOAD", &allocator)
        .args(["-c", "echo ready; read line", "java"])
        .arg(format!(
            "-Dcassandra.config=file://{}",
            configuration.display()
        ))
        .arg("-cp")
        .arg(scene.path("lib/*"))
        .arg("org.apache.cassandra.service.CassandraDaemon")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    first_line(&mut node);
    let json = doctor_json(&scene, node.id().to_string().as_ref());
    node.kill().unwrap();
    node.wait().unwrap();
    let process = &json["processes"][0];
    assert_eq!(process["library"], serde_json::Value::Null);
    let advice = process["advice"].to_string();
    assert!(advice.contains("CASSANDRA_LIBJEMALLOC=/"), "{advice}");
    let cassandra = &process["cassandra"];
    assert_eq!(cassandra["configuration"], configuration.to_str().unwrap());
    assert_eq!(cassandra["version"], "6.0-alpha2");
    assert_eq!(cassandra["data_reads"], "pread");
    assert_eq!(cassandra["own_direct_reads"], true);
    let advice = cassandra["advice"].to_string();
    assert!(advice.contains("use one of the two"), "{advice}");
    assert!(json["paths"][0]["write_io_mode"].is_string());
}

#[test]
fn every_command_explains_itself() {
    let scene = Scene::new();
    let (code, stdout, _) = outcome(scene.coldstream().arg("--help"));
    assert_eq!(code, 0);
    assert!(stdout.contains("Exit codes:"), "{stdout}");
    for command in [
        &[][..],
        &["run"],
        &["doctor"],
        &["ctl"],
        &["ctl", "list"],
        &["ctl", "status"],
        &["ctl", "off"],
        &["ctl", "on"],
        &["ctl", "set"],
        &["lab"],
        &["lab", "rocksdb"],
        &["completions"],
        &["man"],
    ] {
        let (code, stdout, _) = outcome(scene.coldstream().args(command).arg("--help"));
        assert_eq!(code, 0);
        assert!(stdout.contains("Examples:"), "{command:?}: {stdout}");
    }
}

#[test]
fn every_command_has_a_completion_and_a_man_page() {
    let scene = Scene::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, stdout, _) = outcome(scene.coldstream().args(["completions", shell]));
        assert_eq!(code, 0);
        assert!(stdout.contains("doctor"), "{shell}: {stdout}");
    }
    let (code, stdout, _) = outcome(scene.coldstream().arg("man"));
    assert_eq!(code, 0);
    assert!(stdout.contains(".TH coldstream 1"), "{stdout}");
    let (code, _, stderr) = outcome(scene.coldstream().args(["man", "share/man1"]));
    assert_eq!((code, stderr.as_str()), (0, ""));
    for page in [
        "coldstream.1",
        "coldstream-run.1",
        "coldstream-ctl-status.1",
        "coldstream-ctl-trial.1",
        "coldstream-top.1",
        "coldstream-metrics.1",
    ] {
        let text = fs::read_to_string(scene.path("share/man1").join(page)).expect(page);
        for section in [".SH NAME", ".SH OPTIONS", ".SH EXAMPLES"] {
            assert!(text.contains(section), "{page}: {text}");
        }
    }
    assert_error(
        scene.coldstream().args(["man", "/proc/man"]),
        7,
        &["/proc/man", "name another directory"],
    );
}

/// A program that waits, under a limit of open files. `coldstream run` would not start it like this.
fn waiting(scene: &Scene, variables: &[(&str, &str)]) -> Child {
    let mut program = Command::new("sh")
        .args(["-c", "ulimit -n 512; echo ready; read line"])
        .env("LD_PRELOAD", scene.path("libcoldstream.so"))
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    first_line(&mut program);
    program
}

/// What doctor says of a program, as data and as text. The program ends then.
fn doctor_of(scene: &Scene, mut program: Child) -> (serde_json::Value, String) {
    let pid = program.id().to_string();
    let mut json = doctor_json(scene, pid.as_ref());
    let (_, text, _) = outcome(scene.coldstream().args(["doctor", &pid]));
    program.kill().unwrap();
    program.wait().unwrap();
    (json["processes"][0].take(), text)
}

#[test]
fn doctor_knows_a_library_that_was_renamed() {
    let scene = Scene::new();
    let library = scene.path("libcoldstream.so");
    let start = |named: &std::path::Path| {
        let preload = ("LD_PRELOAD", named.to_str().unwrap());
        waiting(&scene, &[preload])
    };
    // Another name, or a link, from the start: nothing is to change.
    let other = scene.path("other.so");
    fs::copy(&library, &other).unwrap();
    let link = scene.path("link.so");
    std::os::unix::fs::symlink(&library, &link).unwrap();
    for (named, mapped) in [(&library, &library), (&other, &other), (&link, &library)] {
        let (process, text) = doctor_of(&scene, start(named));
        assert_eq!(process["library"], mapped.to_str().unwrap());
        assert_eq!(process["library_is_replaced"], false, "{text}");
        assert!(!text.contains("is not loaded"), "{text}");
    }
    for (old, then) in [
        ("libcoldstream.so.old", "new"),
        ("libcoldstream.so.1", "none"),
    ] {
        let program = start(&library);
        let old = scene.path(old);
        fs::rename(&library, &old).unwrap();
        if then == "new" {
            fs::copy(&old, &library).unwrap();
        }
        let (process, text) = doctor_of(&scene, program);
        assert_eq!(process["library"], old.to_str().unwrap());
        assert_eq!(process["library_is_replaced"], true);
        let words = match then {
            "new" => "replaced after the start. Restart the process to use the new one",
            _ => "which LD_PRELOAD names. Install the library before the next restart",
        };
        assert!(text.contains(words), "{words} is not in {text}");
    }
}

/// RocksDB, or LevelDB in an old database: the names are the same, and the footer tells.
#[test]
fn doctor_names_options_of_the_engine_whose_sstables_are_mapped() {
    const PROGRAM: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
int main(int argc, char **argv) {
  if (mmap(NULL, 1, PROT_READ, MAP_SHARED, open(argv[argc - 1], O_RDONLY), 0) == MAP_FAILED) return 1;
  puts("ready");
  fflush(stdout);
  return getchar() == 0;
}
"#;
    let scene = Scene::new();
    let program = scene.path("database");
    assert!(scene.compile(PROGRAM, &program, &[]));
    let block_based = [
        &[0; 41][..],
        &5_u32.to_le_bytes(),
        &0x88e2_41b7_85f4_cff7_u64.to_le_bytes(),
    ];
    let legacy = [&[0; 40][..], &0xdb47_7524_8b80_fb57_u64.to_le_bytes()];
    for (footer, own, others) in [
        (
            block_based.concat(),
            "allow_mmap_reads",
            ["disk_access_mode", "--readahead"],
        ),
        (
            legacy.concat(),
            "--readahead",
            ["disk_access_mode", "allow_mmap_reads"],
        ),
        (
            vec![0; 64],
            "if it can",
            ["disk_access_mode", "allow_mmap_reads"],
        ),
    ] {
        let sstable = scene.path("000005.sst");
        fs::write(&sstable, footer).unwrap();
        let mut program = Command::new(&program)
            .arg(&sstable)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        assert_eq!(first_line(&mut program), "ready\n");
        let (_, text) = doctor_of(&scene, program);
        assert!(text.contains(own), "{own} is not in {text}");
        for other in others {
            assert!(!text.contains(other), "{other} is in {text}");
        }
    }
}

/// `$ORIGIN` is the directory of the program, and `$LIB` that of the system's libraries (ld.so(8)).
#[test]
fn doctor_reads_what_the_loader_fills_in() {
    let scene = Scene::new();
    let library = scene.path("libcoldstream.so");
    let program = scene.path("program");
    assert!(scene.compile(
        "int main(void) { return getchar(); }",
        &program,
        &["-w", "-include", "stdio.h"]
    ));
    for (entry, is_renamed) in [
        ("$ORIGIN/libcoldstream.so", false),
        ("${ORIGIN}/libcoldstream.so", false),
        ("${ORIGIN}/libcoldstream.so", true),
    ] {
        let program = Command::new(&program)
            .env("LD_PRELOAD", entry)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let maps = format!("/proc/{}/maps", program.id());
        while !fs::read_to_string(&maps)
            .unwrap()
            .contains("libcoldstream.so")
        {
            std::thread::yield_now();
        }
        if is_renamed {
            fs::rename(&library, scene.path("libcoldstream.so.old")).unwrap();
        }
        let (process, text) = doctor_of(&scene, program);
        assert_eq!(process["library_is_replaced"], is_renamed, "{text}");
        let place = format!(
            "no file is at {}, which LD_PRELOAD names",
            library.display()
        );
        assert_eq!(text.contains(&place), is_renamed, "{text}");
    }
}

#[test]
fn doctor_knows_a_library_that_was_deleted() {
    let scene = Scene::new();
    let library = scene.path("libcoldstream.so");
    // The real one: it makes a status page, as a library that is linked does.
    let kept = coldstream_testkit::library::path();
    scene.file("000001.sst", "", 0o644);
    let sstable = scene.path("000001.sst");
    // The last name has nothing of the library's.
    for name in ["libcoldstream.so", "libcoldstream.so.old", "before.so"] {
        fs::copy(kept, &library).unwrap();
        let mut program = Command::new("sh")
            .arg("-c")
            .arg("exec 3<\"$1\"; echo ready; read line")
            .arg("sh")
            .arg(&sstable)
            .env("LD_PRELOAD", &library)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        first_line(&mut program);
        let deleted = scene.path(name);
        fs::rename(&library, &deleted).unwrap();
        fs::remove_file(&deleted).unwrap();
        let pid = program.id().to_string();
        let (_, text, _) = outcome(scene.coldstream().args(["doctor", &pid]));
        assert!(text.contains("see `coldstream ctl status"), "{text}");
        let words = format!(
            "{} was deleted, and LD_PRELOAD names no file. Install the library before the next restart",
            deleted.display()
        );
        assert!(text.contains(&words), "{words} is not in {text}");
        fs::copy(kept, &library).unwrap();
        let (process, text) = doctor_of(&scene, program);
        assert_eq!(process["library"], deleted.to_str().unwrap(), "{text}");
        assert_eq!(process["library_is_replaced"], true, "{text}");
        let words = "was replaced after the process started";
        assert!(text.contains(words), "{words} is not in {text}");
    }
}

#[test]
fn doctor_tells_of_attaching_where_that_can_work() {
    let scene = Scene::new();
    scene.file("000001.sst", "", 0o644);
    for (script, can_attach) in [("", false), ("exec 3<000001.sst;", true)] {
        let mut program = Command::new("sh")
            .args(["-c", &format!("{script} echo ready; read line")])
            .current_dir(scene.path("."))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        first_line(&mut program);
        let words = format!(
            "Or, without a restart: `sudo coldstream attach {}`",
            program.id()
        );
        let (_, text) = doctor_of(&scene, program);
        assert!(text.contains("the library is not loaded"), "{text}");
        assert_eq!(text.contains(&words), can_attach, "{text}");
    }
    let process = Process::new(0);
    process.attach();
    let text = doctor_says(scene.coldstream().args(["doctor", &process.pid()]));
    let note = "note: `coldstream attach` works for it from outside: no pacing";
    assert!(text.contains(note), "{text}");
    assert!(!text.contains("change: "), "{text}");
    assert!(text.ends_with("nothing to change\n"), "{text}");
}

/// `coldstream attach` opens SSTables itself: its limit counts, and not that of the process that it follows.
#[test]
fn doctor_names_the_limit_of_the_attaching_process() {
    let scene = Scene::new();
    let process = Process::new(0);
    process.attach();
    let few = rustix::process::Rlimit {
        current: Some(300),
        maximum: Some(300),
    };
    let followed = rustix::process::Pid::from_child(&process.child);
    let nofile = rustix::process::Resource::Nofile;
    rustix::process::prlimit(Some(followed), nofile, few).unwrap();
    let own = rustix::process::getrlimit(nofile).current.unwrap();
    process.add(Counter::FallbackDescriptorLimit, 2);
    let text = doctor_says(scene.coldstream().args(["doctor", &process.pid()]));
    let words = format!(
        "`coldstream attach`, process {}, may open {own} files, and lacked one 2 times",
        std::process::id()
    );
    assert!(text.contains(&words), "{words} is not in {text}");
    assert!(!text.contains("of the 300 files"), "{text}");
}

#[test]
fn doctor_says_that_the_environment_switches_off_however_it_was_started() {
    let scene = Scene::new();
    let mut run = scene.coldstream();
    let mut by_run = run
        .env("COLDSTREAM", "off")
        .args(["run", "--", "sh", "-c", "echo ready; read line"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    first_line(&mut by_run);
    for program in [by_run, waiting(&scene, &[("COLDSTREAM", "off")])] {
        let (process, text) = doctor_of(&scene, program);
        assert_eq!(process["switched_off"], true);
        let words =
            "change: the library does nothing: COLDSTREAM=off in its environment switches it off";
        assert!(text.contains(words), "{text}");
        assert!(!text.contains("is not loaded"), "{text}");
    }
}

#[test]
fn doctor_says_why_the_library_does_nothing() {
    let scene = Scene::new();
    let wrong = scene.file("wrong.toml", "reads = \"fast\"\n", 0o644);
    let waits = "status               none yet: no SSTable was opened";
    for (name, value, words) in [
        (
            "COLDSTREAM_WRITE",
            "buffered",
            "not a variable of Coldstream; did you mean COLDSTREAM_WRITES?",
        ),
        ("COLDSTREAM_WRITES", "fast", "refuses its settings"),
        (
            "COLDSTREAM_CONFIG",
            wrong.to_str().unwrap(),
            "refuses its settings",
        ),
        ("COLDSTREAM", "off", "COLDSTREAM=off in its environment"),
    ] {
        let mut program = waiting(&scene, &[(name, value)]);
        let pid = program.id().to_string();
        let json = doctor_json(&scene, pid.as_ref());
        let (_, text, _) = outcome(scene.coldstream().args(["doctor", &pid]));
        program.kill().unwrap();
        program.wait().unwrap();
        // An unknown variable changes nothing.
        assert_eq!(text.contains(waits), name == "COLDSTREAM_WRITE", "{text}");
        let process = &json["processes"][0];
        assert_eq!(process["descriptor_limit"], 512);
        let advice = process["advice"].to_string();
        assert!(advice.contains(words), "{name}: {words} is not in {advice}");
        assert!(!advice.contains("files"), "nothing needs more: {advice}");
    }
}

#[test]
fn doctor_names_a_log_that_cannot_be_written() {
    let scene = Scene::new();
    let log = scene.path("log");
    let log = log.to_str().unwrap();
    for (log, is_lost) in [("/no/such/log", true), (log, false), ("stderr", false)] {
        let mut program = waiting(&scene, &[("COLDSTREAM_LOG", log)]);
        let json = doctor_json(&scene, program.id().to_string().as_ref());
        program.kill().unwrap();
        program.wait().unwrap();
        let advice = json["processes"][0]["advice"].to_string();
        let words = "cannot write the log /no/such/log: there is no directory /no.";
        assert_eq!(advice.contains(words), is_lost, "{log}: {advice}");
        assert_eq!(advice.contains("cannot write"), is_lost, "{log}: {advice}");
    }
}

#[test]
fn doctor_names_unknown_threads_that_look_like_background_work() {
    let scene = Scene::new();
    let script = "import ctypes, sys; ctypes.CDLL(None).prctl(15, b'CompactionPool1', 0, 0, 0); \
                  print('ready', flush=True); sys.stdin.readline()";
    let program = Command::new("python3")
        .args(["-c", script])
        .env("LD_PRELOAD", scene.path("libcoldstream.so"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut program) = program else {
        return skip("python3 is not installed");
    };
    first_line(&mut program);
    let json = doctor_json(&scene, program.id().to_string().as_ref());
    program.kill().unwrap();
    program.wait().unwrap();
    let process = &json["processes"][0];
    assert_eq!(process["unknown_threads"][0], "CompactionPool1");
    let advice = process["advice"].to_string();
    assert!(advice.contains("CompactionPool1"), "{advice}");
}

#[test]
fn doctor_names_a_profile_that_does_not_know_the_threads() {
    const PROGRAM: &str = r#"
#include <stdio.h>
#include <sys/prctl.h>
int main(void) {
  prctl(PR_SET_NAME, "rocksdb:low0");
  puts("ready");
  fflush(stdout);
  return getchar() == 0;
}
"#;
    let scene = Scene::new();
    let program = scene.path("database");
    assert!(scene.compile(PROGRAM, &program, &[]));
    for (profile, is_wrong) in [("leveldb", true), ("rocksdb", false), ("auto", false)] {
        let mut program = Command::new(&program)
            .env("LD_PRELOAD", scene.path("libcoldstream.so"))
            .env("COLDSTREAM_PROFILE", profile)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        first_line(&mut program);
        let json = doctor_json(&scene, program.id().to_string().as_ref());
        drop(program.stdin.take());
        program.wait().unwrap();
        let process = &json["processes"][0];
        assert_eq!(process["profile"], profile);
        let advice = process["advice"].to_string();
        let is_named = advice.contains("set COLDSTREAM_PROFILE=rocksdb");
        assert_eq!(is_named, is_wrong, "{profile}: {advice}");
    }
}

#[test]
fn a_process_in_a_container_is_asked_there() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root makes a namespace of process ids");
    }
    let scene = Scene::new();
    // `unshare` stays the parent of the first process in the namespace.
    let mut container = Command::new("unshare")
        .args(["--pid", "--fork", "sh", "-c", "echo ready; read line"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let ready = first_line(&mut container);
    if ready.is_empty() {
        container.wait().unwrap();
        return skip("no namespaces of process ids here");
    }
    let parent = container.id().to_string();
    let (_, found, _) = outcome(Command::new("pgrep").args(["-P", &parent]));
    let inside = found.trim();
    let words = [
        "is in a container",
        "`coldstream ctl status 1`",
        "as user root",
    ];
    assert_error(
        scene.coldstream().args(["ctl", "status", inside]),
        7,
        &words,
    );
    drop(container.stdin.take());
    container.wait().unwrap();
}
