//! `coldstream attach-config` and `coldstream doctor --unit` on the files of a system in a directory.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Scene, assert_error, doctor_says, is_root, outcome, set_mode};

/// As Debian's unit of MariaDB: through a shell, with an environment file that may be missing.
const MARIADB: &str = "\
[Service]
Type=notify
User=mysql
EnvironmentFile=-/run/mariadb-wsrep-new-cluster
ExecStart=/bin/sh -c \"set -f; [ ! -e /usr/bin/galera_recovery ] && VAR= || \\
 VAR=`/usr/bin/galera_recovery`; [ $? -eq 0 ] || exit 1; \\
 exec /usr/sbin/mariadbd $MYSQLD_OPTS $_WSREP_NEW_CLUSTER $VAR\"
";

/// What decides in Cassandra's start script: it reads the settings, and then sets `LD_PRELOAD`.
const START_SCRIPT: &str = r#"
. "$1"
if [ -z $CASSANDRA_LIBJEMALLOC ] ; then CASSANDRA_LIBJEMALLOC=/found/libjemalloc.so; fi
if [ ! -z $CASSANDRA_LIBJEMALLOC ] ; then
    if [ "-" != "$CASSANDRA_LIBJEMALLOC" ] ; then export LD_PRELOAD=$CASSANDRA_LIBJEMALLOC; fi
fi
echo "$LD_PRELOAD $COLDSTREAM_PROFILE"
"#;

const LIBRARY: &str = "/usr/lib/coldstream/libcoldstream.so";
const DROP_IN: &str = "etc/systemd/system/mariadb.service.d/coldstream.conf";

/// A system with the library, MariaDB and Cassandra.
struct System {
    scene: Scene,
    root: PathBuf,
}

impl System {
    fn new() -> Self {
        let scene = Scene::new();
        let root = scene.path("root");
        let system = Self { scene, root };
        system.file("lib/systemd/system/mariadb.service", MARIADB);
        system.file("etc/init.d/cassandra", "#!/bin/sh\n");
        system.file(
            "etc/cassandra/cassandra-env.sh",
            "JVM_OPTS=\"$JVM_OPTS -ea\"",
        );
        fs::create_dir_all(system.root.join("var/log")).unwrap();
        let library = system.file(&LIBRARY[1..], "");
        fs::copy(system.scene.path("libcoldstream.so"), library).unwrap();
        system
    }

    fn file(&self, path: &str, text: &str) -> PathBuf {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.scene.coldstream();
        command.args(words).arg("--root").arg(&self.root);
        command
    }

    fn attach(&self, words: &[&str]) -> Command {
        let mut command = self.command(&["attach-config", "--library", LIBRARY]);
        command.args(words);
        command
    }

    /// Every file, with its content.
    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        fn walk(directory: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(&path, files);
                } else {
                    files.push((path.clone(), fs::read(&path).unwrap()));
                }
            }
        }
        let mut files = Vec::new();
        walk(&self.root, &mut files);
        files.sort();
        files
    }
}

#[test]
fn a_unit_gets_a_drop_in_and_loses_it_again() {
    let system = System::new();
    let before = system.files();
    let (code, shown, said) = outcome(&mut system.attach(&["mariadb"]));
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("would write this") && said.contains("--write"),
        "{said}"
    );
    assert_eq!(system.files(), before, "nothing is written without --write");

    let (code, _, said) = outcome(&mut system.attach(&["mariadb.service", "--write"]));
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("systemctl daemon-reload && systemctl restart mariadb.service"),
        "{said}"
    );
    let text = system.text(DROP_IN);
    assert_eq!(text, shown, "the same as was shown");
    for line in [
        "[Service]",
        "Environment=LD_PRELOAD=/usr/lib/coldstream/libcoldstream.so",
        "Environment=COLDSTREAM_PROFILE=rocksdb",
        "LimitNICE=+0",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }

    let attached = system.files();
    let (_, _, said) = outcome(&mut system.attach(&["mariadb", "--write"]));
    assert!(said.contains("as wanted already"), "{said}");
    assert_eq!(system.files(), attached, "twice is the same as once");

    let (_, _, said) = outcome(&mut system.attach(&["mariadb", "--remove"]));
    assert!(said.contains("would delete"), "{said}");
    assert_eq!(system.files(), attached);
    let (code, _, _) = outcome(&mut system.attach(&["mariadb", "--remove", "--write"]));
    assert_eq!(code, 0);
    assert_eq!(system.files(), before, "nothing is left");
    assert!(
        !system
            .root
            .join("etc/systemd/system/mariadb.service.d")
            .exists()
    );
    let (code, _, said) = outcome(&mut system.attach(&["mariadb", "--remove", "--write"]));
    assert_eq!(
        (code, said.contains("does not exist: nothing to remove")),
        (0, true),
        "{said}"
    );
}

