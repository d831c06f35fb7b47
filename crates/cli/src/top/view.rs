//! The screen of `top`, drawn into a buffer: pure. `--once` prints the same buffer as text.

use coldstream_control::Mechanism;
use coldstream_policy::display_bytes;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table, Widget, Wrap};

use super::model::{Flow, Model, Process};
use super::state::{Sort, State};
use crate::ctl::values::{count, fine_duration, misses_text, tax_text, thousands};

const MIB: f64 = 1048576.0;
/// A width at which no column is left out, and several names fit into the last one.
pub const WIDTH_OF_ALL: u16 = 140;

/// The title of the last column.
const OFF: &str = "OFF";
/// The title of the column that is there with a process of `coldstream attach` only.
const BY: &str = "BY";
/// The title of the column of miss rates.
const MISSES: &str = "MISSES";
/// What every detail begins with.
const LABEL_COLUMNS: usize = 12;

/// A column of the list.
struct Column {
    title: &'static str,
    width: u16,
    /// Those of the highest rank are left out first where the terminal is narrow.
    rank: u8,
    text: fn(&Process) -> String,
}

const COLUMNS: [Column; 12] = [
    Column {
        title: "PID",
        width: 7,
        rank: 0,
        text: |process| process.pid.to_string(),
    },
    Column {
        title: "PROGRAM",
        width: 15,
        rank: 0,
        text: |process| process.program.clone(),
    },
    Column {
        title: BY,
        width: 7,
        rank: 1,
        text: |process| by(process).to_owned(),
    },
    Column {
        title: "FG P99",
        width: 9,
        rank: 1,
        text: |process| under(process.foreground.p99_below_ns),
    },
    Column {
        title: "TAX",
        width: 5,
        rank: 2,
        text: |process| {
            let ratio = process.tax.device_reads.ratio;
            ratio.map_or("-".to_owned(), |ratio| format!("{:.1}", ratio.estimate))
        },
    },
    Column {
        title: MISSES,
        width: 13,
        rank: 7,
        text: misses,
    },
    Column {
        title: "BG READ",
        width: 11,
        rank: 5,
        text: |process| per_second(process.read_per_second()),
    },
    Column {
        title: "BG WRITTEN",
        width: 11,
        rank: 6,
        text: |process| per_second(process.written_per_second()),
    },
    Column {
        title: "HIT",
        width: 6,
        rank: 8,
        text: |process| percent(process.handover.hit_percent),
    },
    Column {
        title: "PACING",
        width: 12,
        rank: 9,
        text: pacing_level,
    },
    Column {
        title: "WORKING SET",
        width: 11,
        rank: 4,
        text: working_set,
    },
    Column {
        title: OFF,
        width: 4,
        rank: 3,
        text: |process| switched_off(process, usize::MAX),
    },
];

/// Draws the whole screen.
pub fn draw(model: &Model, state: &State, area: Rect, buffer: &mut Buffer) {
    let rows = u16::try_from(model.processes.len()).unwrap_or(u16::MAX);
    let chosen = state.chosen(model);
    let details = chosen.map_or(Vec::new(), |process| details(process, area.width));
    let first_lines = wrapped(heading(model, state), area.width.into());
    let [head, list, detail, foot] = Layout::vertical([
        Constraint::Length(u16::try_from(first_lines.len()).unwrap_or(u16::MAX)),
        Constraint::Length(rows.saturating_add(1).max(2).min(area.height / 2)),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area);
    Paragraph::new(first_lines).render(head, buffer);
    if model.processes.is_empty() {
        let text = "No process that you may see has opened an SSTable under Coldstream.";
        Paragraph::new(text)
            .wrap(Wrap { trim: true })
            .render(list, buffer);
    } else {
        draw_list(model, state, list, buffer);
    }
    Paragraph::new(details).render(detail, buffer);
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
        words.push(format!("memory stall {stall:.0} %"));
    }
    let mut spans = vec![Span::from("coldstream top").bold()];
    if state.is_paused {
        spans.push(Span::from("  PAUSED").fg(Color::Yellow));
    }
    spans.push(Span::from(format!("  {}", words.join(" · "))));
    Line::from(spans)
}

