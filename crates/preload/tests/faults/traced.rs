//! Faults injected by `strace`: into the first, the n-th, or every call.

use crate::check;
use coldstream_testkit::library::Preload;
use coldstream_testkit::tools::tracer;
use coldstream_testkit::{directories, long};
use std::path::Path;

/// Number of calls with this form and this mark in the trace.
pub fn faults(trace: &Path, form: &str, mark: &str) -> usize {
    let traced = std::fs::read_to_string(trace).unwrap_or_default();
    let lines = traced.lines();
    lines
        .filter(|line| line.contains(mark) && line.contains(form))
        .count()
}

/// Scans with faults in `call`. Returns the number of faults in calls with this form.
fn inject(
    strace: &str,
    (call, form): (&str, &str),
    options: &[&str],
    fault: &str,
    preload: &Preload,
) -> usize {
    let directory = directories::on_disk();
    let trace = directory.path().join("trace");
    let launcher = launcher(strace, call, options, fault, &trace);
    let what = format!("{call}:{fault} {options:?} {preload:?}");
    check(&what, "scans", &launcher, preload);
    faults(&trace, form, "(INJECTED)")
}

pub fn launcher(
    strace: &str,
    call: &str,
    options: &[&str],
    fault: &str,
    trace: &Path,
) -> Vec<String> {
    let mut words: Vec<String> = [strace, "-f", "-qq", "-o", trace.to_str().unwrap()]
        .map(str::to_owned)
        .to_vec();
    if options.is_empty() {
        words.push("--seccomp-bpf".into());
    }
    words.extend(options.iter().map(|option| option.to_string()));
    words.push("-e".into());
    words.push(format!("trace={call}"));
    words.push("-e".into());
    words.push(format!("inject={call}:{fault}"));
    words
}

pub const WHEN: [&str; 4] = ["when=1", "when=3", "when=2+4", "when=1+1"];

/// The library's checks whether a buffer is writable or readable. glibc's calls of that name have other
/// arguments.
const BUFFER_IS_WRITABLE: &str = "SIG_BLOCK, NULL";
pub const BUFFER_IS_READABLE: &str = "(0xffff";

/// Injects each fault at each time. At least one must have happened.
fn each(call: &str, options: &[&str], errors: &[&str], preload: &Preload) {
    each_of((call, ""), options, errors, preload);
}

/// As above, for a call that libc makes too. The library's calls contain `form`.
fn each_of((call, form): (&str, &str), options: &[&str], errors: &[&str], preload: &Preload) {
    let Some(strace) = tracer() else { return };
    let mut injected = 0;
    for (number, error) in errors.iter().enumerate() {
        for (place, when) in WHEN.iter().enumerate() {
            // An interrupted wait is repeated. If every call were interrupted, it would never end.
            if (*error == "EINTR" && *when == "when=1+1")
                // The short form covers every fault and every time, but not all combinations.
                || (!long() && number % 2 != place % 2)
            {
                continue;
            }
            injected += inject(
                &strace,
                (call, form),
                options,
                &format!("error={error}:{when}"),
                preload,
            );
        }
    }
    assert!(
        injected > 0,
        "{call}({form}) was never called: nothing has been tested"
    );
}

#[test]
fn asynchronous_contexts_cannot_be_made() {
    each(
        "io_setup",
        &[],
        &["EAGAIN", "ENOSYS", "ENOMEM", "EPERM"],
        &Preload::quiet(),
    );
}

#[test]
fn reads_cannot_be_submitted() {
    each(
        "io_submit",
        &[],
        &["EAGAIN", "EINVAL", "ENOMEM", "EIO", "EBADF"],
        &Preload::quiet(),
    );
}

#[test]
fn completions_cannot_be_taken() {
    each(
        "io_getevents",
        &[],
        &["EINTR", "EINVAL", "EIO", "ENOSYS"],
        &Preload::quiet(),
    );
}

#[test]
fn files_cannot_be_looked_at() {
    each(
        "fstat",
        &[],
        &["EIO", "ENOMEM", "EBADF", "EOVERFLOW"],
        &Preload::quiet(),
    );
    each(
        "statx",
        &[],
        &["ENOSYS", "EINVAL", "EPERM"],
        &Preload::quiet(),
    );
    each("fstatfs", &[], &["ENOSYS", "EIO"], &Preload::quiet());
}

#[test]
fn a_long_scan_cannot_be_left_to_the_kernel() {
    each(
        "preadv2",
        &[],
        &["EOPNOTSUPP", "ENOSYS", "EPERM", "EIO"],
        &Preload::quiet(),
    );
    each(
        "fadvise64",
        &[],
        &["EINVAL", "ENOSYS", "EBADF"],
        &Preload::quiet(),
    );
}

#[test]
fn descriptors_cannot_be_moved_or_marked() {
    each(
        "fcntl",
        &[],
        &["EMFILE", "EINVAL", "EBADF", "EPERM"],
        &Preload::quiet(),
    );
}

#[test]
fn files_cannot_be_opened_once_more() {
    // SSTables have the first free descriptors. Paths are compared as they are.
    let paths = [
        "-P",
        "/proc/self/fd/3",
        "-P",
        "/proc/self/fd/4",
        "-P",
        "/proc/self/fd/5",
        "-P",
        "/proc/self/fd/6",
    ];
    each(
        "openat",
        &paths,
        &["EMFILE", "ENFILE", "EACCES", "ENOENT", "EINVAL", "ENOMEM"],
        &Preload::quiet(),
    );
}

#[test]
fn windows_cannot_be_read() {
    for reads in ["drop-behind", "dontcache"] {
        let preload = Preload::quiet().with("COLDSTREAM_READS", reads);
        each(
            "preadv2",
            &[],
            &["EIO", "EINTR", "EOPNOTSUPP", "EAGAIN"],
            &preload,
        );
    }
    each("preadv2", &[], &["EINVAL", "EIO"], &Preload::quiet());
}

#[test]
fn memory_and_pages_cannot_be_advised_on() {
    let window_memory = ("madvise", "MADV_DONTFORK");
    each_of(window_memory, &[], &["EINVAL", "ENOMEM"], &Preload::quiet());
    let preload = Preload::quiet().with("COLDSTREAM_READS", "drop-behind");
    each("mincore", &[], &["EAGAIN", "ENOMEM", "ENOSYS"], &preload);
}

#[test]
fn buffers_cannot_be_checked() {
    each_of(
        ("rt_sigprocmask", BUFFER_IS_WRITABLE),
        &[],
        &["EFAULT", "EPERM"],
        &Preload::quiet(),
    );
}

#[test]
fn the_status_page_cannot_be_made() {
    each(
        "mkdirat",
        &[],
        &["ENOSPC", "EACCES", "EROFS"],
        &Preload::quiet(),
    );
    // SAFETY: takes no argument and cannot fail.
    let user = unsafe { libc::geteuid() };
    let directory = format!("/dev/shm/coldstream-{user}");
    each(
        "openat",
        &["-P", &directory],
        &["EACCES", "EMFILE", "ENOTDIR"],
        &Preload::quiet(),
    );
}

#[test]
fn the_log_cannot_be_written() {
    let directory = directories::on_disk();
    let log = directory.path().join("log");
    std::fs::write(&log, "").unwrap();
    let preload = Preload::logging_to(&log);
    let path = log.to_str().unwrap();
    each("write", &["-P", path], &["ENOSPC", "EIO"], &preload);
    each("openat", &["-P", path], &["EACCES", "EMFILE"], &preload);
}