#[test]
fn former_settings_that_go_are_named() {
    let system = System::new();
    system.file(
        "lib/systemd/system/server.service",
        "[Service]\nExecStart=/usr/bin/server\n",
    );
    for subject in ["server", "/etc/cassandra/cassandra-env.sh"] {
        let first = [
            subject,
            "--priority",
            "off",
            "--log",
            "/var/log/a b.log",
            "--write",
        ];
        let (code, _, said) = outcome(&mut system.attach(&first));
        assert_eq!(
            (code, said.contains("former settings")),
            (0, false),
            "{said}"
        );
        // Shown before it is done, and said when it is.
        for write in [&[][..], &["--write"]] {
            let mut words = vec![subject, "--priority", "reads-first"];
            words.extend(write);
            let (code, _, said) = outcome(&mut system.attach(&words));
            assert_eq!(code, 0, "{said}");
            let words =
                "without these former settings: COLDSTREAM_LOG=/var/log/a b.log. To keep them";
            assert!(said.contains(words), "{said}");
        }
        let (_, _, said) = outcome(&mut system.attach(&[subject, "--remove", "--write"]));
        assert!(!said.contains("former settings"), "{said}");
    }
}

#[test]
fn what_the_unit_preloads_and_limits_stays() {
    let system = System::new();
    system.file(
        "etc/systemd/system/mariadb.service.d/jemalloc.conf",
        "[Service]\nEnvironment=\"LD_PRELOAD=/usr/lib/libjemalloc.so.2\"\nLimitNICE=-5\n",
    );
    let words = [
        "mariadb",
        "--priority",
        "off",
        "--log",
        "/var/log/a 100%.log",
    ];
    let (code, text, said) = outcome(&mut system.attach(&words));
    assert_eq!(code, 0, "{said}");
    for line in [
        "Environment=LD_PRELOAD=/usr/lib/coldstream/libcoldstream.so:/usr/lib/libjemalloc.so.2",
        "Environment=COLDSTREAM_PRIORITY=off",
        "Environment=\"COLDSTREAM_LOG=/var/log/a 100%%.log\"",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }
    assert!(!text.contains("LimitNICE"), "{text}");
}

#[test]
fn cassandras_unit_gets_the_variable_of_its_start_script() {
    let system = System::new();
    system.file("usr/lib/x86_64-linux-gnu/libjemalloc.so.1", "");
    let (code, text, said) = outcome(&mut system.attach(&["cassandra"]));
    assert_eq!(code, 0, "{said}");
    let line = "Environment=CASSANDRA_LIBJEMALLOC=/usr/lib/coldstream/libcoldstream.so:\
                /usr/lib/x86_64-linux-gnu/libjemalloc.so.1";
    assert!(text.lines().any(|it| it == line), "{text}");
    assert!(text.contains("COLDSTREAM_PROFILE=cassandra"), "{text}");
    assert!(!text.contains("=LD_PRELOAD"), "{text}");
}

#[test]
fn the_start_script_keeps_the_library() {
    let system = System::new();
    let name = "etc/cassandra/cassandra-env.sh";
    let path = system.root.join(name);
    set_mode(&path, 0o640);
    let before = system.files();
    let (code, shown, said) = outcome(&mut system.attach(&["/etc/cassandra/cassandra-env.sh"]));
    assert_eq!(code, 0, "{said}");
    assert!(shown.contains("CASSANDRA_LIBJEMALLOC"), "{shown}");
    assert_eq!(system.files(), before);
    let (code, _, said) =
        outcome(&mut system.attach(&["/etc/cassandra/cassandra-env.sh", "--write"]));
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("cassandra-env.sh.coldstream-backup"),
        "{said}"
    );
    let backup = system.text("etc/cassandra/cassandra-env.sh.coldstream-backup");
    assert_eq!(backup, "JVM_OPTS=\"$JVM_OPTS -ea\"");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);

    let started = |variable: &str, value: &str| {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", START_SCRIPT, "-"])
            .arg(&path)
            .env(variable, value);
        outcome(&mut shell).1
    };
    let library = LIBRARY;
    assert_eq!(started("X", ""), format!("{library} cassandra\n"));
    assert_eq!(
        started("CASSANDRA_LIBJEMALLOC", "/mine.so"),
        format!("{library}:/mine.so cassandra\n")
    );
    assert_eq!(
        started("CASSANDRA_LIBJEMALLOC", "-"),
        format!("{library} cassandra\n")
    );

    // Other settings replace the lines, and the copy of the original stays the only one.
    let words = [
        "/etc/cassandra/cassandra-env.sh",
        "--priority",
        "off",
        "--write",
    ];
    let (code, _, said) = outcome(&mut system.attach(&words));
    assert_eq!(code, 0, "{said}");
    assert_eq!(system.text(name).matches("coldstream: begin").count(), 1);
    assert!(
        system
            .text(name)
            .contains("export COLDSTREAM_PRIORITY='off'")
    );
    assert_eq!(system.files().len(), before.len() + 1);

    let words = ["/etc/cassandra/cassandra-env.sh", "--remove", "--write"];
    let (code, _, said) = outcome(&mut system.attach(&words));
    assert_eq!(code, 0, "{said}");
    assert_eq!(
        system.files(),
        before,
        "byte for byte as before, and no copy"
    );
}

