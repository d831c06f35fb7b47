//! The screen of `top`, drawn into a buffer: pure. `--once` prints the same buffer as text.

use coldstream_policy::display_bytes;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table, Widget, Wrap};

use super::model::{Flow, Model, Process};
use super::state::{Sort, State};
use crate::ctl::values::{count, duration, misses_text, tax_text, thousands};

const MIB: f64 = 1048576.0;
/// What every detail begins with.
const LABEL_COLUMNS: usize = 12;

/// A column of the list. Those that come last are left out first where the terminal is narrow.
struct Column {
    title: &'static str,
    width: u16,
    text: fn(&Process) -> String,
}

const COLUMNS: [Column; 11] = [
    Column {
        title: "PID",
        width: 8,
        text: |process| process.pid.to_string(),
    },
    Column {
        title: "PROGRAM",
        width: 16,
        text: |process| process.program.clone(),
    },
    Column {
        title: "FG P99",
        width: 10,
        text: |process| below(process.foreground.p99_below_ns),
    },
    Column {
        title: "TAX",
        width: 5,
        text: |process| {
            let ratio = process.tax.device_reads.ratio;
            ratio.map_or("-".to_owned(), |ratio| format!("{:.1}", ratio.estimate))
        },
    },
    Column {
        title: "MISSES",
        width: 10,
        text: misses,
    },
    Column {
        title: "BG READ",
        width: 11,
        text: |process| per_second(process.read_per_second()),
    },
    Column {
        title: "BG WRITTEN",
        width: 11,
        text: |process| per_second(process.written_per_second()),
    },
    Column {
        title: "HIT",
        width: 6,
        text: |process| percent(process.handover.hit_percent),
    },
    Column {
        title: "PACING",
        width: 12,
        text: pacing_level,
    },
    Column {
        title: "WORKING SET",
        width: 18,
        text: working_set,
    },
    Column {
        title: "OFF",
        width: 24,
        text: |process| none_or(process.off().join(",")),
    },
];

/// Draws the whole screen.
pub fn draw(model: &Model, state: &State, area: Rect, buffer: &mut Buffer) {
    let rows = u16::try_from(model.processes.len()).unwrap_or(u16::MAX);
    let chosen = state.chosen(model);
    let details = chosen.map_or(Vec::new(), details);
    let [head, list, detail, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(rows.saturating_add(1).max(2).min(area.height / 2)),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area);
    Paragraph::new(heading(model, state)).render(head, buffer);
    if model.processes.is_empty() {
        let text = "No process that you may see has opened an SSTable under Coldstream.";
        Paragraph::new(text)
            .wrap(Wrap { trim: true })
            .render(list, buffer);
    } else {
        draw_list(model, state, list, buffer);
    }
    Paragraph::new(details)
        .wrap(Wrap { trim: false })
        .render(detail, buffer);
    Paragraph::new(footer(model, state)).render(foot, buffer);
}

fn heading(model: &Model, state: &State) -> Line<'static> {
    let processes = u64::try_from(model.processes.len()).unwrap_or(u64::MAX);
    let mut words = vec![format!("by {}", state.sort.name())];
    words.push(count(processes, "process", "processes"));
    if !model.unreadable.is_empty() {
        let pages = u64::try_from(model.unreadable.len()).unwrap_or(u64::MAX);
        words.push(count(pages, "unreadable page", "unreadable pages"));
    }
    if let Some(stall) = model.memory_stall_percent {
        words.push(format!(
            "threads waited for memory {stall:.0} % of the time"
        ));
    }
    let mut spans = vec![Span::from("coldstream top").bold()];
    if state.is_paused {
        spans.push(Span::from("  PAUSED").fg(Color::Yellow));
    }
    spans.push(Span::from(format!("  {}", words.join(" · "))));
    Line::from(spans)
}

fn draw_list(model: &Model, state: &State, area: Rect, buffer: &mut Buffer) {
    let mut room = area.width;
    let columns: Vec<&Column> = COLUMNS
        .iter()
        .take_while(|column| {
            let fits = room >= column.width;
            room = room.saturating_sub(column.width + 1);
            fits
        })
        .collect();
    let order = state.order(model);
    let chosen = state.chosen(model).map(|process| process.pid);
    let visible = usize::from(area.height.saturating_sub(1));
    let position = order.iter().position(|process| Some(process.pid) == chosen);
    // The chosen one is always on the screen.
    let skipped = position.map_or(0, |at| (at + 1).saturating_sub(visible));
    let rows = order.iter().skip(skipped).map(|process| {
        let cells = columns
            .iter()
            .map(|column| Cell::from((column.text)(process)));
        let style = if Some(process.pid) == chosen && state.is_interactive {
            Style::new().add_modifier(Modifier::REVERSED)
        } else {
            Style::new()
        };
        Row::new(cells).style(style)
    });
    let widths = columns
        .iter()
        .map(|column| Constraint::Length(column.width));
    let titles = columns.iter().map(|column| Cell::from(column.title));
    let table = Table::new(rows, widths).header(Row::new(titles).bold());
    Widget::render(table, area, buffer);
}