/// The columns that fit, from left to right.
fn columns(width: u16, has_attached: bool) -> Vec<&'static Column> {
    let columns = COLUMNS.iter();
    let wanted = columns.filter(|column| column.title != BY || has_attached);
    let wanted = wanted.collect::<Vec<_>>();
    let ranks = wanted.iter().map(|column| column.rank).max();
    let up_to = |rank| {
        let columns = wanted.iter().filter(move |column| column.rank <= rank);
        columns.copied().collect::<Vec<_>>()
    };
    let needed =
        |columns: &[&Column]| -> u16 { columns.iter().map(|column| column.width + 1).sum() };
    let all = (0..=ranks.unwrap_or(0)).rev().map(up_to);
    let fitting = all.into_iter().find(|columns| needed(columns) <= width + 1);
    fitting.unwrap_or_else(|| up_to(0))
}

fn draw_list(model: &Model, state: &State, area: Rect, buffer: &mut Buffer) {
    let has_attached = model.processes.iter().any(|process| process.is_attached);
    let columns = columns(area.width, has_attached);
    let order = state.order(model);
    let chosen = state.chosen(model).map(|process| process.pid);
    let visible = usize::from(area.height.saturating_sub(1));
    let position = order.iter().position(|process| Some(process.pid) == chosen);
    // The chosen one is always on the screen.
    let skipped = position.map_or(0, |at| (at + 1).saturating_sub(visible));
    // The last one gets what is left.
    let others = columns.iter().filter(|column| column.title != OFF);
    let others: u16 = others.map(|column| column.width + 1).sum();
    let left = usize::from(area.width.saturating_sub(others));
    let rows = order.iter().skip(skipped).map(|process| {
        let cells = columns.iter().map(|column| match column.title {
            OFF => Cell::from(switched_off(process, left)),
            _ => Cell::from((column.text)(process)),
        });
        let style = if Some(process.pid) == chosen && state.is_interactive {
            Style::new().add_modifier(Modifier::REVERSED)
        } else {
            Style::new()
        };
        Row::new(cells).style(style)
    });
    let widths = columns.iter().map(|column| match column.title {
        OFF => Constraint::Min(column.width),
        _ => Constraint::Length(column.width),
    });
    let titles = columns.iter().map(|column| Cell::from(column.title));
    let table = Table::new(rows, widths).header(Row::new(titles).bold());
    Widget::render(table, area, buffer);
}

/// The lines about one process.
fn details(process: &Process, width: u16) -> Vec<Line<'static>> {
    let mut lines = vec![Line::default()];
    for line in unwrapped_details(process) {
        lines.extend(wrapped(line, usize::from(width)));
    }
    lines
}

/// Wraps a line. What goes on stands below the text, and not below the label.
fn wrapped(line: Line<'static>, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![Line::default().style(line.style)];
    let mut room = width;
    let mut is_first_word = true;
    for span in line.spans {
        for word in span.content.split_inclusive(' ') {
            let length = word.trim_end().chars().count();
            if length > room && !is_first_word {
                let indent = " ".repeat(LABEL_COLUMNS.min(width / 3));
                room = width.saturating_sub(indent.len());
                lines.push(Line::from(indent).style(line.style));
            }
            room = room.saturating_sub(word.chars().count());
            is_first_word = false;
            if let Some(last) = lines.last_mut() {
                last.push_span(Span::styled(word.to_owned(), span.style));
            }
        }
    }
    lines
}

