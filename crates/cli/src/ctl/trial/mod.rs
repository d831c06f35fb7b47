//! `ctl trial`: what Coldstream does for a running node, under the node's own load.
//!
//! - [`plan`]: the turns (pure).
//! - [`guard`]: when to end it early (pure).
//! - [`result`]: what was found (pure).
//! - [`states`]: the switches of the process.
//! - [`keeper`]: restores them if this program is killed.
//! - [`only_one`]: no other trial meanwhile.

mod guard;
mod keeper;
mod only_one;
mod plan;
mod result;
mod states;

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use coldstream_control::{Mechanism, Mechanisms, PhaseReads, Snapshot, Switches};
use coldstream_host::process::has_ended;
use coldstream_host::status_page;
use coldstream_lab::interrupt;

use self::guard::Guard;
use self::keeper::Keeper;
pub use self::keeper::{KEEPER, KeeperArguments, keep};
use self::plan::{Plan, Side};
use self::result::{Counted, Ended, Found, Report, Verdict};
use self::states::{States, changed};
use super::switch;
use crate::exit::{Exit, failure};
use crate::output::{Format, FormatArguments};
use crate::{output, processes};

/// The longest trial.
const SECONDS_MAX: f64 = 86_400.0;
/// The time between two looks at the process.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

pub const EXAMPLES: &str = "\
Examples:
  coldstream ctl trial 4711    # for a try: turns of 7.5 s
  coldstream ctl trial 4711 --seconds 2400 --turns 4    # long turns: the page cache follows slowly
  coldstream ctl trial 4711 --only pacing --guard 3
  coldstream ctl trial 4711 --bound-ms 20 --json

Turns are made with, without, without, with, and so on. The beginning of each is not counted.
It compares foreground reads that came from the device, and not whole requests of users.
The guard ends the trial at once if, without, p99 of the last five seconds passes its bound.
However the trial ends, the switches are made as before: after Ctrl-C, SIGTERM and its own death, too.
If another `ctl` changes the switches meanwhile, they stay, and the trial ends.
Exit codes: 0 a clear difference, in either direction; 1 too few reads for a verdict, or another trial is \
under way; 5 process of another user, 7 no such process or it has ended, 9 no answer in time, 10 ended by its \
guard, 12 no clear difference, 130 interrupted.";

/// Arguments of `trial`.
#[derive(clap::Args)]
pub struct TrialArguments {
    /// A process id
    #[arg(value_parser = processes::parse_id)]
    pid: u32,
    /// Length of the whole trial
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = seconds_parser)]
    seconds: f64,
    /// Number of turns: 4, 8, 12 and so on
    #[arg(long, default_value_t = 8, value_parser = plan::parse_turns)]
    turns: u32,
    /// Switch only these mechanisms [default: all that are on]
    #[arg(long, value_name = "MECHANISM", value_delimiter = ',', value_parser = switch::mechanism)]
    only: Vec<Mechanism>,
    /// The guard's bound, as a multiple of p99 with Coldstream
    #[arg(long, value_name = "TIMES", default_value_t = 5.0, value_parser = guard_parser)]
    guard: f64,
    /// The guard's bound in milliseconds, instead
    #[arg(long, value_name = "MILLISECONDS", conflicts_with = "guard", value_parser = bound_parser)]
    bound_ms: Option<f64>,
    #[command(flatten)]
    format: FormatArguments,
}

fn seconds_parser(text: &str) -> Result<f64, String> {
    within(text, 4.0, SECONDS_MAX)
}

fn guard_parser(text: &str) -> Result<f64, String> {
    within(text, 1.0, 1000.0)
}

fn bound_parser(text: &str) -> Result<f64, String> {
    within(text, 0.05, 60_000.0)
}

fn within(text: &str, min: f64, max: f64) -> Result<f64, String> {
    match text.parse() {
        Ok(value) if (min..=max).contains(&value) => Ok(value),
        _ => Err(format!("use a number from {min} to {max}")),
    }
}

/// What is switched: of what was asked for, or of all, what is on. Who has switched something off may have a reason.
fn chosen(pid: u32, only: &[Mechanism], switches: &Switches) -> anyhow::Result<Mechanisms> {
    let asked = switch::chosen_of(pid, only, switches.mechanisms)?;
    let is_off = |mechanism: &Mechanism| switches.off.contains(*mechanism);
    if let Some(name) = only.iter().find(|it| is_off(it)).map(|it| it.name()) {
        let message = format!(
            "{name} is switched off in process {pid}: `coldstream ctl on {pid} --only {name}` first"
        );
        return Err(failure(Exit::Failure, message));
    }
    let chosen = asked.without(switches.off);
    if chosen.is_empty() {
        let message = match asked.is_empty() {
            true => format!("process {pid} has nothing that can be switched"),
            false => {
                format!("all is switched off in process {pid}: `coldstream ctl on {pid}` first")
            }
        };
        return Err(failure(Exit::Failure, message));
    }
    Ok(chosen)
}

