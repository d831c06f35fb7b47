//! `ctl list` and `ctl status`: what running processes say about themselves.

use std::fmt::Write;

use coldstream_control::{Counter, Mechanism, Snapshot};
use coldstream_policy::display_bytes;

use crate::output::{self, Colours};
use crate::processes::{self, Status};

/// Shows one process.
pub fn status(pid: u32, json: bool) -> anyhow::Result<()> {
    let snapshot = processes::running(pid)?;
    if json {
        return output::print_json(&snapshot);
    }
    output::print(&text(&snapshot, Colours::of(&std::io::stdout())))
}

/// Shows all processes of this user.
pub fn list(json: bool) -> anyhow::Result<()> {
    let mut snapshots = Vec::new();
    for pid in processes::with_pages()? {
        match processes::status(pid) {
            Status::Running(snapshot) => snapshots.push(*snapshot),
            Status::Removed { pid } => {
                output::say(&format!("removed the status page of ended process {pid}"));
            }
            Status::Absent => {}
            Status::Unreadable(error) => output::say(&error.to_string()),
        }
    }
    if json {
        return output::print_json(&snapshots);
    }
    if snapshots.is_empty() {
        output::say("no process of this user has opened a table under Coldstream");
    }
    let mut text = String::new();
    for snapshot in &snapshots {
        let pid = snapshot.header.pid;
        writeln!(text, "{pid}  {}", processes::command_line(pid))?;
        let off: Vec<_> = snapshot.switches.off.iter().map(Mechanism::name).collect();
        if !off.is_empty() {
            writeln!(text, "    switched off: {}", off.join(", "))?;
        }
        writeln!(text, "    {} · {snapshot}", io_mode(snapshot))?;
    }
    output::print(&text)
}

fn io_mode(snapshot: &Snapshot) -> String {
    let configured = snapshot.header.configured.name();
    match snapshot.header.in_force {
        Some(in_force) if in_force.name() == configured => configured.to_owned(),
        Some(in_force) => format!("{} (configured: {configured})", in_force.name()),
        None => format!("{configured}, no table probed yet"),
    }
}

fn text(snapshot: &Snapshot, colours: Colours) -> String {
    let header = &snapshot.header;
    let mut lines = vec![
        colours.bold(format!(
            "process {}: {}",
            header.pid,
            processes::command_line(header.pid)
        )),
        row("profile", header.profile.name()),
        row("background reads", &io_mode(snapshot)),
        row(
            "windows",
            &format!(
                "{} each, {} in flight, at most {}",
                display_bytes(header.window_bytes),
                header.windows_in_flight,
                display_bytes(header.memory_bytes)
            ),
        ),
        row("switches", &switches(snapshot)),
    ];
    if let Some(priorities) = snapshot.priorities() {
        lines.push(row("nice", &priorities.nice_text()));
        lines.push(row("I/O priority", &priorities.io_text()));
    }
    lines.push(row("device reads", &device_reads(snapshot)));
    lines.push(row("so far", &snapshot.to_string()));
    for (counter, value) in snapshot.counters() {
        let shown = if counts_bytes(counter) {
            display_bytes(value)
        } else {
            value.to_string()
        };
        lines.push(row(counter.name(), &shown));
    }
    lines.join("\n") + "\n"
}

/// What took longer than this is in the last of [`Counter::DEVICE_READS`].
const DEVICE_READ_MS_MAX: u64 = 262;

/// Of the foreground.
fn device_reads(snapshot: &Snapshot) -> String {
    let below = |per_mille| match snapshot.device_reads_below_ns(per_mille) {
        Some(ns) if ns < 1_000_000 => format!("under {} µs", ns / 1000),
        Some(ns) => format!("under {:.1} ms", ns as f64 / 1e6),
        None => format!("over {DEVICE_READ_MS_MAX} ms"),
    };
    match snapshot.device_reads() {
        0 => "none of the foreground was timed".to_owned(),
        timed => format!(
            "of the foreground: p50 {}, p99 {}, of {timed} that were timed",
            below(500),
            below(990)
        ),
    }
}

fn switches(snapshot: &Snapshot) -> String {
    let switches = snapshot.switches.iter();
    let states = switches.map(|(mechanism, is_on)| {
        let state = if is_on { "on" } else { "off" };
        format!("{} {state}", mechanism.name())
    });
    match states.collect::<Vec<_>>() {
        states if states.is_empty() => "cannot be switched while it runs".to_owned(),
        states => states.join(", "),
    }
}

fn row(name: &str, value: &str) -> String {
    format!("  {name:<26} {value}")
}

fn counts_bytes(counter: Counter) -> bool {
    counter.name().split('_').any(|word| word == "bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldstream_control::{Header, PAGE_WORDS, PageView};
    use std::sync::atomic::AtomicU64;

    #[test]
    fn the_longest_device_reads_are_those_behind_the_last_bound() {
        let words: Vec<AtomicU64> = (0..PAGE_WORDS).map(|_| AtomicU64::new(0)).collect();
        let page = PageView::new(&words).unwrap();
        page.initialise(&Header {
            pid: 1,
            start_time_ticks: 1,
            profile: coldstream_policy::Profile::Auto,
            configured: coldstream_policy::IoModeSetting::Auto,
            in_force: None,
            window_bytes: 1 << 20,
            windows_in_flight: 1,
            memory_bytes: 64 << 20,
        });
        let [.., last_bound, longer] = Counter::DEVICE_READS;
        page.add(last_bound, 1);
        let bound_ns = page.snapshot().unwrap().device_reads_below_ns(1000);
        assert_eq!(bound_ns.unwrap() / 1_000_000, DEVICE_READ_MS_MAX);
        page.add(longer, 99);
        assert!(device_reads(&page.snapshot().unwrap()).contains("p99 over 262 ms,"));
    }
}
