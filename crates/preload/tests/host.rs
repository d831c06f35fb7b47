//! What a process leaves on its host: what it reads at its start, and where it logs.

use coldstream_host::status_page::page_of;
use coldstream_io::sys::thread_priority;
use coldstream_testkit::library::{self, Preload};
use coldstream_testkit::process::{Program, Running};
use coldstream_testkit::{directories, files, skip, tools};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

const NOBODY: u32 = 65534;

/// A directory with the test program and a cold SSTable. All users may look into it.
struct Scene {
    directory: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let scene = Self {
            directory: directories::on_disk(),
        };
        set_mode(scene.directory.path(), 0o755);
        files::create(&scene.path("000001.sst"), 1, 1_000_001);
        std::thread::sleep(files::REST);
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn compile(&self, name: &str, options: &[&str]) -> PathBuf {
        tools::compile("host.c", self.directory.path(), name, options)
    }

    /// A program that has a status page, and does what it is told.
    fn start(&self, executable: &Path, what: &str) -> Running {
        self.program(executable, what).start_with(&Preload::quiet())
    }

    /// As [`Scene::start`]; waits until it sleeps.
    fn start_and_pause(&self, executable: &Path) -> Running {
        let mut running = self.start(executable, "pause");
        running.wait_until_printed("pause");
        running
    }

    fn program(&self, executable: &Path, what: &str) -> Program {
        Program::new(executable)
            .argument(what)
            .argument(self.path("000001.sst"))
    }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Nobody writes to the pipe, so a reader would wait for ever.
#[test]
fn a_pipe_as_configuration_file_is_refused_at_once() {
    let scene = Scene::new();
    let pipe = scene.path("pipe");
    Program::new("mkfifo").argument(&pipe).run().well();
    for path in [&pipe, &PathBuf::from("/dev/null"), &scene.path(".")] {
        let preload = Preload::logging().with("COLDSTREAM_CONFIG", path.display());
        let ended = Program::new("true")
            .limit(Duration::from_secs(20))
            .run_with(&preload)
            .well();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(said.contains("not a regular file"), "{path:?}: {said}");
    }
}

/// The path may name any file that the process may read, and the log may have other readers.
#[test]
fn nothing_of_a_configuration_file_is_in_the_log() {
    let scene = Scene::new();
    let file = scene.path("configuration");
    for text in [
        "root:$6$secret:1\n",
        "secret = 1\n",
        "[secret]\na = 1\n",
        "profile = \"secret\"\n",
        "[reads]\nsecret = 1\n",
        "[reads]\nio_mode = \"secret\"\n",
        "[reads]\nwindow_bytes = \"secret\"\n",
        "[reads]\nwindow_bytes = \"secret\n",
        "log = \"secret\"\n",
        "secret = secret",
        "secret.a = 1\nsecret = 2",
    ] {
        std::fs::write(&file, text).unwrap();
        let preload = Preload::logging().with("COLDSTREAM_CONFIG", file.display());
        let ended = Program::new("true").run_with(&preload).well();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(said.contains("event=off"), "{text}: {said}");
        assert!(!said.contains("secret"), "{text}: {said}");
    }
}

/// The one who may write to the directory would choose the file.
#[test]
fn a_log_is_not_created_through_a_symbolic_link() {
    let scene = Scene::new();
    let program = scene.compile("host", &[]);
    let (open, own) = (scene.path("open"), scene.path("own"));
    for (directory, mode) in [(&open, 0o777), (&own, 0o755)] {
        std::fs::create_dir(directory).unwrap();
        set_mode(directory, mode);
    }
    let run = |log: &Path| {
        let preload = Preload::logging_to(log);
        scene.program(&program, "read").run_with(&preload).well();
    };
    let target = scene.path("target");
    for directory in [&open, &own] {
        let link = directory.join("log");
        symlink(&target, &link).unwrap();
        run(&link);
        assert!(!target.exists(), "{directory:?}: it was created");
    }
    std::fs::write(&target, "").unwrap();
    run(&open.join("log"));
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "");
    // Nobody else could have made this link.
    run(&own.join("log"));
    let log = std::fs::read_to_string(&target).unwrap();
    assert!(log.contains("event=reads"), "{log}");
    let regular = open.join("regular");
    run(&regular);
    assert!(regular.exists());
}