/// Makes a trial, and prints what it found.
///
/// # Errors
/// The process cannot be switched, ended meanwhile, or there is no verdict.
pub fn run(arguments: &TrialArguments) -> anyhow::Result<()> {
    let pid = arguments.pid;
    let plan = Plan::new(arguments.seconds, arguments.turns)
        .map_err(|message| failure(Exit::Usage, message))?;
    processes::running(pid)?;
    if status_page::is_attached(pid) {
        let message = format!(
            "process {pid} is followed from outside by `coldstream attach`, which times no reads: compare the \
             latencies that its clients see after `coldstream ctl off {pid}` and after `coldstream ctl on {pid}`"
        );
        return Err(failure(Exit::Failure, message));
    }
    let lock = only_one::lock(pid)?;
    let switches = processes::running(pid)?.switches;
    let chosen = chosen(pid, &arguments.only, &switches)?;
    let states = States {
        before: switches.off,
        chosen,
    };
    interrupt::watch();
    let keeper = Keeper::start(pid, states, lock)?;
    let mut trial = Trial {
        arguments,
        plan,
        states,
        turns: Vec::new(),
        bound_ns: None,
    };
    let ended = trial.make_turns();
    trial.show("");
    let restored = states.restore(pid);
    if restored.is_ok() || has_ended(pid) {
        keeper.dismiss();
    } else {
        // It tries again for a while.
        drop(keeper);
    }
    let ended = ended?;
    let report = Report::of(Found {
        pid,
        mechanisms: chosen.iter().map(Mechanism::name).collect(),
        ended,
        restored: restored.is_ok(),
        guard_bound_ns: trial.bound_ns,
        turns: &trial.turns,
    });
    match arguments.format.format() {
        Format::Json => output::print_json(&report)?,
        Format::Text => output::print(&report.text())?,
    }
    restored?;
    outcome(&report, &trial)
}

/// The length of a trial whose turns have enough reads, with a quarter more, if one of `seconds` had `reads` in a
/// turn. `None` if no length is enough.
fn seconds_needed(seconds: f64, reads: u64) -> Option<u64> {
    let factor = 1.25 * PhaseReads::READS_MIN as f64 / reads as f64;
    let needed = (seconds * factor).ceil();
    (needed <= SECONDS_MAX).then_some(needed as u64)
}

/// The exit code of a trial whose report was printed.
fn outcome(report: &Report, trial: &Trial<'_>) -> anyhow::Result<()> {
    match report.ended {
        Ended::Guard => {
            let bound_ms = trial.bound_ns.unwrap_or_default() as f64 / 1e6;
            let text = format!(
                "the guard ended the trial: without Coldstream, p99 of device reads passed {bound_ms:.2} ms; the \
                 switches are as before"
            );
            Err(failure(Exit::Guarded, text))
        }
        Ended::Interrupted => Err(failure(
            Exit::Interrupted,
            "interrupted; the switches are as before",
        )),
        Ended::Completed if report.verdict == Verdict::TooFewReads => {
            let seconds = trial.seconds_for(report.fewest_reads());
            Err(failure(
                Exit::Failure,
                format!("too few reads for a verdict: {seconds}"),
            ))
        }
        Ended::Completed if report.verdict == Verdict::NoClearDifference => {
            let text = "no clear difference. Try longer turns: --seconds 2400 --turns 4. If it stays so, see \
                        docs/troubleshooting.md";
            Err(failure(Exit::NoClearDifference, text))
        }
        Ended::Completed => Ok(()),
    }
}

/// A trial that goes on.
struct Trial<'a> {
    arguments: &'a TrialArguments,
    plan: Plan,
    states: States,
    turns: Vec<(Side, Counted)>,
    /// The guard's bound in the last turn without.
    bound_ns: Option<u64>,
}

