//! Pacing: background I/O waits, keeps to its floor, and continues at once when pacing is switched off. A
//! flush never waits.

use crate::control::tables::STOP;
use crate::subject::{self, name_thread};
use coldstream_control::{Counter, Mechanism, Outcome};
use coldstream_testkit::files::{self, REST, fill, first_difference};
use coldstream_testkit::library::Preload;
use coldstream_testkit::process::Running;
use coldstream_testkit::status_client::StatusClient;
use coldstream_testkit::{directories, residency, tools};
use std::ffi::CStr;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The SSTable of the foreground, and the input of all compactions.
const HOT: &str = "nb-1-big-Data.db";
const HOT_PATH: &CStr = c"nb-1-big-Data.db";
const HOT_BYTES: u64 = 16 << 20;
const INPUT: &str = "nb-2-big-Data.db";
const INPUT_BYTES: u64 = 8 << 20;
const FLUSHED_BYTES: u64 = 1 << 20;
/// Number of reads before the first compaction. They define the idle level.
const READS_AT_REST: u64 = 1000;

/// The subject. Its foreground makes larger device reads, which take many times longer, while a compaction
/// runs. Compactions and flushes alternate until a file stops them.
pub fn run() {
    let hot = File::open(HOT).unwrap();
    residency::drop_pages(&hot);
    let mut bytes = vec![0; 1 << 20];
    let mut read = |number: u64, length: usize| {
        // The file is clean, and a sync would flush the device each time.
        subject::raw::drop_clean_pages(HOT_PATH);
        let places = (HOT_BYTES - length as u64) / 4096 + 1;
        let offset = (number * 7919) % places * 4096;
        hot.read_exact_at(&mut bytes[..length], offset).unwrap();
        assert_eq!(first_difference(1, offset, &bytes[..length]), None);
    };
    for number in 0..READS_AT_REST {
        read(number, 4096);
    }
    std::thread::scope(|scope| {
        scope.spawn(compact);
        for number in 0.. {
            if Path::new(STOP).exists() {
                break;
            }
            read(number, 1 << 20);
        }
    });
}

fn compact() {
    for round in 0.. {
        if Path::new(STOP).exists() {
            break;
        }
        let name = format!("nb-{}-big-Data.db", 10 + round);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                name_thread(c"CompactionExecu");
                write_what_is_read(&name);
            });
        });
        std::thread::scope(|scope| {
            scope.spawn(|| {
                name_thread(c"MemtableFlushWr");
                flush();
            });
        });
        File::create_new(format!("done {round}")).unwrap();
    }
}

fn write_what_is_read(name: &str) {
    let input = File::open(INPUT).unwrap();
    residency::drop_pages(&input);
    let mut output = File::create_new(name).unwrap();
    let mut bytes = vec![0; 64 << 10];
    for offset in (0..INPUT_BYTES).step_by(bytes.len()) {
        input.read_exact_at(&mut bytes, offset).unwrap();
        assert_eq!(first_difference(2, offset, &bytes), None);
        output.write_all(&bytes).unwrap();
    }
    output.sync_data().unwrap();
}

fn flush() {
    let name = "nb-3-big-Data.db";
    let mut bytes = vec![0; 64 << 10];
    let mut file = File::create(name).unwrap();
    for offset in (0..FLUSHED_BYTES).step_by(bytes.len()) {
        fill(3, offset, &mut bytes);
        file.write_all(&bytes).unwrap();
    }
    drop(file);
    std::fs::remove_file(name).unwrap();
}

/// One scene at a time: the I/O of another would change the idle level.
static ALONE: Mutex<()> = Mutex::new(());

/// The most scenes to start until background I/O waits in one of them within this time.
const SCENES: u32 = 3;
const WAITS_WITHIN: Duration = Duration::from_secs(20);

struct Scene {
    directory: TempDir,
    running: Running,
    client: StatusClient,
    _alone: MutexGuard<'static, ()>,
}

