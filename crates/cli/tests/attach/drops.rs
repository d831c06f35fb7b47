//! What is dropped, what stays, and what is warmed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use coldstream_testkit::database::sstables;
use coldstream_testkit::residency::{cached_pages, drop_pages, resident_pages};
use coldstream_testkit::{directories, skip, tools};
use rustix::process::Signal;

use crate::subject::{
    COLDSTREAM, OUTPUT, PAGE, PAGES, Subject, attach, attached, counter, ended, eventually,
    interrupt, kept, signal,
};

#[test]
fn what_a_compaction_brought_in_is_dropped_and_nothing_else() {
    for (thread, advice) in [("rocksdb:low", "random"), ("client", "sequential")] {
        assert_drops_exactly(thread, advice, |_| ());
    }
}

/// Asserts it of a new subject, which is prepared first.
fn assert_drops_exactly(thread: &str, advice: &str, prepare: impl Fn(&mut Subject)) {
    // The machine may reclaim some pages meanwhile, but not every time.
    let mut tries = (0..3).map_while(|_| {
        let mut subject = Subject::with_compactions_by(thread);
        prepare(&mut subject);
        drops_exactly(&mut subject, thread, advice)
    });
    let Some(first) = tries.next() else {
        return;
    };
    let found = first.is_ok() || tries.any(|found| found.is_ok());
    assert!(found, "{thread}: {first:?}");
}

/// The pages that stayed, as an error, if they are not those of the foreground. `None` where it cannot be tried.
fn drops_exactly(
    subject: &mut Subject,
    thread: &str,
    advice: &str,
) -> Option<Result<(), Vec<usize>>> {
    subject.read("client", "random", 100..110);
    let child = attach(subject)?;
    subject.read("client", "random", 300..310);
    // Nothing is dropped before some bytes of a resident page are read: that is enough.
    signal(&child, Signal::STOP);
    subject.read(thread, advice, 0..PAGES);
    subject.read("client", "few", 250..251);
    signal(&child, Signal::CONT);
    subject.write_sstable();
    subject.read("client", "random", 200..210);
    let expected = [100..110, 200..210, 250..251, 300..310];
    let is_exact = eventually(|| kept(subject, &expected));
    let stayed = subject.resident();
    assert_eq!(interrupt(child), Some(0));
    // It has left: a compaction's pages stay.
    subject.read(thread, advice, 400..500);
    let resident = subject.resident();
    let is_left_alone = (400..500).all(|page| resident.contains(&page));
    Some(if is_exact && is_left_alone {
        Ok(())
    } else {
        Err(stayed)
    })
}

/// When an SSTable appears beside a scan.
#[derive(Clone, Copy, Debug)]
enum Appears {
    Never,
    /// Before the scan by more than the five seconds in which it would be a sign of a compaction.
    LongBefore,
    Afterwards,
}

#[test]
fn a_users_long_scan_stays() {
    // Pebble's scans get their descriptor late. A scan from the start is known as there is no output.
    for (first, sstable) in [
        (64, Appears::Afterwards),
        (0, Appears::Never),
        (0, Appears::LongBefore),
    ] {
        // The machine may reclaim some pages meanwhile, but not every time.
        let mut tries = (0..3).map_while(|_| scan_stays(first, sstable));
        let Some(first_try) = tries.next() else {
            return;
        };
        assert!(
            first_try || tries.any(|stays| stays),
            "from page {first}, {sstable:?}"
        );
    }
}

/// Whether all pages of a scan stay. `None` where it cannot be tried.
fn scan_stays(first: usize, sstable: Appears) -> Option<bool> {
    let mut subject = Subject::new();
    let child = attach(&subject)?;
    if let Appears::LongBefore = sstable {
        subject.write_sstable();
        std::thread::sleep(Duration::from_millis(5500));
    }
    subject.read("client", "sequential", first..PAGES);
    if let Appears::Afterwards = sstable {
        subject.write_sstable();
    }
    // Its pages would be dropped after a second at the latest.
    std::thread::sleep(Duration::from_millis(1500));
    let resident = subject.resident();
    assert_eq!(counter(&subject.pid(), "bytes_drop_behind"), 0);
    assert_eq!(interrupt(child), Some(0));
    Some((first..PAGES).all(|page| resident.contains(&page)))
}

#[test]
fn large_reads_of_a_compaction_are_dropped_and_counted_as_they_are() {
    let mut subject = Subject::with_compaction_thread();
    let Some(child) = attach(&subject) else {
        return;
    };
    subject.read("rocksdb:low", "large", 0..PAGES);
    assert!(
        eventually(|| subject.resident().is_empty()),
        "{:?}",
        subject.resident()
    );
    let read = || counter(&subject.pid(), "bytes_drop_behind");
    // The machine may have reclaimed some.
    let is_counted = |bytes: usize| bytes > PAGES * PAGE / 2 && bytes <= PAGES * PAGE;
    assert!(eventually(|| is_counted(read())), "{}", read());
    assert_eq!(interrupt(child), Some(0));
}

#[test]
fn an_output_of_a_compaction_is_dropped_and_that_of_a_flush_stays() {
    let mut subject = Subject::with_compaction_thread();
    let Some(child) = attach(&subject) else {
        return;
    };
    let (output, flushed) = ("000008.sst", "000009.sst");
    let path = |name: &str| subject.directory.path().join(name);
    let (output, flushed) = (path(output), path(flushed));
    subject.ask("rocksdb:low", "write", &output, 0..PAGES);
    subject.ask("rocksdb:high", "write", &flushed, 0..PAGES);
    let cached = |path: &Path| cached_pages(&File::open(path).unwrap());
    // It is no SSTable. Its last page was looked at to find that out.
    assert!(eventually(|| cached(&output) <= 1), "{}", cached(&output));
    assert!(cached(&flushed) > 0);
    assert_eq!(interrupt(child), Some(0));
}

