//! What goes to the terminal: data to standard output, everything else to
//! standard error; colours only where a person looks.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use crate::exit::{self, Exit};

/// Prints data. A reader that has gone away (`| head`) is no error; a full disk is.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(exit::failure(
            match exit::of_io(&error) {
                Exit::DiskFull => Exit::DiskFull,
                _ => Exit::Failure,
            },
            format!("cannot write to standard output: {error}"),
        )),
        _ => Ok(()),
    }
}

/// Prints a value as JSON.
pub fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))
}

/// Prints an error in one line.
pub fn error(error: &anyhow::Error) {
    let colours = Colours::of(&io::stderr());
    say(&format!("{} {error:#}", colours.red("error:")));
}

/// Says something on standard error. Nobody may be there to hear it.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr(), "coldstream: {text}");
}

/// Colours, or none where the output is not a terminal or `NO_COLOR` is set.
#[derive(Clone, Copy)]
pub struct Colours {
    on: bool,
}

impl Colours {
    /// The colours for a stream.
    pub fn of(stream: &impl IsTerminal) -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let on = stream.is_terminal() && !refused;
        Self { on }
    }

    /// A heading.
    pub fn bold(self, text: impl fmt::Display) -> String {
        self.paint("1", text)
    }

    /// Something good.
    pub fn green(self, text: impl fmt::Display) -> String {
        self.paint("32", text)
    }

    /// Something to look at.
    pub fn yellow(self, text: impl fmt::Display) -> String {
        self.paint("33", text)
    }

    /// Something wrong.
    pub fn red(self, text: impl fmt::Display) -> String {
        self.paint("1;31", text)
    }

    fn paint(self, code: &str, text: impl fmt::Display) -> String {
        if self.on {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_string()
        }
    }
}
