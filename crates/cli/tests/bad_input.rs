//! Bad input: each case has one clear error line and its own exit code.

mod common;

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use coldstream_testkit::skip;
use common::{Scene, assert_error, doctor_says, is_root, make_pipe, outcome, set_mode};

const PROGRAM: &str = "int main(void) { return 0; }";

#[test]
fn a_static_binary() {
    let scene = Scene::new();
    let program = scene.path("static");
    if !scene.compile(PROGRAM, &program, &["-static"]) {
        skip("no static C library");
        return;
    }
    let words = ["static", "statically linked", "dynamically linked build"];
    assert_error(
        scene.coldstream().arg("run").arg("--").arg(&program),
        4,
        &words,
    );
}

/// The loader's name tells.
#[test]
fn a_binary_for_musl() {
    let scene = Scene::new();
    let program = scene.path("program");
    let loader = "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1";
    assert!(scene.compile(PROGRAM, &program, &[loader]));
    assert_error(
        scene.coldstream().arg("run").arg("--").arg(&program),
        4,
        &["built for musl", "glibc build"],
    );
}

#[test]
fn setuid_and_setgid_binaries() {
    let scene = Scene::new();
    let program = scene.path("privileged");
    assert!(scene.compile(PROGRAM, &program, &[]));
    for (mode, word) in [(0o4755, "setuid"), (0o2755, "setgid")] {
        set_mode(&program, mode);
        assert_error(
            scene.coldstream().arg("run").arg(&program),
            4,
            &[word, "chmod"],
        );
    }
}

#[test]
fn a_binary_with_file_capabilities() {
    let scene = Scene::new();
    let program = scene.path("capable");
    assert!(scene.compile(PROGRAM, &program, &[]));
    let set = Command::new("setcap")
        .arg("cap_net_bind_service+ep")
        .arg(&program)
        .output();
    if !set.is_ok_and(|set| set.status.success()) {
        skip("setcap is missing or not permitted");
        return;
    }
    let words = ["file capabilities", "setcap -r"];
    assert_error(scene.coldstream().arg("run").arg(&program), 4, &words);
}

#[test]
fn programs_that_are_no_programs_of_this_machine() {
    let scene = Scene::new();
    let text = scene.file(
        "text",
        "no program at all, but long enough to hold an ELF header\n",
        0o755,
    );
    assert_error(
        scene.coldstream().arg("run").arg(&text),
        4,
        &["neither an ELF program nor"],
    );

    let program = scene.path("foreign");
    assert!(scene.compile(PROGRAM, &program, &[]));
    let mut bytes = fs::read(&program).unwrap();
    bytes[18..20].copy_from_slice(&243_u16.to_le_bytes());
    fs::write(&program, bytes).unwrap();
    let words = ["another architecture", "243"];
    assert_error(scene.coldstream().arg("run").arg(&program), 4, &words);
}

#[test]
fn a_missing_command() {
    let scene = Scene::new();
    let mut by_name = scene.coldstream();
    assert_error(
        by_name.args(["run", "--", "no-such-command"]),
        127,
        &["not found", "PATH"],
    );
    let mut by_path = scene.coldstream();
    assert_error(
        by_path.args(["run", "--", "./missing"]),
        127,
        &["./missing", "no such file"],
    );
    let script = scene.file("script", "#!/no/such/interpreter\n", 0o755);
    let words = ["interpreter of", "/no/such/interpreter"];
    assert_error(scene.coldstream().arg("run").arg(script), 127, &words);
}

#[test]
fn a_command_that_cannot_be_executed() {
    let scene = Scene::new();
    let file = scene.file("plain", PROGRAM, 0o644);
    assert_error(scene.coldstream().arg("run").arg(file), 126, &["chmod +x"]);
    assert_error(
        scene.coldstream().args(["run", "/"]),
        126,
        &["not a regular file"],
    );
}

