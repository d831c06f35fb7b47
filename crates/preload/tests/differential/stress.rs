//! Unsequenced operations. Many threads of mixed roles read files with known content, while others create,
//! remove, rename, open, close, duplicate and fork. Every read must return the content of the opened file.
//! Nothing else can be compared, so only the run with the library is made.

use crate::subject::journal::Journal;
use crate::subject::{self, calls, machine, raw};
use coldstream_testkit::directories::{self, Filesystem};
use coldstream_testkit::exit_log::ExitLog;
use coldstream_testkit::library::Preload;
use coldstream_testkit::random::Random;
use coldstream_testkit::{files, long, seed};
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::Duration;

/// Files that exist from start to end.
const LASTING: u64 = 8;
/// The most other files.
const PASSING: usize = 12;

/// An existing file. No other file ever has its name.
#[derive(Clone)]
struct Known {
    identity: u64,
    size_bytes: u64,
    path: CString,
}

impl Known {
    fn create(identity: u64, size_bytes: u64) -> Self {
        let path = CString::new(format!("{identity:06}.sst")).unwrap();
        let file = raw::open(&path, libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL);
        let mut bytes = vec![0; size_bytes as usize];
        files::fill(identity, 0, &mut bytes);
        assert!(raw::write_at(file, &bytes, 0), "{path:?}");
        raw::close(file);
        raw::drop_pages(&path);
        Self {
            identity,
            size_bytes,
            path,
        }
    }

    fn open(&self) -> i32 {
        // SAFETY: the path is NUL-terminated.
        unsafe { calls::open64(self.path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC, 0) }
    }

    fn remove(&self) {
        // SAFETY: the path is NUL-terminated.
        unsafe { calls::unlink(self.path.as_ptr()) };
    }
}

struct World {
    lasting: Vec<Known>,
    /// Descriptors of the lasting files. All threads share them, like threads of an engine.
    shared: Vec<i32>,
    passing: RwLock<Vec<Known>>,
    identities: AtomicU64,
    over: AtomicBool,
    bytes: AtomicU64,
    faults: Mutex<Vec<String>>,
}

