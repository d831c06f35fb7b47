//! `coldstream run` becomes the program. It changes the environment and nothing else.

mod common;

use std::fs;
use std::process::Command;

use common::{Scene, outcome};

#[test]
fn the_exit_code_is_the_programs_own() {
    let scene = Scene::new();
    let mut command = scene.coldstream();
    let (code, stdout, stderr) =
        outcome(command.args(["run", "--", "sh", "-c", "echo out; exit 42"]));
    assert_eq!((code, stdout.as_str()), (42, "out\n"));
    assert_eq!(
        stderr,
        "coldstream: the program starts with the library. event=start profile=auto reads=auto \
         writes=auto window=1MiB in_flight=1 memory_max=64MiB\n"
    );
}

#[test]
fn a_small_limit_of_open_files_is_warned_of() {
    let scene = Scene::new();
    for (limit, is_warned_of) in [(512, true), (1024, false)] {
        let mut shell = Command::new("sh");
        shell
            .args([
                "-c",
                &format!("ulimit -n {limit}; exec \"$0\" run -- echo out"),
            ])
            .arg(env!("CARGO_BIN_EXE_coldstream"))
            .env("COLDSTREAM_LIBRARY", scene.path("libcoldstream.so"));
        let (code, stdout, stderr) = outcome(&mut shell);
        assert_eq!((code, stdout.as_str()), (0, "out\n"), "{stderr}");
        let words = "the program may open 512 files only. Coldstream takes 64 of them at most.";
        assert_eq!(stderr.contains(words), is_warned_of, "{stderr}");
    }
    // Java raises the soft limit.
    let java = scene.file("java", "#!/bin/sh\necho out\n", 0o755);
    for (program, is_warned_of) in [("echo", true), (java.to_str().unwrap(), false)] {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "ulimit -S -n 512; exec \"$0\" run -- \"$1\" out"])
            .args([env!("CARGO_BIN_EXE_coldstream"), program])
            .env("COLDSTREAM_LIBRARY", scene.path("libcoldstream.so"));
        let (code, stdout, stderr) = outcome(&mut shell);
        assert_eq!((code, stdout.as_str()), (0, "out\n"), "{stderr}");
        let words = "512 files only, unless it raises that itself, as the JVM does.";
        assert_eq!(stderr.contains(words), is_warned_of, "{stderr}");
        assert_eq!(
            stderr.contains("descriptor_limit"),
            is_warned_of,
            "{stderr}"
        );
    }
}

#[test]
fn a_signal_ends_the_program_itself() {
    use std::os::unix::process::ExitStatusExt;
    let scene = Scene::new();
    let mut command = scene.coldstream();
    let output = command
        .args(["run", "sh", "-c", "kill -TERM $$"])
        .output()
        .unwrap();
    assert_eq!(output.status.signal(), Some(15));
}

#[test]
fn settings_reach_the_program_and_the_file_does_not() {
    let scene = Scene::new();
    let text = "profile = \"cassandra\"\nlog = \"none\"\n[reads]\ntreatment = \"window\"\n";
    let file = scene.file("config.toml", text, 0o644);
    let mut command = scene.coldstream();
    command
        .env("COLDSTREAM_CONFIG", file)
        .env("COLDSTREAM_READS", "dontcache");
    let options = [
        "--memory",
        "32MiB",
        "--eviction",
        "on",
        "--eviction-margin",
        "5%",
    ];
    let (code, stdout, stderr) = outcome(command.arg("run").args(options).arg("env"));
    assert_eq!((code, stderr.as_str()), (0, ""));
    for line in [
        "COLDSTREAM=on",
        "COLDSTREAM_PROFILE=cassandra",
        "COLDSTREAM_READS=dontcache",
        "COLDSTREAM_MEMORY_BYTES=33554432",
        "COLDSTREAM_EVICTION=on",
        "COLDSTREAM_EVICTION_MARGIN=5%",
        "COLDSTREAM_LOG=none",
    ] {
        assert!(
            stdout.lines().any(|found| found == line),
            "{line} is not in {stdout}"
        );
    }
    assert!(!stdout.contains("COLDSTREAM_CONFIG"));
}

#[test]
fn the_library_goes_before_other_preloads() {
    let scene = Scene::new();
    let other = scene.path("other.so");
    assert!(scene.compile("", &other, &["-shared", "-fPIC"]));
    let mut command = scene.coldstream();
    command.env("LD_PRELOAD", &other);
    let (_, stdout, _) = outcome(command.args(["run", "env"]));
    let ours = scene.path("libcoldstream.so");
    let expected = format!("LD_PRELOAD={}:{}", ours.display(), other.display());
    assert!(stdout.lines().any(|line| line == expected), "{stdout}");
}

#[test]
fn a_start_script_that_sets_its_own_preload_still_loads_the_library() {
    let scene = Scene::new();
    // The variable as Cassandra's start script uses it. The script itself is not run.
    let script = scene.file(
        "cassandra",
        "#!/bin/sh\necho \"$CASSANDRA_LIBJEMALLOC\"\n",
        0o755,
    );
    let outcome_with = |before: &str| {
        let mut command = scene.coldstream();
        command
            .env("CASSANDRA_LIBJEMALLOC", before)
            .arg("run")
            .arg(&script);
        outcome(&mut command).1
    };
    let ours = scene.path("libcoldstream.so");
    let expected = format!("{}:/nowhere/libjemalloc.so\n", ours.display());
    assert_eq!(outcome_with("/nowhere/libjemalloc.so"), expected);
    assert_eq!(outcome_with("-"), "-\n");
}