#[test]
fn a_wrong_option() {
    let scene = Scene::new();
    for arguments in [
        &["run", "--fast", "true"][..],
        &["run", "--reads", "fast", "true"],
        &["run"],
        &["doctor", "--fast"],
        &["ctl", "twelve"],
        &["ctl", "1", "explode"],
        &["nonsense"],
        &[],
    ] {
        let (code, stdout, stderr) = outcome(scene.coldstream().args(arguments));
        assert_eq!((code, stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(
            stderr.contains("Usage") || stderr.contains("--help"),
            "{stderr}"
        );
    }
}

#[test]
fn what_is_no_number_is_told_what_to_be() {
    let scene = Scene::new();
    for (arguments, words) in [
        (&["ctl", "status", "foo"][..], "use a process id"),
        (&["ctl", "off", "0"], "use a process id"),
        (&["ctl", "off", "+7"], "use a process id"),
        (&["doctor", "0"], "use a process id"),
        // As `"$(pgrep NAME)"` where that finds nothing, or two.
        (
            &["ctl", "off", ""],
            "no process id: did pgrep find nothing?",
        ),
        (
            &["ctl", "", "off"],
            "no process id: did pgrep find nothing?",
        ),
        (&["attach", ""], "no process id: did pgrep find nothing?"),
        (&["doctor", ""], "no process id: did pgrep find nothing?"),
        (
            &["top", "4194304\n4194303"],
            "2 process ids are given: name one",
        ),
        (
            &["ctl", "status", "4194304 4194303"],
            "2 process ids are given: name one",
        ),
        (
            &["top", "--record", "file", "--seconds", "5s"],
            "use a number of seconds",
        ),
        (
            &["ctl", "trial", "1", "--turns", "3"],
            "use 4, 8, 12 and so on",
        ),
        (
            &["lab", "rocksdb", "--warm-up-seconds", "5s"],
            "use a whole number from 0 to 4294967295",
        ),
        (
            &["lab", "cassandra", "--heap-mib", "1.5"],
            "use a whole number from 1 to 4294967295",
        ),
        (
            &["lab", "pebble", "--runs", "many"],
            "use a whole number from 1 to 100",
        ),
        (
            &["lab", "leveldb", "--smallest-limit-for-p99-us", "1ms"],
            "use a number from 1 to 60000000",
        ),
    ] {
        let (code, stdout, stderr) = outcome(scene.coldstream().args(arguments));
        assert_eq!((code, stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(stderr.contains(words), "{arguments:?}: {stderr}");
    }
}

#[test]
fn one_argument_may_hold_several_processes() {
    let scene = Scene::new();
    for command in [&["ctl", "off"][..], &["doctor"]] {
        let (code, stdout, stderr) =
            outcome(scene.coldstream().args(command).arg("4194304\n4194303"));
        assert_eq!((code, stdout.as_str()), (7, ""), "{stderr}");
        for pid in ["4194304", "4194303"] {
            let words = format!("there is no process {pid}");
            assert!(stderr.contains(&words), "{command:?}: {stderr}");
        }
    }
}

#[test]
fn a_wrong_value_names_the_option() {
    let scene = Scene::new();
    for option in ["--memory", "--log", "--nice"] {
        // A script with an unset variable passes an empty value.
        let mut command = scene.coldstream();
        command.env("COLDSTREAM_MEMORY_BYTES", "32MiB");
        let words = [option, "empty", "leave it out"];
        assert_error(command.args(["run", option, "", "true"]), 2, &words);
    }
    for (option, value) in [
        ("--window", "3MiB"),
        ("--windows-in-flight", "9"),
        ("--avoid", "foo"),
        ("--memory", "1"),
        ("--nice", "20"),
        ("--io-priority", "compaction:8"),
    ] {
        let mut command = scene.coldstream();
        assert_error(
            command.args(["run", option, value, "true"]),
            2,
            &[option, value, "use "],
        );
    }
}

#[test]
fn a_wrong_configuration_file() {
    let scene = Scene::new();
    let run = |content: &str, words: &[&str]| {
        let file = scene.file("config.toml", content, 0o644);
        let mut by_option = scene.coldstream();
        assert_error(
            by_option.arg("run").arg("--config").arg(&file).arg("true"),
            3,
            words,
        );
        let mut by_variable = scene.coldstream();
        assert_error(
            by_variable
                .env("COLDSTREAM_CONFIG", &file)
                .args(["run", "true"]),
            3,
            words,
        );
    };
    run(
        "profile = \"auto\"\ncolour = 3\n",
        &["config.toml", "line 2", "unknown key"],
    );
    run(
        "[reads]\nwindow = 3\n",
        &["config.toml", "line 2", "window_bytes"],
    );
    run(
        "profile = \"mysql\"\n",
        &["config.toml", "profile", "cassandra"],
    );
    run("profile = = 3\n", &["config.toml"]);
    make_pipe(&scene.path("pipe"));
    let mut waits = scene.coldstream();
    waits.args(["run", "--config", "pipe", "true"]);
    assert_error(&mut waits, 3, &["pipe", "not a regular file"]);
    let mut missing = scene.coldstream();
    let words = ["missing.toml", "No such file"];
    assert_error(
        missing.args(["run", "--config", "missing.toml", "true"]),
        3,
        &words,
    );
}

#[test]
fn a_wrong_variable() {
    let scene = Scene::new();
    let mut command = scene.coldstream();
    let words = ["environment", "COLDSTREAM_READS", "fast"];
    assert_error(
        command
            .env("COLDSTREAM_READS", "fast")
            .args(["run", "true"]),
        3,
        &words,
    );
}

#[test]
fn a_missing_or_wrong_library() {
    let scene = Scene::new();
    let mut missing = scene.coldstream();
    let words = ["/no/such.so", "make build", "reinstall the package"];
    assert_error(
        missing.args(["run", "--library", "/no/such.so", "true"]),
        7,
        &words,
    );
    let text = scene.file("text.so", "not a library\n", 0o755);
    let mut wrong = scene.coldstream();
    assert_error(
        wrong.arg("run").arg("--library").arg(text).arg("true"),
        1,
        &["not a shared library"],
    );
    fs::create_dir(scene.path("a b")).unwrap();
    let spaced = scene.path("a b/libcoldstream.so");
    fs::copy(scene.path("libcoldstream.so"), &spaced).unwrap();
    let mut split = scene.coldstream();
    assert_error(
        split.arg("run").arg("--library").arg(spaced).arg("true"),
        1,
        &["' '", "link"],
    );
}

#[test]
fn another_library_is_not_preloaded() {
    let scene = Scene::new();
    let interface = "int coldstream_create(void) { return 0; }";
    // Who asks for the symbol has not got it: as the C interface does.
    let asking =
        "int coldstream_preloaded(void); int other(void) { return coldstream_preloaded(); }";
    for (source, word) in [
        (interface, "the C interface"),
        (asking, "another library"),
        ("", "another library"),
    ] {
        let library = scene.path("libcoldstream_io.so.1");
        assert!(scene.compile(source, &library, &["-shared", "-fPIC"]));
        let mut command = scene.coldstream();
        let words = ["libcoldstream_io.so.1", word, "name libcoldstream.so"];
        command.arg("run").arg("--library").arg(&library);
        assert_error(command.arg("true"), 1, &words);
        let mut copy = scene.coldstream();
        copy.arg("copy").arg("--library").arg(&library);
        assert_error(copy.arg("volume"), 1, &words);
        let mut doctor = scene.coldstream();
        doctor.env("COLDSTREAM_LIBRARY", &library).arg("doctor");
        let report = doctor_says(&mut doctor);
        assert!(report.contains(word), "{report}");
    }
    // The real one is taken.
    let mut command = scene.coldstream();
    command.env("COLDSTREAM_LIBRARY", coldstream_testkit::library::path());
    let (code, _, stderr) = outcome(command.args(["run", "true"]));
    assert_eq!(code, 0, "{stderr}");
}

#[test]
fn doctor_names_the_c_interface_that_is_preloaded() {
    let scene = Scene::new();
    let library = scene.path("libcoldstream_io.so.1");
    let interface = "int coldstream_create(void) { return 0; }";
    assert!(scene.compile(interface, &library, &["-shared", "-fPIC"]));
    let mut program = Command::new("sleep");
    program.arg("60").env("LD_PRELOAD", &library);
    let mut program = program.spawn().unwrap();
    let report = outcome(
        scene
            .coldstream()
            .args(["doctor", &program.id().to_string()]),
    );
    let _ = program.kill();
    let _ = program.wait();
    let words = "which is the C interface";
    assert!(report.1.contains(words), "{report:?}");
}

#[test]
fn a_library_that_this_user_may_not_read_is_not_called_missing() {
    if !is_root() {
        return skip("needs root, to become another user");
    }
    let scene = Scene::new();
    let coldstream = scene.copy_of_coldstream();
    fs::create_dir(scene.path("closed")).unwrap();
    for (library, closed) in [
        ("closed/libcoldstream.so", "closed"),
        ("libcoldstream.so", "libcoldstream.so"),
    ] {
        let path = scene.path(library);
        if library != closed {
            fs::copy(scene.path("libcoldstream.so"), &path).unwrap();
        }
        set_mode(&scene.path(closed), 0o700);
        let as_user = || {
            let mut command = Command::new(&coldstream);
            command.uid(65534).env("COLDSTREAM_LIBRARY", &path);
            command
        };
        let words = [library, "Permission denied", "--library"];
        assert_error(as_user().args(["run", "true"]), 5, &words);
        let (_, stdout, _) = outcome(as_user().arg("doctor").arg(&coldstream));
        assert!(stdout.contains("cannot read the library at"), "{stdout}");
    }
}

#[test]
fn a_full_disk() {
    let scene = Scene::new();
    let mut log = scene.coldstream();
    let words = ["/dev/full", "No space left", "--log"];
    assert_error(log.args(["run", "--log", "/dev/full", "true"]), 6, &words);

    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = scene
        .coldstream()
        .args(["doctor", "--json", "."])
        .stdout(full)
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(6), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

/// `coldstream` in its own mount namespace, so that nothing that the script mounts stays mounted.
fn in_own_mounts(scene: &Scene, script: &str, arguments: &[&str]) -> Command {
    let mut command = scene.coldstream();
    let program = command.get_program().to_owned();
    let mut shell = Command::new("unshare");
    shell
        .args(["-m", "sh", "-c", script, "sh"])
        .arg(program)
        .args(arguments);
    shell.envs(
        command
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    shell.current_dir(
        command
            .current_dir(scene.path(""))
            .get_current_dir()
            .unwrap(),
    );
    shell
}

#[test]
fn a_full_filesystem() {
    if !is_root() {
        skip("needs root to mount a small tmpfs");
        return;
    }
    let scene = Scene::new();
    fs::create_dir(scene.path("small")).unwrap();
    let script = "mount -t tmpfs -o size=64k coldstream-test small || exit 99
        dd if=/dev/zero of=small/fill bs=4k 2>/dev/null
        \"$@\"";
    let in_small = |arguments: &[&str]| in_own_mounts(&scene, script, arguments);
    let mut probe = in_small(&["--version"]);
    if outcome(&mut probe).0 != 0 {
        skip("no mount namespaces here");
        return;
    }
    let words = ["small/log", "No space left"];
    assert_error(
        &mut in_small(&["run", "--log", "small/log", "true"]),
        6,
        &words,
    );
    assert_error(
        &mut in_small(&["doctor", "small"]),
        6,
        &["small", "free some space"],
    );
}

#[test]
fn a_log_in_a_missing_directory() {
    let scene = Scene::new();
    let mut command = scene.coldstream();
    let words = ["no/log", "create the directory"];
    assert_error(command.args(["run", "--log", "no/log", "true"]), 7, &words);
}

/// `coldstream` as a user without files; none if this process cannot become one.
fn as_nobody(scene: &Scene) -> Option<Command> {
    let copy = scene.copy_of_coldstream();
    if !is_root() {
        return Some(Command::new(copy));
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
    command.arg(copy);
    let can = Command::new("setpriv")
        .args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--",
            "true",
        ])
        .output()
        .is_ok_and(|output| output.status.success());
    can.then_some(command)
}

#[test]
fn a_path_without_permission() {
    let scene = Scene::new();
    let closed = scene.path("closed");
    fs::create_dir(&closed).unwrap();
    set_mode(&closed, 0o000);
    let Some(mut command) = as_nobody(&scene) else {
        skip("cannot become another user");
        return;
    };
    let words = ["closed", "Permission denied", "run this as"];
    assert_error(command.arg("doctor").arg(&closed), 5, &words);
    let mut run = as_nobody(&scene).unwrap();
    run.args(["run", "--log"])
        .arg(closed.join("log"))
        .arg("true");
    run.env("COLDSTREAM_LIBRARY", scene.path("libcoldstream.so"));
    assert_error(&mut run, 5, &["closed/log", "Permission denied", "--log"]);
    set_mode(&closed, 0o755);
}

#[test]
fn a_directory_without_room_for_a_temporary_file() {
    let scene = Scene::new();
    let mut of_processes = scene.coldstream();
    let words = [
        "/proc by a temporary file",
        "name a directory that can hold",
    ];
    assert_error(of_processes.args(["doctor", "/proc"]), 1, &words);

    let readable = scene.path("readable");
    fs::create_dir(&readable).unwrap();
    set_mode(&readable, 0o555);
    match as_nobody(&scene) {
        Some(mut command) => {
            let words = [
                "readable by a temporary file",
                "Permission denied",
                "who may write there",
            ];
            assert_error(command.arg("doctor").arg(&readable), 5, &words);
        }
        None => skip("cannot become another user"),
    }

    let script = "mount -t tmpfs -o ro coldstream-test readable || exit 99; \"$@\"";
    if outcome(&mut in_own_mounts(&scene, script, &["--version"])).0 != 0 {
        skip("no mount namespaces here");
        return;
    }
    let words = [
        "readable by a temporary file",
        "Read-only file system",
        "which is only read",
    ];
    let mut read_only = in_own_mounts(&scene, script, &["doctor", "readable"]);
    let (_, _, said) = outcome(&mut read_only);
    assert!(!said.contains("as a user"), "{said}");
    assert_error(&mut read_only, 5, &words);
}

#[test]
fn a_process_with_a_capability_that_this_root_lacks() {
    let scene = Scene::new();
    let coldstream = scene.copy_of_coldstream();
    let without_capabilities = |program: &std::path::Path| {
        let mut command = Command::new("setpriv");
        command.arg("--bounding-set=-all").arg(program);
        command
    };
    if !is_root() || outcome(without_capabilities(&coldstream).arg("--version")).0 != 0 {
        skip("cannot give up the capabilities of root");
        return;
    }
    let mut sleep = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = sleep.id().to_string();
    let mut command = without_capabilities(&coldstream);
    let (code, _, said) = outcome(command.args(["doctor", &pid]));
    sleep.kill().unwrap();
    sleep.wait().unwrap();
    assert_eq!(code, 5, "{said}");
    for words in ["capability that this root lacks", "from the host"] {
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn a_process_of_another_user() {
    let scene = Scene::new();
    // Process 1 belongs to root, except in a user namespace.
    if coldstream_host::process::user(1).is_some_and(|user| user != 0) {
        skip("process 1 is not root's");
        return;
    }
    // Root can look into it, but has no status page of another user's.
    for (arguments, advice) in [
        (&["ctl", "1", "status"][..], "sudo -u"),
        (
            &["doctor", "1"],
            "run `coldstream doctor 1` as root, or as that user",
        ),
    ] {
        let Some(mut command) = as_nobody(&scene) else {
            skip("cannot become another user");
            return;
        };
        assert_error(
            command.args(arguments),
            5,
            &["process 1 belongs to user root", advice],
        );
    }
}

#[test]
fn an_empty_list_names_the_command_that_sees_containers() {
    let scene = Scene::new();
    let Some(mut command) = as_nobody(&scene) else {
        return skip("cannot become another user");
    };
    let (code, stdout, stderr) = outcome(command.args(["ctl", "list"]));
    assert_eq!(code, 0);
    if !is_root() && !stdout.is_empty() {
        return skip("this user has processes under Coldstream");
    }
    assert_eq!(stdout, "");
    let words = "`coldstream top` shows those in containers, too";
    assert!(stderr.contains(words), "{stderr}");
}

#[test]
fn a_pipe_is_no_data_directory() {
    let scene = Scene::new();
    let pipe = scene.path("pipe");
    make_pipe(&pipe);
    let mut command = scene.coldstream();
    assert_error(
        command.arg("doctor").arg(&pipe),
        1,
        &["pipe", "neither a directory"],
    );
}

#[test]
fn paths_and_processes_that_are_not_there() {
    let scene = Scene::new();
    for (arguments, words) in [
        (&["doctor", "/no/such/path"][..], &["/no/such/path"][..]),
        (&["doctor", "4194304"], &["no process 4194304"]),
        (&["ctl", "4194304", "status"], &["no process 4194304"]),
        (&["ctl", "1", "status"], &["process 1"]),
    ] {
        if arguments == ["ctl", "1", "status"] && !is_root() {
            continue;
        }
        assert_error(scene.coldstream().args(arguments), 7, words);
    }
}

#[test]
fn a_laboratory_without_what_it_needs() {
    let scene = Scene::new();
    let mut unknown = scene.coldstream();
    unknown.args(["lab", "cassandra", "--modes", "5.0/direct-reads"]);
    let (code, _, said) = outcome(&mut unknown);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("6.0-alpha2 has"), "{said}");
    for option in ["--keys", "--value-bytes", "--reads-per-second", "--readers"] {
        let mut nothing = scene.coldstream();
        let (code, _, said) = outcome(nothing.args(["lab", "rocksdb", option, "0"]));
        assert_eq!(code, 2, "{option}: {said}");
        assert!(said.contains(option), "{said}");
    }
    if !std::path::Path::new("/usr/lib/jvm").exists() {
        skip("without Java, Maven is not missed");
        return;
    }
    let mut without_maven = scene.coldstream();
    without_maven
        .args(["lab", "cassandra", "--modes", "5.0/stock"])
        .arg("--releases")
        .arg(scene.path("releases"))
        .arg("--work-dir")
        .arg(scene.path("work"))
        .env("PATH", "/nowhere");
    let (code, _, said) = outcome(&mut without_maven);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("apt-get install"), "{said}");
    assert!(!scene.path("work").exists(), "{said}");
}