impl Scene {
    fn start(floor: u32, other: Option<&Path>) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = directories::on_disk();
        let work = directory.path().join("work");
        std::fs::create_dir(&work).unwrap();
        files::create(&work.join(HOT), 1, HOT_BYTES);
        files::create(&work.join(INPUT), 2, INPUT_BYTES);
        std::thread::sleep(REST);
        let preload = Preload::quiet()
            .with("COLDSTREAM_READS", "direct")
            .with("COLDSTREAM_WRITES", "direct")
            .with("COLDSTREAM_FLUSH", "bypass")
            .with("COLDSTREAM_PACING", "on")
            .with("COLDSTREAM_PACING_FLOOR", floor);
        let preload = match other {
            Some(other) => preload.behind(other),
            None => preload,
        };
        let journal = directory.path().join("journal");
        let running = subject::program("compacts and reads", &work, &journal).start_with(&preload);
        let client = StatusClient::of(running.process_id());
        Self {
            directory,
            running,
            client,
            _alone: alone,
        }
    }

    fn work(&self, name: &str) -> PathBuf {
        self.directory.path().join("work").join(name)
    }

    /// A scene in which a compaction has waited. The idle level is measured in a short time. If the device
    /// was slow in that time, no compaction has to wait, and the next scene is tried.
    fn that_waits(floor: u32) -> Self {
        Self::that_waits_beside(floor, None)
    }

    /// The same with another preload library.
    fn that_waits_beside(floor: u32, other: Option<&Path>) -> Self {
        for _ in 0..SCENES {
            let scene = Self::start(floor, other);
            let started = Instant::now();
            while started.elapsed() < WAITS_WITHIN {
                if scene.client.get(Counter::PacingWaits) >= 3 {
                    return scene;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            eprintln!("nothing waits: {}", scene.client.snapshot());
            scene.end();
        }
        panic!("nothing waits in {SCENES} scenes");
    }

    /// Waits until this number of compactions is done.
    fn wait_for_round(&mut self, round: u64) {
        let path = self.work(&format!("done {round}"));
        self.running.wait_until(|| path.exists());
    }

    fn rounds(&self) -> u64 {
        let done = |round: &u64| self.work(&format!("done {round}")).exists();
        (0..).take_while(done).count() as u64
    }

    /// Ends the scene. Every output equals the input.
    fn end(self) -> u64 {
        std::fs::write(self.work(STOP), "").unwrap();
        let rounds = self.rounds();
        self.running.end().well();
        for round in 0..rounds {
            let name = format!("work/nb-{}-big-Data.db", 10 + round);
            let bytes = std::fs::read(self.directory.path().join(&name)).unwrap();
            assert_eq!(bytes.len() as u64, INPUT_BYTES, "{name}");
            assert_eq!(first_difference(2, 0, &bytes), None, "{name}");
        }
        rounds
    }
}

#[test]
fn compactions_are_held_back_to_the_floor_and_no_further() {
    const FLOOR: u64 = 4;
    let mut scene = Scene::that_waits(FLOOR as u32);
    let before = scene.rounds();
    let started = Instant::now();
    scene.wait_for_round(before + 1);
    let took = started.elapsed();
    let rounds = scene.rounds();
    let page = scene.client.snapshot();
    let get = |counter| page.get(counter);
    eprintln!("{rounds} rounds, the last two took {took:?}: {page}");
    assert!(get(Counter::ForegroundReadsTimed) > READS_AT_REST / 2);
    assert!(page.device_reads() > READS_AT_REST / 2);
    assert!(get(Counter::PacingIdleNanoseconds) > 0);
    assert!(get(Counter::PacingBrakes) > 0 && get(Counter::PacingNanoseconds) > 0);
    // Bytes that were read and most bytes that were written for it. Not flushed bytes.
    let moved = get(Counter::PacingBytes);
    assert!(
        (rounds * INPUT_BYTES / 2 * 3..=(rounds + 1) * INPUT_BYTES * 2).contains(&moved),
        "{moved} in {rounds}"
    );
    assert!(get(Counter::FlushedBytes) >= rounds * FLUSHED_BYTES);
    let rate = get(Counter::PacingBytesPerSecond);
    assert!(rate == 0 || rate >= FLOOR << 20, "{rate}");
    assert_eq!(get(Counter::FallbackPanic), 0);
    scene.end();
}

#[test]
fn off_lets_go_at_once_for_as_long_as_it_is() {
    let mut scene = Scene::that_waits(1);
    let waits = |scene: &Scene| scene.client.get(Counter::PacingWaits);
    assert_eq!(scene.client.off(&[Mechanism::Pacing]), Outcome::Done);
    let before = scene.rounds();
    let moved = scene.client.get(Counter::PacingBytes);
    // Threads that were waiting at the switch are counted by now.
    scene.wait_for_round(before + 1);
    assert_eq!(scene.client.get(Counter::PacingBytesPerSecond), 0);
    assert_eq!(scene.client.get(Counter::PacingRequestBytes), 0);
    let later = waits(&scene);
    scene.wait_for_round(before + 3);
    assert_eq!(waits(&scene), later);
    assert!(scene.client.get(Counter::PacingBytes) <= moved + (1 << 20));
    scene.end();
}

/// Coldstream sleeps by the kernel's clock, and reads libc's.
#[test]
fn nobody_waits_for_a_clock_that_another_library_has_changed() {
    let directory = directories::on_disk();
    let options = ["-shared", "-fPIC"];
    let clock = tools::compile("other_clock.c", directory.path(), "clock.so", &options);
    let mut scene = Scene::that_waits_beside(1, Some(&clock));
    scene.wait_for_round(scene.rounds() + 1);
    assert_eq!(scene.client.off(&[Mechanism::Pacing]), Outcome::Done);
    assert!(scene.end() > 0);
}

#[test]
fn switching_what_waits_holds_nobody_up() {
    let mut scene = Scene::that_waits(1);
    for cycle in 0..60 {
        let chosen = match cycle % 3 {
            0 => &[Mechanism::Pacing][..],
            1 => &[Mechanism::Pacing, Mechanism::Reads, Mechanism::Writes],
            _ => &[Mechanism::Reads, Mechanism::Writes],
        };
        assert_eq!(scene.client.off(chosen), Outcome::Done);
        std::thread::sleep(Duration::from_millis(cycle));
        assert_eq!(scene.client.off(&[]), Outcome::Done);
        std::thread::sleep(Duration::from_millis(80 - cycle));
    }
    eprintln!("the longest switch took {:?}", scene.client.longest);
    assert!(scene.client.get(Counter::PacingWaits) > 0);
    assert_eq!(scene.client.get(Counter::FallbackPanic), 0);
    // Do not wait for the last compaction at the floor's rate.
    assert_eq!(scene.client.off(&[Mechanism::Pacing]), Outcome::Done);
    scene.wait_for_round(0);
    assert!(scene.end() > 0);
}