#[test]
fn the_program_is_what_a_shell_would_find() {
    let scene = Scene::new();
    fs::create_dir(scene.path("bin")).unwrap();
    scene.file(
        "bin/hello",
        "#!/usr/bin/env sh\necho \"$0\" \"$@\"\n",
        0o755,
    );
    let mut command = scene.coldstream();
    let search = std::env::var("PATH").unwrap();
    command.env(
        "PATH",
        format!("/no/such:{}:{search}", scene.path("bin").display()),
    );
    let (code, stdout, stderr) = outcome(command.args(["run", "hello", "--fast", "-x", "a b"]));
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(
        stdout,
        format!("{} --fast -x a b\n", scene.path("bin/hello").display())
    );
    assert!(stderr.contains("inherit the library"), "{stderr}");
}

#[test]
fn the_log_begins_with_what_is_in_force() {
    let scene = Scene::new();
    let mut command = scene.coldstream();
    let (code, _, _) =
        outcome(command.args(["run", "--log", "the.log", "--reads", "direct", "true"]));
    assert_eq!(code, 0);
    let log = fs::read_to_string(scene.path("the.log")).unwrap();
    assert!(log.starts_with("coldstream["), "{log}");
    assert!(
        log.contains("event=start profile=auto reads=direct "),
        "{log}"
    );
}

#[test]
fn a_misspelt_variable_is_mentioned() {
    let scene = Scene::new();
    let mut command = scene.coldstream();
    command.env("COLDSTREAM_READ", "direct");
    let (code, _, stderr) = outcome(command.args(["run", "true"]));
    assert_eq!(code, 0);
    assert!(
        stderr.contains("COLDSTREAM_READ is not a variable of Coldstream: ignored; did you mean COLDSTREAM_READS?"),
        "{stderr}"
    );
}

#[test]
fn signals_are_to_the_program_what_they_were() {
    let scene = Scene::new();
    let here = scene.coldstream();
    let words = "run --log none --";
    for before in ["", "env --ignore-signal=PIPE --block-signal=USR1"] {
        let status = |how: &str| {
            let mut shell = Command::new("sh");
            let script = format!("exec {before} {how} grep -E 'Sig(Ign|Blk)' /proc/self/status");
            shell.args(["-c", &script]).env_clear().envs(
                here.get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            );
            outcome(&mut shell)
        };
        let with = status(&format!("{} {words}", here.get_program().display()));
        assert_eq!(with, status(""), "{before}");
        assert_eq!(with.0, 0, "{with:?}");
    }
}

#[test]
fn off_starts_the_program_whatever_is_wrong_with_coldstream() {
    let scene = Scene::new();
    let mut command = scene.coldstream();
    command
        .env("COLDSTREAM", "off")
        .env("LD_PRELOAD", "/nowhere/mine.so");
    let words = ["run", "--library", "/no/such.so", "--log", "/no/log", "env"];
    let (code, stdout, _) = outcome(command.args(words));
    assert_eq!(code, 0);
    command.env("COLDSTREAM_MEMORY_BYTES", "junk");
    let (code, _, stderr) = outcome(&mut command);
    assert_eq!(code, 0);
    assert!(stderr.contains("junk"), "{stderr}");
    for line in ["COLDSTREAM=off", "LD_PRELOAD=/nowhere/mine.so"] {
        assert!(stdout.lines().any(|found| found == line), "{stdout}");
    }
    assert!(!stdout.contains("CASSANDRA_LIBJEMALLOC"), "{stdout}");
}

#[test]
fn a_log_that_is_a_pipe_without_a_reader_holds_nothing_up() {
    let scene = Scene::new();
    let mut make = Command::new("mkfifo");
    let made = make.arg(scene.path("log")).status();
    assert!(made.is_ok_and(|status| status.success()));
    let mut command = scene.coldstream();
    let (code, stdout, _) = outcome(command.args(["run", "--log", "log", "echo", "out"]));
    assert_eq!((code, stdout.as_str()), (0, "out\n"));
}

/// The program makes neither call itself, so the filter does not disturb it without the library.
#[test]
fn calls_that_a_filter_kills_for_are_found_before_the_program_starts() {
    const SYS_IO_SUBMIT: &str = if cfg!(target_arch = "x86_64") {
        "209"
    } else {
        "2"
    };
    const SYS_CACHESTAT: &str = "451";
    let scene = Scene::new();
    let deny = coldstream_testkit::tools::compile("deny.c", &scene.path("."), "deny", &[]);
    let under_filter = |verdict: &str, command: &[&str]| {
        let mut launched = Command::new(&deny);
        launched
            .args([SYS_IO_SUBMIT, verdict, "--"])
            .arg(&deny)
            .args([SYS_CACHESTAT, verdict, "--"])
            .args(command)
            .env_remove("COLDSTREAM_AVOID")
            .env("COLDSTREAM_LIBRARY", scene.path("libcoldstream.so"));
        outcome(&mut launched)
    };
    if under_filter("kill", &["true"]).0 != 0 {
        return coldstream_testkit::skip("no filter of system calls can be made here");
    }
    let run = [
        env!("CARGO_BIN_EXE_coldstream"),
        "run",
        "--avoid",
        "statx",
        "env",
    ];
    let (code, stdout, stderr) = under_filter("kill", &run);
    assert_eq!(code, 0, "{stderr}");
    let avoided = "COLDSTREAM_AVOID=cachestat,statx,io_submit";
    assert!(stdout.lines().any(|line| line == avoided), "{stdout}");
    assert!(
        stderr.contains("kills for cachestat,io_submit."),
        "{stderr}"
    );
    // An error is no reason: the library asks itself.
    let (code, stdout, stderr) = under_filter("38", &run);
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stdout.lines().any(|line| line == "COLDSTREAM_AVOID=statx"),
        "{stdout}"
    );
    assert!(!stderr.contains("kills"), "{stderr}");
}
