//! The report on a terminal: the verdict of at most [`LINES_MAX`] lines a case, and every row above
//! it if asked for.
//!
//! The text has the escape sequences of its colours. Whoever prints it removes them where standard
//! output is no terminal.

use super::data::{CaseReport, Report};
use super::figures::{count, figure, machine_line, row_name, spread};
use super::published;
use super::smallest_limit::{SmallestLimit, Tried};
use super::trade::Trade;
use super::verdict::{CaseVerdict, Sentence, WorseRow, verdict};
use crate::summary::{Certainty, Change};
use comfy_table::{
    Attribute, Cell, CellAlignment, Color, ContentLineStyle, LineStyle, Table, TableStyle,
};
use std::fmt::Write;
use std::path::PathBuf;

/// Lines of a verdict on one case: it is read at a glance, and fits on a small terminal.
const LINES_MAX: usize = 20;

/// Lines of a verdict that are always there: headline, its condition, two of heading and one of
/// rule, the evidence, notes, report.
const FIXED_LINES: usize = 8;

/// The line of a report whose `--keep-awake` had no effect.
const NOT_AWAKE: &str =
    "--keep-awake had no effect here: sleeping processors may raise p99 idle, and lower the tax";

/// Rows that are named in the line on what became worse; `--all` shows the others.
const WORSE_ROWS_MAX: usize = 3;

/// Modes that buy their latency, a line each, right below the headline.
const TRADES_MAX: usize = 3;

/// What is between the lines of a table.
const STYLE: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::none())
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .content_lines(ContentLineStyle::none());

/// The verdict on every case, and where the report is.
pub fn verdicts(report: &Report, written: &[PathBuf]) -> String {
    let mut text = String::new();
    for case in &report.cases {
        let verdict = verdict(&report.modes, case);
        for line in case_lines(report, case, &verdict) {
            text.push_str(&line);
            text.push('\n');
        }
        published_lines(&mut text, report, case);
        if report.cases.len() > 1 {
            text.push('\n');
        }
    }
    limit_lines(&mut text, &report.smallest_limits);
    if report.machine.awake_refused {
        let _ = writeln!(text, "{NOT_AWAKE}");
    }
    let notes = report.limitations.len() + report.machine.reclaimers.len();
    if notes > 0 {
        let notes = count(notes, "note");
        let _ = writeln!(
            text,
            "{notes} on this measurement: see the report, or --all"
        );
    }
    let paths: Vec<String> = written
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    match paths.as_slice() {
        [] => text.push_str("Report: none was written; --html FILE writes one\n"),
        paths => {
            let _ = writeln!(text, "Report: {}", paths.join(", "));
        }
    }
    text
}

/// At most [`LINES_MAX`] lines, with the two that `verdicts` adds.
fn case_lines(report: &Report, case: &CaseReport, verdict: &CaseVerdict) -> Vec<String> {
    let modes = &report.modes;
    let trades = trades(modes, &case.trades, verdict.focus);
    let not_awake = usize::from(report.machine.awake_refused);
    let rows_max = LINES_MAX - FIXED_LINES - trades.len() - not_awake;
    let rows = modes.len().min(rows_max);
    let mut room = rows_max - rows;
    let runs = case.runs_of_each_mode();
    let mut lines = vec![bold(&verdict.headline)];
    lines.extend(trades);
    lines.push(format!(
        "{}, {}: {}; {} of each mode, medians",
        report.engine,
        case.description.title,
        case.description.text,
        count(runs, "run")
    ));
    let sentences = sentences(verdict, &mut room);
    let worse = worse(&verdict.worse, &mut room);
    let is_loose = room >= 2;
    lines.extend(is_loose.then(String::new));
    lines.extend(table(modes, verdict, rows));
    lines.extend(is_loose.then(String::new));
    lines.extend(sentences);
    lines.extend(verdict.evidence.iter().map(|evidence| {
        if worse.is_empty() {
            evidence.clone()
        } else {
            paint(evidence, RED)
        }
    }));
    lines.extend(worse);
    lines
}