/// The output is a copy of the input, so the same pages are hot. Large folios hold them with others.
#[test]
fn hot_pages_of_an_output_are_warm_and_the_others_are_dropped() {
    /// Pages that may stay for each hot one, and for index and filters.
    const WITH_A_HOT_PAGE: usize = 6;
    const OF_THE_END: usize = 60;
    let directory = directories::on_disk();
    let Some(sstable) = real_sstable(directory.path()) else {
        skip("db_bench is not installed");
        return;
    };
    let hot = [40, 300, 301, 900, 1500];
    let try_once = || {
        let mut subject = Subject::with_compaction_thread();
        let input = subject.directory.path().join("000020.sst");
        fs::copy(&sstable, &input).unwrap();
        drop_pages(&File::open(&input).unwrap());
        let child = attach(&subject)?;
        for page in hot {
            subject.ask("client", "random", &input, page..page + 1);
        }
        subject.ask("rocksdb:low", "compact", &input, 0..0);
        let output = File::open(input.with_file_name(OUTPUT)).unwrap();
        let resident = || -> Vec<usize> {
            let flags = resident_pages(&output);
            (0..flags.len()).filter(|page| flags[*page]).collect()
        };
        let is_exact = |pages: &[usize]| {
            hot.iter().all(|page| pages.contains(page))
                && pages.len() <= hot.len() * WITH_A_HOT_PAGE + OF_THE_END
        };
        let holds = eventually(|| is_exact(&resident()));
        assert_eq!(interrupt(child), Some(0));
        Some(holds.then_some(()).ok_or_else(resident))
    };
    // The machine may reclaim some pages meanwhile, but not every time.
    let mut tries = (0..3).map_while(|_| try_once());
    let Some(first) = tries.next() else {
        return;
    };
    assert!(first.is_ok() || tries.any(|it| it.is_ok()), "{first:?}");
}

/// An SSTable of 8 MiB that RocksDB wrote.
fn real_sstable(directory: &Path) -> Option<PathBuf> {
    let database = directory.join("database");
    let fill = Command::new(tools::find("db_bench")?)
        .args([
            "--benchmarks=fillseq,compact",
            "--num=2000",
            "--value_size=4000",
        ])
        .args(["--compression_type=none", "--disable_wal=1"])
        .arg(format!("--db={}", database.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(fill.success());
    let sstables = sstables(&database);
    assert_eq!(sstables.len(), 1);
    sstables.into_iter().next()
}

/// Where only advice tells, all of an SSTable stays unless its hot pages are known.
#[test]
fn an_sstable_that_cannot_be_read_stays_where_only_advice_tells() {
    let mut subject = Subject::new();
    let Some(child) = attach(&subject) else {
        return;
    };
    let output = subject.directory.path().join("000008.sst");
    subject.read("client", "sequential", 0..PAGES);
    subject.ask("client", "write", &output, 0..PAGES);
    let cached = || cached_pages(&File::open(&output).unwrap());
    // Its pages would be dropped after a second at the latest.
    std::thread::sleep(Duration::from_millis(1500));
    assert!(cached() > PAGES as u64 * 9 / 10, "{}", cached());
    assert_eq!(interrupt(child), Some(0));
}

/// As many as a process may open: 2^20 on most machines, 20,000 in some containers.
#[test]
fn a_process_with_very_many_sstables_is_followed() {
    const SSTABLES: usize = 100_000;
    assert_drops_exactly("rocksdb:low", "random", |subject| {
        let directory = subject.directory.path().to_owned();
        subject.ask("client", "open", &directory, 0..SSTABLES);
        println!("{} descriptors", subject.descriptors());
    });
}

/// `attach` is stopped while the ring overflows. Among the lost events are those of a reader.
#[test]
fn where_events_were_lost_no_page_of_the_foreground_is_dropped() {
    /// More than the ring holds.
    const READS: usize = 250_000;
    for (thread, advice) in [("rocksdb:low", "random"), ("client", "sequential")] {
        let mut subject = Subject::with_compactions_by(thread);
        let mut command = Command::new(COLDSTREAM);
        command.args(["attach", &subject.pid()]);
        let Some((child, mut lines)) = attached(&mut command) else {
            return;
        };
        signal(&child, Signal::STOP);
        subject.read(thread, advice, 0..PAGES);
        subject.write_sstable();
        subject.read("client", "often", 5..READS);
        subject.read("client", "few", 200..210);
        signal(&child, Signal::CONT);
        let lost = || counter(&subject.pid(), "attach_events_lost");
        assert!(eventually(|| lost() > 0), "{thread}");
        let said = lines.next().unwrap().unwrap();
        assert!(said.contains(&format!("lost {} events", lost())), "{said}");
        let screen = ended(&["ctl", "status", &subject.pid()]).well().text();
        assert!(screen.contains("events lost"), "{screen}");
        // The pages would be dropped after a second at the latest.
        std::thread::sleep(Duration::from_millis(1500));
        let resident = subject.resident();
        let stay = (200..210).all(|page| resident.contains(&page));
        assert!(stay, "{thread}: {resident:?}");
        assert_eq!(counter(&subject.pid(), "bytes_drop_behind"), 0, "{thread}");
        // The next compaction is as before.
        drop_pages(&File::open(subject.path()).unwrap());
        subject.read(thread, advice, 0..PAGES);
        subject.write_sstable();
        let is_dropped = eventually(|| subject.resident().is_empty());
        assert!(is_dropped, "{thread}: {:?}", subject.resident());
        assert_eq!(interrupt(child), Some(0));
    }
}
