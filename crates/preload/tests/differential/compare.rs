//! Runs a script without and with the library, and finds the first difference. A failing script is reduced
//! before it is shown.

use crate::subject::Script;
use crate::subject::journal::Journal;
use coldstream_testkit::exit_log::ExitLog;
use coldstream_testkit::library::Preload;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time limit for the reduction of a failing script.
const SHRINKING: Duration = Duration::from_secs(90);

/// The results of a run.
pub struct Seen {
    pub lines: Vec<String>,
    pub log: ExitLog,
}

/// The directories of one comparison: for the work of the programs, and for their records.
pub struct Bench<'a> {
    /// On the filesystem under test.
    pub place: &'a Path,
    /// On any filesystem.
    pub records: &'a Path,
}

impl Bench<'_> {
    fn work(&self) -> PathBuf {
        let work = self.place.join("work");
        std::fs::create_dir_all(&work).unwrap();
        work
    }

    /// Runs a script, with the library if there is a `preload`.
    pub fn run(&self, script: &Script, preload: Option<&Preload>) -> Seen {
        let journal = self.records.join("journal");
        let log_path = self.records.join("log");
        let _ = std::fs::remove_file(&journal);
        let _ = std::fs::remove_file(&log_path);
        let program = script.subject(&self.work(), &journal);
        let preload = preload.map(|preload| {
            preload
                .clone()
                .with("COLDSTREAM_LOG", log_path.to_str().unwrap())
        });
        let ended = program.run_either(preload.as_ref());
        let mut lines = Journal::read(&journal);
        if !ended.status.success() {
            lines.push(format!("{}: {}", ended.status, last_lines(&ended.stderr)));
        }
        Seen {
            lines,
            log: ExitLog::read(&log_path),
        }
    }

    /// Fails if the library changes a result. Shows the smallest part of the script that still fails.
    pub fn check(&self, script: &Script, plain: &Seen, preload: &Preload) -> ExitLog {
        let with = self.run(script, Some(preload));
        if plain.lines == with.lines {
            return with.log;
        }
        let (place, found) = difference(plain, &with).unwrap_or_default();
        let mut keep: Vec<usize> = script
            .operations()
            .iter()
            .map(|(number, _)| *number)
            .collect();
        // Operations after the first difference cannot have caused it.
        keep.truncate(place + 1);
        let small = self.shrink(script, keep, preload);
        let (plain, with) = (self.run(&small, None), self.run(&small, Some(preload)));
        panic!(
            "seed {} of {} operations in {}, {preload:?}\n{found}\n\
             made smaller: {:?}\n{}\n{}\nlog: {}",
            script.seed,
            script.count,
            self.place.display(),
            small.keep,
            with.lines.join("\n"),
            difference(&plain, &with).map_or("(now the same)".into(), |(_, found)| found),
            with.log.text,
        );
    }

    fn fails(&self, script: &Script, preload: &Preload) -> bool {
        let (plain, with) = (self.run(script, None), self.run(script, Some(preload)));
        plain.lines != with.lines
    }

    /// Removes operations in halves, quarters and so on, while the script still fails.
    fn shrink(&self, script: &Script, mut keep: Vec<usize>, preload: &Preload) -> Script {
        let started = Instant::now();
        let with = |keep: &[usize]| Script {
            keep: Some(keep.to_vec()),
            ..script.clone()
        };
        let mut piece = keep.len().div_ceil(2).max(1);
        loop {
            let mut start = 0;
            let mut shorter = false;
            while start < keep.len() && started.elapsed() < SHRINKING {
                let mut fewer = keep.clone();
                fewer.drain(start..(start + piece).min(keep.len()));
                if self.fails(&with(&fewer), preload) {
                    keep = fewer;
                    shorter = true;
                } else {
                    start += piece;
                }
            }
            if started.elapsed() >= SHRINKING || (piece == 1 && !shorter) {
                return with(&keep);
            }
            piece = (piece / 2).max(1);
        }
    }
}

/// The first line in which two runs differ: its number, and both versions.
pub fn difference(plain: &Seen, with: &Seen) -> Option<(usize, String)> {
    let place = plain
        .lines
        .iter()
        .zip(&with.lines)
        .position(|(a, b)| a != b)
        .or_else(|| {
            (plain.lines.len() != with.lines.len()).then(|| plain.lines.len().min(with.lines.len()))
        })?;
    let line = |seen: &Seen| seen.lines.get(place).cloned().unwrap_or("nothing".into());
    let found = format!("without: {}\nwith:    {}", line(plain), line(with));
    Some((place, found))
}

fn last_lines(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(8)..].join(" | ")
}
