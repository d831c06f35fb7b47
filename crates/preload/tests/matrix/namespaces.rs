//! What containers and service managers take away: `/dev/shm`, a root that can be written, users.

use super::condition::{Condition, Effect, database};
use coldstream_testkit::{skip, tools};

/// In a mount namespace of its own, after a script of mounts.
fn after_mounts(script: &str) -> Option<Condition> {
    if !tools::is_root() {
        skip("needs root");
        return None;
    }
    let script = format!("set -e; {script}; exec \"$@\"");
    let launcher = ["unshare", "--mount", "sh", "-c", &script, "sh"];
    Some(Condition::of(database()).under(launcher))
}

#[track_caller]
fn check_after_mounts(script: &str) {
    if let Some(condition) = after_mounts(script) {
        condition.check();
    }
}

#[test]
fn no_dev_shm() {
    check_after_mounts(
        "mkdir -p {}/../dev; mount -t tmpfs none {}/../dev; for name in null zero urandom; do \
         touch {}/../dev/$name; mount --bind /dev/$name {}/../dev/$name; done; \
         mount --rbind {}/../dev /dev; test ! -e /dev/shm",
    );
}

#[test]
fn a_dev_shm_that_cannot_be_written() {
    check_after_mounts("mount -t tmpfs -o ro none /dev/shm");
}

/// A page that is mapped and has no memory behind it ends its process with `SIGBUS`.
#[test]
fn a_dev_shm_that_is_full() {
    check_after_mounts(
        "mount -t tmpfs -o size=4k none /dev/shm; cat /dev/zero > /dev/shm/full || true",
    );
    check_after_mounts("mount -t tmpfs -o size=8k none /dev/shm");
    check_after_mounts("mount -t tmpfs -o nr_inodes=2 none /dev/shm");
}

#[test]
fn a_root_that_cannot_be_written() {
    check_after_mounts(
        "mount --bind {}/.. {}/..; mount -o remount,bind,ro /; ! touch /written 2>/dev/null",
    );
}

#[test]
fn no_proc() {
    if let Some(condition) = after_mounts("mount -t tmpfs none /proc") {
        // Private descriptors are opened by `/proc/self/fd`.
        condition.effect(Effect::Any).check();
    }
}

fn with_users(options: &[&str]) {
    let launcher = ["unshare"].iter().chain(options);
    Condition::of(database())
        .under(launcher.copied().chain(["--"]))
        .check();
}

#[test]
fn root_of_a_user_namespace() {
    with_users(&["--user", "--map-root-user"]);
}

/// The process has no name and no capability in its namespace.
#[test]
fn nobody_of_a_user_namespace() {
    with_users(&["--user"]);
}

#[test]
fn the_first_process_of_a_namespace() {
    with_users(&[
        "--user",
        "--map-root-user",
        "--pid",
        "--fork",
        "--mount-proc",
        "--ipc",
        "--net",
    ]);
}
