//! The filters of system calls of container engines, in the form that a runtime takes (OCI).

use serde_json::{Value, json};

/// Kubernetes' `RuntimeDefault` with containerd.
pub const CONTAINERD: &str =
    include_str!("../../../../preload/tests/matrix/profiles/containerd.txt");
/// That of podman and CRI-O.
pub const PODMAN: &str = include_str!("../../../../preload/tests/matrix/profiles/podman.txt");

const EPERM: i32 = 1;
const ENOSYS: i32 = 38;

/// A filter of a list: `docker.txt` beside these explains the words.
pub fn of(profile: &str) -> Value {
    let mut default = Value::Null;
    let mut calls = Vec::new();
    for line in profile.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let rule = words.next().unwrap_or_default();
        let mut value = || words.next().expect("a value");
        match rule {
            "default" => default = error(value()),
            "error" => {
                let errno = error(value());
                calls.push(
                    json!({"action": "SCMP_ACT_ERRNO", "errnoRet": errno, "names": rest(words)}),
                );
            }
            "unless" => {
                let bits = value().trim_start_matches("0x");
                let bits = u64::from_str_radix(bits, 16).expect("a number");
                let none =
                    json!({"index": 0, "op": "SCMP_CMP_MASKED_EQ", "value": bits, "valueTwo": 0});
                calls.push(
                    json!({"action": "SCMP_ACT_ALLOW", "names": rest(words), "args": [none]}),
                );
            }
            "allow" => calls.push(json!({"action": "SCMP_ACT_ALLOW", "names": rest(words)})),
            other => panic!("an unknown rule: {other}"),
        }
    }
    assert!(!default.is_null(), "no default");
    json!({"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": default, "syscalls": calls})
}

fn rest<'a>(words: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    words.collect()
}

fn error(name: &str) -> Value {
    match name {
        "EPERM" => EPERM.into(),
        "ENOSYS" => ENOSYS.into(),
        other => panic!("an unknown error: {other}"),
    }
}
