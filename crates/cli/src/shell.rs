//! `coldstream completions` and `coldstream man`: made from the same definitions as `--help`, so
//! that they cannot differ from it.

use std::io;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_mangen::Man;

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
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let Some(directory) = &arguments.directory else {
        return output::print(&man_page(command)?.1);
    };
    std::fs::create_dir_all(directory)
        .and_then(|()| write_man_pages(command, directory))
        .map_err(|error| {
            let directory = directory.display();
            let message = format!(
                "cannot write man pages to {directory}: {error}: name another directory, or run \
                 this as its owner"
            );
            failure(exit::of_io(&error), message)
        })
}

/// Writes the page of a command and those of its subcommands.
fn write_man_pages(command: Command, directory: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        write_man_pages(subcommand.clone(), directory)?;
    }
    let (file_name, page) = man_page(command)?;
    std::fs::write(directory.join(file_name), page)
}

/// File name and text of a page. The text behind the help (`after_help`) becomes sections of which the indented lines,
/// the examples, are printed as they are: `clap_mangen` would fill them.
fn man_page(command: Command) -> io::Result<(String, String)> {
    let notes = command.get_after_help().map(ToString::to_string);
    let has_subcommands = command.has_subcommands();
    let page = Man::new(command).manual("Coldstream");
    let mut roff = Vec::new();
    page.render_title(&mut roff)?;
    page.render_name_section(&mut roff)?;
    page.render_synopsis_section(&mut roff)?;
    page.render_description_section(&mut roff)?;
    page.render_options_section(&mut roff)?;
    if has_subcommands {
        page.render_subcommands_section(&mut roff)?;
    }
    let text = String::from_utf8(roff).map_err(io::Error::other)?;
    let notes = sections(notes.as_deref().unwrap_or_default());
    Ok((page.get_filename(), text + &notes))
}

/// The sections of a text in which a line that ends with a colon, or begins with `Exit codes:`, is a
/// heading.
fn sections(text: &str) -> String {
    let mut roff = String::new();
    let mut in_section = false;
    let mut fills = true;
    for line in text.lines() {
        let (heading, rest) = match line.strip_prefix("Exit codes:") {
            Some(rest) => (Some("EXIT STATUS".to_owned()), rest.trim_start()),
            None if line.starts_with(char::is_alphabetic) && line.ends_with(':') => {
                (Some(line.trim_end_matches(':').to_uppercase()), "")
            }
            None if !in_section && !line.is_empty() => (Some("NOTES".to_owned()), line),
            None => (None, line),
        };
        let begins = heading.is_some();
        // An empty line belongs to what is around it.
        let is_prose = if rest.is_empty() {
            fills
        } else {
            !rest.starts_with(' ')
        };
        let is_filled = begins || is_prose;
        if is_filled != fills {
            roff += if is_filled { ".fi\n" } else { ".nf\n" };
            fills = is_filled;
        }
        if let Some(heading) = heading {
            roff += &format!(".SH {heading}\n");
            in_section = true;
        }
        if !rest.is_empty() {
            // A line is a paragraph, which the terminal may break.
            roff += &format!("{}\n{}", escape(rest), if fills { ".br\n" } else { "" });
        } else if in_section && !begins {
            roff.push('\n');
        }
    }
    roff
}

/// A line of text that roff prints as it is.
fn escape(line: &str) -> String {
    let text = line.replace('\\', "\\e").replace('-', "\\-");
    // A full stop or an apostrophe at the beginning would make it a command.
    if text.starts_with(['.', '\'']) {
        return format!("\\&{text}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_become_sections() {
        let text = "Modes are\n\nExamples:\n  a --b\n\n.c\nExit codes: 5 no\n";
        let roff = ".SH NOTES\nModes are\n.br\n\n.SH EXAMPLES\n.nf\n  a \\-\\-b\n\n.fi\n\\&.c\n.br\n\
                    .SH EXIT STATUS\n5 no\n.br\n";
        assert_eq!(sections(text), roff);
        assert_eq!(sections(""), "");
    }
}