impl Trial<'_> {
    fn make_turns(&mut self) -> anyhow::Result<Ended> {
        for side in self.plan.sides() {
            if side == Side::Without {
                self.bound_ns = Some(self.bound()?);
            }
            self.states.switch(self.arguments.pid, side)?;
            if let Some(ended) = self.make_turn(side)? {
                return Ok(ended);
            }
        }
        Ok(Ended::Completed)
    }

    /// Makes one turn. `None` if its time is over.
    fn make_turn(&mut self, side: Side) -> anyhow::Result<Option<Ended>> {
        let begun = Instant::now();
        let mut before = self.look()?;
        let mut counted_from = begun;
        let mut is_settled = false;
        let mut guard = match (side, self.bound_ns) {
            (Side::Without, Some(bound_ns)) => {
                Some(Guard::of_turn(bound_ns, begun, before.all_reads()))
            }
            _ => None,
        };
        let ended = loop {
            if interrupt::is_requested() {
                break Some(Ended::Interrupted);
            }
            let now = Instant::now();
            let later = self.look()?;
            let passed = guard
                .as_mut()
                .is_some_and(|guard| guard.is_passed(now, &later.all_reads()));
            if passed {
                break Some(Ended::Guard);
            }
            let elapsed = now.saturating_duration_since(begun);
            if elapsed >= self.plan.turn {
                break None;
            }
            if !is_settled && elapsed >= self.plan.settling {
                (is_settled, before, counted_from) = (true, later, now);
            }
            let left = (self.plan.turn - elapsed).as_secs_f64();
            let (turn, turns) = (self.turns.len() + 1, self.plan.sides().len());
            self.show(&format!(
                "turn {turn} of {turns}, {}: {left:.0} s left",
                side.name()
            ));
            std::thread::sleep(LOOK_INTERVAL);
        };
        let counted = Counted::between(&before, &*self.look()?, counted_from.elapsed());
        self.turns.push((side, counted));
        Ok(ended)
    }

    /// The counters now. The switches must be those of the trial.
    fn look(&self) -> anyhow::Result<Box<Snapshot>> {
        let pid = self.arguments.pid;
        if has_ended(pid) {
            let text = format!("process {pid} has ended, and so has the trial");
            return Err(failure(Exit::NotFound, text));
        }
        let snapshot = processes::running(pid)?;
        if self.states.are_ours(snapshot.switches.off) {
            Ok(snapshot)
        } else {
            Err(changed(pid))
        }
    }

    /// The bound of the next turn without: nothing is switched off without one.
    fn bound(&self) -> anyhow::Result<u64> {
        if let Some(bound_ms) = self.arguments.bound_ms {
            return Ok((bound_ms * 1e6) as u64);
        }
        let with = self.turns.iter().filter(|(side, _)| *side == Side::With);
        let with = Counted::sum(with.map(|(_, counted)| counted));
        match with.reads().p99() {
            Some(p99) => Ok((p99.ns as f64 * self.arguments.guard) as u64),
            None => {
                let reads = with.reads().device_reads();
                let message = no_bound(reads, &self.seconds_for(reads));
                Err(failure(Exit::Failure, message))
            }
        }
    }

    /// The advice for a trial of which a turn had so few reads.
    fn seconds_for(&self, reads: u64) -> String {
        match seconds_needed(self.arguments.seconds, reads) {
            Some(seconds) => format!("at this rate of reads use --seconds {seconds}"),
            None if reads == 0 => {
                "in one of the turns none of its foreground reads came from the device".to_owned()
            }
            None => format!("at this rate of reads --seconds {SECONDS_MAX} would not do either"),
        }
    }

    /// The progress, on a terminal only.
    fn show(&self, text: &str) {
        let mut stderr = std::io::stderr();
        if stderr.is_terminal() {
            // A terminal that went away is no reason to end.
            let _ = write!(stderr, "\r\x1b[K{text}");
            let _ = stderr.flush();
        }
    }
}

/// Why there is no bound after a first turn with so few reads.
fn no_bound(reads: u64, advice: &str) -> String {
    if reads == 0 {
        return "nothing to compare: in the first turn none of its foreground reads came from the device. Nothing was \
                switched off"
            .to_owned();
    }
    format!(
        "too few reads: {reads} device reads were timed in the first turn, and a bound for the guard needs {}. \
         Nothing was switched off: {advice}; or name a bound with --bound-ms",
        PhaseReads::READS_MIN
    )
}

#[cfg(test)]
mod tests {
    use super::{no_bound, seconds_needed};

    #[test]
    fn without_a_device_read_no_bound_helps() {
        assert!(!no_bound(0, "none").contains("--bound-ms"));
        assert!(no_bound(7, "none").contains("7 device reads"));
    }

    #[test]
    fn a_trial_with_too_few_reads_says_how_long_it_should_be() {
        assert_eq!(seconds_needed(60.0, 100), Some(300));
        assert_eq!(seconds_needed(60.0, 399), Some(76));
        assert_eq!(seconds_needed(86_000.0, 100), None);
        assert_eq!(seconds_needed(60.0, 0), None);
    }
}
