//! Nice values and I/O priorities of background threads. They are set, not inherited, restored, and left
//! alone where they could not be restored.

use crate::subject;
use coldstream_control::{Counter, Mechanism, Outcome};
use coldstream_io::sys::thread_priority::{io_priority, nice, set_io_priority, set_nice};
use coldstream_policy::Priorities;
use coldstream_testkit::library::Preload;
use coldstream_testkit::status_client::StatusClient;
use coldstream_testkit::{directories, skip, tools};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The nice value at the start of a test. It spares other processes, and is better than the one that the
/// library sets.
pub const NICE: i32 = 5;
const LAST_LEVEL: i32 = 2 << 13 | 7;

/// Gives the calling thread, and processes that it starts, a nice value below that of background threads.
/// Where that is not allowed, skips the test and returns false.
pub fn start_nice() -> bool {
    let allowed = set_nice(0, NICE).is_ok();
    if !allowed {
        skip("may not lower its nice value");
    }
    allowed
}

/// Without the guard: this machine's processors may be saturated by other tests.
fn without_guard() -> Preload {
    Preload::quiet().with("COLDSTREAM_PRIORITY", "reads-first")
}

fn has_no_io_priority(io: i32) -> bool {
    io >> 13 == 0
}

/// The subject. A background thread starts another one when its priority is set, and ends when its priority
/// is restored. A third thread sets its own priority.
pub fn run() {
    File::create("000001.sst").unwrap();
    std::fs::write("000001.sst", vec![7; 1 << 20]).unwrap();
    let read = || {
        let file = File::open("000001.sst").unwrap();
        file.read_exact_at(&mut [0; 4096], 0).unwrap();
    };
    let wait_until = |is_so: &dyn Fn() -> bool| {
        let started = Instant::now();
        while !is_so() {
            assert!(started.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let (has_its_own, own_is_set) = std::sync::mpsc::channel();
    let own = std::thread::spawn(move || {
        // SAFETY: a NUL-terminated text.
        unsafe { subject::calls::prctl(libc::PR_SET_NAME, c"rocksdb:bottom".as_ptr()) };
        set_nice(0, 15).unwrap();
        set_io_priority(0, 3 << 13).unwrap();
        read();
        has_its_own.send(()).unwrap();
        wait_until(&|| {
            read();
            Path::new("stop").exists()
        });
    });
    own_is_set.recv().unwrap();
    // SAFETY: as above.
    unsafe { subject::calls::prctl(libc::PR_SET_NAME, c"rocksdb:low".as_ptr()) };
    let busy_until = |is_so: &dyn Fn() -> bool| {
        wait_until(&|| {
            read();
            is_so()
        });
    };
    busy_until(&|| io_priority(0) == Ok(LAST_LEVEL));
    // Another name means another role, even if the thread never uses an SSTable again. Its nice value cannot
    // be restored where that is not allowed.
    if std::env::var("COLDSTREAM_PRIORITY").as_deref() != Ok("always") {
        // SAFETY: as above.
        unsafe { subject::calls::prctl(libc::PR_SET_NAME, c"worker".as_ptr()) };
        wait_until(&|| nice(0) == Ok(NICE) && io_priority(0).is_ok_and(has_no_io_priority));
        // SAFETY: as above.
        unsafe { subject::calls::prctl(libc::PR_SET_NAME, c"rocksdb:low".as_ptr()) };
        busy_until(&|| io_priority(0) == Ok(LAST_LEVEL));
    }
    // A value that it sets itself now stays, also in a thread that it starts.
    const OWN: i32 = 3 << 13;
    set_io_priority(0, OWN).unwrap();
    let made = std::thread::spawn(|| io_priority(0));
    assert_eq!(made.join().unwrap(), Ok(OWN));
    assert_eq!(io_priority(0), Ok(OWN), "the maker keeps its own");
    // With none it gets one again. The control thread may have seen its own, so it must say who it is.
    set_io_priority(0, 0).unwrap();
    // SAFETY: as above.
    unsafe { subject::calls::prctl(libc::PR_SET_NAME, c"rocksdb:low".as_ptr()) };
    busy_until(&|| io_priority(0) == Ok(LAST_LEVEL));
    let given = nice(0).unwrap();
    let made = std::thread::spawn(|| (nice(0).unwrap(), io_priority(0).unwrap()));
    let (inherited, inherited_io) = made.join().unwrap();
    assert_eq!(nice(0), Ok(given), "the maker keeps its own");
    std::fs::write("part", "").unwrap();
    let c11 = nice_of_c11_thread();
    std::fs::write("part", format!("{given} {inherited} {inherited_io} {c11}")).unwrap();
    std::fs::rename("part", "inherited").unwrap();
    // Idle for a while, then busy again.
    wait_until(&|| Path::new("go on").exists());
    busy_until(&|| Path::new("stop").exists());
    own.join().unwrap();
}

/// The nice value of a new thread that `thrd_create` makes.
fn nice_of_c11_thread() -> i32 {
    unsafe extern "C" {
        fn thrd_join(thread: libc::pthread_t, result: *mut i32) -> i32;
    }
    extern "C" fn entry(_: *mut libc::c_void) -> i32 {
        nice(0).unwrap()
    }
    let (mut thread, mut found) = (0, -1);
    let entry: extern "C" fn(*mut libc::c_void) -> i32 = entry;
    // SAFETY: the function is what the call expects, and the thread is joined once.
    unsafe {
        let made =
            subject::calls::thrd_create(&raw mut thread, entry as *mut _, std::ptr::null_mut());
        assert_eq!(made, 0);
        assert_eq!(thrd_join(thread, &raw mut found), 0);
    }
    found
}

/// The nice value that the library set, the nice value and I/O priority of a new thread, and the nice value of
/// one by `thrd_create`.
fn inherited(work: &Path) -> Vec<i32> {
    let text = std::fs::read_to_string(work.join("inherited")).unwrap();
    text.split(' ').map(|word| word.parse().unwrap()).collect()
}

#[test]
fn threads_get_a_priority_and_what_they_had() {
    if !start_nice() {
        return;
    }
    let directory = directories::on_disk();
    let work = directory.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let mut running = subject::program("makes a thread", &work, &directory.path().join("journal"))
        .start_with(&without_guard());
    let mut client = StatusClient::of(running.process_id());
    running.wait_until(|| work.join("inherited").exists());
    let found = inherited(&work);
    assert_eq!(found[..2], [10, NICE], "a new thread has the former one");
    assert!(has_no_io_priority(found[2]));
    assert_eq!(found[3], NICE, "one by thrd_create too");
    assert_eq!(client.threads("rocksdb:low"), [(10, LAST_LEVEL)]);
    // The application's own priority was lower. The library does not change it.
    let own = [(15, 3 << 13)];
    assert_eq!(client.threads("rocksdb:bottom"), own);

    // At run time, up and down, but never better than the application's own.
    let set = |nice: &str, io: &str| {
        let priorities = Priorities::default().with_nice(nice).unwrap();
        priorities.with_io(io).unwrap()
    };
    assert_eq!(client.set(set("19", "idle")), Outcome::Done);
    assert_eq!(client.threads("rocksdb:low"), [(19, 3 << 13)]);
    client.wait_for("rocksdb:bottom", |nice, io| nice == 19 && io == 3 << 13);
    assert_eq!(client.set(set("0", "6")), Outcome::Done);
    assert_eq!(client.threads("rocksdb:low"), [(NICE, 2 << 13 | 6)]);
    assert_eq!(client.threads("rocksdb:bottom"), own);

    assert_eq!(client.set(Priorities::default()), Outcome::Done);
    let is_as_before = |client: &StatusClient| {
        let found = client.threads("rocksdb:low");
        assert!(
            found.len() == 1 && found[0].0 == NICE && has_no_io_priority(found[0].1),
            "{found:?}"
        );
        assert_eq!(client.threads("rocksdb:bottom"), own);
    };
    // An idle thread gets its former priority back at once, and the library's again when it continues.
    assert_eq!(client.off(&[Mechanism::Priority]), Outcome::Done);
    is_as_before(&client);
    assert_eq!(client.off(&[]), Outcome::Done);
    std::thread::sleep(Duration::from_millis(50));
    is_as_before(&client);
    std::fs::write(work.join("go on"), "").unwrap();
    for _ in 0..100 {
        client.wait_for("rocksdb:low", |nice, io| nice == 10 && io == LAST_LEVEL);
        // The counter changes a moment later.
        running.wait_until(|| client.get(Counter::PriorityThreads) == 1);
        assert_eq!(client.off(&[Mechanism::Priority]), Outcome::Done);
        is_as_before(&client);
        assert_eq!(client.get(Counter::PriorityThreads), 0);
        assert_eq!(client.off(&[]), Outcome::Done);
    }
    client.wait_for("rocksdb:low", |nice, io| nice == 10 && io == LAST_LEVEL);
    // An invalid request changes nothing.
    assert_eq!(client.ask(u64::MAX, 0), Outcome::Refused);
    assert_eq!(client.ask(1 << 40, 0), Outcome::Refused);
    assert_eq!(client.ask(0, u64::MAX), Outcome::Refused);
    assert_eq!(client.threads("rocksdb:low"), [(10, LAST_LEVEL)]);
    std::fs::write(work.join("stop"), "").unwrap();
    running.end().well();
}

#[test]
fn what_could_not_be_given_back_is_not_taken() {
    let Some(setpriv) = tools::find("setpriv") else {
        return;
    };
    if !tools::is_root() || !start_nice() {
        skip("needs root, to give a capability up");
        return;
    }
    let directory = directories::on_disk();
    for (mode, given, refused, outcome) in [
        ("reads-first", NICE, 1, Outcome::Done),
        ("always", 10, 0, Outcome::PriorityKept),
        ("off", NICE, 0, Outcome::Done),
    ] {
        let work = directory.path().join(mode);
        std::fs::create_dir(&work).unwrap();
        let drop = ["--bounding-set=-sys_nice", "--inh-caps=-sys_nice"];
        let mut running =
            subject::program("makes a thread", &work, &directory.path().join("journal"))
                .behind(&setpriv, &drop)
                .start_with(&Preload::quiet().with("COLDSTREAM_PRIORITY", mode));
        let mut client = StatusClient::of(running.process_id());
        if mode == "off" {
            // Nothing changes by default. A request does.
            assert_eq!(
                client.set(Priorities::none().with_io("7").unwrap()),
                Outcome::Done
            );
        }
        running.wait_until(|| work.join("inherited").exists());
        // A thread inherits a nice value that cannot be restored.
        assert_eq!(inherited(&work)[..2], [given, given], "{mode}");
        assert_eq!(client.threads("rocksdb:low"), [(given, LAST_LEVEL)]);
        assert_eq!(client.get(Counter::PriorityRefused), refused, "{mode}");
        assert_eq!(client.off(&[Mechanism::Priority]), outcome, "{mode}");
        let found = client.threads("rocksdb:low");
        assert!(
            found[0].0 == given && has_no_io_priority(found[0].1),
            "{mode}: {found:?}"
        );
        std::fs::write(work.join("go on"), "").unwrap();
        std::fs::write(work.join("stop"), "").unwrap();
        running.end().well();
    }
}

/// The subject. A compaction thread, and many threads that always want a processor, until there is a file.
pub fn run_saturated() {
    std::fs::write("000001.sst", vec![7; 1 << 20]).unwrap();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..3 * processors {
            scope.spawn(|| {
                while !Path::new("calm").exists() {
                    (0..1_000_000).for_each(|number| _ = std::hint::black_box(number));
                }
            });
        }
        scope.spawn(|| {
            // SAFETY: a NUL-terminated text.
            unsafe { subject::calls::prctl(libc::PR_SET_NAME, c"rocksdb:low".as_ptr()) };
            let file = File::open("000001.sst").unwrap();
            while !Path::new("stop").exists() {
                file.read_exact_at(&mut [0; 4096], 0).unwrap();
            }
        });
    });
}

#[test]
fn starving_threads_get_their_priority_back_unless_reads_come_first() {
    if !start_nice() {
        return;
    }
    let directory = directories::on_disk();
    for (mode, has_guard) in [("auto", true), ("reads-first", false)] {
        let work = directory.path().join(mode);
        std::fs::create_dir(&work).unwrap();
        let mut running = subject::program("saturates", &work, &directory.path().join("journal"))
            .start_with(&Preload::quiet().with("COLDSTREAM_PRIORITY", mode));
        let client = StatusClient::of(running.process_id());
        if has_guard {
            running.wait_until(|| client.get(Counter::PriorityReleases) > 0);
            client.wait_for("rocksdb:low", |nice, io| {
                nice == NICE && has_no_io_priority(io)
            });
            assert!(client.get(Counter::BackgroundWaitNanoseconds) > 0);
            std::fs::write(work.join("calm"), "").unwrap();
        }
        // With processors that are free, it gets a lower one again.
        client.wait_for("rocksdb:low", |nice, io| nice == 10 && io == LAST_LEVEL);
        if !has_guard {
            running.wait_until(|| client.waited_ns("rocksdb:low") > 2_000_000_000);
            assert_eq!(client.threads("rocksdb:low"), [(10, LAST_LEVEL)]);
            assert_eq!(client.get(Counter::PriorityReleases), 0);
            std::fs::write(work.join("calm"), "").unwrap();
        }
        std::fs::write(work.join("stop"), "").unwrap();
        running.end().well();
    }
}
