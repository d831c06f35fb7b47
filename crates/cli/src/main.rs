//! The `coldstream` command: run, attach, attach-config, doctor, ctl, top, metrics, lab.
//!
//! A thin layer: it reads arguments, checks them and prints. Decisions are in `policy`, system
//! calls in `io`. Every error is one line: what is wrong, where, and what to do. Its exit code is
//! in [`exit::Exit`].

#![forbid(unsafe_code)]

mod attach;
mod attach_config;
mod configuration_file;
mod copy;
mod ctl;
mod doctor;
mod exit;
mod lab;
mod library;
mod loader;
mod metrics;
mod output;
mod processes;
mod run;
mod shell;
mod title;
mod top;
mod trust;
mod unit;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::exit::Exit;

const EXAMPLES: &str = "\
Examples:
  coldstream doctor /var/lib/cassandra/data   # what this machine allows
  coldstream run -- db_bench --benchmarks=fillrandom,compact --db=/var/lib/bench
  coldstream attach-config mariadb            # a drop-in for its systemd unit
  sudo coldstream attach 4711                 # a running process that cannot be preloaded
  coldstream ctl list
  coldstream ctl status 4711
  coldstream top                              # live
  coldstream metrics --listen                 # for Prometheus
  coldstream lab rocksdb --quick              # measure on this machine
";

/// Keeps compaction and other background work of LSM databases out of the page cache, so that
/// reads stay fast
#[derive(Parser)]
#[command(
    name = "coldstream",
    version,
    arg_required_else_help = true,
    after_help = format!("{EXAMPLES}\n{}", exit::HELP),
    max_term_width = 100
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(Box<run::RunArguments>),
    Attach(attach::AttachArguments),
    AttachConfig(Box<attach_config::AttachArguments>),
    Doctor(doctor::DoctorArguments),
    Ctl(ctl::CtlArguments),
    Top(top::TopArguments),
    Metrics(metrics::MetricsArguments),
    Lab(lab::LabArguments),
    Copy(copy::CopyArguments),
    Completions(shell::CompletionsArguments),
    Man(shell::ManArguments),
    #[command(name = ctl::trial::KEEPER, hide = true)]
    RestoreSwitches(ctl::trial::KeeperArguments),
    #[command(name = attach::priorities::KEEPER, hide = true)]
    KeepPriorities(attach::priorities::KeeperArguments),
    #[command(name = run::TRIAL, hide = true)]
    MakeCalls(run::MakeCallsArguments),
}

fn main() -> ExitCode {
    let words = ctl::with_action_first(std::env::args_os().collect());
    match carry_out(Arguments::parse_from(words).command) {
        Ok(exit) => exit.into(),
        Err(error) => {
            output::error(&error);
            exit::of(&error).into()
        }
    }
}

fn carry_out(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Run(arguments) => run::run(*arguments),
        Command::Attach(arguments) => attach::run(&arguments),
        Command::AttachConfig(arguments) => attach_config::run(&arguments),
        Command::Doctor(arguments) => return doctor::run(&arguments),
        Command::Ctl(arguments) => ctl::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Metrics(arguments) => metrics::run(&arguments),
        Command::Lab(arguments) => lab::run(arguments),
        Command::Copy(arguments) => copy::run(&arguments),
        Command::Completions(arguments) => {
            shell::completions(&arguments, &mut Arguments::command())
        }
        Command::Man(arguments) => shell::man(&arguments, Arguments::command()),
        Command::RestoreSwitches(arguments) => ctl::trial::keep(&arguments),
        Command::KeepPriorities(arguments) => attach::priorities::keep(&arguments),
        Command::MakeCalls(arguments) => run::make_calls(&arguments),
    }
    .map(|()| Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The help breaks its lines where the terminal ends. Where the text has broken them before, every second line is
    /// short.
    #[test]
    fn the_text_behind_the_help_leaves_the_breaking_to_the_terminal() {
        const COLUMNS: usize = 100;
        let mut commands = vec![Arguments::command()];
        while let Some(command) = commands.pop() {
            commands.extend(command.get_subcommands().cloned());
            let texts = [command.get_after_help(), command.get_after_long_help()];
            let texts = texts.into_iter().flatten().map(ToString::to_string);
            for text in texts {
                let lines: Vec<_> = text.lines().collect();
                for line in lines.iter().filter(|line| line.starts_with(' ')) {
                    assert!(line.chars().count() <= COLUMNS, "shorten {line:?}");
                }
                for pair in lines.windows(2) {
                    let goes_on = !pair[1].is_empty() && !pair[1].starts_with(' ');
                    let is_sentence = pair[0].is_empty() || pair[0].ends_with('.');
                    let is_prose = !pair[0].starts_with(' ');
                    assert!(
                        !is_prose || !goes_on || is_sentence,
                        "{}: end the line in the source with a backslash: {:?}",
                        command.get_name(),
                        pair[0]
                    );
                }
            }
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
