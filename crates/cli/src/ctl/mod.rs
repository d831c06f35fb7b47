//! `coldstream ctl`: the status of running processes, and switches for them.

mod counters;
mod refusal;
mod request;
mod screen;
mod status;
pub mod switch;
pub mod trial;
pub mod values;

use std::ffi::OsString;

use self::status::Detail;
use crate::output::FormatArguments;
use crate::processes::{self, NotIds};

const EXAMPLES: &str = "\
Examples:
  coldstream ctl list
  coldstream ctl status 4711
  coldstream ctl off 4711                     # until `ctl on 4711` or a restart
  coldstream ctl off --all --only writes,priority   # of every process of this user
  coldstream ctl on 4711
  coldstream ctl set 4711 nice=5 io-priority=compaction:idle
  coldstream ctl trial 4711 --seconds 2400 --turns 4    # off and on in turn: what does it do?
  sudo -u cassandra coldstream ctl status 4711

`ctl 4711 off` means the same as `ctl off 4711`.
Exit codes: 5 process of another user, 7 no such process or no library in it, 9 no answer in time; \
`coldstream --help` lists all.";

const LIST_EXAMPLES: &str = "\
Examples:
  coldstream ctl list
  coldstream ctl list --json | jq '.[].pid'";

const STATUS_EXAMPLES: &str = "\
Examples:
  coldstream ctl status 4711
  coldstream ctl status 4711 --all | grep handover
  coldstream ctl status 4711 --json | jq .counters.bytes_direct

Exit codes: 5 process of another user, 7 no such process or no library in it.";

const OFF_EXAMPLES: &str = "\
Examples:
  coldstream ctl off 4711                 # everything, until `ctl on 4711` or a restart
  coldstream ctl off 4711 4712 --only pacing
  coldstream ctl off --all                # every process of this user

For good: COLDSTREAM=off in the environment of its service, and a restart.

Exit codes: 2 no process id and no --all, 5 process of another user, 7 no such process or no library in it, \
9 no answer in time.";

const ON_EXAMPLES: &str = "\
Examples:
  coldstream ctl on 4711
  coldstream ctl on 4711 --only reads,writes

Exit codes: 5 process of another user, 7 no such process or no library in it, 9 no answer in time.";

const SET_EXAMPLES: &str = "\
Examples:
  coldstream ctl set 4711 nice=5
  coldstream ctl set 4711 nice=compaction:10,streaming:none io-priority=idle

Exit codes: 2 wrong setting, 5 process of another user, 7 no such process or no library in it, \
9 no answer in time.";

/// Show running programs, and switch what Coldstream does in them
#[derive(clap::Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub struct CtlArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// List all processes of this user under Coldstream, a line each
    #[command(after_help = LIST_EXAMPLES)]
    List {
        #[command(flatten)]
        format: FormatArguments,
    },
    /// Show what each mechanism does in a process, and problems; without a process as `list`
    #[command(after_help = STATUS_EXAMPLES)]
    Status {
        /// A process id
        #[arg(value_parser = processes::parse_id)]
        pid: Option<u32>,
        /// Print every counter by its name as well
        #[arg(long, conflicts_with = "json")]
        all: bool,
        #[command(flatten)]
        format: FormatArguments,
    },
    /// Switch off, and undo the effect: staged bytes are written, priorities restored
    #[command(after_help = OFF_EXAMPLES)]
    Off(switch::SwitchArguments),
    /// Switch on again
    #[command(after_help = ON_EXAMPLES)]
    On(switch::SwitchArguments),
    /// Change settings of a running process: nice, io-priority
    #[command(after_help = SET_EXAMPLES)]
    Set(switch::SetArguments),
    /// Switch off and on in turn, and compare the latency of foreground device reads; a guard ends it early
    #[command(after_help = trial::EXAMPLES)]
    Trial(trial::TrialArguments),
}

/// Carries the action out.
pub fn run(arguments: &CtlArguments) -> anyhow::Result<()> {
    match &arguments.action {
        Action::List { format }
        | Action::Status {
            pid: None, format, ..
        } => status::list(format.format()),
        Action::Status {
            pid: Some(pid),
            all,
            format,
        } => {
            let detail = if *all {
                Detail::AllCounters
            } else {
                Detail::Screen
            };
            status::status(*pid, format.format(), detail)
        }
        Action::Off(arguments) => switch::off(arguments),
        Action::On(arguments) => switch::on(arguments),
        Action::Set(arguments) => switch::set(arguments),
        Action::Trial(arguments) => trial::run(arguments),
    }
}

/// Puts `ctl PID ACTION` into the order `ctl ACTION PID`. Without an action, adds `status`. An empty id, one that no process
/// has, or several in one word go the same way: the action refuses them, or takes them.
pub fn with_action_first(mut words: Vec<OsString>) -> Vec<OsString> {
    let is_meant_as_ids = |word: &OsString| {
        let ids = word.to_str().map(processes::parse_ids);
        ids.is_some_and(|ids| !matches!(ids, Err(NotIds::OtherWord)))
    };
    if words.get(1).is_some_and(|word| word == "ctl") && words.get(2).is_some_and(is_meant_as_ids) {
        match words.get(3) {
            Some(action) if !action.as_encoded_bytes().starts_with(b"-") => words.swap(2, 3),
            _ => words.insert(2, "status".into()),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_may_come_first() {
        let with_action_first = |line: &str| {
            let words = with_action_first(line.split(' ').map(OsString::from).collect());
            words.join(" ".as_ref()).into_string().unwrap()
        };
        for (line, ordered) in [
            ("c ctl 7 off --only reads", "c ctl off 7 --only reads"),
            ("c ctl 7", "c ctl status 7"),
            ("c ctl 7\n8 on", "c ctl on 7\n8"),
            ("c ctl  off", "c ctl off "),
            ("c ctl 0 off", "c ctl off 0"),
            ("c ctl +7 off", "c ctl +7 off"),
            ("c ctl 7 --json", "c ctl status 7 --json"),
            ("c ctl off 7", "c ctl off 7"),
            ("c run 7 x", "c run 7 x"),
            ("c", "c"),
        ] {
            assert_eq!(with_action_first(line), ordered);
        }
    }
}
