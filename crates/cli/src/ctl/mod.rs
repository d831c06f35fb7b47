//! `coldstream ctl`: what running processes say about themselves, and switches for them.

mod status;
mod switch;

use std::ffi::OsString;

const EXAMPLES: &str = "\
Examples:
  coldstream ctl list
  coldstream ctl status 4711 --json
  coldstream ctl off 4711                     # until `ctl on 4711`
  coldstream ctl off --only writes,priority   # of every process of this user
  coldstream ctl on 4711
  coldstream ctl set 4711 nice=5 io-priority=compaction:idle
  sudo -u cassandra coldstream ctl status 4711

`ctl 4711 off` means the same as `ctl off 4711`.";

/// Look at running programs, and switch what Coldstream does in them
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CtlArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// All processes of this user under Coldstream
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Settings, switches, I/O mode in force and counters; without a process as `list`
    Status {
        /// A process id
        #[arg(value_parser = process_id())]
        pid: Option<u32>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Switch off, and take the effect back: what is staged is written, priorities are restored
    Off(switch::SwitchArguments),
    /// Switch on again
    On(switch::SwitchArguments),
    /// Change settings of a running process: nice, io-priority
    Set(switch::SetArguments),
}

fn process_id() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..)
}

/// Does what is asked for.
pub fn run(arguments: &CtlArguments) -> anyhow::Result<()> {
    match &arguments.action {
        Action::List { json } | Action::Status { pid: None, json } => status::list(*json),
        Action::Status {
            pid: Some(pid),
            json,
        } => status::status(*pid, *json),
        Action::Off(arguments) => switch::off(arguments),
        Action::On(arguments) => switch::on(arguments),
        Action::Set(arguments) => switch::set(arguments),
    }
}

/// The command line with `ctl PID ACTION` put in the order `ctl ACTION PID`; without an action the
/// process's status is meant.
pub fn in_order(mut words: Vec<OsString>) -> Vec<OsString> {
    let is_number = |word: &OsString| {
        word.to_str()
            .is_some_and(|text| text.parse::<u32>().is_ok())
    };
    if words.get(1).is_some_and(|word| word == "ctl") && words.get(2).is_some_and(is_number) {
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
        let in_order = |line: &str| {
            let words = in_order(line.split(' ').map(OsString::from).collect());
            words.join(" ".as_ref()).into_string().unwrap()
        };
        for (line, ordered) in [
            ("c ctl 7 off --only reads", "c ctl off 7 --only reads"),
            ("c ctl 7", "c ctl status 7"),
            ("c ctl 7 --json", "c ctl status 7 --json"),
            ("c ctl off 7", "c ctl off 7"),
            ("c run 7 x", "c run 7 x"),
            ("c", "c"),
        ] {
            assert_eq!(in_order(line), ordered);
        }
    }
}