/// The lines about one process.
fn details(process: &Process) -> Vec<Line<'static>> {
    let mut lines = vec![Line::default()];
    let user = process
        .user
        .map_or("unknown".to_owned(), |user| user.to_string());
    let title = format!(
        "process {} {}: user {user}, profile {}, reads {}",
        process.pid, process.program, process.profile, process.reads
    );
    lines.push(Line::from(title).bold());
    lines.push(switches(process));
    let foreground = &process.foreground;
    lines.push(detail(
        "foreground",
        match foreground.p50_below_ns {
            Some(_) => format!(
                "{:.0} device reads/s timed; p50 below {}, p99 below {}",
                foreground.timed_per_second,
                below(foreground.p50_below_ns),
                below(foreground.p99_below_ns)
            ),
            None => "no device read was timed in this interval".to_owned(),
        },
    ));
    lines.push(detail("tax", tax(process)));
    if !process.tax.device_reads.is_empty() {
        lines.push(detail("misses", misses_text(&process.tax.device_reads)));
    }
    lines.push(detail("read", flows(&process.background_read)));
    lines.push(detail("written", flows(&process.background_written)));
    lines.push(detail(
        "spared",
        format!(
            "{} did not stay in the page cache, since the start",
            display_bytes(process.page_cache_spared_bytes)
        ),
    ));
    lines.push(detail("handover", handover(process)));
    lines.push(detail("pacing", pacing(process)));
    let dropped = per_second(process.eviction_bytes_per_second);
    lines.push(detail("eviction", format!("{dropped} dropped")));
    let priority = &process.priority;
    lines.push(detail(
        "priority",
        format!(
            "background threads: {:.2} processors used, {:.2} waited for; {}",
            priority.run_per_second,
            priority.wait_per_second,
            count(priority.releases, "release", "releases")
        ),
    ));
    if let Some(memory) = &process.memory {
        let bytes = |bytes: Option<u64>| bytes.map_or("?".to_owned(), display_bytes);
        let limit = memory.limit_bytes.map_or("none".to_owned(), display_bytes);
        lines.push(detail(
            "memory",
            format!(
                "limit {limit}; anonymous {}, file {}, working set {}, dirty {}",
                bytes(memory.anonymous_bytes),
                bytes(memory.file_bytes),
                bytes(memory.working_set_bytes),
                bytes(memory.dirty_bytes)
            ),
        ));
    }
    if !process.problems.is_empty() {
        let problems = process.problems.iter();
        let problems =
            problems.map(|problem| format!("{} {}", problem.counter, thousands(problem.count)));
        let text = problems.collect::<Vec<_>>().join(", ");
        lines.push(detail("problems", text).fg(Color::Yellow));
    }
    lines
}

/// The tax, and the time that it is about.
fn tax(process: &Process) -> String {
    let tax = &process.tax;
    if tax.device_reads.is_empty() {
        return "no foreground read was sampled yet".to_owned();
    }
    let time = tax
        .of_last_seconds
        .map_or("since the start".to_owned(), |seconds| {
            format!("in the last {} min", seconds.div_ceil(60))
        });
    format!("{} ({time})", tax_text(&tax.device_reads))
}

fn detail(label: &str, text: String) -> Line<'static> {
    Line::from(format!("{label:<LABEL_COLUMNS$}{text}"))
}

fn switches(process: &Process) -> Line<'static> {
    if process.mechanisms.is_empty() {
        return detail("switches", "this process cannot be switched".to_owned());
    }
    let mut spans = vec![Span::from(format!("{:<LABEL_COLUMNS$}", "switches"))];
    for (index, switch) in process.mechanisms.iter().enumerate() {
        let state = if switch.is_on { "on" } else { "OFF" };
        let span = Span::from(format!("{} {} {state}  ", index + 1, switch.mechanism));
        spans.push(if switch.is_on {
            span
        } else {
            span.fg(Color::Yellow)
        });
    }
    Line::from(spans)
}

