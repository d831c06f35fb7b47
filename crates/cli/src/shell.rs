//! `coldstream completions` and `coldstream man`: made from the same definitions as `--help`, so
//! that they cannot differ from it.

use std::path::PathBuf;

use clap::Command;

use crate::exit::{self, failure};
use crate::output;

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  coldstream completions bash > /usr/share/bash-completion/completions/coldstream
  coldstream completions zsh > /usr/share/zsh/site-functions/_coldstream
  coldstream completions fish > ~/.config/fish/completions/coldstream.fish";

const MAN_EXAMPLES: &str = "\
Examples:
  coldstream man | man -l -
  coldstream man /usr/local/share/man/man1";

/// Print a completion script for a shell
#[derive(clap::Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub struct CompletionsArguments {
    /// The shell
    shell: clap_complete::Shell,
}

/// Print the man page, or write the pages of all commands into a directory
#[derive(clap::Args)]
#[command(after_help = MAN_EXAMPLES)]
pub struct ManArguments {
    /// Write coldstream.1, coldstream-run.1 and so on here; the directory is made
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Prints the completion script.
pub fn completions(arguments: &CompletionsArguments, command: &mut Command) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, command, "coldstream", &mut script);
    output::print(&String::from_utf8(script)?)
}

/// Prints the man page of the whole command, or writes those of all commands.
pub fn man(arguments: &ManArguments, command: Command) -> anyhow::Result<()> {
    let Some(directory) = &arguments.directory else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        return output::print(&String::from_utf8(page)?);
    };
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(command, directory))
        .map_err(|error| {
            let directory = directory.display();
            let message = format!(
                "cannot write man pages to {directory}: {error}: name another directory, or run \
                 this as its owner"
            );
            failure(exit::of_io(&error), message)
        })
}
