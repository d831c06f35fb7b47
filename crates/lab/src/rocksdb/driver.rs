//! The load driver as a child process: started in its cgroup, with its preload library, and
//! read record by record.

use super::arguments::{RocksDbArgs, Start};
use super::dataset::Shape;
use super::mode::Mode;
use crate::error::{Interrupted, WrongValue};
use crate::interrupt;
use crate::option_name::option_name;
use crate::phase::{Event, Phase};
use anyhow::{Context, Result, bail};
use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Lines of a driver's standard error that an error shows.
const LAST_LINES: usize = 20;

/// Exit code with which the driver says that a value was wrong.
const WRONG_VALUE: i32 = 4;

/// Bytes of a record on the driver's standard output (`struct Record` in `records.h`).
const RECORD_BYTES: usize = 32;

fn decode(record: &[u8; RECORD_BYTES]) -> Result<Event> {
    let word = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&record[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    let (kind, phase) = (word(0) as u32, Phase::from_number((word(0) >> 32) as u32));
    Ok(match kind {
        0 => Event::Read {
            phase,
            intended_ns: word(8),
            start_ns: word(16),
            end_ns: word(24),
            // The driver ends at the first error.
            failed: false,
        },
        1 => Event::Phase {
            phase,
            at_ns: word(16),
            process_cpu_ns: word(8),
            load_cpu_ns: word(24),
        },
        2 => Event::Compacted {
            read_bytes: word(8),
            written_bytes: word(16),
        },
        4 => Event::Updated {
            updates: word(8),
            late_ns_max: word(16),
            debt_bytes: word(24),
        },
        other => bail!("the load driver sent a record of unknown kind {other}"),
    })
}

/// RocksDB options of every mode: incompressible values, small blocks, and next to no block
/// cache, so that the page cache is what matters.
pub fn base_options(arguments: &RocksDbArgs) -> String {
    // Under continuous updates levels are so small that compactions of all of them come within a
    // phase.
    let table_bytes: u64 = match arguments.update_mib_per_second {
        0 => 64 << 20,
        _ => 16 << 20,
    };
    let mut options = format!(
        "compression=kNoCompression;write_buffer_size={table_bytes};\
         target_file_size_base={table_bytes};max_bytes_for_level_base={};\
         max_open_files=-1;max_background_jobs=4;block_based_table_factory={{block_size=4096;\
         block_cache={{capacity=8388608}};filter_policy=bloomfilter:10:false}}",
        4 * table_bytes
    );
    if !arguments.engine_options.is_empty() {
        options.push(';');
        options.push_str(arguments.engine_options.trim_matches(';'));
    }
    options
}

/// The driver's executable, and the RocksDB that it loads.
#[derive(Debug)]
pub struct Driver {
    executable: PathBuf,
    engine_library: String,
}

/// What a run needs to know beside the arguments.
#[derive(Debug)]
pub struct Setup<'a> {
    /// Mode of this run.
    pub mode: &'a Mode,
    /// Directory of the database.
    pub database: &'a Path,
    /// What of the database is in the page cache at first.
    pub start: Start,
    /// Hot keys.
    pub hot_keys: u64,
    /// Number of the turn: varies the order of reads.
    pub seed: u32,
}

/// Reads a second in equal parts of the compaction phase.
fn load_steps(arguments: &RocksDbArgs) -> String {
    let steps: Vec<String> = match arguments.load_steps.as_slice() {
        [] => vec![arguments.reads_per_second.to_string()],
        steps => steps.iter().map(u64::to_string).collect(),
    };
    steps.join(",")
}

impl Driver {
    /// The driver that was named, which the command does for one that is beside it.
    pub fn find(arguments: &RocksDbArgs) -> Result<Self> {
        let Some(executable) = arguments.driver.clone() else {
            bail!(
                "the load driver coldstream-rocksdb-driver is not beside this program: build it \
                 with `make build`, or name it with --driver"
            );
        };
        if !executable.exists() {
            let path = executable.display();
            bail!("no load driver at {path}, which --driver names: build it with `make build`");
        }
        Ok(Self {
            executable,
            engine_library: arguments.engine_library.clone(),
        })
    }