impl World {
    fn fault(&self, text: String) {
        let mut faults = self.faults.lock().unwrap();
        if faults.len() < 20 {
            faults.push(text);
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn any(&self, random: &mut Random) -> Known {
        let passing = self.passing.read().unwrap();
        if passing.is_empty() || random.once_in(2) {
            self.lasting[random.index(self.lasting.len())].clone()
        } else {
            passing[random.index(passing.len())].clone()
        }
    }
}

/// Reads a run of chunks and compares. Returns the first fault.
fn check(known: &Known, descriptor: i32, random: &mut Random) -> Result<u64, String> {
    let chunk = random.pick(&[4096, 4122, 16_384, 65_536]);
    let mut offset = random.below(known.size_bytes);
    let mut buffer = vec![0; chunk];
    let mut total = 0;
    for _ in 0..1 + random.below(60) {
        // SAFETY: the buffer has room for a chunk.
        let read =
            unsafe { calls::pread64(descriptor, buffer.as_mut_ptr().cast(), chunk, offset as i64) };
        let expected = chunk.min((known.size_bytes - offset) as usize);
        if read != expected as isize {
            let error = std::io::Error::last_os_error();
            return Err(format!(
                "file {}: {read} of {expected} bytes at {offset}: {error}",
                known.identity
            ));
        }
        if let Some(place) = files::first_difference(known.identity, offset, &buffer[..expected]) {
            return Err(format!("file {}: wrong byte at {place}", known.identity));
        }
        offset += expected as u64;
        total += expected as u64;
        if offset == known.size_bytes {
            break;
        }
    }
    Ok(total)
}

fn note(world: &World, result: Result<u64, String>) {
    match result {
        Ok(bytes) => {
            world.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        Err(fault) => world.fault(fault),
    }
}

fn name_thread(name: &CStr) {
    // SAFETY: the name is NUL-terminated.
    unsafe { calls::pthread_setname_np(libc::pthread_self(), name.as_ptr()) };
}

fn read_and_compare(world: &World, mut random: Random, name: &CStr) {
    name_thread(name);
    while !world.is_over() {
        if random.once_in(40) {
            let names = [name, c"reader", c"rocksdb:low", c"ValidationExecu"];
            name_thread(random.pick(&names));
        }
        if random.once_in(2) {
            let place = random.index(world.shared.len());
            let known = &world.lasting[place];
            note(world, check(known, world.shared[place], &mut random));
            continue;
        }
        let known = world.any(&mut random);
        let descriptor = known.open();
        if descriptor < 0 {
            continue;
        }
        note(world, check(&known, descriptor, &mut random));
        // SAFETY: descriptors of this thread's own.
        unsafe {
            if random.once_in(3) {
                let duplicate = calls::dup(descriptor);
                calls::close(descriptor);
                note(world, check(&known, duplicate, &mut random));
                calls::close(duplicate);
            } else if random.once_in(8) {
                raw::close(descriptor);
            } else {
                calls::close(descriptor);
            }
        }
    }
}

fn create_and_remove(world: &World, mut random: Random) {
    while !world.is_over() {
        let identity = world.identities.fetch_add(1, Ordering::Relaxed);
        let known = Known::create(identity, 1 + random.below(2 << 20));
        let gone = {
            let mut passing = world.passing.write().unwrap();
            passing.push(known);
            (passing.len() > PASSING).then(|| passing.remove(0))
        };
        if let Some(gone) = gone {
            gone.remove();
        }
        std::thread::sleep(Duration::from_millis(random.below(30)));
    }
}

/// Names appear and disappear, numbers are reused. Nothing is read.
fn stir(world: &World, mut random: Random) {
    while !world.is_over() {
        let (known, other) = (world.any(&mut random), world.any(&mut random));
        let (first, second) = (known.open(), other.open());
        // SAFETY: descriptors of this thread's own; NUL-terminated paths.
        unsafe {
            if first >= 0 && second >= 0 && random.once_in(2) {
                calls::dup2(first, second);
            }
            if first >= 0 && random.once_in(3) {
                let high = calls::fcntl(first, libc::F_DUPFD_CLOEXEC, 100);
                calls::close(high);
            }
            if known.identity >= LASTING && random.once_in(4) {
                let alias = CString::new(format!("{}.sst", 1_000_000 + known.identity)).unwrap();
                calls::link(known.path.as_ptr(), alias.as_ptr());
                calls::rename(alias.as_ptr(), c"999999.sst".as_ptr());
                calls::unlink(c"999999.sst".as_ptr());
            }
            if random.once_in(10) {
                raw::drop_pages(&known.path);
            }
            for descriptor in [first, second] {
                if descriptor >= 0 {
                    calls::close(descriptor);
                }
            }
        }
    }
}

fn fork_and_compare(world: &World, mut random: Random) {
    name_thread(c"rocksdb:low");
    while !world.is_over() {
        let known = world.any(&mut random);
        let shared = random.index(world.shared.len());
        // SAFETY: the child reads, compares and ends by a system call.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let old = check(&world.lasting[shared], world.shared[shared], &mut random);
            let descriptor = known.open();
            let new = if descriptor < 0 {
                Ok(0)
            } else {
                check(&known, descriptor, &mut random)
            };
            raw::exit(i32::from(old.is_err()) + 2 * i32::from(new.is_err()));
        }
        let mut status = 0;
        // SAFETY: waits for the child.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        if status != 0 {
            world.fault(format!("a child that compares ended with {status:x}"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The subject.
pub fn run() {
    let mut journal = subject::own_journal();
    machine::set_limits();
    let seed = std::env::var("SUBJECT_SEED").unwrap().parse().unwrap();
    let duration = Duration::from_secs(std::env::var("SUBJECT_SECONDS").unwrap().parse().unwrap());
    let mut random = Random::new(seed);
    let lasting: Vec<Known> = (0..LASTING)
        .map(|identity| Known::create(identity, (200 << 10) + random.below(3 << 20)))
        .collect();
    let world = World {
        shared: lasting.iter().map(Known::open).collect(),
        lasting,
        passing: RwLock::default(),
        identities: AtomicU64::new(LASTING),
        over: AtomicBool::new(false),
        bytes: AtomicU64::new(0),
        faults: Mutex::default(),
    };
    std::thread::scope(|scope| {
        let mut start = |work: fn(&World, Random)| {
            let (world, random) = (&world, Random::new(random.next()));
            scope.spawn(move || work(world, random));
        };
        start(create_and_remove);
        start(stir);
        start(fork_and_compare);
        for _ in 0..2 {
            start(|world, random| read_and_compare(world, random, c"rocksdb:low"));
            start(|world, random| read_and_compare(world, random, c"CompactionExecu"));
            start(|world, random| read_and_compare(world, random, c"reader"));
        }
        std::thread::sleep(duration);
        world.over.store(true, Ordering::Relaxed);
    });
    for fault in world.faults.lock().unwrap().iter() {
        journal.line(fault);
    }
    journal.line(&format!(
        "{} files made",
        world.identities.load(Ordering::Relaxed)
    ));
    journal.line(&format!(
        "{} bytes compared",
        world.bytes.load(Ordering::Relaxed)
    ));
    journal.line("end");
}

fn stress(filesystem: Filesystem, preload: Preload) {
    let Some(place) = directories::on(filesystem) else {
        return;
    };
    let records = directories::on_disk();
    let (journal, log) = (records.path().join("journal"), records.path().join("log"));
    let seed = seed();
    let seconds = if long() { 120 } else { 6 };
    println!("{filesystem:?}: seed {seed}");
    let work = place.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let ended = subject::program("stress", &work, &journal)
        .with_variable("SUBJECT_SEED", seed)
        .with_variable("SUBJECT_SECONDS", seconds)
        .limit(Duration::from_secs(2 * seconds + 60))
        .run_with(&preload.with("COLDSTREAM_LOG", log.display()))
        .well();
    let lines = Journal::read(&journal);
    let log = ExitLog::read(&log);
    println!("{lines:?}\n{}", log.text.lines().last().unwrap_or_default());
    assert_eq!(lines.len(), 3, "seed {seed}: {lines:#?}\n{ended:?}");
    assert!(
        log.direct_bytes > 0,
        "nothing was read directly: {}",
        log.text
    );
}

#[test]
fn every_byte_is_right_under_stress() {
    stress(Filesystem::Current, Preload::logging());
}

#[test]
fn every_byte_is_right_under_stress_with_little_memory() {
    let preload = Preload::logging()
        .with("COLDSTREAM_MEMORY_BYTES", "1MiB")
        .with("COLDSTREAM_WINDOW_BYTES", "128KiB")
        .with("COLDSTREAM_WINDOWS_IN_FLIGHT", 3);
    stress(Filesystem::Current, preload);
}

#[test]
fn every_byte_is_right_under_stress_on_xfs() {
    stress(Filesystem::Xfs, Preload::logging());
}
