//! `coldstream top`: what Coldstream does for each process, live.
//!
//! - [`look`]: what is read at one moment.
//! - [`model`]: what happened between two looks (pure).
//! - [`view`]: the screen of a model (pure).
//! - [`state`]: what the user chose (pure).
//! - [`tax_window`]: the tax over the last minutes.
//! - [`terminal`]: the live screen. [`mod@source`] and [`record`]: where models come from, and go to.

mod look;
mod model;
mod record;
mod source;
mod state;
mod tax_window;
mod terminal;
mod view;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use coldstream_lab::interrupt;

use self::record::Record;
use self::source::{Machine, Models, Replay};
use self::state::State;
use crate::exit::{Exit, failure};
use crate::output::{self, Format, FormatArguments};
use crate::processes;

/// The interval between two looks for Ctrl-C.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(100);

const EXAMPLES: &str = "\
Examples:
  coldstream top                        # all processes that you may see
  coldstream top 4711                   # one
  coldstream top --once                 # one interval, as text
  coldstream top --json | jq '.processes[].foreground'
  coldstream top --record night.jsonl   # and later: coldstream top --replay night.jsonl
  coldstream top --record night.jsonl --interval 10 --seconds 28800 &    # needs no terminal
  coldstream top --once --record log.jsonl      # adds one interval, for cron

Keys: q quit, ↑ ↓ choose, s sort, space pause, 1, 2 and so on switch a mechanism (asks first).
To root it shows the processes of all users; to others, their own. Both see those in containers.
Exit codes: 1 no terminal, 5 no permission, 7 no such process or no library in it.";

/// Show what Coldstream does for each process, live
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct TopArguments {
    /// A process id [default: all]
    #[arg(value_parser = processes::parse_id)]
    pid: Option<u32>,
    /// Print one interval as text, and end
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    format: FormatArguments,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval_parser)]
    interval: f64,
    /// Write each interval into this file, too; it must not exist, but with --once it goes on. Without a terminal it
    /// records until Ctrl-C
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    record: Option<PathBuf>,
    /// Record for this long, without a screen
    #[arg(long, requires = "record", conflicts_with = "once", value_parser = seconds_parser)]
    seconds: Option<u32>,
    /// Show a recorded file instead of this machine; with --once or --json its last interval
    #[arg(long, value_name = "FILE", conflicts_with = "pid")]
    replay: Option<PathBuf>,
}

fn seconds_parser(text: &str) -> Result<u32, &'static str> {
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0);
    seconds.ok_or("use a number of seconds")
}

fn interval_parser(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("use seconds from 0.1 to 3600".to_owned()),
    }
}

/// Shows or prints.
///
/// # Errors
/// No such process, no terminal, or a file that cannot be used.
pub fn run(arguments: &TopArguments) -> anyhow::Result<()> {
    let interval = Duration::from_secs_f64(arguments.interval);
    let format = arguments.format.format();
    let is_live = !arguments.once && format == Format::Text;
    let has_terminal = std::io::stdout().is_terminal();
    let records_only =
        is_live && arguments.record.is_some() && (!has_terminal || arguments.seconds.is_some());
    if is_live && !has_terminal && !records_only {
        let others = match arguments.replay {
            Some(_) => "--once or --json",
            None => "--once, --json or --record",
        };
        let text = format!("standard output is no terminal: use {others}");
        return Err(failure(Exit::Failure, text));
    }
    let seconds = arguments.seconds.map(u64::from).map(Duration::from_secs);
    if let Some(seconds) = seconds.filter(|seconds| *seconds < interval) {
        let text = format!(
            "--seconds {} are less than one interval of {}: use more, or a shorter --interval",
            seconds.as_secs(),
            arguments.interval
        );
        return Err(failure(Exit::Usage, text));
    }
    let mut source = source(arguments)?;
    if records_only {
        return record_only(source.as_mut(), interval, seconds);
    }
    if is_live {
        let state = State::live(arguments.replay.is_some());
        return terminal::show(source.as_mut(), state, interval);
    }
    if arguments.replay.is_none() {
        std::thread::sleep(interval);
    }
    let Some(model) = source.last()? else {
        return Ok(());
    };
    match format {
        Format::Json => output::print_json(&model),
        Format::Text => {
            for page in &model.unreadable {
                output::say(page);
            }
            let width = output::terminal_width().unwrap_or(view::WIDTH_OF_ALL);
            output::print(&view::text(&model, &State::default(), width))
        }
    }
}

/// Records without a screen, for so long or until Ctrl-C or SIGTERM. Each interval is written as it ends, and what there
/// is of the last one.
fn record_only(
    source: &mut dyn Models,
    interval: Duration,
    seconds: Option<Duration>,
) -> anyhow::Result<()> {
    interrupt::watch();
    let start = Instant::now();
    let end = seconds.map(|seconds| start + seconds);
    let mut due = start + interval;
    loop {
        let due_or_end = end.map_or(due, |end| end.min(due));
        loop {
            let left = due_or_end.saturating_duration_since(Instant::now());
            if left.is_zero() || interrupt::is_requested() {
                break;
            }
            std::thread::sleep(left.min(INTERRUPT_INTERVAL));
        }
        source.next()?;
        let now = Instant::now();
        if interrupt::is_requested() || end.is_some_and(|end| now >= end) {
            return Ok(());
        }
        // Where a look takes longer than the interval, the next one begins now.
        due = (due + interval).max(now);
    }
}

fn source(arguments: &TopArguments) -> anyhow::Result<Box<dyn Models>> {
    if let Some(path) = &arguments.replay {
        let models = record::read(path)?;
        return Ok(Box::new(Replay(models.into())));
    }
    let record = arguments
        .record
        .as_deref()
        .map(if arguments.once {
            Record::go_on
        } else {
            Record::create
        })
        .transpose()?;
    let machine = Machine::new(arguments.pid, record)?;
    if let Some(pid) = arguments.pid
        && machine.sees_nothing()
    {
        // It gives the same reason as `ctl status`.
        processes::running(pid)?;
    }
    Ok(Box::new(machine))
}