    /// Loads a data set into `path`.
    pub fn load(
        &self,
        arguments: &RocksDbArgs,
        path: &Path,
        options: &str,
        shape: Shape,
    ) -> Result<()> {
        fs::create_dir_all(path).with_context(|| path.display().to_string())?;
        let child = Command::new(&self.executable)
            .arg("load")
            .args(["--library", &self.engine_library])
            .arg("--db")
            .arg(path)
            .args(["--options", options])
            .args(["--keys", &arguments.sizes().keys.to_string()])
            .args(["--value-bytes", &arguments.value_bytes.to_string()])
            .args(["--sorted-runs", &shape.sorted_runs.to_string()])
            .args(["--updates", &shape.updates.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {}", self.executable.display()))?;
        Running::of(child).finish()
    }

    /// Starts a run, in the cgroups whose files of processes it `enters`.
    pub fn start(
        &self,
        arguments: &RocksDbArgs,
        setup: &Setup<'_>,
        enters: &[PathBuf],
        command_prefix: &[String],
    ) -> Result<(Running, Receiver<Result<Event>>)> {
        let sizes = arguments.sizes();
        let options = base_options(arguments) + &setup.mode.engine_options();
        // A shell puts itself into the cgroups, whose names have no spaces, and becomes the driver:
        // nothing of the run is charged elsewhere.
        let mut command = Command::new("/bin/sh");
        command
            .arg("-c")
            .arg("for file in $0; do echo $$ > \"$file\" || exit 3; done; exec \"$@\"")
            .arg(
                enters
                    .iter()
                    .map(|file| file.display().to_string())
                    .collect::<Vec<_>>()
                    .join(" "),
            );
        // Only the driver gets the preload library, not the shell.
        command.args(command_prefix);
        let numbers: [(&str, f64); 13] = [
            ("--keys", sizes.keys as f64),
            ("--value-bytes", arguments.value_bytes as f64),
            ("--hot-keys", setup.hot_keys as f64),
            ("--readers", arguments.readers as f64),
            ("--reads-per-second", arguments.reads_per_second as f64),
            ("--seed", f64::from(setup.seed)),
            ("--warm-up-seconds", sizes.warm_up_seconds as f64),
            ("--idle-seconds", sizes.idle_seconds as f64),
            ("--compaction-seconds", arguments.compaction_seconds as f64),
            ("--after-seconds", sizes.after_seconds as f64),
            (
                "--compaction-bytes-per-second",
                (arguments.compaction_mib_per_second << 20) as f64,
            ),
            (
                "--update-bytes-per-second",
                (arguments.update_mib_per_second << 20) as f64,
            ),
            ("--verify", f64::from(u8::from(arguments.verify))),
        ];
        command
            .arg(&self.executable)
            .arg("run")
            .args(["--library", &self.engine_library])
            .arg("--db")
            .arg(setup.database)
            .args(["--options", &options])
            .args(["--start", &option_name(setup.start)])
            .args(["--load-steps", &load_steps(arguments)])
            .args(["--hot-layout", &option_name(arguments.hot_layout)]);
        for (name, value) in numbers {
            command.args([name, &value.to_string()]);
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .context("start the load driver")?;
        let output = child.stdout.take().context("the load driver's output")?;
        // Bounded: a laboratory that falls behind shows as a driver that waits, not as memory.
        let (send, receive) = sync_channel(1 << 16);
        std::thread::spawn(move || {
            let mut output = BufReader::with_capacity(1 << 18, output);
            let mut record = [0; RECORD_BYTES];
            while output.read_exact(&mut record).is_ok() {
                if send.send(decode(&record)).is_err() {
                    return;
                }
            }
        });
        Ok((Running::of(child), receive))
    }
}

/// A driver that runs; killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// What it says on standard error, progress left out; read all the time, or it would wait when
    /// the pipe is full.
    said: Option<JoinHandle<String>>,
}

impl Running {
    fn of(mut child: Child) -> Self {
        let errors = child.stderr.take();
        let said = errors.map(|errors| std::thread::spawn(move || last_words(errors)));
        Self { child, said }
    }

    /// Waits for its end; an interrupt ends it at once.
    pub fn finish(mut self) -> Result<()> {
        let status = loop {
            if interrupt::is_requested() {
                return Err(Interrupted.into());
            }
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        if status.success() {
            return Ok(());
        }
        let said = self.said.take().map(JoinHandle::join);
        let said = said.and_then(Result::ok).unwrap_or_default();
        if status.code() == Some(WRONG_VALUE) {
            return Err(WrongValue(said).into());
        }
        bail!("the load driver ended with {status}: {said}")
    }
}

/// What a driver says, but for its progress; of very much the end.
fn last_words(errors: impl Read) -> String {
    let mut said: VecDeque<String> = VecDeque::new();
    for line in BufReader::new(errors).split(b'\n').map_while(Result::ok) {
        if !line.starts_with(b"loading:") {
            said.push_back(String::from_utf8_lossy(&line).into_owned());
        }
        if said.len() > LAST_LINES {
            said.pop_front();
        }
    }
    said.make_contiguous().join("; ")
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_decoded_as_the_driver_writes_them() {
        let mut record = [0; RECORD_BYTES];
        record[0] = 0;
        record[4] = 2;
        record[8] = 10;
        record[16] = 20;
        record[24] = 30;
        assert_eq!(
            decode(&record).unwrap(),
            Event::Read {
                phase: Phase::Compaction,
                intended_ns: 10,
                start_ns: 20,
                end_ns: 30,
                failed: false
            }
        );
        record[0] = 1;
        assert_eq!(
            decode(&record).unwrap(),
            Event::Phase {
                phase: Phase::Compaction,
                at_ns: 20,
                process_cpu_ns: 10,
                load_cpu_ns: 30
            }
        );
        record[0] = 2;
        assert_eq!(
            decode(&record).unwrap(),
            Event::Compacted {
                read_bytes: 10,
                written_bytes: 20
            }
        );
        record[0] = 4;
        assert_eq!(
            decode(&record).unwrap(),
            Event::Updated {
                updates: 10,
                late_ns_max: 20,
                debt_bytes: 30
            }
        );
        for unknown in [3, 9] {
            record[0] = unknown;
            assert!(decode(&record).is_err());
        }
    }

    #[test]
    fn a_driver_that_says_much_does_not_wait() {
        let child = Command::new("/bin/sh")
            .args([
                "-c",
                "yes loading: | head -n 22000 >&2; echo worse >&2; exit 3",
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let error = Running::of(child).finish().unwrap_err().to_string();
        assert!(error.ends_with(": worse"), "{error}");
    }
}