/// A file with its text, the words of the command, its exit code, and words of its error.
type Case = (
    &'static str,
    &'static str,
    &'static [&'static str],
    i32,
    &'static [&'static str],
);

#[test]
fn a_node_is_attached_by_its_unit_or_by_its_start_script_and_not_by_both() {
    let ways = ["cassandra", "/etc/cassandra/cassandra-env.sh"];
    for (first, second) in [(ways[0], ways[1]), (ways[1], ways[0])] {
        let system = System::new();
        assert_eq!(outcome(&mut system.attach(&[first, "--write"])).0, 0);
        let before = system.files();
        let words = format!("attach-config {first} --remove --write");
        assert_error(&mut system.attach(&[second, "--write"]), 1, &[&words]);
        assert_eq!(system.files(), before);
        let mut remove = system.attach(&[first, "--remove", "--write"]);
        assert_eq!(outcome(&mut remove).0, 0);
        assert_eq!(outcome(&mut system.attach(&[second, "--write"])).0, 0);
    }
}

/// Whoever followed the documents by hand gets the same word.
#[test]
fn a_node_that_loads_the_library_by_hand_is_not_attached_again() {
    let by_hand = "LIBJEMALLOC=/usr/lib/coldstream/libcoldstream.so";
    let system = System::new();
    let script = "etc/cassandra/cassandra-env.sh";
    let text = format!("export CASSANDRA_{by_hand}\n{}", system.text(script));
    system.file(script, &text);
    let words = ["cassandra", "--write"];
    assert_error(
        &mut system.attach(&words),
        1,
        &["its start script loads", "by hand"],
    );
    // Without its drop-in it would be attached still.
    let (code, _, said) = outcome(&mut system.attach(&["cassandra", "--remove"]));
    assert_eq!(code, 0);
    let path = "/etc/cassandra/cassandra-env.sh";
    assert!(
        said.contains(&format!("{path} loads the library too")),
        "{said}"
    );

    let system = System::new();
    system.file(
        "etc/systemd/system/cassandra.service.d/own.conf",
        &format!("[Service]\nEnvironment=CASSANDRA_{by_hand}\n"),
    );
    let words = ["/etc/cassandra/cassandra-env.sh", "--write"];
    assert_error(
        &mut system.attach(&words),
        1,
        &["its unit loads", "by hand"],
    );
}

#[test]
fn root_writes_nothing_where_the_databases_user_may_change_the_path() {
    if !is_root() {
        return;
    }
    let system = System::new();
    let script = system.root.join("etc/cassandra/cassandra-env.sh");
    let conf = script.parent().unwrap();
    let before = system.text("etc/cassandra/cassandra-env.sh");
    std::os::unix::fs::chown(conf, Some(65534), Some(65534)).unwrap();
    let words = ["/etc/cassandra/cassandra-env.sh", "--write"];
    let said = [
        "etc/cassandra may be changed by user ",
        "setpriv --reuid=65534",
    ];
    assert_error(&mut system.attach(&words), 5, &said);
    assert_eq!(system.text("etc/cassandra/cassandra-env.sh"), before);
    // A link in a directory of root's that leads through one of the user's.
    system.file("srv/cassandra-env.sh", &before);
    std::os::unix::fs::symlink(&script, system.root.join("srv/link.sh")).unwrap();
    assert_error(&mut system.attach(&["/srv/link.sh", "--write"]), 5, &said);
    let (code, _, said) = outcome(&mut system.attach(&["/srv/cassandra-env.sh", "--write"]));
    assert_eq!(code, 0, "{said}");
}

