//! `ctl list` and `ctl status`: the status pages of running processes, for people and as JSON.

use coldstream_control::{Mechanism, Snapshot};
use coldstream_host::status_page;
use coldstream_policy::display_bytes;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};

use super::values::count;
use super::{counters, screen};
use crate::output::{self, Format};
use crate::processes::{self, Status};
use crate::title;

/// The headings of `ctl list`.
const HEADINGS: [&str; 6] = [
    "PID",
    "READS",
    "READ AROUND CACHE",
    "WRITTEN AROUND CACHE",
    "OFF",
    "PROGRAM",
];
/// Columns that the table leaves around a text.
const PADDING: usize = 2;

/// How much `ctl status` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// One screen: a row a mechanism, zeros left out.
    Screen,
    /// The screen, then every counter by its name.
    AllCounters,
}

/// Prints the status of one process.
pub fn status(pid: u32, format: Format, detail: Detail) -> anyhow::Result<()> {
    let snapshot = processes::running(pid)?;
    if format == Format::Json {
        return output::print_json(&snapshot);
    }
    let mut text = screen::render(&snapshot, &title::of(pid), output::width());
    if status_page::is_attached(pid) {
        text +=
            "\nFollowed from outside by `coldstream attach`: there is no library in the process.\n";
    }
    match detail {
        Detail::Screen => text += &format!("\nAll counters: coldstream ctl status {pid} --all\n"),
        Detail::AllCounters => text += &counters::render(&snapshot),
    }
    output::print(&text)
}

/// Prints a line a process of this user.
pub fn list(format: Format) -> anyhow::Result<()> {
    let snapshots = read_pages()?;
    if format == Format::Json {
        return output::print_json(&snapshots);
    }
    if snapshots.is_empty() {
        output::say(
            "no process of this user has opened an SSTable under Coldstream; `coldstream top` shows those in \
             containers, too",
        );
        return Ok(());
    }
    output::print(&table(&snapshots))
}

/// The status pages of this user's processes. Pages of ended processes are removed.
fn read_pages() -> anyhow::Result<Vec<Snapshot>> {
    let mut snapshots = Vec::new();
    let mut removed = 0;
    for pid in processes::with_pages()? {
        match processes::status(pid) {
            Status::Running(snapshot) => snapshots.push(*snapshot),
            Status::Removed { .. } => removed += 1,
            Status::Absent => {}
            Status::Unreadable(error) => output::say(&error.to_string()),
        }
    }
    if removed > 0 {
        let pages = count(removed, "status page", "status pages");
        output::say(&format!("removed {pages} that nobody keeps any more"));
    }
    Ok(snapshots)
}

fn table(snapshots: &[Snapshot]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if let Some(width) = output::terminal_width() {
        table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width);
    }
    table.set_header(HEADINGS);
    // A heading is broken between its words only.
    let constraints = HEADINGS.map(|heading| {
        let word = heading.split(' ').map(str::len).max().unwrap_or(0);
        let columns = u16::try_from(word + PADDING).unwrap_or(u16::MAX);
        ColumnConstraint::LowerBoundary(Width::Fixed(columns))
    });
    table.set_constraints(constraints);
    for snapshot in snapshots {
        let pid = snapshot.header.pid;
        let off: Vec<_> = snapshot.switches.off.iter().map(Mechanism::name).collect();
        let mut row = comfy_table::Row::from([
            pid.to_string(),
            match status_page::is_attached(pid) {
                true => format!("{} (attach)", reads(snapshot)),
                false => reads(snapshot).to_owned(),
            },
            display_bytes(snapshot.read_around_cache_bytes()),
            display_bytes(snapshot.written_around_cache_bytes()),
            if off.is_empty() {
                "-".to_owned()
            } else {
                off.join(",")
            },
            title::of(pid),
        ]);
        // A line a process: a long command line is cut off.
        row.max_height(1);
        table.add_row(row);
    }
    table.trim_fmt() + "\n"
}

/// The I/O mode of reads, or the setting before the first SSTable is open.
fn reads(snapshot: &Snapshot) -> &'static str {
    let header = &snapshot.header;
    let configured = header.configured.name();
    header.in_force.map_or(configured, |io_mode| io_mode.name())
}
