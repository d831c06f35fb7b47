//! Limits of resources, and locked memory.

use super::condition::{Condition, Effect, database};
use coldstream_host::kernel_setting::KernelSetting;
use coldstream_testkit::overcommit::NoOvercommit;
use coldstream_testkit::{skip, tools};

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
fn little_private_memory() {
    for left in LEFT_KIB {
        Condition::of(database())
            .word(format!("data={left}"))
            .effect(Effect::Any)
            .check();
    }
}

#[test]
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

const AS_NOBODY: [&str; 6] = [
    "setpriv",
    "--reuid",
    "65534",
    "--regid",
    "65534",
    "--clear-groups",
];

/// The program itself needs a part of the limit only. For root there is none.
#[test]
fn locked_memory_with_a_limit() {
    if !tools::is_root() {
        return skip("needs root");
    }
    for mebibytes in [8, 32, 64, 128, 256] {
        let bytes = mebibytes << 20;
        Condition::of(database())
            .under(["prlimit".to_owned(), format!("--memlock={bytes}:{bytes}")])
            .under(AS_NOBODY)
            .owner(NOBODY)
            .word("locked")
            .check();
    }
}

/// The kernel promises no memory that it does not have, not even for reservations.
#[test]
fn strict_accounting_of_memory() {
    let Some(_setting) = NoOvercommit::begin() else {
        return;
    };
    let row = Condition::of(database()).under(AS_NOBODY).owner(NOBODY);
    row.check();
    row.word("full").effect(Effect::Any).check();
}
