//! `coldstream run`: checks that the program can take the library, prints the settings, and becomes
//! the program (`exec`).

mod command;
pub mod elf;
mod few_descriptors;
mod filter;
pub mod jemalloc;
pub mod log_file;
pub mod settings;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use coldstream_io::signals;
use coldstream_io::sys::process::{descriptor_limit, descriptor_limit_max};
use coldstream_policy::{Config, DisplayBytes, LogTarget, Profile};

pub use elf::is_go;
pub use filter::{ACTION as TRIAL, MakeCallsArguments, killing_calls_of, make_calls};
pub use settings::{did_you_mean, is_unknown_variable};

use crate::exit::{Exit, failure};
use crate::unit::Root;
use crate::{library, output};

const EXAMPLES: &str = "\
Examples:
  coldstream run -- db_bench --benchmarks=fillrandom,compact --db=/var/lib/bench
  sudo -u cassandra coldstream run --profile cassandra -- cassandra -f
  coldstream run --reads drop-behind --memory 32MiB --log /var/log/coldstream.log -- ./server
  coldstream run --config /etc/coldstream.toml -- ./server

For a script, the interpreter is checked. Programs that the script starts inherit the library, \
except statically linked and setuid ones.
Exit codes: the program's own, or 128 plus the signal that ended it. If the program did not start: \
3 wrong configuration, 4 it cannot take a preload library, 5 this user may not read the library, 7 no library or no \
directory of the log, 126 not executable, 127 not found.";

/// Run a program with its background I/O around the page cache
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArguments {
    #[command(flatten)]
    settings: settings::SettingsArguments,
    /// The preload library [default: COLDSTREAM_LIBRARY, beside this program, ../lib/coldstream]
    #[arg(long, value_name = "PATH")]
    library: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Becomes the program; returns only with an error.
pub fn run(arguments: RunArguments) -> anyhow::Result<()> {
    let config = match (
        settings::effective(&arguments.settings),
        settings::switch_alone(),
    ) {
        (Err(error), Some(off)) if !off.enabled => {
            output::say(&error.to_string());
            off
        }
        (config, _) => config?,
    };
    let [name, rest @ ..] = arguments.command.as_slice() else {
        return Err(failure(Exit::Usage, "no command given"));
    };
    let program = command::find(name)?;
    let mut command = Command::new(&program);
    command.arg0(name).args(rest);
    if config.enabled {
        preload(
            &mut command,
            &program,
            &config,
            arguments.library.as_deref(),
        )?;
    } else {
        // LD_PRELOAD may already name the library.
        command.env("COLDSTREAM", "off");
        if config.log != LogTarget::None {
            output::say(
                "the program starts without Coldstream, as COLDSTREAM=off asks. event=start \
                 coldstream=off",
            );
        }
    }
    signals::pass_on(&mut command);
    let error = command.exec();
    Err(failure(
        Exit::NotExecutable,
        format!("cannot execute {}: {error}", program.display()),
    ))
}

/// Makes `command` load the library, and prints the settings.
fn preload(
    command: &mut Command,
    program: &Path,
    config: &Config,
    library: Option<&Path>,
) -> anyhow::Result<()> {
    let interpreters = command::check_can_preload(program)?;
    let library = library::find(library, "--library")?;
    elf::check_library(&library)?;
    let preload = library::preload_value(&library, std::env::var_os(library::PRELOAD).as_deref())?;

    let killing = filter::killing_calls();
    let config = &Config {
        avoid: config.avoid.and(killing),
        ..config.clone()
    };
    let start_line = start_line(config);
    log_file::begin(&config.log, &start_line)?;
    if config.log != LogTarget::None {
        output::say(&start_line);
        if !killing.is_empty() {
            output::say(&format!(
                "the filter of system calls kills for {killing}. The library does without. event=avoid"
            ));
        }
        let is_go = elf::is_go(interpreters.last().map_or(program, |it| it));
        let is_java = config.profile == Profile::Cassandra
            || program.file_name().is_some_and(|name| name == "java");
        let limits = few_descriptors::Limits {
            soft: descriptor_limit(),
            hard: descriptor_limit_max(),
        };
        if let Some(warning) = few_descriptors::warning(limits, is_go || is_java) {
            output::say(&warning);
        }
        if is_go {
            output::say(&format!(
                "{} is written in Go, whose own reads and writes no library sees. If its database is, too, as Pebble \
                 is, start it without, and follow it by `coldstream attach PID`. event=go",
                program.display()
            ));
        }
        if let Some(interpreter) = interpreters.first() {
            output::say(&format!(
                "{} is a script for {}. Programs that it starts inherit the library, except \
                 statically linked and setuid ones",
                program.display(),
                interpreter.display()
            ));
        }
    }
    if matches!(config.profile, Profile::Auto | Profile::Cassandra) {
        let before = std::env::var_os(jemalloc::VARIABLE);
        let installed = jemalloc::find_installed(&Root::new(Path::new("/")));
        let value = jemalloc::variable_value(&preload, before.as_deref(), installed.as_deref());
        command.envs(value.map(|value| (jemalloc::VARIABLE, value)));
    }
    command
        .env(library::PRELOAD, preload)
        .env_remove("COLDSTREAM_CONFIG")
        .envs(config.to_environment());
    Ok(())
}

/// The first line of the log, without the program's name in front.
fn start_line(config: &Config) -> String {
    format!(
        "the program starts with the library. event=start profile={} reads={} writes={} \
         window={:#} in_flight={} memory_max={:#}",
        config.profile.name(),
        config.reads.name(),
        config.writes.name(),
        DisplayBytes(config.window_bytes as u64),
        config.windows_in_flight,
        DisplayBytes(config.memory_bytes as u64),
    )
}