/// The library is needed by the program, as `/etc/ld.so.preload` would bring it into every program. The user
/// that starts the program chooses its environment.
#[test]
fn a_privileged_program_reads_and_logs_nothing() {
    if !tools::is_root() {
        return skip("needs root");
    }
    let scene = Scene::new();
    let library = scene.path(library::FILE_NAME);
    std::fs::copy(library::path(), &library).unwrap();
    set_mode(&library, 0o755);
    let needed = ["-Wl,--no-as-needed", library.to_str().unwrap()];
    let program = scene.compile("host", &needed);
    let logs = scene.path("logs");
    std::fs::create_dir(&logs).unwrap();
    set_mode(&logs, 0o777);
    let wrong = scene.path("wrong");
    std::fs::write(&wrong, "wrong").unwrap();
    let run = |log: &str, configuration: &str| {
        let log = logs.join(log);
        let ended = scene
            .program(&program, "secure")
            .with_variable("COLDSTREAM_LOG", log.display())
            .with_variable("COLDSTREAM_CONFIG", configuration)
            .run()
            .well();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        (ended.text(), said, log.exists())
    };
    let wrong = wrong.to_str().unwrap();
    assert_eq!(
        run("plain", ""),
        ("1000001 bytes\nsecure 0\n".into(), String::new(), true)
    );
    assert!(run("plain", wrong).1.contains("event=off"));
    chown(&program, Some(NOBODY), None).unwrap();
    set_mode(&program, 0o4755);
    let (text, ..) = run("secure", "");
    if text != "1000001 bytes\nsecure 1\n" {
        return skip("no set-uid programs on this filesystem");
    }
    for configuration in ["", wrong] {
        let nothing = (text.clone(), String::new(), false);
        assert_eq!(run("secure", configuration), nothing, "{configuration}");
    }
}

#[test]
fn an_orderly_end_removes_the_status_page() {
    let scene = Scene::new();
    let program = scene.compile("host", &[]);
    for way in ["read", "exit", "_exit", "_Exit", "quick_exit", "thread"] {
        let running = scene.start(&program, way);
        let page = page_of(running.process_id());
        running.end().well();
        assert!(!page.exists(), "{way}: it is left");
    }
}

/// Forked children have no page, and a child that shares the memory has none of its own.
#[test]
fn a_child_that_ends_leaves_its_parents_page() {
    let scene = Scene::new();
    let running = scene.start_and_pause(&scene.compile("host", &[]));
    assert!(page_of(running.process_id()).exists());
}

#[test]
fn a_start_removes_the_pages_of_ended_processes_only() {
    let scene = Scene::new();
    let program = scene.compile("host", &[]);
    let alive = scene.start_and_pause(&program);
    let pages: Vec<PathBuf> = (0..3)
        .map(|_| {
            let killed = scene.start(&program, "killed");
            let page = page_of(killed.process_id());
            assert!(!killed.end().status.success());
            page
        })
        .collect();
    // Its content does not tell: it may be one that is just being made.
    let new = page_of(std::process::id());
    std::fs::write(&new, [0; 4096]).unwrap();
    let foreign = new.with_file_name("not-a-page");
    std::fs::write(&foreign, "").unwrap();

    let mut running = scene.start(&program, "pause");
    running.wait_until_printed("pause");
    assert!(pages.iter().all(|page| !page.exists()));
    assert!(page_of(running.process_id()).exists());
    assert!(page_of(alive.process_id()).exists());
    for other in [new, foreign] {
        std::fs::remove_file(&other).expect("it is left alone");
    }
}

/// The credentials of a thread: its name, and its lines in `status`.
#[derive(Debug)]
struct Thread {
    name: String,
    status: String,
}

impl Thread {
    fn all(process_id: u32) -> Vec<Self> {
        let tasks = std::fs::read_dir(format!("/proc/{process_id}/task")).unwrap();
        let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        let threads = tasks.map(|task| {
            let path = task.unwrap().path();
            Self {
                name: read(path.join("comm")).trim().to_owned(),
                status: read(path.join("status")),
            }
        });
        threads.collect()
    }

    fn is_ours(&self) -> bool {
        self.name.starts_with("coldstream")
    }

    fn has(&self, name: &str, wanted: &str) -> bool {
        let line = self.status.lines().find_map(|line| line.strip_prefix(name));
        let words = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        line.map(words) == Some(words(wanted))
    }
}

/// A root process with every kind of helper; none where this process is not root.
fn root_process(scene: &Scene, what: &str) -> Option<Running> {
    if !tools::is_root() {
        skip("needs root");
        return None;
    }
    let preload = Preload::writing(("direct", "process")).with("COLDSTREAM_EVICTION", "on");
    let program = scene.compile("host", &[]);
    let mut running = scene.program(&program, what).start_with(&preload);
    running.wait_until_printed("pause");
    let process_id = running.process_id();
    // A thread names itself.
    running.wait_until(|| {
        let threads = Thread::all(process_id);
        ["coldstream-keep", "coldstream-evic", "coldstream-io"]
            .iter()
            .all(|name| threads.iter().any(|thread| thread.name == *name))
    });
    Some(running)
}