/// Whatever is in the way is said with its file, and nothing is written.
#[test]
#[expect(clippy::too_many_lines, reason = "a list of cases")]
fn what_is_in_the_way_is_named() {
    let cases: [Case; 18] = [
        (
            DROP_IN,
            "[Service]\n",
            &["mariadb"],
            1,
            &["not made by", "delete it first"],
        ),
        (
            DROP_IN,
            "[Service]\n",
            &["mariadb", "--remove"],
            1,
            &["attach-config`: delete it by hand\n"],
        ),
        (
            DROP_IN,
            "# Made by `coldstream attach-config x`\n[Service]\nNice=3\n",
            &["mariadb"],
            1,
            &["line 3", "Nice=3"],
        ),
        (
            "run/mariadb-wsrep-new-cluster",
            "LD_PRELOAD=/j.so\n",
            &["mariadb"],
            1,
            &["wsrep", "wins over any drop-in", "libcoldstream.so:/j.so"],
        ),
        (
            "etc/systemd/system/mariadb.service.d/x.conf",
            "[Service]\nUnsetEnvironment=A LD_PRELOAD\n",
            &["mariadb"],
            1,
            &["x.conf", "UnsetEnvironment"],
        ),
        (
            "etc/systemd/system/mariadb.service.d/x.conf",
            "[Service]\nRootDirectory=/srv/db\n",
            &["mariadb"],
            1,
            &["RootDirectory=/srv/db"],
        ),
        (
            "x",
            "",
            &["postgresql"],
            7,
            &["no unit postgresql.service", "with a slash"],
        ),
        (
            "x",
            "",
            &["/etc/none.sh"],
            7,
            &["no file", "none.sh: correct the path", "without a slash"],
        ),
        (
            "x",
            "",
            &["/opt/cassandra-env.sh"],
            7,
            &["no file", "root/etc/cassandra/cassandra-env.sh"],
        ),
        (
            "etc/cassandra/cassandra-env.sh",
            "a=1\nexport LD_PRELOAD=/x.so\n",
            &["/etc/cassandra/cassandra-env.sh"],
            1,
            &["line 2 sets LD_PRELOAD"],
        ),
        // Both win over a drop-in: an init script and the start script read them.
        (
            "etc/cassandra/cassandra-env.sh",
            "a=1\nif true; then CASSANDRA_LIBJEMALLOC=/x.so; fi\n",
            &["cassandra"],
            1,
            &[
                "cassandra-env.sh, line 2",
                "wins over any drop-in",
                "Environment=CASSANDRA_LIBJEMALLOC",
            ],
        ),
        (
            "etc/default/cassandra",
            "CASSANDRA_LIBJEMALLOC=-\n",
            &["cassandra"],
            1,
            &["etc/default/cassandra, line 1", "wins over any drop-in"],
        ),
        (
            "etc/cassandra/cassandra.yaml",
            "cluster_name: a\n",
            &["/etc/cassandra/cassandra.yaml"],
            2,
            &["name of a shell script", "cassandra-env.sh"],
        ),
        (
            "etc/cassandra/cassandra-env.sh",
            "# coldstream: begin. Made by `coldstream attach-config`, which takes it away with --remove --write.\n\
             export MALLOC_ARENA_MAX=2\n# coldstream: end\n",
            &["/etc/cassandra/cassandra-env.sh", "--remove"],
            1,
            &["MALLOC_ARENA_MAX", "move it below"],
        ),
        (
            "etc/cassandra/cassandra-env.sh",
            "# coldstream: begin. Made by `coldstream attach-config`, which takes it away with --remove --write.\n\
             if [ \"$(uname -m)\" = aarch64 ]; then\n    export A=2\nfi\n# coldstream: end",
            &["/etc/cassandra/cassandra-env.sh", "--remove"],
            1,
            &["aarch64", "move it below"],
        ),
        (
            "etc/cassandra/cassandra-env.sh",
            "export CASSANDRA_LIBJEMALLOC=/opt/libcoldstream.so:/j.so\n",
            &["/etc/cassandra/cassandra-env.sh"],
            1,
            &["line 1 sets CASSANDRA_LIBJEMALLOC"],
        ),
        ("x", "", &["mariadb", "--window", "3"], 2, &["--window"]),
        (
            "x",
            "",
            &["/etc/cassandra/../cassandra/none"],
            2,
            &["name of a shell script"],
        ),
    ];
    for (path, text, words, code, expected) in cases {
        let system = System::new();
        system.file(path, text);
        let before = system.files();
        assert_error(system.attach(words).arg("--write"), code, expected);
        assert_eq!(system.files(), before, "{words:?}");
    }
}

