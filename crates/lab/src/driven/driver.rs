//! The load driver as a child process: started in its cgroups, with its preload library, and read
//! record by record.

use super::dataset::Dataset;
use super::load_process::{Ended, LoadProcess};
use super::parameters::{self, LoadParameters, OptionsParameters, RunParameters};
use crate::attached::Attached;
use crate::compaction_files::CompactionFiles;
use crate::engine::{Engine, Run};
use crate::error::WrongValue;
use crate::measurement::Measurement;
use crate::phase::{Backlog, Event, FirstPass, Phase};
use crate::testbed::Testbed;
use anyhow::{Context, Result, bail};
use coldstream_host::start::{command_in_cgroups, without_preload};
use rustix::process::Signal;
use std::fs;
use std::io::{BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ChildStdout, Command};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// The driver's exit code after it read a wrong value (`kExitVerification` in `fail.h`).
const WRONG_VALUE: i32 = 4;

/// Bytes of a record on the driver's standard output (`struct Record` in `records.h`).
const RECORD_BYTES: usize = 32;

/// Records between the driver and the laboratory. A laboratory that falls behind makes the driver
/// wait; it does not fill the memory.
const RECORDS_MAX: usize = 1 << 16;

/// The driver's executable.
#[derive(Debug)]
pub struct Driver {
    executable: PathBuf,
}

impl Driver {
    /// The driver of the command line. The command fills in one that lies beside it, called `program`.
    pub fn find(named: Option<&PathBuf>, program: &str) -> Result<Self> {
        let Some(executable) = named.cloned() else {
            bail!(
                "the load driver {program} is not beside this program: build it with `make build`, \
                 or name it with --driver"
            );
        };
        if !executable.exists() {
            let path = executable.display();
            bail!("no load driver at {path}, which --driver names: build it with `make build`");
        }
        Ok(Self { executable })
    }

    /// Checks that the engine's library can be loaded and knows all options. Returns the engine's version,
    /// or nothing if its API does not tell it.
    ///
    /// # Errors
    /// The engine's own message.
    pub fn check_options(&self, parameters: &OptionsParameters<'_>) -> Result<String> {
        let version = self.finish(parameters::Command::Options(parameters))?;
        Ok(version.trim().to_owned())
    }

    /// Loads a data set.
    pub fn load(&self, parameters: &LoadParameters<'_>) -> Result<()> {
        let directory = parameters.database.directory;
        fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        self.finish(parameters::Command::Load(parameters))?;
        Ok(())
    }

    /// Carries out a command, and returns what it printed.
    fn finish(&self, command: parameters::Command<'_>) -> Result<String> {
        let mut command_line = Command::new(&self.executable);
        without_preload(&mut command_line).args(command.words()?);
        let (process, mut output) = LoadProcess::start_and_read(&mut command_line)
            .with_context(|| format!("start {}", self.executable.display()))?;
        // Read once it has ended: a Ctrl-C is noticed meanwhile. It prints a line at most.
        DriverProcess(process).finish()?;
        let mut printed = String::new();
        output.read_to_string(&mut printed)?;
        Ok(printed)
    }

    /// Runs the driver in a mode, and records what it says. `coldstream attach` runs beside it if the mode
    /// has it.
    ///
    /// # Errors
    /// The driver's, that of `coldstream attach`, or an interrupt.
    pub fn measure<E: Engine>(
        &self,
        testbed: &mut Testbed,
        run: &mut Run<'_, E>,
        dataset: &Dataset,
        parameters: &RunParameters<'_>,
        measurement: &mut Measurement,
    ) -> Result<()> {
        let database = parameters.database.directory.to_path_buf();
        let mut files = CompactionFiles::watch(database, &format!(".{}", dataset.extension()));
        let processes_files = run.limits.processes_files();
        let (running, events) = self.start(parameters, &processes_files, &run.command_prefix)?;
        let attached = run.attach(running.id(), command_in_cgroups(&processes_files))?;
        run.record(testbed, measurement, &events, || files.cached_bytes())?;
        running.finish()?;
        measurement.set_attached(attached.map(Attached::finish).transpose()?);
        Ok(())
    }

