//! JVMs of several releases, with and without another allocator.

use super::condition::{Condition, open_directory};
use coldstream_testkit::process::Program;
use coldstream_testkit::{skip, tools};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The home of this release. [`skip`]s where there is none.
fn home(release: &str) -> Option<PathBuf> {
    let home = coldstream_nodes::java_home(release);
    if home.is_none() {
        skip(format!("no Java {release} is installed"));
    }
    home
}

/// The folder of the classes, which run on every release from 17 on.
fn classes() -> Option<&'static Path> {
    static CLASSES: OnceLock<Option<tempfile::TempDir>> = OnceLock::new();
    let compile = || {
        let compiler = home("17")?.join("bin/javac");
        if !compiler.exists() {
            skip(format!("there is no {}", compiler.display()));
            return None;
        }
        let directory = open_directory();
        Program::new(compiler)
            .arguments(["-Xlint:all", "-Werror", "--release", "17", "-d"])
            .argument(directory.path())
            .argument(tools::programs().join("Matrix.java"))
            .run()
            .well();
        Some(directory)
    };
    CLASSES
        .get_or_init(compile)
        .as_ref()
        .map(tempfile::TempDir::path)
}

/// A node in small, as Cassandra's start script configures its JVM in what matters here.
fn node(java: &Path) -> Option<Condition> {
    let options = ["-Xmx256m", "-XX:+UseG1GC", "-XX:+AlwaysPreTouch", "-cp"];
    let condition = Condition::of(java)
        .arguments(options)
        .arguments([classes()?])
        .arguments(["Matrix"])
        .variable("COLDSTREAM_PROFILE", "cassandra");
    Some(condition)
}

fn check(release: &str, allocator: Option<&str>) {
    let Some(node) = home(release).and_then(|home| node(&home.join("bin/java"))) else {
        return;
    };
    match allocator {
        None => node.check(),
        Some(file_name) => {
            if let Some(allocator) = tools::find_library(file_name) {
                node.clone().behind(&allocator).check();
                node.in_front_of(&allocator).check();
            }
        }
    }
}

const JEMALLOC: Option<&str> = Some("libjemalloc.so.2");
const TCMALLOC: Option<&str> = Some("libtcmalloc_minimal.so.4");

macro_rules! rows {
    ($($name:ident: $release:literal, $allocator:expr;)*) => {
        $(#[test]
        fn $name() {
            check($release, $allocator);
        })*
    };
}

rows! {
    java_17: "17", None;
    java_17_with_jemalloc: "17", JEMALLOC;
    java_17_with_tcmalloc: "17", TCMALLOC;
    java_21: "21", None;
    java_21_with_jemalloc: "21", JEMALLOC;
    java_21_with_tcmalloc: "21", TCMALLOC;
    java_25: "25", None;
    java_25_with_jemalloc: "25", JEMALLOC;
    java_25_with_tcmalloc: "25", TCMALLOC;
}
