//! db_bench, RocksDB's own benchmark, in the place of the laboratory's driver. It makes the load of a
//! published measurement with the program that published it.
//!
//! It has one phase, and tells percentiles of all reads together. So a run has no phase without a
//! compaction, no warm-up, and no latency second by second.

mod flags;
mod output;

use super::arguments::RocksDbArgs;
use super::mode::Mode;
use super::parameters::Setup;
use super::workload::Workload;
use crate::driven::case::Start;
use crate::driven::load_process::{Ended, LoadProcess};
use crate::error::WrongValue;
use crate::measurement::Measurement;
use crate::phase::{Event, Phase};
use crate::sampler::now_ns;
use anyhow::{Context, Result, anyhow, bail};
use coldstream_host::start::{command_in_cgroups, without_preload};
pub use flags::read_random_exp_range;
use output::Output;
use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// db_bench's help has 73 KB.
const HELP_BYTES_MAX: u64 = 1 << 20;

/// A flag that no other program has.
const OWN_FLAG: &str = "benchmark_write_rate_limit";

/// The signal of the kernel where the memory limit leaves no other way.
const SIGKILL: i32 = 9;

/// What to know of its reads, for the report.
pub const SKEW: &str = "db_bench reads with its own skew (log-uniform), and without a warm-up: do not compare with \
     figures of the laboratory's driver";

/// The program.
#[derive(Debug)]
pub struct DbBench {
    program: PathBuf,
    /// Names of its flags.
    flags: BTreeSet<String>,
}

impl DbBench {
    /// Asks the program for its flags.
    ///
    /// # Errors
    /// It cannot be started, or it is no db_bench.
    pub fn find(program: &Path) -> Result<Self> {
        let name = program.display();
        let help = help(program).map_err(|error| {
            let todo = match error.kind() {
                io::ErrorKind::NotFound => "there is no such program; Debian's is in rocksdb-tools",
                io::ErrorKind::PermissionDenied => {
                    "it is not executable: chmod +x, or name another"
                }
                _ => "it cannot be started",
            };
            anyhow!(error).context(format!("--db-bench {name}: {todo}"))
        })?;
        let flags = flag_names(&help);
        if !flags.contains(OWN_FLAG) {
            bail!("--db-bench {name}: this is no db_bench: its --help has no flag -{OWN_FLAG}");
        }
        Ok(Self {
            program: program.to_path_buf(),
            flags,
        })
    }

    /// Its path.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Checks that it can make the load of a workload.
    pub fn check_workload(&self, workload: &Workload) -> Result<()> {
        if workload.update_mib_per_second == 0 {
            bail!("--db-bench needs --update-mib-per-second: db_bench's writer has no limit at 0");
        }
        for case in &workload.cases {
            if workload.start_of(*case) == Start::Warm {
                bail!("--db-bench has no warm start: leave the case in-memory out");
            }
        }
        Ok(())
    }

    /// Checks that it knows all flags of a mode.
    pub fn check_mode(
        &self,
        arguments: &RocksDbArgs,
        workload: &Workload,
        mode: &Mode,
    ) -> Result<()> {
        let flags = flags::run(
            arguments,
            workload,
            &Setup {
                mode,
                database: Path::new(""),
                start: Start::Cold,
                hot_keys: 1,
                seed: 1,
            },
        )?;
        for flag in flags {
            let name = flag.trim_start_matches('-');
            let name = name.split_once('=').map_or(name, |(name, _)| name);
            if !self.flags.contains(name) {
                bail!(
                    "{} has no flag --{name}: name the db_bench of another release with --db-bench, or \
                     leave this mode out of --modes",
                    self.program.display()
                );
            }
        }
        Ok(())
    }

    /// What a data set was loaded with, if it must be the same for all runs.
    pub fn loads_with(&self, arguments: &RocksDbArgs, workload: &Workload) -> Result<String> {
        let flags = flags::load(arguments, workload, Path::new(""))?;
        Ok(format!("{} {}", self.program.display(), flags.join(" ")))
    }

    /// Loads a data set: each key once, in random order.
    pub fn load(
        &self,
        arguments: &RocksDbArgs,
        workload: &Workload,
        directory: &Path,
    ) -> Result<()> {
        let flags = flags::load(arguments, workload, directory)?;
        let process = LoadProcess::start(without_preload(Command::new(&self.program).args(flags)))
            .with_context(|| format!("start {}", self.program.display()))?;
        finish(process)
    }