    /// Starts a run in the cgroups that have these files of processes. `command_prefix` comes before
    /// the driver's own command line.
    fn start(
        &self,
        parameters: &RunParameters<'_>,
        processes_files: &[PathBuf],
        command_prefix: &[String],
    ) -> Result<(DriverProcess, Receiver<Result<Event>>)> {
        let mut command = command_in_cgroups(processes_files);
        command
            // Only the driver gets the preload library, not the shell.
            .args(command_prefix)
            .arg(&self.executable)
            .args(parameters::Command::Run(parameters).words()?);
        let (process, output) =
            LoadProcess::start_and_read(&mut command).context("start the load driver")?;
        let (send, receive) = sync_channel(RECORDS_MAX);
        std::thread::spawn(move || send_records(output, &send));
        Ok((DriverProcess(process), receive))
    }
}

/// Sends the driver's records until it ends, or until nobody receives them any more.
fn send_records(output: ChildStdout, send: &SyncSender<Result<Event>>) {
    let mut output = BufReader::with_capacity(1 << 18, output);
    let mut record = [0; RECORD_BYTES];
    while output.read_exact(&mut record).is_ok() {
        if send.send(decode(&record)).is_err() {
            return;
        }
    }
}

/// The event that a record tells of.
fn decode(record: &[u8; RECORD_BYTES]) -> Result<Event> {
    let word = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&record[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    let (kind, phase) = (word(0) as u32, Phase::from_number((word(0) >> 32) as u32));
    Ok(match kind {
        0 => Event::Read {
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
        5 => Event::Written {
            user_bytes: word(8),
            stall_us: word(16),
        },
        6 => Event::Backlog {
            phase,
            backlog: Backlog {
                level0_files: word(8),
                debt_bytes: word(16),
                is_compacting: word(24) != 0,
                ..Backlog::default()
            },
        },
        7 => Event::Unstarted {
            due_after_ns: word(8),
            reads: word(16),
            at_ns: word(24),
        },
        8 => Event::FirstPass(FirstPass {
            read_keys: word(8),
            hot_keys: word(16),
        }),
        other => bail!("the load driver sent a record of unknown kind {other}"),
    })
}

/// A driver that runs. Killed when dropped.
#[derive(Debug)]
pub struct DriverProcess(LoadProcess);

impl DriverProcess {
    /// Its process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// - [`Interrupted`](crate::error::Interrupted), at once.
    /// - [`WrongValue`] if the driver read one.
    /// - The driver's own message if it failed otherwise.
    pub fn finish(self) -> Result<()> {
        let Ended { status, message } = self.0.wait()?;
        if status.success() {
            return Ok(());
        }
        if status.code() == Some(WRONG_VALUE) {
            return Err(WrongValue(message).into());
        }
        if status.signal() == Some(Signal::KILL.as_raw()) {
            bail!(
                "the load driver was killed: its memory limit may be too small for it (--memory-mib)"
            );
        }
        bail!("the load driver ended with {status}: {message}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_decoded_as_the_driver_writes_them() {
        let mut record = [0; RECORD_BYTES];
        record[4] = 2;
        record[8] = 10;
        record[16] = 20;
        record[24] = 30;
        for (kind, event) in [
            (
                0,
                Event::Read {
                    intended_ns: 10,
                    start_ns: 20,
                    end_ns: 30,
                    failed: false,
                },
            ),
            (
                1,
                Event::Phase {
                    phase: Phase::Compaction,
                    at_ns: 20,
                    process_cpu_ns: 10,
                    load_cpu_ns: 30,
                },
            ),
            (
                2,
                Event::Compacted {
                    read_bytes: 10,
                    written_bytes: 20,
                },
            ),
            (
                4,
                Event::Updated {
                    updates: 10,
                    late_ns_max: 20,
                    debt_bytes: 30,
                },
            ),
            (
                5,
                Event::Written {
                    user_bytes: 10,
                    stall_us: 20,
                },
            ),
            (
                6,
                Event::Backlog {
                    phase: Phase::Compaction,
                    backlog: Backlog {
                        level0_files: 10,
                        debt_bytes: 20,
                        is_compacting: true,
                        ..Backlog::default()
                    },
                },
            ),
            (
                7,
                Event::Unstarted {
                    due_after_ns: 10,
                    reads: 20,
                    at_ns: 30,
                },
            ),
            (
                8,
                Event::FirstPass(FirstPass {
                    read_keys: 10,
                    hot_keys: 20,
                }),
            ),
        ] {
            record[0] = kind;
            assert_eq!(decode(&record).unwrap(), event);
        }
        for unknown in [3, 9] {
            record[0] = unknown;
            assert!(decode(&record).is_err());
        }
    }
}