#[test]
fn a_start_script_that_is_not_there_is_no_hint_at_itself() {
    let system = System::new();
    fs::remove_file(system.root.join("etc/cassandra/cassandra-env.sh")).unwrap();
    let words = ["no file", "cassandra-env.sh: name the file of your"];
    assert_error(
        &mut system.attach(&["/etc/cassandra/cassandra-env.sh"]),
        7,
        &words,
    );
}

/// In the words of `run`: the database would start without Coldstream.
#[test]
fn a_settings_file_and_a_log_that_run_refuses_are_refused() {
    let system = System::new();
    let scene = &system.scene;
    scene.file("key.toml", "colour = 3\n", 0o644);
    scene.file("log.toml", "log = \"/nope/dir/x.log\"\n", 0o644);
    for (option, value, code) in [
        ("--config", scene.path("missing.toml"), 3),
        ("--config", scene.path("key.toml"), 3),
        ("--config", scene.path("root"), 3),
        ("--config", scene.path("log.toml"), 7),
        ("--log", "/nope/dir/x.log".into(), 7),
        ("--log", scene.path("key.toml").join("x.log"), 1),
        ("--log", scene.path("root"), 1),
    ] {
        let said_by = |before: &[&str], after: &[&str]| {
            let mut command = scene.coldstream();
            command.args(before).arg(option).arg(&value).args(after);
            let (code, _, said) = outcome(&mut command);
            (code, said)
        };
        let of_run = said_by(&["run"], &["true"]);
        assert_eq!(of_run.0, code, "{of_run:?}");
        assert_eq!(said_by(&["attach-config", "none", "--write"], &[]), of_run);
    }
}

#[test]
fn a_settings_file_and_a_log_are_looked_for_under_the_root() {
    let system = System::new();
    let words = ["mariadb", "--write", "--config", "/etc/coldstream-x.toml"];
    let here = system.file("etc/coldstream-x.toml", "colour = 3\n");
    let name = here.to_str().unwrap();
    assert_error(&mut system.attach(&words), 3, &[name, "line 1", "unknown"]);
    fs::remove_file(&here).unwrap();
    assert_error(&mut system.attach(&words), 3, &[name, "No such file"]);
    system.file("etc/coldstream-x.toml", "log = \"/srv/x/coldstream.log\"\n");
    let words_of_log = ["root/srv/x/coldstream.log", "create the directory"];
    assert_error(&mut system.attach(&words), 7, &words_of_log);
    assert!(!system.root.join(DROP_IN).exists());
    fs::create_dir_all(system.root.join("srv/x")).unwrap();
    let (code, _, said) = outcome(&mut system.attach(&words));
    assert_eq!(code, 0, "{said}");
    assert!(
        system
            .text(DROP_IN)
            .contains("Environment=COLDSTREAM_CONFIG=/etc/coldstream-x.toml\n")
    );
    assert!(
        !system.root.join("srv/x/coldstream.log").exists(),
        "it would be root's"
    );
}

/// A group of the database's user may be able to read it, so it is not refused.
#[test]
fn a_settings_file_that_is_closed_to_others_is_told_of() {
    let system = System::new();
    let file = system.file("etc/coldstream-x.toml", "");
    for subject in ["mariadb", "/etc/cassandra/cassandra-env.sh"] {
        for (mode, is_told) in [(0o644, false), (0o640, true)] {
            set_mode(&file, mode);
            let words = [subject, "--config", "/etc/coldstream-x.toml"];
            let (code, _, said) = outcome(&mut system.attach(&words));
            assert_eq!(code, 0, "{said}");
            assert_eq!(said.contains("is closed to others"), is_told, "{said}");
        }
    }
    let root = MARIADB.replace("User=mysql", "User=root");
    system.file("lib/systemd/system/mariadb.service", &root);
    let words = ["mariadb", "--config", "/etc/coldstream-x.toml"];
    let (_, _, said) = outcome(&mut system.attach(&words));
    assert!(!said.contains("is closed to others"), "{said}");
}