/// The modes that buy their latency: the one in focus first, and how many are left out.
fn trades(modes: &[String], trades: &[Trade], focus: Option<usize>) -> Vec<String> {
    let mut trades: Vec<&Trade> = trades.iter().collect();
    trades.sort_by_key(|trade| focus != Some(trade.mode));
    let shown = match trades.len() {
        all if all <= TRADES_MAX => all,
        _ => TRADES_MAX - 1,
    };
    let mut lines: Vec<String> = trades[..shown]
        .iter()
        .map(|trade| {
            bold(&paint(
                &format!("{}: {}", modes[trade.mode], trade.text),
                RED,
            ))
        })
        .collect();
    if shown < trades.len() {
        let left_out = count(trades.len() - shown, "more mode");
        lines.push(format!(
            "{left_out} that also buy their latency: see the report"
        ));
    }
    lines
}

fn table(modes: &[String], verdict: &CaseVerdict, rows: usize) -> Vec<String> {
    let mut table = empty_table();
    let headings = verdict.columns.iter().map(|column| {
        let heading = column.heading().join("\n");
        Cell::new(heading).set_alignment(CellAlignment::Right)
    });
    table.set_header(std::iter::once(Cell::new("mode")).chain(headings));
    for (mode, name) in modes.iter().enumerate().take(rows) {
        let mut name = Cell::new(name);
        if verdict.focus == Some(mode) {
            name = name.add_attribute(Attribute::Bold);
        }
        let cells = verdict.columns.iter().map(|column| {
            let cell = &column.cells[mode];
            painted(cell.text(), cell.change)
        });
        table.add_row(std::iter::once(name).chain(cells));
    }
    table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// Published figures of the measurement that the case repeats.
fn published_lines(text: &mut String, report: &Report, case: &CaseReport) {
    let Some(published) = &case.description.published else {
        return;
    };
    let _ = writeln!(text, "\nPublished: {}", published.source);
    if !published.note.is_empty() {
        let _ = writeln!(text, "{}", published.note);
    }
    if published.rows.is_empty() {
        return;
    }
    let mut table = empty_table();
    let headings =
        published::headings().map(|heading| Cell::new(heading).set_alignment(CellAlignment::Right));
    table.set_header(std::iter::once(Cell::new("published / here")).chain(headings));
    for (mode, cells) in published::lines(published, &report.modes, &case.runs) {
        let cells = cells.map(|cell| Cell::new(cell).set_alignment(CellAlignment::Right));
        table.add_row(std::iter::once(Cell::new(mode)).chain(cells));
    }
    for line in table.lines() {
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

/// The smallest limits of each case, those of the first mode first.
fn limit_lines(text: &mut String, answers: &[SmallestLimit]) {
    for of_case in answers.chunk_by(|one, next| one.case == next.case) {
        let SmallestLimit {
            case, p99_bound_us, ..
        } = &of_case[0];
        let headline = format!(
            "{case}: the smallest memory limit at which p99 in compaction is at most {} µs",
            figure(*p99_bound_us)
        );
        let _ = writeln!(text, "{}", bold(&headline));
        let mut table = empty_table();
        let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        let headings = [
            "limit\nMiB",
            "p99\nµs",
            "working set\nMiB",
            "compaction\nMiB/s",
            "does not hold\nMiB",
            "p99 there\nµs",
        ];
        let headings = headings.map(|heading| right(heading.into()));
        table.set_header(std::iter::once(Cell::new("mode")).chain(headings));
        for answer in of_case {
            let p99 = |tried: &Tried| match tried.p99_us {
                Some(p99_us) => figure(p99_us),
                None => "did not run".into(),
            };
            let mib = |tried: &Tried| (tried.limit_bytes >> 20).to_string();
            let none = || "–".to_owned();
            let holds = answer.holds.as_ref();
            let fails = answer.fails.as_ref();
            let cells = [
                holds.map_or_else(none, mib),
                holds.map_or_else(none, p99),
                holds.map_or_else(none, |tried| figure(tried.working_set_mib)),
                holds.map_or_else(none, |tried| figure(tried.compaction_mib_per_second)),
                fails.map_or_else(none, mib),
                fails.map_or_else(none, p99),
            ];
            table.add_row(std::iter::once(Cell::new(&answer.mode)).chain(cells.map(right)));
        }
        for line in table.lines() {
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text.push('\n');
    }
}

fn empty_table() -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).enforce_styling();
    table.style_text_only();
    table
}

/// A cell at the right; coloured if the difference is beyond the noise.
fn painted(text: String, change: Change) -> Cell {
    let cell = Cell::new(text).set_alignment(CellAlignment::Right);
    match change {
        Change::Better(Certainty::BeyondNoise) => cell.fg(Color::Green),
        Change::Worse(Certainty::BeyondNoise) => cell.fg(Color::Red),
        _ => cell,
    }
}

/// As many sentences as there is room for, and how many are left out; the one of the mode in focus
/// is not.
fn sentences(verdict: &CaseVerdict, room: &mut usize) -> Vec<String> {
    let mut sentences: Vec<&Sentence> = verdict.sentences.iter().collect();
    let mut left_out = 0;
    if sentences.len() > *room {
        // The first mode has no sentence.
        let focus = verdict.focus.map_or(0, |focus| focus - 1);
        sentences[..=focus].rotate_right(1);
        left_out = sentences.len() - room.saturating_sub(1);
        sentences.truncate(sentences.len() - left_out);
    }
    let mut lines: Vec<String> = sentences.into_iter().map(sentence).collect();
    if left_out > 0 && *room > 0 {
        lines.push(format!(
            "{} more: see the report",
            count(left_out, "sentence")
        ));
    }
    *room -= lines.len();
    lines
}

fn sentence(sentence: &Sentence) -> String {
    let mut text = format!("{}: ", bold(&sentence.mode));
    for clause in &sentence.clauses {
        text.push_str(clause.separator);
        text.push_str(&match clause.change {
            Change::Better(Certainty::BeyondNoise) => paint(&clause.text, GREEN),
            Change::Worse(Certainty::BeyondNoise) => paint(&clause.text, RED),
            _ => clause.text.clone(),
        });
    }
    text
}

/// The rows that became worse most, a line each.
fn worse(rows: &[WorseRow], room: &mut usize) -> Vec<String> {
    let shown = if rows.len() <= WORSE_ROWS_MAX.min(*room) {
        rows.len()
    } else {
        WORSE_ROWS_MAX.min(room.saturating_sub(1))
    };
    let mut lines: Vec<String> = rows
        .iter()
        .take(shown)
        .map(|row| format!("  {}: {}", row.mode, row.text()))
        .collect();
    if shown < rows.len() && *room > 0 {
        lines.push(format!("  {} more: --all", rows.len() - shown));
    }
    *room -= lines.len();
    lines
}

/// Every row of every case, with notes on the measurement.
pub fn every_row(report: &Report) -> String {
    let machine = &report.machine;
    let mut text = format!(
        "{} on {}, {}\n{}; {} of each mode in turn: median (min–max)\n",
        report.engine,
        machine_line(machine),
        report.begun,
        report.load,
        report.runs_of_each_mode()
    );
    for case in &report.cases {
        let title = format!("{}: {}", case.description.title, case.description.text);
        let _ = writeln!(text, "\n{}", bold(&title));
        for line in rows(report, case) {
            let _ = writeln!(text, "{line}");
        }
        library_lines(&mut text, report, case);
    }
    for limitation in &report.limitations {
        let _ = writeln!(text, "note: {limitation}");
    }
    for reclaimer in &machine.reclaimers {
        let _ = writeln!(text, "note: reclaimer found: {reclaimer}");
    }
    text
}

fn rows(report: &Report, case: &CaseReport) -> Vec<String> {
    let mut table = empty_table();
    let headings =
        (report.modes.iter()).map(|mode| Cell::new(mode).set_alignment(CellAlignment::Right));
    table.set_header(std::iter::once(Cell::new("")).chain(headings));
    for row in &case.rows {
        let cells = row.modes.iter().enumerate().map(|(mode, figures)| {
            let cell = painted(spread(figures), row.change(mode));
            match row.change(mode) {
                Change::Worse(Certainty::WithinNoise | Certainty::TooFewRuns) => {
                    cell.fg(Color::Yellow)
                }
                _ => cell,
            }
        });
        table.add_row(std::iter::once(Cell::new(row_name(row))).chain(cells));
    }
    table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// What the library said at the end of each mode's last run, and how much each compaction read.
fn library_lines(text: &mut String, report: &Report, case: &CaseReport) {
    for (mode, runs) in report.modes.iter().zip(&case.runs) {
        if let Some(line) = runs.last().and_then(|run| run.library_log.last()) {
            let _ = writeln!(text, "{mode}, last run: {line}");
        }
    }
    let reads: Vec<String> = case
        .runs
        .iter()
        .map(|runs| {
            let bytes = runs.last().map_or(0, |run| run.compacted_read_bytes);
            figure(bytes as f64 / f64::from(1 << 20))
        })
        .collect();
    let _ = writeln!(text, "MiB read by a compaction: {}", reads.join(", "));
}

const GREEN: &str = "\x1b[32m";
const RED: &str = "\x1b[31m";
const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

fn paint(text: &str, style: &str) -> String {
    format!("{style}{text}{PLAIN}")
}

fn bold(text: &str) -> String {
    paint(text, BOLD)
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    fn lines_of(modes: &[&str], cases: usize) -> Vec<String> {
        lines_of_machine(modes, cases, false)
    }

    fn lines_of_machine(modes: &[&str], cases: usize, awake_refused: bool) -> Vec<String> {
        let figures: Vec<_> = (0..modes.len())
            .map(|mode| (67.0 + mode as f64 * 30.0, 203.0, 100.0))
            .collect();
        let cases = (0..cases).map(|_| fixture::case(&figures, 4)).collect();
        let mut report = fixture::report(modes, cases);
        report.limitations.push("cgroup version 1".into());
        report.machine.awake_refused = awake_refused;
        let text = verdicts(&report, &[PathBuf::from("report.html")]);
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_verdict_says_that_processors_may_sleep() {
        let modes: Vec<String> = (0..40).map(|mode| format!("mode-{mode}")).collect();
        let modes: Vec<&str> = modes.iter().map(String::as_str).collect();
        for count in [2, 40] {
            let is_said = |refused| {
                let lines = lines_of_machine(&modes[..count], 1, refused);
                assert!(lines.len() <= LINES_MAX, "{lines:#?}");
                lines.contains(&NOT_AWAKE.to_owned())
            };
            assert!(is_said(true) && !is_said(false));
        }
    }

    #[test]
    fn smallest_limits_are_a_table_of_each_case() {
        let tried = |limit_bytes: u64, p99_us: Option<f64>| Tried {
            limit_bytes,
            p99_us,
            working_set_mib: 100.0,
            compaction_mib_per_second: 50.0,
            error: None,
        };
        let answer = |mode: &str, holds, fails| SmallestLimit {
            case: "third".into(),
            mode: mode.into(),
            p99_bound_us: 500.0,
            step_bytes: 16 << 20,
            holds,
            fails,
        };
        let mut report = fixture::report(&["buffered", "coldstream"], Vec::new());
        report.smallest_limits = vec![
            answer("buffered", None, Some(tried(256 << 20, Some(900.0)))),
            answer(
                "coldstream",
                Some(tried(128 << 20, Some(400.0))),
                Some(tried(112 << 20, None)),
            ),
        ];
        let text = anstream::adapter::strip_str(&verdicts(&report, &[])).to_string();
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert!(rows.contains(&vec!["buffered", "–", "–", "–", "–", "256", "900"]));
        let ours = "coldstream 128 400 100 50.0 112 did not run";
        assert!(rows.contains(&ours.split(' ').collect()), "{text}");
    }

    #[test]
    fn a_verdict_has_at_most_20_lines() {
        let names: Vec<String> = (0..40).map(|mode| format!("mode-{mode}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for modes in 1..=40 {
            let lines = lines_of(&names[..modes], 1);
            assert!(lines.len() <= LINES_MAX, "{modes} modes: {lines:#?}");
            assert_eq!(
                lines.last().map(String::as_str),
                Some("Report: report.html")
            );
        }
        assert!(lines_of(&names[..3], 4).len() <= 4 * LINES_MAX);
    }

    #[test]
    fn every_mode_has_a_line_and_a_sentence() {
        let text = lines_of(&["buffered", "direct-writes", "coldstream"], 1).join("\n");
        let words: Vec<&str> = text.split_whitespace().collect();
        let row = "buffered 16.8 → 50.8 67.0 → 203 134 → 406 3.03 100";
        assert!(words.join(" ").contains(row), "{text}");
        for sentence in [
            "direct-writes\x1b[0m: p99 in compaction 203 → 203 µs",
            "coldstream\x1b[0m: p99 in compaction 203 → 203 µs",
            "Worse than buffered beyond the noise",
            "1 note on this measurement",
        ] {
            assert!(text.contains(sentence), "{sentence}: {text}");
        }
    }

    #[test]
    fn the_sentence_in_focus_is_not_left_out() {
        let mut names = vec!["mode"; 9];
        names.push("coldstream");
        let text = lines_of(&names, 1).join("\n");
        assert!(text.contains("coldstream\x1b[0m: p99"), "{text}");
        assert!(text.contains("more: see the report"), "{text}");
    }

    /// The first mode, then modes with half of its p99 and a third of its writes.
    fn lines_of_trades(modes: &[&str]) -> Vec<String> {
        let mut figures = vec![((67.0, 103.0, 100.0), 30.0); modes.len()];
        figures[0] = ((67.0, 203.0, 100.0), 99.0);
        let case = fixture::case_with_writes(&figures, 4);
        let mut report = fixture::report(modes, vec![case]);
        report.limitations.push("cgroup version 1".into());
        let text = verdicts(&report, &[PathBuf::from("report.html")]);
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_mode_that_buys_its_latency_is_named_below_the_headline() {
        let lines = lines_of_trades(&["buffered", "coldstream"]);
        assert_eq!(
            lines[1],
            bold(&paint(
                "coldstream: buys its latency with writes: user writes 99.0 → 30.0 MiB/s",
                RED
            ))
        );
        let without = lines_of(&["buffered", "coldstream"], 1).join("\n");
        assert!(!without.contains("buys its latency"), "{without}");
    }

    #[test]
    fn many_that_buy_their_latency_leave_room_for_the_rest() {
        let mut names = vec!["mode"; 40];
        names[30] = "coldstream";
        for modes in 1..=names.len() {
            let lines = lines_of_trades(&names[..modes]);
            assert!(lines.len() <= LINES_MAX, "{modes} modes: {lines:#?}");
            let last = lines.last().map(String::as_str);
            assert_eq!(last, Some("Report: report.html"));
        }
        let lines = lines_of_trades(&names);
        assert!(lines[1].contains("coldstream: buys"), "{}", lines[1]);
        assert_eq!(
            lines[3],
            "37 more modes that also buy their latency: see the report"
        );
    }

    #[test]
    fn all_has_every_row() {
        let case = fixture::case(&[(67.0, 203.0, 100.0), (67.0, 103.0, 96.0)], 4);
        let rows: Vec<String> = case.rows.iter().map(row_name).collect();
        let report = fixture::report(&["buffered", "coldstream"], vec![case]);
        let text = every_row(&report);
        for row in rows {
            assert!(text.contains(&row), "{row}");
        }
        assert!(text.contains("; 4 runs of each mode in turn: "), "{text}");
    }

    #[test]
    fn all_has_the_runs_that_were_made() {
        let case = fixture::case(&[(67.0, 203.0, 100.0), (67.0, 103.0, 96.0)], 2);
        let text = every_row(&fixture::report(&["buffered", "coldstream"], vec![case]));
        let made = "; 2 of 4 planned runs of each mode in turn: ";
        assert!(text.contains(made), "{text}");
    }
}
