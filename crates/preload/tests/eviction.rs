//! Eviction drops cold pages before the limit of the cgroup is reached, and nothing else. Real processes run
//! in a memory cgroup of their own.

mod subject;

use coldstream_control::{Counter, Mechanism, Outcome};
use coldstream_host::own_cgroup::MemoryCgroup;
use coldstream_host::process::{descriptors, threads};
use coldstream_io::sys::file::cache_statistics;
use coldstream_policy::memory_limits::Version;
use coldstream_testkit::library::Preload;
use coldstream_testkit::process::{Program, Running};
use coldstream_testkit::random::Random;
use coldstream_testkit::status_client::{StatusClient, resident_kib};
use coldstream_testkit::{directories, files, long, memory_cgroup, residency, skip, within};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use subject::{name_thread, wait_for};
use tempfile::TempDir;

const LIMIT_BYTES: u64 = 96 << 20;
const HOT_BYTES: u64 = 24 << 20;
/// Sizes of a flush and of another process's file.
const SMALL_BYTES: u64 = 8 << 20;
const COLD_BYTES: u64 = 192 << 20;
/// With everything else more than the margin allows, and less than the limit.
const DIRTY_BYTES: u64 = 56 << 20;
const PAGE_BYTES: u64 = 4096;

const HOT: &str = "000001.sst";
const FLUSHED: &str = "000002.sst";
const OF_ANOTHER: &str = "000003.sst";
const DIRTY: &str = "000004.sst";
/// Dirty too, and unknown to the library.
const DIRTY_BESIDE: &str = "beside";
const COLD: &str = "000005.sst";

/// Not a test: the entry of a subject, when another test starts this executable again.
#[test]
#[ignore = "started by the other tests, in a process of its own"]
fn subject_entry() {
    match subject::role().as_deref() {
        Some("serves") => serve(),
        Some(role) => panic!("no subject is called {role}"),
        None => {}
    }
}