    /// Starts a run in the cgroups that have these files of processes. `command_prefix` comes before
    /// db_bench's own command line.
    pub fn start(
        &self,
        arguments: &RocksDbArgs,
        workload: &Workload,
        setup: &Setup<'_>,
        processes_files: &[PathBuf],
        command_prefix: &[String],
    ) -> Result<(DbBenchProcess, Receiver<Result<Event>>)> {
        let mut command = command_in_cgroups(processes_files);
        command
            // Only db_bench gets the preload library, not the shell.
            .args(command_prefix)
            .arg(&self.program)
            .args(flags::run(arguments, workload, setup)?);
        let (process, output) =
            LoadProcess::start_and_read(&mut command).context("start db_bench")?;
        let (send, receive) = channel();
        let output = std::thread::spawn(move || read_output(output, &send));
        let running = DbBenchProcess { process, output };
        Ok((running, receive))
    }
}

/// What `--help` prints. gflags ends with an exit code of 1 then.
fn help(program: &Path) -> io::Result<String> {
    let mut child = without_preload(&mut Command::new(program))
        .arg("--help")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut help = Vec::new();
    if let Some(output) = child.stdout.take() {
        output.take(HELP_BYTES_MAX).read_to_end(&mut help)?;
    }
    // A program that is no db_bench may say more, or wait for something.
    let _ = child.kill();
    child.wait()?;
    Ok(String::from_utf8_lossy(&help).into_owned())
}

/// The names of the flags in a help of gflags: lines of `-name (what it is) …`.
fn flag_names(help: &str) -> BTreeSet<String> {
    let names = help.lines().filter_map(|line| {
        let (name, _) = line.trim_start().strip_prefix('-')?.split_once(" (")?;
        Some(name.trim_start_matches('-').to_owned())
    });
    names.collect()
}

/// Sends the phases, and returns all that db_bench prints. It prints its report at once when the
/// benchmark is over, and then closes the database.
fn read_output(output: ChildStdout, send: &Sender<Result<Event>>) -> String {
    let tell = |phase| {
        let event = Event::Phase {
            phase,
            at_ns: now_ns(),
            // Its threads of the load also do the work of the engine.
            process_cpu_ns: 0,
            load_cpu_ns: 0,
        };
        // Nobody listens after an interrupt.
        let _ = send.send(Ok(event));
    };
    let mut text = String::new();
    tell(Phase::Compaction);
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        if output::is_report(&line) {
            tell(Phase::End);
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// A db_bench that runs. Killed when dropped.
#[derive(Debug)]
pub struct DbBenchProcess {
    process: LoadProcess,
    output: JoinHandle<String>,
}

impl DbBenchProcess {
    /// Waits for its end, and adds to a measurement what it printed.
    ///
    /// # Errors
    /// - [`Interrupted`](crate::error::Interrupted), at once.
    /// - [`WrongValue`] if it did not find a key: all were written.
    /// - Its own message if it failed otherwise.
    pub fn finish(self, measurement: &mut Measurement) -> Result<()> {
        finish(self.process)?;
        let text = self.output.join();
        let text = text.map_err(|_| anyhow!("the output of db_bench was not read"))?;
        let output = Output::parse(&text)?;
        let (found, all) = output.found;
        if found < all {
            let text = format!("db_bench found {found} of {all} keys that were all written");
            return Err(WrongValue(text).into());
        }
        measurement.take(Event::Compacted {
            read_bytes: output.compacted_read_bytes,
            written_bytes: output.compacted_written_bytes,
        });
        measurement.take(Event::Written {
            user_bytes: output.user_bytes,
            stall_us: output.stall_us,
        });
        measurement.take(Event::Updated {
            updates: output.updates,
            // Neither is printed.
            late_ns_max: 0,
            debt_bytes: 0,
        });
        measurement.set_summary(output.reads);
        Ok(())
    }
}

fn finish(process: LoadProcess) -> Result<()> {
    let Ended { status, message } = process.wait()?;
    if status.success() {
        return Ok(());
    }
    if status.signal() == Some(SIGKILL) {
        bail!(
            "db_bench ended with {status}: if the kernel killed it, its memtables do not fit: raise \
             --memory-mib, or lower write_buffer_size in --engine-options"
        );
    }
    bail!("db_bench ended with {status}: {message}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_found_in_the_help() {
        let help = "db_bench: \nUSAGE:\n\n  Flags from tools/db_bench_tool.cc:\n    -histogram (Print \
                    histogram of\n      operation timings) type: bool default: false\n    -use_direct_reads \
                    (Use O_DIRECT for\n      reading data) type: bool\n\t--statistics\n";
        let names = flag_names(help);
        assert_eq!(
            names.iter().map(String::as_str).collect::<Vec<_>>(),
            ["histogram", "use_direct_reads"]
        );
    }

    #[test]
    fn a_program_that_is_no_db_bench_is_refused() {
        for (program, said) in [
            ("/no/such/db_bench", "there is no such program"),
            ("/etc/passwd", "not executable"),
            ("/bin/cat", "this is no db_bench"),
            ("/bin/yes", "this is no db_bench"),
        ] {
            let error = DbBench::find(Path::new(program)).unwrap_err();
            let text = format!("{error:#}");
            assert!(text.contains(program) && text.contains(said), "{text}");
        }
    }
}
