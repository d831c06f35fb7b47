//! The default filters of system calls of common container engines, and their capabilities.

use super::condition::{Condition, database, open_directory};
use coldstream_testkit::tools;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The launcher with a profile of `profiles/`.
fn container(profile: &str, directory: &Path) -> PathBuf {
    let header = directory.join("profile.h");
    std::fs::write(header, header_of(profile)).expect("profile.h");
    let include = format!("-I{}", directory.display());
    tools::compile("container.c", directory, "container", &[&include])
}

/// A profile as calls of macros. Headers of one architecture do not know all names.
fn header_of(profile: &str) -> String {
    let mut header = String::new();
    for line in profile.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let rule = words.next().unwrap_or_default();
        let rest = match rule {
            "allow" => String::new(),
            _ => format!(", {}", words.next().expect("a value")),
        };
        if rule == "default" {
            writeln!(header, "DEFAULT({})", rest.trim_start_matches(", ")).expect("text");
        }
        for name in words {
            let macro_name = rule.to_uppercase();
            let call = format!("{macro_name}(__NR_{name}{rest})");
            writeln!(header, "#ifdef __NR_{name}\n{call}\n#endif").expect("text");
        }
    }
    header
}

fn check(profile: &str) {
    let directory = open_directory();
    let container = container(profile, directory.path());
    Condition::of(database())
        .under([container.to_str().expect("UTF-8 path")])
        .check();
}

#[test]
fn docker() {
    check(include_str!("profiles/docker.txt"));
}

#[test]
fn containerd() {
    check(include_str!("profiles/containerd.txt"));
}

#[test]
fn podman() {
    check(include_str!("profiles/podman.txt"));
}
