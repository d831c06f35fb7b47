//! The `coldstream` command: run, doctor, ctl, lab.
//!
//! A thin edge: it gathers, checks and prints; decisions are in `policy`, the
//! kernel is behind `io`. Every error is one line that says what, where and what
//! to do, with an exit code from [`exit::Exit`].

#![forbid(unsafe_code)]

mod ctl;
mod doctor;
mod exit;
mod lab;
mod library;
mod output;
mod processes;
mod run;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::exit::Exit;

/// Keeps the background work of LSM databases away from the page cache that
/// their reads live on.
#[derive(Parser)]
#[command(
    name = "coldstream",
    version,
    arg_required_else_help = true,
    after_help = exit::HELP,
    after_long_help = exit::HELP,
    max_term_width = 100
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(Box<run::RunArguments>),
    Doctor(doctor::DoctorArguments),
    Ctl(ctl::CtlArguments),
    Lab(lab::LabArguments),
}

fn main() -> ExitCode {
    let words = ctl::with_action_first(std::env::args_os().collect());
    let result = match Arguments::parse_from(words).command {
        Command::Run(arguments) => run::run(*arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Ctl(arguments) => ctl::run(&arguments),
        Command::Lab(arguments) => lab::run(arguments),
    };
    match result {
        Ok(()) => Exit::Ok.into(),
        Err(error) => {
            output::error(&error);
            exit::of(&error).into()
        }
    }
}
