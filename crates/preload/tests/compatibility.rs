//! The library loads into the programs that start a database and into those of the database itself. Their
//! output does not change. It also loads into programs that use descriptors, threads and processes in ways
//! that preload libraries often get wrong.

use coldstream_testkit::library::Preload;
use coldstream_testkit::process::Program;
use coldstream_testkit::{files, tools};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Two cold tables and the test program.
struct Bench {
    directory: tempfile::TempDir,
    program: PathBuf,
}

impl Bench {
    fn new() -> Self {
        static PROGRAM: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
        let (_, program) = PROGRAM.get_or_init(|| {
            let directory = coldstream_testkit::directories::on_disk();
            let program = tools::compile("tables.c", directory.path(), "tables", &[]);
            (directory, program)
        });
        let bench = Self {
            directory: coldstream_testkit::directories::on_disk(),
            program: program.clone(),
        };
        files::create(&bench.path("000001.sst"), 1, 3_000_001);
        files::create(&bench.path("000002.sst"), 2, 1_000_001);
        std::thread::sleep(files::REST);
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn program(&self, what: &str) -> Program {
        Program::new(&self.program)
            .argument(what)
            .argument(self.path("000001.sst"))
            .argument(self.path("000002.sst"))
            .within(self.directory.path())
    }

    /// The log of a run with the library must show direct reads of the SSTable, where this filesystem allows
    /// them.
    fn run_same(&self, what: &str) {
        let plain = self.program(what).run().well();
        self.make_cold();
        let log = self.path("log");
        let with = self
            .program(what)
            .run_with(&Preload::logging_to(&log))
            .well();
        assert_eq!(plain, with, "{what}");
        let log = coldstream_testkit::exit_log::ExitLog::read(&log);
        assert!(
            log.direct_bytes + log.drop_behind_bytes + log.dontcache_bytes > 0,
            "{what}: nothing was served: {}",
            log.text
        );
    }

    fn make_cold(&self) {
        for name in ["000001.sst", "000002.sst"] {
            let file = std::fs::File::open(self.path(name)).expect("open");
            coldstream_testkit::residency::drop_pages(&file);
        }
    }
}

fn same(program: &Program) {
    let plain = program.run().well();
    let with = program.run_with(&Preload::logging());
    assert_eq!(plain, with);
}

#[test]
fn shells_print_the_same() {
    for shell in ["sh", "bash"] {
        if let Some(shell) = tools::find(shell) {
            let script = "for i in 1 2 3; do echo $i | cat; done; ls -d / | sort; (exit 3); \
                          echo $?; x=$(echo sub); echo $x; exec 5>&1; echo five >&5; exec 5>&-; \
                          cat <<END\nhere\nEND\n";
            same(&Program::new(shell).arguments(["-c", script]));
        }
    }
}

#[test]
fn python_prints_the_same() {
    if let Some(python) = tools::find("python3") {
        let script = "import subprocess, os, multiprocessing, tempfile\n\
            print(subprocess.run(['echo', 'a'], capture_output=True, close_fds=True).stdout)\n\
            def f(q): q.put(sum(range(1000)))\n\
            c = multiprocessing.get_context('fork')\n\
            q = c.Queue(); p = c.Process(target=f, args=(q,)); p.start(); print(q.get()); p.join()\n\
            r, w = os.pipe(); print(r, w); os.dup2(r, 50); os.close(50); os.closerange(10, 3000)\n\
            f = tempfile.TemporaryFile(); f.write(b'x' * 100000); f.flush(); f.truncate(5)\n\
            print(os.fstat(f.fileno()).st_size, f.seek(0), f.read())\n";
        same(&Program::new(python).arguments(["-c", script]));
    }
}

#[test]
fn git_makes_the_same_history() {
    if tools::find("git").is_none() {
        return;
    }
    let run = |preload: Option<&Preload>| {
        let directory = coldstream_testkit::directories::on_disk();
        let program = Program::shell(
            "set -e; git init -q -b main .; printf 'a\\nb\\n' > f; git add f; \
             git -c user.name=n -c user.email=e commit -q -m one; printf c >> f; \
             git -c user.name=n -c user.email=e commit -q -a -m two; git log --format=%H; \
             git fsck; git gc -q; git show --stat --format=%s; cat f",
        )
        .with_variable("GIT_AUTHOR_DATE", "2020-01-01T00:00:00Z")
        .with_variable("GIT_COMMITTER_DATE", "2020-01-01T00:00:00Z")
        .with_variable("GIT_CONFIG_GLOBAL", "/dev/null")
        .within(directory.path());
        program.run_either(preload).well()
    };
    assert_eq!(run(None), run(Some(&Preload::logging())));
}

#[test]
fn sqlite_keeps_the_same_rows() {
    if tools::find("sqlite3").is_none() {
        return;
    }
    let run = |preload: Option<&Preload>| {
        let directory = coldstream_testkit::directories::on_disk();
        let program = Program::shell(
            "sqlite3 000001.sst 'pragma journal_mode=wal; create table t(a, b); \
             with recursive c(x) as (select 1 union all select x+1 from c where x<5000) \
             insert into t select x, hex(x*x) from c; delete from t where a%3=0; vacuum; \
             select count(*), sum(a), max(b) from t; pragma integrity_check'",
        )
        .within(directory.path());
        program.run_either(preload).well()
    };
    assert_eq!(run(None), run(Some(&Preload::logging())));
}

#[test]
fn allocators_that_open_files_while_they_start() {
    for library in ["libjemalloc.so.2", "libtcmalloc_minimal.so.4"] {
        let Some(allocator) = tools::find_library(library) else {
            continue;
        };
        let bench = Bench::new();
        let plain = bench.program("scan").run().well();
        for preload in [
            Preload::quiet().behind(&allocator),
            Preload::quiet().in_front_of(&allocator),
        ] {
            bench.make_cold();
            assert_eq!(plain, bench.program("scan").run_with(&preload).well());
        }
    }
}

#[test]
fn calls_before_any_constructor() {
    let bench = Bench::new();
    let plain = bench.program("early").run().well();
    assert!(!plain.text().contains("early 0,"), "{plain:?}");
    let with = bench.program("early").run_with(&Preload::quiet()).well();
    assert_eq!(plain, with);
}

#[test]
fn a_chain_with_another_preload_library() {
    let bench = Bench::new();
    let other = tools::compile(
        "other_preload.c",
        bench.directory.path(),
        "other.so",
        &["-shared", "-fPIC", "-ldl"],
    );
    let lead = |path: &Path| {
        bench
            .program("scan")
            .with_variable("OTHER_FROM", path.display())
            .with_variable("OTHER_TO", bench.path("000002.sst").display())
    };
    let program = lead(&bench.path("000001.sst"));
    let alone = program
        .clone()
        .with_variable("LD_PRELOAD", other.display())
        .run()
        .well();
    assert!(
        alone.text().contains("other library led 1 opens"),
        "{alone:?}"
    );
    for preload in [
        Preload::quiet().behind(&other),
        Preload::quiet().in_front_of(&other),
    ] {
        bench.make_cold();
        assert_eq!(alone, program.run_with(&preload).well());
    }
}

#[test]
fn a_scan_with_errors_in_between() {
    Bench::new().run_same("scan");
}

#[test]
fn a_program_that_closes_all_it_does_not_know() {
    Bench::new().run_same("close-all");
}

#[test]
fn closes_that_the_library_does_not_see() {
    Bench::new().run_same("unseen-close");
}

/// `pthread_cancel` unwinds the thread through the call.
#[test]
fn a_thread_is_cancelled_in_any_call() {
    let directory = coldstream_testkit::directories::on_disk();
    let program = tools::compile(
        "cancelled_calls.c",
        directory.path(),
        "cancelled_calls",
        &["-std=gnu11", "-pthread"],
    );
    let calls = Program::new(&program).run().well().text();
    for call in calls.lines() {
        let program = Program::new(&program)
            .argument(directory.path())
            .argument(call);
        println!("{}", program.run().well().text());
        same(&program);
    }
}

#[test]
fn a_daemon_whose_child_is_the_database() {
    let bench = Bench::new();
    bench.run_same("daemon");
    let log = coldstream_testkit::exit_log::ExitLog::read(&bench.path("log"));
    assert_eq!(log.lines, 2, "parent and child both served: {}", log.text);
}

#[test]
fn vfork_and_fork_storms_beside_readers() {
    Bench::new().run_same("storm");
}

#[test]
fn a_signal_handler_that_reads_what_its_thread_is_reading() {
    Bench::new().run_same("signals");
}

#[test]
fn standard_error_that_has_become_a_file_of_the_database() {
    let bench = Bench::new();
    let journal = bench.path("journal");
    let program = Program::new(&bench.program)
        .argument("stderr")
        .argument(bench.path("000001.sst"))
        .argument(&journal);
    let plain = program.run().well();
    std::fs::remove_file(&journal).expect("remove");
    bench.make_cold();
    let with = program.run_with(&Preload::logging()).well();
    assert_eq!(plain, with);
    assert_eq!(std::fs::read(&journal).expect("read"), b"journal\n");
}

#[test]
fn closed_standard_streams() {
    let bench = Bench::new();
    for closing in ["2>&-", ">&-", "<&-", "<&- >&- 2>&-"] {
        let line = format!(
            "\"{}\" scan \"{}\" x {closing}; echo $?",
            bench.program.display(),
            bench.path("000001.sst").display()
        );
        let plain = Program::shell(&line).run();
        bench.make_cold();
        let with = Program::shell(&line).run_with(&Preload::logging());
        let numbers = |ended: &coldstream_testkit::process::Ended| ended.text();
        assert_eq!(numbers(&plain), numbers(&with), "{closing}");
    }
}

#[test]
fn a_wrong_configuration_leaves_the_program_alone() {
    let bench = Bench::new();
    let plain = bench.program("scan").run().well();
    let preload = Preload::logging().with("COLDSTREAM_READS", "fast");
    let with = bench.program("scan").run_with(&preload).well();
    assert_eq!(plain.stdout, with.stdout);
    let said = String::from_utf8_lossy(&with.stderr).into_owned();
    assert!(
        said.contains("off: COLDSTREAM_READS") && said.lines().count() == 1,
        "{said}"
    );
}

/// The empty variable of a service manager's `Environment=COLDSTREAM_CONFIG=`.
#[test]
fn an_empty_variable_is_none() {
    let bench = Bench::new();
    let preload = Preload::logging()
        .with("COLDSTREAM_CONFIG", "")
        .with("COLDSTREAM_READS", "");
    let with = bench.program("scan").run_with(&preload).well();
    let said = String::from_utf8_lossy(&with.stderr).into_owned();
    assert!(said.contains("event=reads"), "{said}");
}

#[test]
fn functions_that_an_old_glibc_lacks() {
    let room = coldstream_testkit::directories::on_disk();
    let program = tools::compile("younger.c", room.path(), "younger", &["-ldl"]);
    let options = ["-shared", "-fPIC", "-ldl"];
    let old_glibc = tools::compile("old_glibc.c", room.path(), "old.so", &options);
    let run = |preload: Option<&Preload>| {
        let directory = coldstream_testkit::directories::on_disk();
        let program = Program::new(&program).argument(directory.path());
        program.run_either(preload).well()
    };
    let plain = run(None);
    let staged = Preload::writing(("direct", "process"));
    for preload in [
        staged.clone(),
        staged.behind(&old_glibc),
        Preload::quiet().behind(&old_glibc),
        Preload::quiet()
            .behind(&old_glibc)
            .with("COLDSTREAM", "off"),
    ] {
        assert_eq!(plain, run(Some(&preload)), "{preload:?}");
    }
}