fn flows(flows: &[Flow]) -> String {
    let all: f64 = flows.iter().map(|flow| flow.bytes_per_second).sum();
    let moving = flows.iter().filter(|flow| flow.bytes_per_second > 0.0);
    let parts = moving.map(|flow| format!("{} {}", flow.mode, per_second(flow.bytes_per_second)));
    let parts = parts.collect::<Vec<_>>().join(", ");
    if parts.is_empty() {
        "nothing in this interval".to_owned()
    } else {
        format!("{}: {parts}", per_second(all))
    }
}

fn handover(process: &Process) -> String {
    let handover = &process.handover;
    let mut text = format!(
        "{}, {}",
        count(handover.sstables, "SSTable", "SSTables"),
        count(handover.pages_warmed, "page warmed", "pages warmed")
    );
    if let Some(hit) = handover.hit_percent {
        text += &format!(", {hit:.0} % read since");
    }
    if let Some(ms) = handover.delay_ms {
        text += &format!(", {ms:.1} ms each");
    }
    if handover.incomplete > 0 {
        text += &format!("; {} without a whole one", thousands(handover.incomplete));
    }
    text
}

fn pacing(process: &Process) -> String {
    let pacing = &process.pacing;
    let limit = pacing
        .limit_bytes_per_second
        .map_or("no limit now".to_owned(), |limit| {
            format!("limit {}/s", display_bytes(limit))
        });
    format!(
        "{limit}; compactions are {} behind; threads waited {:.2} s/s",
        display_bytes(pacing.debt_bytes),
        pacing.waited_per_second
    )
}

fn footer(model: &Model, state: &State) -> Line<'static> {
    if let Some(question) = state.question(model) {
        return Line::from(question).fg(Color::Yellow).bold();
    }
    if let Some(message) = &state.message {
        return Line::from(message.clone()).fg(Color::Yellow);
    }
    if !state.is_interactive {
        return Line::default();
    }
    let switching = if state.is_replay { "" } else { "1-7 switch  " };
    Line::from(format!(
        "q quit  ↑↓ choose  s sort  space pause  {switching}"
    ))
    .dim()
}

fn below(ns: Option<u64>) -> String {
    ns.map_or("-".to_owned(), duration)
}

fn percent(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |percent| format!("{percent:.0} %"))
}

fn per_second(bytes: f64) -> String {
    format!("{:.1} MiB/s", bytes / MIB)
}

/// In compaction and at rest.
fn misses(process: &Process) -> String {
    let tax = &process.tax.device_reads;
    let percent = |percent: Option<f64>| percent.map_or("-".to_owned(), |it| format!("{it:.1}"));
    match (tax.in_compaction.missed_percent, tax.at_rest.missed_percent) {
        (None, None) => "-".to_owned(),
        (in_compaction, at_rest) => format!("{}/{} %", percent(in_compaction), percent(at_rest)),
    }
}

fn none_or(text: String) -> String {
    if text.is_empty() {
        "-".to_owned()
    } else {
        text
    }
}

fn pacing_level(process: &Process) -> String {
    let limit = process.pacing.limit_bytes_per_second;
    limit.map_or("-".to_owned(), |limit| {
        format!("{}/s", display_bytes(limit))
    })
}

fn working_set(process: &Process) -> String {
    let Some(memory) = &process.memory else {
        return "-".to_owned();
    };
    let bytes = |bytes: Option<u64>| bytes.map_or("-".to_owned(), display_bytes);
    match memory.limit_bytes {
        Some(limit) => format!(
            "{} of {}",
            bytes(memory.working_set_bytes),
            display_bytes(limit)
        ),
        None => bytes(memory.working_set_bytes),
    }
}

/// The screen as lines of text, without trailing spaces and empty lines at the end.
pub fn text(model: &Model, state: &State, width: u16) -> String {
    let processes = u16::try_from(model.processes.len()).unwrap_or(u16::MAX / 4);
    let height = processes.saturating_mul(2).saturating_add(40);
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    draw(model, state, area, &mut buffer);
    let rows = buffer.content().chunks(usize::from(width.max(1)));
    let mut text = String::new();
    for row in rows {
        let line: String = row.iter().map(|cell| cell.symbol()).collect();
        text += line.trim_end();
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}

impl Sort {
    /// The name on the screen.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pid => "process id",
            Self::Read => "background reads",
            Self::Written => "background writes",
            Self::WorkingSet => "working set",
        }
    }
}
