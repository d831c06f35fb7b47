//! `make install` and `make uninstall`, with other files in the place of those that `make build` builds.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use common::{Scene, outcome};

/// `make` for an installation below a directory, by a root whose files are its own.
fn make(scene: &Scene, target: &str, prefix: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "umask 077; exec make \"$@\"", "make"]);
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let is = |name: &str, value: &Path| format!("{name}={}", value.display());
    command
        .args(["--no-print-directory", "--silent", target, "DRIVER="])
        .arg(is("PREFIX", prefix))
        .arg(is(
            "COLDSTREAM",
            Path::new(env!("CARGO_BIN_EXE_coldstream")),
        ))
        .arg(is("LIBRARY", &scene.path("libcoldstream.so")))
        .arg(is("CARGO_TARGET_DIR", &scene.path("target")))
        .current_dir(repository)
        .env_remove("MAKEFLAGS");
    command
}

#[test]
fn what_is_installed_is_removed_with_the_directories_that_were_made() {
    let scene = Scene::new();
    let prefix = scene.path("there/prefix");
    std::fs::create_dir_all(prefix.join("share/man")).unwrap();
    let linked = format!("LINKED={}", scene.path("linked").display());
    for end in ["a", "so"] {
        scene.file(&format!("linked.{end}"), "", 0o644);
    }
    // An upgrade makes no directory.
    for _ in 0..2 {
        let mut install = make(&scene, "install", &prefix);
        assert_eq!(outcome(install.arg(&linked)).0, 0);
    }
    let description = prefix.join("lib/pkgconfig/coldstream_io.pc");
    let text = std::fs::read_to_string(description).unwrap();
    assert!(text.contains(&format!("prefix={}\n", prefix.display())));
    assert!(!text.contains('@'), "{text}");
    for (file, mode) in [
        ("bin/coldstream", 0o755),
        ("lib/pkgconfig/coldstream_io.pc", 0o644),
        ("lib/systemd/system/coldstream-metrics.service", 0o644),
        ("share/man/man1/coldstream-run.1", 0o644),
        ("share/fish/vendor_completions.d/coldstream.fish", 0o644),
    ] {
        let metadata = std::fs::metadata(prefix.join(file)).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, mode, "{file}");
    }
    assert_eq!(outcome(&mut make(&scene, "uninstall", &prefix)).0, 0);
    let left = outcome(Command::new("find").arg(&prefix).args(["-mindepth", "1"])).1;
    let expected = ["share", "share/man"].map(|it| prefix.join(it).display().to_string());
    assert_eq!(left.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn what_keeps_it_from_installing_is_named() {
    let scene = Scene::new();
    let mut relative = make(&scene, "install", Path::new("there"));
    let (code, _, stderr) = outcome(&mut relative);
    assert_ne!(code, 0);
    assert!(stderr.contains("PREFIX=there is relative"), "{stderr}");
    let mut unbuilt = make(&scene, "install", &scene.path("prefix"));
    let (code, _, stderr) = outcome(unbuilt.arg("LIBRARY=/no/such.so"));
    assert_ne!(code, 0);
    for words in ["/no/such.so is not built", "CARGO_TARGET_DIR=DIR"] {
        assert!(stderr.contains(words), "{words} is not in {stderr}");
    }
}