/// The subject. It reads its hot SSTable all the time. Files tell it what else to do.
fn serve() {
    wait_for("begin");
    let is_over = AtomicBool::new(false);
    // Opened like an output of RocksDB's compaction. Such an SSTable has no grace period: only its heat
    // protects it.
    let hot = std::thread::spawn(|| {
        name_thread(c"rocksdb:low1");
        File::open(HOT).unwrap()
    });
    let _hot = hot.join().unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read_hot(&is_over));
        wait_for("hot");
        scope.spawn(|| {
            name_thread(c"rocksdb:high0");
            let file = write_table(FLUSHED, SMALL_BYTES);
            file.sync_all().unwrap();
            drop(file);
            let file = File::open(FLUSHED).unwrap();
            File::create_new("flushed").unwrap();
            wait_for("end");
            drop(file);
        });
        wait_for("flushed");
        scope.spawn(|| {
            name_thread(c"rocksdb:low0");
            let mut opened = Vec::new();
            for number in 0.. {
                loop {
                    if Path::new("end").exists() {
                        return;
                    }
                    if Path::new("write").exists() && !Path::new("written").exists() {
                        // No sync: the pages stay dirty.
                        drop(write_table(DIRTY, DIRTY_BYTES));
                        opened.push(File::open(DIRTY).unwrap());
                        File::create_new("written").unwrap();
                    }
                    if Path::new(&format!("read {number}")).exists() {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
                opened.push(stream(COLD));
                File::create_new(format!("done {number}")).unwrap();
            }
            wait_for("end");
        });
        wait_for("end");
        is_over.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
}

/// Reads all of it once, then at random offsets, until it is told to rest.
fn read_hot(is_over: &AtomicBool) {
    let file = File::open(HOT).unwrap();
    let mut bytes = vec![0; PAGE_BYTES as usize];
    let mut random = Random::new(7);
    let mut read = |page: u64| {
        file.read_exact_at(&mut bytes, page * PAGE_BYTES).unwrap();
        assert_eq!(
            files::first_difference(1, page * PAGE_BYTES, &bytes[..64]),
            None
        );
    };
    (0..HOT_BYTES / PAGE_BYTES).for_each(&mut read);
    File::create_new("hot").unwrap();
    while !is_over.load(Ordering::Relaxed) && !Path::new("rest").exists() {
        for _ in 0..64 {
            read(random.below(HOT_BYTES / PAGE_BYTES));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn write_table(name: &str, size_bytes: u64) -> File {
    let file = File::create_new(name).unwrap();
    let mut bytes = vec![0; 1 << 20];
    for offset in (0..size_bytes).step_by(bytes.len()) {
        files::fill(2, offset, &mut bytes);
        file.write_all_at(&bytes, offset).unwrap();
    }
    file
}

fn record_lock(kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

/// The process with a record lock on a file.
fn who_locks(path: &Path) -> Option<i32> {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut lock = record_lock(libc::F_WRLCK);
    // SAFETY: one structure is read and written.
    let asked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut lock) };
    assert_eq!(asked, 0);
    (lock.l_type != libc::F_UNLCK as libc::c_short).then_some(lock.l_pid)
}

/// Reads it like a compaction, in sequence, at 100 MiB/s. Holds a record lock, which would be lost if the
/// process closed another descriptor of the file.
fn stream(name: &str) -> File {
    let file = File::open(name).unwrap();
    let lock = record_lock(libc::F_RDLCK);
    // SAFETY: one structure is read.
    let locked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) };
    assert_eq!(locked, 0);
    let mut bytes = vec![0; 64 << 10];
    let started = Instant::now();
    for offset in (0..COLD_BYTES).step_by(bytes.len()) {
        file.read_exact_at(&mut bytes, offset).unwrap();
        assert_eq!(files::first_difference(3, offset, &bytes[..64]), None);
        let due = Duration::from_millis((offset >> 20) * 10);
        std::thread::sleep(due.saturating_sub(started.elapsed()));
    }
    file
}

/// The started subject, with a hot SSTable.
struct Scene {
    // Dropped first: only an empty cgroup can be removed.
    running: Running,
    cgroup: MemoryCgroup,
    directory: TempDir,
    client: StatusClient,
    streams: u32,
    all_caches_dropped: u64,
}

impl Scene {
    fn new() -> Option<Self> {
        Self::with_margin("3%")
    }

    fn with_margin(margin: &str) -> Option<Self> {
        if !has_cache_statistics() {
            skip("cachestat(2) needs Linux 6.5: nothing is dropped without it");
            return None;
        }
        let cgroup = memory_cgroup(LIMIT_BYTES)?;
        let all_caches_dropped = all_caches_dropped();
        let directory = directories::on_disk();
        let work = directory.path().join("work");
        fs::create_dir(&work).unwrap();
        files::create(&work.join(HOT), 1, HOT_BYTES);
        files::create(&work.join(COLD), 3, COLD_BYTES);
        let running = subject::program("serves", &work, &directory.path().join("journal"))
            .start_with(
                &Preload::quiet()
                    .with("COLDSTREAM_READS", "buffered")
                    .with("COLDSTREAM_WRITES", "buffered")
                    .with("COLDSTREAM_EVICTION", "on")
                    .with("COLDSTREAM_EVICTION_MARGIN", margin),
            );
        fs::write(cgroup.processes_file(), running.process_id().to_string()).unwrap();
        File::create_new(work.join("begin")).unwrap();
        let client = StatusClient::of(running.process_id());
        let mut scene = Self {
            cgroup,
            directory,
            running,
            client,
            streams: 0,
            all_caches_dropped,
        };
        scene.wait_for_file("flushed");
        Some(scene)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("work").join(name)
    }

    fn tell(&self, what: &str) {
        File::create_new(self.path(what)).unwrap();
    }

    fn wait_for_file(&mut self, name: &str) {
        let path = self.path(name);
        self.running.wait_until(|| path.exists());
    }

    /// Lets the subject read the cold SSTable once. Returns how often an allocation met the limit.
    fn stream(&mut self) -> u64 {
        let number = self.streams;
        self.streams += 1;
        let before = self.cgroup.limit_hits().unwrap();
        self.tell(&format!("read {number}"));
        self.wait_for_file(&format!("done {number}"));
        self.cgroup.limit_hits().unwrap() - before
    }

    /// Resident pages of a file, and the dirty ones among them.
    fn pages(&self, name: &str) -> (u64, u64) {
        let file = File::open(self.path(name)).unwrap();
        let statistics = cache_statistics(file.as_raw_fd(), 0, 1 << 40).unwrap();
        (statistics.cached_pages, statistics.dirty_pages)
    }

    /// Whether only the library can have dropped a page of the subject. The kernel drops pages when an
    /// allocation meets the limit, and benchmarks drop all caches.
    fn is_undisturbed(&self) -> bool {
        let is = self.cgroup.limit_hits().unwrap() == 0
            && all_caches_dropped() == self.all_caches_dropped;
        if !is {
            skip("the kernel has dropped pages too: not looked at which ones");
        }
        is
    }

    fn is_young(&self, name: &str) -> bool {
        let written = fs::metadata(self.path(name)).unwrap().modified().unwrap();
        let is = written.elapsed().unwrap() < Duration::from_secs(9);
        if !is {
            skip("this machine stood still: the flushed table is not young any more");
        }
        is
    }

    /// Asserts that a file is in the page cache. A kernel with DAMON may have reclaimed single pages, used or
    /// not.
    #[track_caller]
    fn assert_there(&self, name: &str) {
        let (missing, all) = self.missing(name);
        assert!(missing * 20 <= all, "{missing} of {all}");
    }

    fn missing(&self, name: &str) -> (usize, usize) {
        let pages = residency::resident_pages(&File::open(self.path(name)).unwrap());
        let missing = pages.iter().filter(|there| !**there).count();
        (missing, pages.len())
    }

    fn end(self) {
        self.tell("end");
        self.running.end().well();
    }

    fn thread(&self) -> i32 {
        let threads = threads(self.running.process_id());
        let mut named = threads
            .iter()
            .filter(|thread| thread.name == b"coldstream-evic");
        named.next().unwrap_or_else(|| panic!("{threads:?}")).id
    }
}

/// Number of files that the library's thread has open in its own descriptor table. Files of the kernel, which
/// it reads again and again, are left out.
fn open_tables(process: u32, thread: i32) -> usize {
    let own = fs::read_dir(format!("/proc/{process}/task/{thread}/fd")).unwrap();
    let links = own.filter_map(|link| fs::read_link(link.ok()?.path()).ok());
    links
        .filter(|path| !path.starts_with("/sys/fs/cgroup") && !path.starts_with("/proc"))
        .count()
}

/// Number of writes to `/proc/sys/vm/drop_caches` on this machine.
fn all_caches_dropped() -> u64 {
    let text = fs::read_to_string("/proc/vmstat").unwrap();
    let count = text
        .lines()
        .find_map(|line| line.strip_prefix("drop_pagecache "));
    count.map_or(0, |count| count.trim().parse().unwrap())
}

/// Whether a kernel thread reclaims pages that were idle for seconds, even with free memory. It has no
/// counter.
fn has_damon() -> bool {
    let mut entries = fs::read_dir("/proc").unwrap().flatten();
    entries.any(|entry| {
        let name = fs::read_to_string(entry.path().join("comm"));
        name.is_ok_and(|name| name.starts_with("kdamond"))
    })
}

fn has_cache_statistics() -> bool {
    let file = tempfile::tempfile().unwrap();
    cache_statistics(file.as_raw_fd(), 0, 1).is_ok()
}

#[test]
fn cold_pages_go_before_the_limit_is_reached_and_no_others() {
    let Some(mut scene) = Scene::new() else {
        return;
    };
    // An SSTable of another process. It is read there, and charged to the same cgroup.
    files::create(&scene.path(OF_ANOTHER), 4, SMALL_BYTES);
    let other = Program::new("/bin/cat").argument(scene.path(OF_ANOTHER));
    within(&scene.cgroup, &other).run().well();

    let process = scene.running.process_id();
    let descriptors_before = descriptors(process);
    // A thread with the lowest priority is late while others use all processors.
    let mut failures = scene.stream();
    while failures > 0 && scene.streams < 5 {
        failures = failures.min(scene.stream());
    }
    let dropped = scene.client.get(Counter::EvictionBytes);
    println!(
        "on: {failures} failures, {dropped} bytes dropped, {} ranges, {} ms, {} wakeups",
        scene.client.get(Counter::EvictionRanges),
        scene.client.get(Counter::EvictionNanoseconds) / 1_000_000,
        scene.client.get(Counter::EvictionWakeups),
    );
    assert!(dropped > COLD_BYTES - LIMIT_BYTES, "{dropped}");
    assert!(
        dropped <= COLD_BYTES * u64::from(scene.streams),
        "{dropped}"
    );
    // Only pages of the SSTable that was read. At least the dropped bytes are missing from it.
    let gone = COLD_BYTES * u64::from(scene.streams) - scene.pages(COLD).0 * PAGE_BYTES;
    assert!(dropped <= gone, "{dropped} of {gone}");
    if scene.is_undisturbed() {
        scene.assert_there(HOT);
    }
    for rests in [OF_ANOTHER, FLUSHED] {
        if scene.missing(rests).0 > 0 && has_damon() {
            skip("this kernel reclaims what rests: not looked at what has become of one table");
        } else if scene.is_undisturbed() && (rests == OF_ANOTHER || scene.is_young(rests)) {
            scene.assert_there(rests);
        }
    }
    assert_eq!(who_locks(&scene.path(COLD)), Some(process as i32));
    // SSTables that were just read stay open. The thread's own descriptors are open only while it looks at a
    // file.
    let expected = descriptors_before + scene.streams as usize;
    scene
        .running
        .wait_until(|| descriptors(process) == expected);
    assert_eq!(scene.client.get(Counter::EvictionRangesDirty), 0);
    assert_eq!(scene.client.get(Counter::EvictionRefused), 0);

    // Off: the same load meets the limit.
    assert_eq!(scene.client.off(&[Mechanism::Eviction]), Outcome::Done);
    let dropped = scene.client.get(Counter::EvictionBytes);
    let failures_when_off = scene.stream();
    assert_eq!(scene.client.get(Counter::EvictionBytes), dropped);
    println!("off: {failures_when_off} failures");
    assert!(failures_when_off > 50, "{failures_when_off}");
    assert!(
        failures * 2 <= failures_when_off,
        "{failures} of {failures_when_off}"
    );

    // On again.
    assert_eq!(scene.client.off(&[]), Outcome::Done);
    let is_dropped_again = (0..5).any(|_| {
        let before = scene.client.get(Counter::EvictionBytes);
        scene.stream();
        scene.client.get(Counter::EvictionBytes) > before + COLD_BYTES / 2
    });
    assert!(is_dropped_again);
    scene.end();
}

#[test]
fn dirty_pages_stay_and_stay_dirty() {
    // At most an eighth of the limit is kept free.
    let Some(mut scene) = Scene::with_margin("25%") else {
        return;
    };
    if scene.cgroup.version() == Version::V2 {
        skip("version 2 writes back what is dirty beyond a share of the cgroup's memory");
        scene.end();
        return;
    }
    let beside = File::create_new(scene.path(DIRTY_BESIDE)).unwrap();
    beside.write_all_at(&[1; 1 << 20], 0).unwrap();
    // Nothing reads dropped pages again.
    scene.tell("rest");
    scene.tell("write");
    scene.wait_for_file("written");
    let usage = scene.cgroup.used_bytes().unwrap();
    assert!(
        usage > LIMIT_BYTES - LIMIT_BYTES / 8,
        "{usage}: there is room enough, and this test shows nothing"
    );
    let client = &scene.client;
    let ranges = DIRTY_BYTES / (224 << 10);
    scene
        .running
        .wait_until(|| client.get(Counter::EvictionRangesDirty) >= ranges);
    // The step that found the last of them may still run.
    let woken = client.get(Counter::EvictionWakeups);
    scene
        .running
        .wait_until(|| client.get(Counter::EvictionWakeups) > woken + 2);
    let (cached, dirty) = scene.pages(DIRTY);
    let (_, dirty_beside) = scene.pages(DIRTY_BESIDE);
    println!(
        "{dirty} of {cached} pages are dirty, and {dirty_beside} beside; {} failures, {} bytes dropped",
        scene.cgroup.limit_hits().unwrap(),
        scene.client.get(Counter::EvictionBytes),
    );
    if dirty_beside < 256 {
        skip("somebody has synced all filesystems meanwhile");
        return;
    }
    assert_eq!(cached, DIRTY_BYTES / PAGE_BYTES);
    assert_eq!(dirty, cached);
    // Everything is hot or dirty, except the flushed SSTable, which is young for a while.
    let dropped = scene.client.get(Counter::EvictionBytes);
    let allowed = if scene.is_young(FLUSHED) {
        0
    } else {
        SMALL_BYTES
    };
    assert!(dropped <= allowed, "{dropped}");
    if scene.is_undisturbed() {
        scene.assert_there(HOT);
    }
    scene.end();
}

#[test]
fn switching_for_ever_while_pages_are_dropped() {
    let Some(mut scene) = Scene::new() else {
        return;
    };
    let process = scene.running.process_id();
    let mut random = Random::new(coldstream_testkit::seed());
    let open_before = descriptors(process);
    let thread = scene.thread();
    let cycles = if long() { 1000 } else { 200 };
    let mut early = (0, 0);
    let mut started = 0;
    let mut cycle = 0;
    // A reader on a slow disk takes long.
    while cycle < cycles || started < 4 {
        // Readers of the cold SSTable, one after another. Each checks what it reads.
        if started == 0 || scene.path(&format!("done {}", started - 1)).exists() {
            scene.tell(&format!("read {started}"));
            started += 1;
        }
        assert_eq!(scene.client.off(&[Mechanism::Eviction]), Outcome::Done);
        let dropped = scene.client.get(Counter::EvictionBytes);
        std::thread::sleep(Duration::from_millis(random.below(10)));
        assert_eq!(scene.client.get(Counter::EvictionBytes), dropped);
        assert_eq!(scene.client.off(&[]), Outcome::Done);
        std::thread::sleep(Duration::from_millis(random.below(60)));
        if cycle == cycles / 4 {
            early = (threads(process).len(), resident_kib(process));
        }
        cycle += 1;
    }
    scene.wait_for_file(&format!("done {}", started - 1));
    let dropped = scene.client.get(Counter::EvictionBytes);
    println!(
        "{cycle} times, {} MiB dropped meanwhile; the longest switch took {:?}",
        dropped >> 20,
        scene.client.longest
    );
    assert!(dropped > COLD_BYTES - LIMIT_BYTES, "{dropped}");
    assert_eq!(scene.client.get(Counter::EvictionRefused), 0);
    let late = (threads(process).len(), resident_kib(process));
    assert!(
        late.0 <= early.0 && late.1 <= early.1 + (8 << 10),
        "threads and resident KiB {early:?}, then {late:?}"
    );
    // SSTables that were read stay open.
    let expected = open_before + started;
    scene
        .running
        .wait_until(|| descriptors(process) <= expected);
    // The thread opens the SSTables that it checks in its own descriptor table.
    scene
        .running
        .wait_until(|| open_tables(process, thread) == 0);
    scene.end();
}

#[test]
fn a_thread_with_nothing_to_do_costs_nothing() {
    let Some(scene) = Scene::new() else {
        return;
    };
    let process = scene.running.process_id();
    let thread = scene.thread();
    let used_ns = || {
        let path = format!("/proc/{process}/task/{thread}/schedstat");
        let text = fs::read_to_string(path).unwrap();
        text.split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    use coldstream_io::sys::thread_priority::{io_priority, nice};
    assert_eq!((nice(thread), io_priority(thread)), (Ok(19), Ok(3 << 13)));
    assert_eq!(open_tables(process, thread), 0, "none of the process's");
    let started = Instant::now();
    let before = used_ns();
    std::thread::sleep(Duration::from_secs(3));
    let share = (used_ns() - before) as f64 / started.elapsed().as_nanos() as f64;
    println!("{:.4} % of a processor at rest", share * 100.0);
    assert!(share < 0.01, "{share}");
    scene.end();
}
