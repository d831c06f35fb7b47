//! What cannot be followed, and what is short.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use coldstream_testkit::process::Program;
use coldstream_testkit::residency::{cached_pages, drop_pages};
use coldstream_testkit::{directories, skip, tools};

use crate::subject::{
    COLDSTREAM, NOBODY, PAGE, PAGES, SYSTEM_CALL_BPF, Subject, attach, attached, counter, ended,
    eventually, interrupt,
};

#[test]
fn where_a_filter_forbids_the_events_it_says_so() {
    let subject = Subject::new();
    let directory = subject.directory.path();
    let deny = coldstream_testkit::tools::compile("deny.c", directory, "deny", &[]);
    let output = Program::new(deny)
        .arguments([SYSTEM_CALL_BPF, "1", "--", COLDSTREAM])
        .arguments(["attach", &subject.pid()])
        .run();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{stderr}");
    assert!(stderr.contains("bpf"), "{stderr}");
}

#[test]
fn what_cannot_be_has_a_word_and_a_code() {
    // Not this program: other tests open SSTables in it.
    let idle = Program::new("sleep").argument("infinity").start();
    let pid = idle.process_id().to_string();
    for (arguments, code, word) in [
        (vec!["attach", "4194000"], 7, "no process"),
        (vec!["attach", &pid], 7, "no SSTable open"),
        (vec!["attach", "--cgroup", "/nowhere"], 7, "/nowhere"),
    ] {
        let output = ended(&arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains(word), "{stderr}");
    }
}

/// The loader maps a library and closes it, as LevelDB does with its SSTables.
#[test]
fn a_process_that_maps_its_sstables_is_not_followed() {
    refuses_mapped(Command::new("cat"));
}

/// Badger keeps them open.
#[test]
fn a_process_that_maps_all_its_open_sstables_is_not_followed() {
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"exec cat 9<"$LD_PRELOAD""#]);
    refuses_mapped(shell);
}

/// goleveldb reads its SSTables by calls. No thread has a name, and none of its descriptors has advice.
#[test]
fn a_process_with_leveldbs_sstables_only_is_not_followed() {
    let directory = directories::on_disk();
    let sstable = directory.path().join("000005.ldb");
    fs::write(&sstable, [7; PAGE]).unwrap();
    let mut subject = Command::new("sleep")
        .arg("infinity")
        .stdin(File::open(&sstable).unwrap())
        .spawn()
        .unwrap();
    let attach = ended(&["attach", &subject.id().to_string()]);
    subject.kill().unwrap();
    subject.wait().unwrap();
    let stderr = String::from_utf8_lossy(&attach.stderr);
    assert_eq!(attach.status.code(), Some(7), "{stderr}");
    assert!(stderr.contains("LevelDB only"), "{stderr}");
}

fn refuses_mapped(mut subject: Command) {
    let Some(library) = tools::find_library("libm.so.6") else {
        return;
    };
    let directory = directories::on_disk();
    let sstable = directory.path().join("000005.ldb");
    fs::copy(library, &sstable).unwrap();
    let mut subject = subject
        .env("LD_PRELOAD", &sstable)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Its answer tells that the loader is done.
    writeln!(subject.stdin.as_mut().unwrap()).unwrap();
    let mut answer = String::new();
    let mut output = BufReader::new(subject.stdout.as_mut().unwrap());
    output.read_line(&mut answer).unwrap();
    let attach = ended(&["attach", &subject.id().to_string()]);
    subject.kill().unwrap();
    subject.wait().unwrap();
    let stderr = String::from_utf8_lossy(&attach.stderr);
    assert_eq!(attach.status.code(), Some(7), "{stderr}");
    assert!(stderr.contains("through mmap"), "{stderr}");
}

#[test]
fn without_privileges_it_says_so() {
    if !rustix::process::geteuid().is_root() {
        return skip("needs root to become nobody");
    }
    let subject = Subject::new();
    let copy = tempfile::Builder::new()
        .prefix("attach")
        .tempdir_in("/tmp")
        .unwrap();
    set_world(copy.path());
    let program = copy.path().join("coldstream");
    fs::copy(COLDSTREAM, &program).unwrap();
    let output = Command::new("timeout")
        .arg("120")
        .arg(program)
        .args(["attach", &subject.pid()])
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{stderr}");
    assert!(stderr.contains("CAP_SYS_PTRACE"), "{stderr}");

    // It can list the descriptors, but not see what they are.
    let attach = format!("exec timeout 120 {COLDSTREAM} attach {}", subject.pid());
    let output = Command::new("capsh")
        .args(["--drop=cap_sys_ptrace", "--", "-c", &attach])
        .output();
    let Ok(output) = output else {
        return skip("no capsh");
    };
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{stderr}");
    assert!(stderr.contains("CAP_SYS_PTRACE"), "{stderr}");
}