/// Libc changes the users of the threads that it knows. It does not know the library's.
#[test]
fn no_thread_keeps_the_privileges_that_the_process_has_dropped() {
    let scene = Scene::new();
    for what in ["dropped", "dropped-at-last"] {
        let Some(mut running) = root_process(&scene, what) else {
            return;
        };
        let process_id = running.process_id();
        running.wait_until(|| {
            Thread::all(process_id).iter().all(|thread| {
                thread.has("Uid:", "65534 65534 65534 65534")
                    && thread.has("Gid:", "65534 65534 65534 65534")
                    && thread.has("Groups:", "")
                    && ["CapEff:", "CapPrm:", "CapInh:"]
                        .map(|name| thread.has(name, "0000000000000000"))
                        == [true; 3]
            })
        });
        // A process that may not dump core belongs to root in `/proc`.
        use std::os::unix::fs::MetadataExt;
        let directory = std::fs::metadata(format!("/proc/{process_id}/fd")).unwrap();
        assert_eq!(directory.uid(), NOBODY, "{what}: it is dumpable still");
    }
}

/// Afterwards nobody could give them back.
#[test]
fn nice_values_are_given_back_before_the_privileges_go() {
    if !tools::is_root() || thread_priority::set_nice(0, 0).is_err() {
        return skip("needs a root that may set nice values");
    }
    let scene = Scene::new();
    let program = scene.compile("host", &[]);
    let preload = Preload::quiet().with("COLDSTREAM_PRIORITY", "reads-first");
    let mut running = scene.program(&program, "lowered").start_with(&preload);
    let process_id = running.process_id();
    let nice_value = || {
        let stat = std::fs::read_to_string(format!("/proc/{process_id}/stat")).unwrap_or_default();
        // The name may contain spaces, and ends with the last parenthesis. The state is field 3, the nice value 19.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        fields.split_whitespace().nth(16).map(str::to_owned)
    };
    running.wait_until_printed("pause");
    running.wait_until(|| nice_value().as_deref() == Some("0"));
}

#[test]
fn helpers_have_the_capabilities_that_they_need() {
    const SYS_NICE: u64 = 1 << 23;
    let scene = Scene::new();
    for what in ["root", "regained"] {
        let Some(mut running) = root_process(&scene, what) else {
            return;
        };
        let process_id = running.process_id();
        let found = Thread::all(process_id);
        let application = found.iter().find(|thread| !thread.is_ours()).unwrap();
        if application.has("CapEff:", "0000000000000000") {
            return skip("root has no capabilities here");
        }
        running.wait_until(|| {
            Thread::all(process_id).iter().all(|thread| {
                !thread.is_ours()
                    || thread.has("Uid:", "0 0 0 0")
                        && thread.has("CapInh:", "0000000000000000")
                        && (thread.has("CapEff:", &format!("{SYS_NICE:016x}"))
                            || thread.has("CapEff:", "0000000000000000"))
            })
        });
    }
}

/// The kernel's asynchronous contexts of a process: each has a mapping.
fn contexts(process_id: u32) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{process_id}/maps")).unwrap();
    maps.lines().filter(|line| line.contains("/[aio]")).count()
}

/// All processes of a machine share one limit of them (`fs.aio-max-nr`).
#[test]
fn streams_share_asynchronous_contexts_and_give_them_back() {
    const TABLES: u64 = 40;
    let scene = Scene::new();
    for number in 100..100 + TABLES {
        files::create(&scene.path(&format!("{number}.sst")), number, 1 << 20);
    }
    std::thread::sleep(files::REST);
    let program = scene.compile("host", &[]);
    let preload = Preload::quiet().with("COLDSTREAM_WINDOW_BYTES", "64KiB");
    let mut running = scene.program(&program, "contexts").start_with(&preload);
    let process_id = running.process_id();
    let go_on = |after: &str| std::fs::write(scene.path(after), "").unwrap();

    // One stream at a time, each in a thread of its own.
    running.wait_until_printed("whole");
    let found = contexts(process_id);
    assert!(found <= 2, "{found} for one stream at a time");
    go_on("whole");
    running.wait_until_printed("partly");
    let found = contexts(process_id);
    if found == 0 {
        return skip("no direct reads here");
    }
    assert!(found > 2, "{found}: else this test shows nothing");
    go_on("partly");
    running.wait_until_printed("pause");
    running.wait_until(|| contexts(process_id) == 0);
}