#[test]
fn a_library_that_the_database_cannot_load_is_refused() {
    let system = System::new();
    let mut command = system.command(&["attach-config", "mariadb", "--library", "/opt/none.so"]);
    assert_error(&mut command, 7, &["no library at", "/opt/none.so"]);
    system.file("opt/text.so", "no library");
    let mut command = system.command(&["attach-config", "mariadb", "--library", "/opt/text.so"]);
    assert_error(&mut command, 1, &["not a shared library"]);
    set_mode(&system.root.join("usr/lib/coldstream"), 0o700);
    assert_error(
        &mut system.attach(&["mariadb"]),
        5,
        &["closed to others", "usr/lib/coldstream"],
    );
}

#[test]
fn no_permission_is_said_and_nothing_is_half_done() {
    if is_root() {
        return; // Root has all permissions.
    }
    let system = System::new();
    set_mode(&system.root.join("etc/cassandra"), 0o555);
    let before = system.files();
    let words = ["/etc/cassandra/cassandra-env.sh", "--write"];
    assert_error(&mut system.attach(&words), 5, &["cassandra-env.sh"]);
    assert_eq!(system.files(), before);
}

#[test]
fn a_program_can_read_the_plan() {
    let system = System::new();
    let (code, json, said) = outcome(&mut system.attach(&["mariadb", "--json"]));
    assert_eq!((code, said.as_str()), (0, ""));
    for word in [
        "\"deed\": \"make\"",
        "\"written\": false",
        DROP_IN,
        "\"backup\": null",
    ] {
        assert!(json.contains(word), "{word}: {json}");
    }
}

#[test]
#[expect(
    clippy::too_many_lines,
    reason = "one machine, looked at again and again"
)]
fn doctor_checks_a_unit_before_its_restart() {
    let system = System::new();
    let doctor = |unit: &str| doctor_says(&mut system.command(&["doctor", "--unit", unit]));
    let text = doctor("mariadb");
    assert!(
        text.contains("coldstream attach-config mariadb.service"),
        "{text}"
    );

    outcome(&mut system.attach(&["mariadb", "--write"]));
    let text = doctor("mariadb");
    assert!(text.contains(DROP_IN) && text.contains(LIBRARY), "{text}");
    let unit = text.split("mariadb.service").nth(1).unwrap();
    assert!(!unit.contains("change:"), "{text}");

    // Each thing that would keep it from working.
    let name = "etc/systemd/system/mariadb.service.d/x.conf";
    system.file("etc/wrong.toml", "colour = 3\n");
    // Nobody writes into it.
    let mut pipe = Command::new("mkfifo");
    assert!(
        pipe.arg(system.root.join("etc/pipe"))
            .status()
            .unwrap()
            .success()
    );
    for (setting, words) in [
        (
            "Environment=COLDSTREAM_CONFIG=/etc/wrong.toml",
            "/etc/wrong.toml: line 1: unknown key",
        ),
        (
            "Environment=COLDSTREAM_CONFIG=/etc/pipe",
            "not a regular file",
        ),
        ("Environment=COLDSTREAM_WRITES=fast", "refuse its settings"),
        ("Environment=COLDSTREAM=off", "would do nothing"),
        (
            "Environment=COLDSTREAM_WRITE=direct",
            "COLDSTREAM_WRITE would be ignored",
        ),
        ("LimitNICE=", "nice values"),
        ("SystemCallFilter=@system-service", "SystemCallErrorNumber"),
        ("RootDirectory=/srv", "must be in that root"),
        (
            "ExecStart=\nExecStart=/usr/bin/sudo -u db mariadbd",
            "`sudo`",
        ),
        ("Environment=LD_PRELOAD=", "no file of the unit loads"),
        (
            "Environment=LD_PRELOAD=/opt/libcoldstream.so",
            "no library at",
        ),
    ] {
        system.file(name, &format!("[Service]\n{setting}\n"));
        let text = doctor("mariadb");
        assert!(text.contains(words), "{setting}: {text}");
    }

    // What the loader fills in (ld.so(8)).
    for (path, words) in [
        ("/usr/lib/${LIB}/libcoldstream.so", None),
        (
            "/usr/$LIB/libcoldstream.so",
            Some("usr/lib64/libcoldstream.so: the service would start without it"),
        ),
        ("$ORIGIN/libcoldstream.so", Some("write its whole path")),
    ] {
        system.file("lib64/libc.so.6", "");
        let link = system.root.join("usr/lib/lib64");
        let _ = std::os::unix::fs::symlink("coldstream", link);
        system.file(name, &format!("[Service]\nEnvironment=LD_PRELOAD={path}\n"));
        let text = doctor("mariadb");
        let unit = text.split("mariadb.service").nth(1).unwrap();
        match words {
            Some(words) => assert!(text.contains(words), "{path}: {text}"),
            None => assert!(!unit.contains("change:"), "{path}: {text}"),
        }
    }

    // Whoever may replace the library runs code in the service.
    system.file(name, "");
    let directory = system.root.join("usr/lib/coldstream");
    set_mode(&directory, 0o777);
    let text = doctor("mariadb");
    assert!(text.contains("runs code in the service"), "{text}");
    set_mode(&directory, 0o755);

    // Without priorities nothing needs a limit.
    system.file(
        name,
        "[Service]\nLimitNICE=\nEnvironment=COLDSTREAM_PRIORITY=off\n",
    );
    let text = doctor("mariadb");
    assert!(!text.contains("nice values"), "{text}");

    // bin/cassandra would replace LD_PRELOAD.
    system.file("usr/lib/x86_64-linux-gnu/libjemalloc.so.1", "");
    system.file(
        "etc/systemd/system/cassandra.service.d/x.conf",
        &format!("[Service]\nEnvironment=LD_PRELOAD={LIBRARY}\n"),
    );
    assert!(doctor("cassandra").contains("CASSANDRA_LIBJEMALLOC"));
    // Unless it is told to leave jemalloc alone.
    system.file(
        "etc/systemd/system/cassandra.service.d/x.conf",
        &format!("[Service]\nEnvironment=LD_PRELOAD={LIBRARY} CASSANDRA_LIBJEMALLOC=-\n"),
    );
    assert!(!doctor("cassandra").contains("replaces LD_PRELOAD"));
    fs::remove_file(
        system
            .root
            .join("etc/systemd/system/cassandra.service.d/x.conf"),
    )
    .unwrap();
    outcome(&mut system.attach(&["/etc/cassandra/cassandra-env.sh", "--write"]));
    assert!(doctor("cassandra").contains("loaded by            /etc/cassandra/cassandra-env.sh"));
    // 4.1 maps its data files unless it is told not to.
    assert!(!doctor("cassandra").contains("mmap_index_only"));
    system.file("usr/share/cassandra/apache-cassandra-4.1.10.jar", "");
    let mode = "set `disk_access_mode: mmap_index_only` in /etc/cassandra/cassandra.yaml";
    for (configuration, is_said) in [
        ("cluster_name: c\n", true),
        ("disk_access_mode: standard\n", true),
        ("disk_access_mode: mmap_index_only\n", false),
    ] {
        system.file("etc/cassandra/cassandra.yaml", configuration);
        assert_eq!(
            doctor("cassandra").contains(mode),
            is_said,
            "{configuration}"
        );
    }
    // `--unit` takes no path of a start script.
    assert_error(
        &mut system.command(&["doctor", "--unit", "none"]),
        7,
        &["no unit none.service", "lists those that run\n"],
    );
}

