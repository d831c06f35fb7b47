//! Terminal output: data to standard output, everything else to standard error.
//!
//! Colours are written always. `anstream` removes them where the output is no terminal, and where
//! `NO_COLOR` is set.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};

use crate::exit::{self, Exit, failure};

/// Width of a text for people where the output is no terminal.
const WIDTH_ELSEWHERE: u16 = 100;

/// Who reads the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A person.
    Text,
    /// A program.
    Json,
}

/// The option that selects the format.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct FormatArguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl FormatArguments {
    /// The format that was asked for.
    pub fn format(self) -> Format {
        if self.json {
            Format::Json
        } else {
            Format::Text
        }
    }
}

/// Prints data. A reader that has gone away (`| head`) is no error.
///
/// # Errors
/// Standard output cannot be written, for instance because the disk is full.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = anstream::stdout().lock();
    let written = stdout
        .write_all(harmless(text).as_bytes())
        .and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(failure(
            match exit::of_io(&error) {
                Exit::DiskFull => Exit::DiskFull,
                _ => Exit::Failure,
            },
            format!("cannot write to standard output: {error}"),
        )),
        _ => Ok(()),
    }
}

/// A text for a terminal. Names of files and processes in it may have control characters of their own. Line ends, tabs and
/// colours (`ESC [ … m`) stay.
fn harmless(text: &str) -> Cow<'_, str> {
    let is_known = |at: usize, character: char| match character {
        '\n' | '\t' => true,
        '\u{1b}' => {
            let rest = text[at + 1..].strip_prefix('[');
            let end = rest.and_then(|rest| rest.find(|it: char| !it.is_ascii_digit() && it != ';'));
            rest.zip(end)
                .is_some_and(|(rest, end)| rest[end..].starts_with('m'))
        }
        _ => !character.is_control(),
    };
    if text.char_indices().all(|(at, it)| is_known(at, it)) {
        return Cow::Borrowed(text);
    }
    let characters = text.char_indices();
    characters
        .map(|(at, it)| if is_known(at, it) { it } else { '?' })
        .collect()
}

/// Prints a value as JSON.
///
/// # Errors
/// As [`print()`].
pub fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))
}

/// Prints an error in one line on standard error.
pub fn error(error: &anyhow::Error) {
    say(&format!("{} {error:#}", red("error:")));
}

/// Prints a message on standard error. It is lost if standard error is closed.
pub fn say(text: &str) {
    let _ = writeln!(anstream::stderr(), "coldstream: {}", harmless(text));
}

/// The columns of the terminal that standard output is; none if it is something else.
pub fn terminal_width() -> Option<u16> {
    let (width, _) = terminal_size::terminal_size_of(io::stdout())?;
    Some(width.0)
}

/// The columns that a text for people may have.
pub fn width() -> u16 {
    terminal_width().unwrap_or(WIDTH_ELSEWHERE)
}

/// Columns that a text needs beside its label. In a narrower terminal its further lines begin further left.
const TEXT_COLUMNS_MIN: usize = 30;
const INDENT_IF_NARROW: usize = 4;

/// A text behind a label. On a terminal it is broken at spaces to fit, and goes on below its beginning; elsewhere it is
/// one line.
pub fn labelled(label: &str, text: &str) -> String {
    match terminal_width() {
        Some(width) => folded(label, text, width.into()),
        None => format!("{label}{text}"),
    }
}

/// A longer word than fits stays whole: it may be a path, which somebody copies.
fn folded(label: &str, text: &str, width: usize) -> String {
    let label_columns = columns(label);
    let indent = match label_columns + TEXT_COLUMNS_MIN <= width {
        true => label_columns,
        false => INDENT_IF_NARROW.min(label_columns),
    };
    let mut lines = label.to_owned();
    let mut column = label_columns;
    let mut gap = "";
    for word in text.split(' ') {
        let word_columns = columns(word);
        if column > indent && column + gap.len() + word_columns > width {
            lines.truncate(lines.trim_end_matches(' ').len());
            lines.push('\n');
            lines.extend(std::iter::repeat_n(' ', indent));
            (column, gap) = (indent, "");
        }
        lines += gap;
        lines += word;
        column += gap.len() + word_columns;
        gap = " ";
    }
    lines
}

/// The columns of a text: colours take none.
fn columns(text: &str) -> usize {
    anstream::adapter::strip_str(text)
        .to_string()
        .chars()
        .count()
}

/// A heading.
pub fn bold(text: impl fmt::Display) -> String {
    paint(Style::new().bold(), text)
}

/// Something good.
pub fn green(text: impl fmt::Display) -> String {
    paint(AnsiColor::Green.on_default(), text)
}

/// Something to look at.
pub fn yellow(text: impl fmt::Display) -> String {
    paint(AnsiColor::Yellow.on_default(), text)
}

/// Something wrong.
pub fn red(text: impl fmt::Display) -> String {
    paint(AnsiColor::Red.on_default().bold(), text)
}

fn paint(style: Style, text: impl fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_broken_below_its_beginning() {
        let label = format!("  {} ", yellow("change:"));
        let text = "set the limit of open files higher, in the unit of it";
        let wide = folded(&label, text, 40);
        assert_eq!(
            wide,
            format!("{label}set the limit of open files\n          higher, in the unit of it")
        );
        assert!(wide.lines().all(|line| columns(line) <= 40), "{wide}");
        assert_eq!(
            folded(
                "  background reads     ",
                "buffered: a/long/path/that/stays/whole yes",
                30
            ),
            "  background reads\n    buffered:\n    a/long/path/that/stays/whole\n    yes"
        );
        assert_eq!(folded("", "short", 30), "short");
    }

    #[test]
    fn control_characters_of_names_do_not_reach_the_terminal() {
        assert_eq!(
            harmless("a\tb\n\u{1b}[1;31mred\u{1b}[0m"),
            "a\tb\n\u{1b}[1;31mred\u{1b}[0m"
        );
        assert_eq!(
            harmless("d\u{1b}]0;TITLE\u{7}\u{9b}31m\r"),
            "d?]0;TITLE??31m?"
        );
        assert_eq!(harmless("\u{1b}[2J\u{1b}["), "?[2J?[");
    }
}