fn unwrapped_details(process: &Process) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let user = process
        .user
        .map_or("unknown".to_owned(), |user| user.to_string());
    let title = format!(
        "process {} {}: user {user}, profile {}, reads {}{}",
        process.pid,
        process.program,
        process.profile,
        process.reads,
        match process.is_attached {
            true => ", by coldstream attach",
            false => "",
        }
    );
    lines.push(Line::from(title).bold());
    lines.push(switches(process));
    // Near the top: a small screen cuts off what is below.
    if !process.problems.is_empty() {
        let problems = process.problems.iter();
        let problems =
            problems.map(|problem| format!("{} {}", problem.counter, thousands(problem.count)));
        let text = problems.collect::<Vec<_>>().join(", ");
        lines.push(detail("problems", text).fg(Color::Yellow));
    }
    let foreground = &process.foreground;
    lines.push(detail(
        "foreground",
        match foreground.p50_below_ns {
            Some(_) => format!(
                "{:.0} device reads/s timed; p50 under {}, p99 under {}",
                foreground.timed_per_second,
                under(foreground.p50_below_ns),
                under(foreground.p99_below_ns)
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
    let mechanism = |mechanism: Mechanism, text: String| {
        let name = Mechanism::name(mechanism);
        let mut had = process.mechanisms.iter().map(|it| it.mechanism.as_str());
        let text = match had.any(|it| it == name) {
            true => text,
            false => "not configured".to_owned(),
        };
        detail(name, text)
    };
    lines.push(mechanism(Mechanism::Handover, handover(process)));
    lines.push(mechanism(Mechanism::Pacing, pacing(process)));
    let dropped = per_second(process.eviction_bytes_per_second);
    let eviction = format!("{dropped} dropped");
    lines.push(mechanism(Mechanism::Eviction, eviction));
    let priority = &process.priority;
    let releases = count(priority.releases, "time", "times");
    // With `--priority off` the guard works all the same: it holds handovers back.
    let released = match (priority.changes_none, priority.releases) {
        (false, _) => format!("given back {releases}"),
        (true, 0) => "no priority is changed".to_owned(),
        (true, _) => format!("no priority is changed; compaction starved {releases}"),
    };
    let priority = format!(
        "background threads: {:.2} processors used, {:.2} waited for; {released}",
        priority.run_per_second, priority.wait_per_second,
    );
    lines.push(mechanism(Mechanism::Priority, priority));
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
        text += &format!("; {} incomplete or put off", thousands(handover.incomplete));
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
        "{limit}; compactions are some {} behind; threads waited {:.2} s/s",
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
    let switching = switching_keys(model, state);
    Line::from(format!(
        "q quit  ↑↓ choose  s sort  space pause  {switching}"
    ))
    .dim()
}

/// The keys that switch a mechanism of the chosen process.
fn switching_keys(model: &Model, state: &State) -> String {
    let chosen = state.chosen(model).filter(|_| !state.is_replay);
    match chosen.map_or(0, |process| process.mechanisms.len()) {
        0 => String::new(),
        1 => "1 switch  ".to_owned(),
        last => format!("1-{last} switch  "),
    }
}

/// Who works for it.
fn by(process: &Process) -> &'static str {
    match process.is_attached {
        true => "attach",
        false => "library",
    }
}

fn under(ns: Option<u64>) -> String {
    ns.map_or("-".to_owned(), fine_duration)
}

fn percent(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |percent| format!("{percent:.0} %"))
}

fn per_second(bytes: f64) -> String {
    format!("{:.1} MiB/s", bytes / MIB)
}

/// The mechanisms that are off, by their names if these fit, or else how many of all: the details name those of
/// the chosen process.
fn switched_off(process: &Process, columns: usize) -> String {
    let off = process.off();
    if off.len() > 1 && off.len() == process.mechanisms.len() {
        return "all".to_owned();
    }
    let names = off.join(",");
    match names.len() <= columns {
        true => none_or(names),
        false => format!("{}/{}", off.len(), process.mechanisms.len()),
    }
}

/// In compaction and at rest.
fn misses(process: &Process) -> String {
    let tax = &process.tax.device_reads;
    miss_rates(tax.in_compaction.missed_percent, tax.at_rest.missed_percent)
}

fn miss_rates(in_compaction: Option<f64>, at_rest: Option<f64>) -> String {
    let percent = |percent: Option<f64>| percent.map_or("-".to_owned(), |it| format!("{it:.1}"));
    match (in_compaction, at_rest) {
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

/// Its limit is among the details.
fn working_set(process: &Process) -> String {
    let memory = process.memory.as_ref();
    let bytes = memory.and_then(|memory| memory.working_set_bytes);
    bytes.map_or("-".to_owned(), display_bytes)
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

#[cfg(test)]
mod tests {
    use coldstream_control::{Counter, Mechanisms, Switches};
    use coldstream_policy::Priorities;

    use super::*;
    use crate::top::model::tests::{look, surveyed_with_switches};

    #[test]
    fn what_is_off_is_told_at_eighty_columns() {
        let titles = |width| {
            let columns = columns(width, false).into_iter();
            columns.map(|column| column.title).collect::<Vec<_>>()
        };
        let narrow = titles(80);
        assert!(
            narrow.contains(&OFF) && narrow.contains(&"WORKING SET"),
            "{narrow:?}"
        );
        assert_eq!(titles(WIDTH_OF_ALL).len(), COLUMNS.len() - 1);
        assert_eq!(titles(20), ["PID", "PROGRAM"]);
        for width in [80, WIDTH_OF_ALL] {
            let with_attached = columns(width, true).into_iter().map(|column| column.title);
            let without = titles(width).into_iter();
            assert!(with_attached.clone().any(|title| title == BY));
            assert!(without.clone().all(|title| title != BY));
            for title in [OFF, "WORKING SET", "FG P99", "TAX"] {
                assert!(with_attached.clone().any(|it| it == title), "{title}");
            }
        }
        assert_eq!(columns(WIDTH_OF_ALL, true).len(), COLUMNS.len());
    }

    fn process(values: &[(Counter, u64)], switches: &Switches) -> Model {
        let now = std::time::Instant::now();
        let processes = || vec![surveyed_with_switches(7, values, switches)];
        Model::between(&look(now, processes()), &look(now, processes()))
    }

    #[test]
    fn no_name_of_what_is_off_is_cut() {
        let mechanisms = [Mechanism::Reads, Mechanism::Writes, Mechanism::Handover];
        let switches = |off: &[Mechanism]| Switches {
            mechanisms: Mechanisms::of(&mechanisms),
            off: Mechanisms::of(off),
            ..Switches::default()
        };
        for (width, off, shown) in [
            (80, &mechanisms[..1], "1/3"),
            (80, &mechanisms[..2], "2/3"),
            (80, &mechanisms, "all"),
            (80, &[], "-"),
            (WIDTH_OF_ALL, &mechanisms[..2], "reads,writes"),
        ] {
            let text = text(&process(&[], &switches(off)), &State::default(), width);
            let row = text.lines().find(|line| line.starts_with("7 "));
            let last = row.and_then(|row| row.split_whitespace().last());
            assert_eq!(last, Some(shown), "{text}");
            // The details name them at every width.
            for mechanism in off {
                let state = format!("{} OFF", mechanism.name());
                assert!(text.contains(&state), "{state} is not in {text}");
            }
        }
    }

    #[test]
    fn nothing_is_given_back_where_no_priority_is_changed() {
        for (priorities, released, words) in [
            (Priorities::default(), 2, "; given back 2 times"),
            (Priorities::none(), 0, "; no priority is changed"),
            (
                Priorities::none(),
                2,
                "; no priority is changed; compaction starved 2 times",
            ),
        ] {
            let switches = Switches {
                mechanisms: Mechanisms::of(&[Mechanism::Priority]),
                priorities_bits: priorities.to_bits(),
                ..Switches::default()
            };
            let model = process(&[(Counter::PriorityReleases, released)], &switches);
            let text = text(&model, &State::default(), 200);
            let row = text.lines().find(|line| line.starts_with("priority"));
            assert!(
                row.is_some_and(|row| row.ends_with(words)),
                "{words}: {text}"
            );
        }
    }

    #[test]
    fn the_highest_miss_rates_fit_into_their_column() {
        let column = COLUMNS
            .iter()
            .find(|column| column.title == MISSES)
            .unwrap();
        let text = miss_rates(Some(100.0), Some(100.0));
        assert_eq!(text, "100.0/100.0 %");
        assert!(text.len() <= usize::from(column.width));
    }

    #[test]
    fn what_is_wrapped_goes_on_below_the_text() {
        let line = detail(
            "memory",
            "limit none; anonymous 12 MiB, file 30 MiB".to_owned(),
        );
        let lines = wrapped(line, 40).into_iter().map(|line| line.to_string());
        let lines: Vec<_> = lines.map(|line| line.trim_end().to_owned()).collect();
        assert_eq!(
            lines,
            [
                "memory      limit none; anonymous 12",
                "            MiB, file 30 MiB"
            ]
        );
    }
}