#[test]
fn a_volume_gets_both_files_and_replaces_them_whole() {
    let scene = Scene::new();
    let volume = scene.path("volume");
    fs::create_dir(&volume).unwrap();
    let old = volume.join("libcoldstream.so");
    fs::write(&old, "old").unwrap();
    let reader = fs::File::open(&old).unwrap();
    let (code, _, said) = outcome(scene.coldstream().arg("copy").arg(&volume));
    assert_eq!(code, 0, "{said}");
    assert_eq!(
        fs::read(&old).unwrap(),
        fs::read(scene.path("libcoldstream.so")).unwrap()
    );
    let command = volume.join("coldstream");
    assert_eq!(
        command.metadata().unwrap().permissions().mode() & 0o777,
        0o755
    );
    assert_eq!(std::io::read_to_string(reader).unwrap(), "old");
    assert_eq!(fs::read_dir(&volume).unwrap().count(), 2);
    let mut command = scene.coldstream();
    assert_error(
        command.args(["copy", "/proc/none"]),
        7,
        &["cannot copy", "/proc/none"],
    );
}

/// A link of an image may name a file of the machine that works on the image.
#[test]
fn a_link_out_of_the_root_is_refused_and_a_linked_drop_in_is_only_unlinked() {
    let system = System::new();
    let outside = system.scene.file("outside.sh", "A=1\n", 0o644);
    let link = system.root.join("etc/cassandra/own-env.sh");
    std::os::unix::fs::symlink(&outside, &link).unwrap();
    let words = ["/etc/cassandra/own-env.sh", "--write"];
    assert_error(&mut system.attach(&words), 1, &["own-env.sh leads out of"]);
    assert_eq!(fs::read_to_string(&outside).unwrap(), "A=1\n");

    assert_eq!(outcome(&mut system.attach(&["mariadb", "--write"])).0, 0);
    let drop_in = system.root.join(DROP_IN);
    let kept = system.root.join("srv/kept/coldstream.conf");
    fs::create_dir_all(kept.parent().unwrap()).unwrap();
    fs::rename(&drop_in, &kept).unwrap();
    std::os::unix::fs::symlink(&kept, &drop_in).unwrap();
    let words = ["mariadb", "--remove", "--write"];
    assert_eq!(outcome(&mut system.attach(&words)).0, 0);
    assert!(kept.exists() && drop_in.symlink_metadata().is_err());
}