fn set_world(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// More SSTables than `attach` may open.
#[test]
fn a_limit_of_descriptors_is_not_the_end() {
    const DESCRIPTORS: usize = 48;
    // By names of threads.
    let mut subject = Subject::with_compaction_thread();
    if Command::new("prlimit").arg("--version").output().is_err() {
        return skip("no prlimit");
    }
    let mut command = Command::new("prlimit");
    command.arg(format!("--nofile={DESCRIPTORS}:{DESCRIPTORS}"));
    command.args([COLDSTREAM, "attach", &subject.pid()]);
    let Some((mut child, _lines)) = attached(&mut command) else {
        return;
    };
    for number in 0..2 * DESCRIPTORS {
        let path = subject.directory.path().join(format!("{number:06}.sst"));
        if path != subject.path() {
            fs::write(&path, vec![7; 2 * PAGE]).unwrap();
            drop_pages(&File::open(&path).unwrap());
        }
        subject.ask("rocksdb:low", "random", &path, 0..2);
    }
    // It has more inputs than it can hold. What was read goes all the same.
    let last = subject
        .directory
        .path()
        .join(format!("{:06}.sst", 2 * DESCRIPTORS - 1));
    let cached = || cached_pages(&File::open(&last).unwrap());
    assert!(eventually(|| cached() == 0), "{}", cached());
    assert!(child.try_wait().unwrap().is_none());
    assert_eq!(interrupt(child), Some(0));
}

/// What cannot be dropped for the lack of a descriptor is dropped as soon as there is one.
#[test]
fn a_lack_of_descriptors_passes() {
    let mut subject = Subject::new();
    if Command::new("prlimit").arg("--version").output().is_err() {
        return skip("no prlimit");
    }
    let Some(child) = attach(&subject) else {
        return;
    };
    let allow = |files: u32| {
        let mut command = Command::new("prlimit");
        command.args(["--pid", &child.id().to_string()]);
        // The hard limit stays.
        command.arg(format!("--nofile={files}:"));
        assert!(command.status().unwrap().success());
    };
    allow(1);
    subject.read("rocksdb:low", "random", 0..PAGES);
    let refused = || counter(&subject.pid(), "fallback_descriptor_limit");
    assert!(eventually(|| refused() > 0));
    assert_eq!(subject.resident().len(), PAGES);
    allow(256);
    let resident = || subject.resident();
    assert!(eventually(|| resident().is_empty()), "{:?}", resident());
    assert_eq!(interrupt(child), Some(0));
}

/// A mounted overlay, unmounted when dropped.
struct Overlay {
    directory: tempfile::TempDir,
}

impl Overlay {
    fn new() -> Option<Self> {
        let directory = directories::on_disk();
        let path = |name: &str| directory.path().join(name);
        for name in ["lower", "upper", "work", "merged"] {
            fs::create_dir(path(name)).unwrap();
        }
        let [lower, upper, work] =
            ["lower", "upper", "work"].map(|name| path(name).display().to_string());
        let mounted = Command::new("mount")
            .args(["-t", "overlay", "overlay", "-o"])
            .arg(format!("lowerdir={lower},upperdir={upper},workdir={work}"))
            .arg(path("merged"))
            .stderr(Stdio::null())
            .status();
        mounted
            .is_ok_and(|it| it.success())
            .then_some(Self { directory })
    }

    fn merged(&self) -> PathBuf {
        self.directory.path().join("merged")
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.merged()).status();
    }
}

/// The kernel tells of files of the layer below.
#[test]
fn sstables_on_an_overlay_are_refused() {
    let Some(overlay) = Overlay::new() else {
        return skip("overlayfs cannot be mounted");
    };
    let sstable = overlay.merged().join("000005.sst");
    fs::write(&sstable, vec![7; PAGE]).unwrap();
    let open = File::open(&sstable).unwrap();
    let holder = Command::new("sleep").arg("60").stdin(open).spawn();
    let mut holder = holder.unwrap();
    let output = ended(&["attach", &holder.id().to_string()]);
    holder.kill().unwrap();
    holder.wait().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(11), "{said}");
    assert!(said.contains("overlayfs"), "{said}");
}
