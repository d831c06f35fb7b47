//! Limits of resources, and locked memory.

use super::condition::{Condition, Effect, database};
use coldstream_host::kernel_setting::KernelSetting;
use coldstream_testkit::{long, skip, tools};

const NOBODY: u32 = 65534;

fn limited(limit: &str) -> Condition {
    Condition::of(database()).under(["prlimit", limit])
}

#[test]
fn few_descriptors() {
    // There are no private descriptors below a limit of 256.
    limited("--nofile=64:64").effect(Effect::Any).check();
}

/// A setting of the whole system for the time of a test. [`skip`]s where it cannot be made.
fn system_setting(path: &str, value: &str) -> Option<KernelSetting> {
    match KernelSetting::set(path, value) {
        Ok(setting) => Some(setting),
        Err(error) => {
            skip(format!("{path}: {error}"));
            None
        }
    }
}

/// A table that is sized by the limit has gigabytes here.
#[test]
fn a_billion_descriptors() {
    // It only raises the highest limit that others may set.
    let Some(_setting) = system_setting("/proc/sys/fs/nr_open", "1073741824") else {
        return;
    };
    limited("--nofile=1073741824:1073741824").check();
}

/// As before, where the test itself may not raise a limit: a tracer changes what the process is told.
#[test]
fn a_billion_descriptors_as_it_seems() {
    let Some(tracer) = tools::tracer() else {
        return;
    };
    // Both fields of `struct rlimit`, of every kind of limit.
    let told = "00000040000000000000004000000000";
    let inject = format!("inject=prlimit64:poke_exit=@arg4={told}");
    let options = [
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        "trace=prlimit64",
        "-e",
        &inject,
    ];
    Condition::of(database())
        .under([tracer.as_str()].into_iter().chain(options))
        .check();
}

/// KiB that a process has left when the limit comes.
const LEFT_KIB: [u64; 5] = [0, 64, 1 << 10, 16 << 10, 128 << 10];

#[test]
#[ignore = "known fault: a failed allocation ends the process"]
fn little_address_space() {
    for left in LEFT_KIB {
        Condition::of(database())
            .word(format!("as={left}"))
            .effect(Effect::Any)
            .check();
    }
}

/// As under `vm.overcommit_memory=2`: every private writable mapping counts, whether it is used or not.
#[test]
#[ignore = "known fault: a failed allocation ends the process"]
fn little_private_memory() {
    for left in LEFT_KIB {
        Condition::of(database())
            .word(format!("data={left}"))
            .effect(Effect::Any)
            .check();
    }
}

#[test]
#[ignore = "known fault: a failed allocation ends the process"]
fn an_exhausted_heap() {
    Condition::of(database())
        .word("full")
        .effect(Effect::Any)
        .check();
}

#[test]
fn locked_memory() {
    if !tools::is_root() {
        return skip("needs root");
    }
    Condition::of(database()).word("locked").check();
}

/// The program itself needs a part of the limit only. For root there is none.
#[test]
#[ignore = "known fault: reservations count as locked memory"]
fn locked_memory_with_a_limit() {
    if !tools::is_root() {
        return skip("needs root");
    }
    let nobody = NOBODY.to_string();
    let user = [
        "setpriv",
        "--reuid",
        &nobody,
        "--regid",
        &nobody,
        "--clear-groups",
    ];
    for mebibytes in [8, 32, 64, 128, 256] {
        let bytes = mebibytes << 20;
        Condition::of(database())
            .under(["prlimit".to_owned(), format!("--memlock={bytes}:{bytes}")])
            .under(user)
            .owner(NOBODY)
            .word("locked")
            .check();
    }
}

/// Committed memory of the whole system is limited to what there is, and a bit more.
#[test]
fn strict_accounting_of_memory() {
    if !long() {
        return skip("it changes the whole system: COLDSTREAM_LONG=1, and nothing else running");
    }
    let meminfo = std::fs::read_to_string("/proc/meminfo").expect("meminfo");
    let committed_kib: u64 = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("Committed_AS:"))
        .and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
        .expect("Committed_AS");
    for left_kib in [64 << 10, 256 << 10, 1 << 20] {
        let limit = (committed_kib + left_kib).to_string();
        let Some(_limit) = system_setting("/proc/sys/vm/overcommit_kbytes", &limit) else {
            return;
        };
        let Some(_mode) = system_setting("/proc/sys/vm/overcommit_memory", "2") else {
            return;
        };
        Condition::of(database())
            .word("lean")
            .effect(Effect::Any)
            .check();
    }
}