/// An init script reads the settings of the start script, and the start script reads them again.
#[test]
fn lines_that_are_read_twice_name_the_library_once() {
    let system = System::new();
    let words = ["/etc/cassandra/cassandra-env.sh", "--write"];
    assert_eq!(outcome(&mut system.attach(&words)).0, 0);
    let path = system.root.join("etc/cassandra/cassandra-env.sh");
    for (variable, value, expected) in [
        ("X", "", format!(":{LIBRARY}")),
        ("CASSANDRA_LIBJEMALLOC", "-", format!("{LIBRARY}:-")),
        (
            "CASSANDRA_LIBJEMALLOC",
            "/j.so",
            format!(":{LIBRARY}:/j.so"),
        ),
        ("LD_PRELOAD", "/t.so", format!("/t.so:{LIBRARY}:/t.so")),
        (
            "LD_PRELOAD",
            "/t.so /u.so",
            format!("/t.so /u.so:{LIBRARY}:/t.so:/u.so"),
        ),
    ] {
        let mut shell = Command::new("sh");
        let script = "set -ue; . \"$1\"; . \"$1\"; LD_PRELOAD=${LD_PRELOAD-}; echo \"$LD_PRELOAD:$CASSANDRA_LIBJEMALLOC\"";
        shell
            .args(["-c", script, "-"])
            .arg(&path)
            .env("JVM_OPTS", "")
            .env(variable, value);
        assert_eq!(outcome(&mut shell).1, expected + "\n", "{variable}={value}");
    }
}

/// What the start script reads counts as what the unit says.
#[test]
fn doctor_reads_the_settings_of_the_start_script() {
    let system = System::new();
    let script = "etc/cassandra/cassandra-env.sh";
    let words = [
        "/etc/cassandra/cassandra-env.sh",
        "--priority",
        "off",
        "--write",
    ];
    assert_eq!(outcome(&mut system.attach(&words)).0, 0);
    let doctor = || outcome(&mut system.command(&["doctor", "--unit", "cassandra"])).1;
    assert!(!doctor().contains("nice values"), "{}", doctor());
    let text = system.text(script);
    system.file(script, &text.replace("'off'", "'of'"));
    assert!(doctor().contains("refuse its settings"), "{}", doctor());
    system.file(script, &(text + "\nCASSANDRA_LIBJEMALLOC=-\n"));
    assert!(doctor().contains("the library may be lost"), "{}", doctor());
}

/// Files of Cassandra are not another unit's, and what cannot be read there hinders nobody.
#[test]
fn other_units_do_not_depend_on_files_of_cassandra() {
    let system = System::new();
    let path = system.root.join("etc/cassandra/cassandra-env.sh");
    fs::write(&path, b"# \xe9\nCASSANDRA_LIBJEMALLOC=-\n").unwrap();
    system.file("lib/systemd/system/cassandra-reaper.service", "[Service]\n");
    for unit in ["mariadb", "cassandra-reaper"] {
        let (code, text, said) = outcome(&mut system.attach(&[unit]));
        assert_eq!(code, 0, "{said}");
        assert!(text.contains("Environment=LD_PRELOAD="), "{text}");
        doctor_says(&mut system.command(&["doctor", "--unit", unit]));
    }
    assert_error(&mut system.attach(&["cassandra"]), 1, &["line 2 sets"]);
    // A new file behind a link that leads out of the root.
    let outside = system.scene.path("outside");
    fs::create_dir(&outside).unwrap();
    let directory = system.root.join("etc/systemd/system/mariadb.service.d");
    fs::create_dir_all(directory.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&outside, &directory).unwrap();
    assert_error(
        &mut system.attach(&["mariadb", "--write"]),
        1,
        &["leads out of"],
    );
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}
