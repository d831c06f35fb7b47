//! What `attach` tells while it runs: words on standard error, or with `--json` one object a line on standard output.

use coldstream_attach::Recognition;
use coldstream_attach::session::News;
use serde::Serialize;

use crate::output::{self, Format};

/// What happens.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Event {
    /// It follows a process.
    Attached {
        pid: u32,
        /// SSTables in its directories.
        sstables: usize,
        compactions_known_by: KnownBy,
        mechanisms: Vec<&'static str>,
    },
    /// `ctl`, `top` and `metrics` do not see it.
    NoStatusPage { pid: u32, error: String },
    /// A process has ended.
    ProcessEnded { pid: u32 },
    /// The kernel lost events of any process, so many since this was told last.
    EventsLost { events: u64 },
    /// The work has ended before the processes did.
    Detached,
}

/// How compactions are told from readers.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum KnownBy {
    ThreadNames,
    FadvSequential,
}

impl From<Recognition> for KnownBy {
    fn from(recognition: Recognition) -> Self {
        match recognition {
            Recognition::Names => Self::ThreadNames,
            Recognition::Advice => Self::FadvSequential,
        }
    }
}

impl From<News> for Event {
    fn from(news: News) -> Self {
        match news {
            News::Ended(pid) => Self::ProcessEnded { pid },
            News::Lost(events) => Self::EventsLost { events },
        }
    }
}

impl Event {
    /// Prints it. A reader that has gone away does not end the work.
    pub(super) fn tell(&self, format: Format) {
        match format {
            Format::Text => output::say(&self.text()),
            Format::Json => {
                if let Ok(line) = serde_json::to_string(self) {
                    let _ = output::print(&(line + "\n"));
                }
            }
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Attached {
                pid,
                sstables,
                compactions_known_by,
                mechanisms,
            } => {
                let by = match compactions_known_by {
                    KnownBy::ThreadNames => "the names of threads",
                    KnownBy::FadvSequential => "FADV_SEQUENTIAL",
                };
                let mechanisms = mechanisms.join(",");
                format!(
                    "attached to {pid}: sstables={sstables} compactions_known_by={by:?} \
                     mechanisms={mechanisms}"
                )
            }
            Self::NoStatusPage { pid, error } => {
                format!("process {pid} gets no status page: {error}")
            }
            Self::ProcessEnded { pid } => format!("process {pid} has ended"),
            Self::EventsLost { events } => format!(
                "the kernel lost {events} events: what compactions had brought in until then stays in the page cache"
            ),
            Self::Detached => "detached; the processes are as they were".to_owned(),
        }
    }
}
