//! The verdict on a case: what a reader must know first.
//!
//! Pure functions over the report's data; the terminal and the page show the same verdict.
//!
//! - The table has a line for each mode: percentiles idle and in compaction, the tax, device reads
//!   for the foreground, the speed of compaction.
//! - A sentence for each mode but the first compares it with the first.
//! - A mode that buys its latency is named beside the headline: see [`super::trade`].
//! - A difference counts only if it is beyond the noise: see [`Change`].

use super::data::CaseReport;
use super::figures::{arrow, count, figure, latencies, row_name};
use crate::phase::Phase;
use crate::run_report::{Percentiles, RunReport};
use crate::summary::{Better, Certainty, Change, RUNS_MIN, Row, Spread};

/// The verdict on a case.
#[derive(Clone, Debug)]
pub struct CaseVerdict {
    /// The effect of compaction on p99, without and with the mode in focus.
    pub headline: String,
    /// The table, by column.
    pub columns: Vec<Column>,
    /// One for each mode but the first.
    pub sentences: Vec<Sentence>,
    /// Rows that are worse than the first mode's beyond the noise, the largest difference first.
    pub worse: Vec<WorseRow>,
    /// Rows that are worse, but within the noise or with too few runs.
    pub worse_within_noise: Vec<WorseRow>,
    /// The sentence that says how much the comparison proves; none for one mode alone.
    pub evidence: Option<String>,
    /// The mode that the headline compares with the first one.
    pub focus: Option<usize>,
}

/// The figure of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Median of the service time, µs.
    P50,
    /// 99 % of the service time, µs.
    P99,
    /// 99.9 % of the service time, µs.
    P99_9,
    /// p99 in compaction ÷ p99 idle.
    Tax,
    /// Device reads for the threads that serve reads, MiB/s.
    ForegroundReads,
    /// Bytes that the user writes, MiB/s.
    UserWrites,
    /// Bytes that compaction reads and writes, MiB/s.
    Compaction,
}

impl Measure {
    const ALL: [Self; 7] = [
        Self::P50,
        Self::P99,
        Self::P99_9,
        Self::Tax,
        Self::ForegroundReads,
        Self::UserWrites,
        Self::Compaction,
    ];

    /// Heading of the column, and the second line of those without an idle phase.
    fn heading(self) -> [&'static str; 2] {
        match self {
            Self::P50 => ["p50 µs", "in comp."],
            Self::P99 => ["p99 µs", "in comp."],
            Self::P99_9 => ["p99.9 µs", "in comp."],
            Self::Tax => ["tax", "p99"],
            Self::ForegroundReads => ["foreground", "device MiB/s"],
            Self::UserWrites => ["user writes", "MiB/s"],
            Self::Compaction => ["compaction", "MiB/s"],
        }
    }

    fn better(self) -> Better {
        match self {
            Self::UserWrites | Self::Compaction => Better::More,
            _ => Better::Less,
        }
    }

    fn in_phase(self, run: &RunReport, phase: Phase) -> f64 {
        let percentile: fn(&Percentiles) -> f64 = match self {
            Self::P50 => |p| p.p50,
            Self::P99 => |p| p.p99,
            Self::P99_9 => |p| p.p99_9,
            Self::Tax => return run.compaction_tax_p99,
            Self::UserWrites => return run.user_writes_mib_per_second,
            Self::Compaction => return run.compaction_mib_per_second,
            Self::ForegroundReads => {
                let rates = run.phase(phase).map(|report| report.rates);
                return rates.map_or(0.0, |rates| rates.foreground_read_mib_per_second);
            }
        };
        let report = run.phase(phase);
        report.map_or(0.0, |report| percentile(&report.service_us))
    }

    fn is_percentile(self) -> bool {
        matches!(self, Self::P50 | Self::P99 | Self::P99_9)
    }
}

/// Second line of the percentiles' headings.
const IDLE_TO_COMPACTION: &str = "idle → comp.";

/// A column of the table.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its figure.
    pub measure: Measure,
    /// One for each mode.
    pub cells: Vec<Cell>,
}

impl Column {
    /// Whether it also has figures of the idle phase.
    pub fn has_idle(&self) -> bool {
        self.cells.iter().any(|cell| cell.idle.is_some())
    }

    /// Its heading, and the second line.
    pub fn heading(&self) -> [&'static str; 2] {
        let [name, second] = self.measure.heading();
        [
            name,
            if self.has_idle() {
                IDLE_TO_COMPACTION
            } else {
                second
            },
        ]
    }
}

/// A figure of a mode.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// In the idle phase, for percentiles; none without such a phase.
    pub idle: Option<Spread>,
    /// In compaction.
    pub compaction: Spread,
    /// How the figure in compaction differs from the first mode's.
    pub change: Change,
}

impl Cell {
    /// `idle → compaction`, or the one figure.
    pub fn text(&self) -> String {
        match &self.idle {
            Some(idle) => arrow(idle, &self.compaction),
            None => figure(self.compaction.median),
        }
    }
}

/// What a mode changes, in one sentence.
#[derive(Clone, Debug)]
pub struct Sentence {
    /// The mode.
    pub mode: String,
    /// Parts of the sentence.
    pub clauses: Vec<Clause>,
}

/// A part of a sentence.
#[derive(Clone, Debug)]
pub struct Clause {
    /// Text, without punctuation at its end.
    pub text: String,
    /// What it says.
    pub change: Change,
    /// What separates it from the clause before.
    pub separator: &'static str,
}

/// A row in which a mode is worse than the first one.
#[derive(Clone, Debug)]
pub struct WorseRow {
    /// The mode.
    pub mode: String,
    /// The row, with its phase.
    pub name: String,
    /// The first mode's figure.
    pub first: Spread,
    /// This mode's figure.
    pub this: Spread,
    /// How many times as bad it is.
    ratio: f64,
}

impl WorseRow {
    /// The row's name and both medians.
    pub fn text(&self) -> String {
        format!("{} {}", self.name, arrow(&self.first, &self.this))
    }
}

/// The verdict on a case of these modes.
pub fn verdict(modes: &[String], case: &CaseReport) -> CaseVerdict {
    let columns = columns(&case.runs);
    let focus = focus(modes);
    let (worse, worse_within_noise) = worse_rows(modes, &case.rows);
    CaseVerdict {
        headline: headline(modes, focus, &columns),
        sentences: (1..modes.len())
            .map(|mode| sentence(&modes[mode], mode, &columns))
            .collect(),
        evidence: evidence(modes, &case.runs, &worse),
        columns,
        worse,
        worse_within_noise,
        focus,
    }
}

/// The mode that the headline names: Coldstream with its defaults, else any mode of Coldstream, else
/// the last mode. Never the first, which the others are compared with.
fn focus(modes: &[String]) -> Option<usize> {
    let find = |matches: &dyn Fn(&str) -> bool| {
        let mut others = modes.iter().enumerate().skip(1);
        others.find(|(_, name)| matches(name)).map(|(mode, _)| mode)
    };
    // Cassandra's modes begin with a release: `5.0/coldstream`.
    find(&|name| name.rsplit('/').next() == Some(COLDSTREAM))
        .or_else(|| find(&|name| name.contains(COLDSTREAM)))
        .or_else(|| modes.len().checked_sub(1).filter(|last| *last > 0))
}

const COLDSTREAM: &str = "coldstream";

/// The columns; one that is 0 for every mode is left out: the laboratory did not measure it.
fn columns(modes: &[Vec<RunReport>]) -> Vec<Column> {
    let mut runs = modes.iter().flatten();
    let has_idle = runs.any(|run| run.phase(Phase::Idle).is_some());
    let column = |measure: Measure| {
        let spread = |runs: &Vec<RunReport>, phase| {
            Spread::of(runs.iter().map(|run| measure.in_phase(run, phase)))
        };
        let first = spread(modes.first()?, Phase::Compaction);
        let cells = modes.iter().map(|runs| {
            let compaction = spread(runs, Phase::Compaction);
            Cell {
                idle: (has_idle && measure.is_percentile()).then(|| spread(runs, Phase::Idle)),
                compaction,
                change: Change::between(measure.better(), &first, &compaction),
            }
        });
        let cells: Vec<Cell> = cells.collect();
        let is_measured = cells.iter().any(|cell| !cell.compaction.is_zero());
        is_measured.then_some(Column { measure, cells })
    };
    Measure::ALL.into_iter().filter_map(column).collect()
}

/// The column of a measure.
pub fn column(columns: &[Column], measure: Measure) -> Option<&Column> {
    columns.iter().find(|column| column.measure == measure)
}

fn headline(modes: &[String], focus: Option<usize>, columns: &[Column]) -> String {
    let Some(p99) = column(columns, Measure::P99) else {
        return "No read was measured".to_owned();
    };
    if !p99.has_idle() {
        return headline_without_idle(modes, focus, p99);
    }
    let effect = |mode: usize| {
        let cell = &p99.cells[mode];
        let (idle, compaction) = (cell.idle.unwrap_or_default(), cell.compaction);
        let change = Change::between(Better::Less, &idle, &compaction);
        let is_raised = !matches!(
            change,
            Change::Better(_) | Change::Even | Change::Worse(Certainty::WithinNoise)
        );
        (is_raised, idle.median, compaction.median)
    };
    let first = match effect(0) {
        (true, from, to) => {
            format!("Compaction raises p99 from {}", latencies(from, "to", to))
        }
        (false, from, to) => {
            let both = latencies(from, "→", to);
            format!("Compaction does not raise p99 ({both})")
        }
    };
    let Some(focus) = focus else {
        return first;
    };
    let name = name_in_headline(&modes[focus]);
    let second = match effect(focus) {
        (true, from, to) => format!("from {}", latencies(from, "to", to)),
        (false, from, to) => latencies(from, "→", to),
    };
    format!("{first}; with {name}, {second}")
}

/// The headline of a load that has no phase without a compaction: nothing tells what it costs.
fn headline_without_idle(modes: &[String], focus: Option<usize>, p99: &Column) -> String {
    let of = |mode: usize| p99.cells[mode].compaction.median;
    match focus {
        Some(focus) => format!(
            "p99 in compaction {}, with {}",
            latencies(of(0), "→", of(focus)),
            name_in_headline(&modes[focus])
        ),
        None => format!("p99 in compaction {} µs", figure(of(0))),
    }
}

fn name_in_headline(mode: &str) -> &str {
    match mode {
        COLDSTREAM => "Coldstream",
        name => name,
    }
}

/// `coldstream: p99 in compaction 203 → 103 µs, tax 3.06 → 1.27; compaction 4 % slower (within the
/// noise)`.
fn sentence(name: &str, mode: usize, columns: &[Column]) -> Sentence {
    let mut clauses = Vec::new();
    for column in columns {
        let (first, cell) = (&column.cells[0].compaction, &column.cells[mode]);
        let both = arrow(first, &cell.compaction);
        let (text, separator) = match column.measure {
            Measure::P99 => (format!("p99 in compaction {both} µs"), ""),
            Measure::Tax => (format!("tax {both}"), ", "),
            Measure::UserWrites => match writes(first, &cell.compaction, cell.change) {
                Some(text) => (text, "; "),
                None => continue,
            },
            Measure::Compaction => (speed(first, &cell.compaction, cell.change), "; "),
            Measure::P50 | Measure::P99_9 | Measure::ForegroundReads => continue,
        };
        let noise = match cell.change {
            Change::Better(Certainty::WithinNoise) | Change::Worse(Certainty::WithinNoise) => {
                " (within the noise)"
            }
            _ => "",
        };
        clauses.push(Clause {
            text: text + noise,
            change: cell.change,
            separator,
        });
    }
    Sentence {
        mode: name.to_owned(),
        clauses,
    }
}

/// Only what differs: under a fixed rate of writes most modes are as good as the first.
fn writes(first: &Spread, this: &Spread, change: Change) -> Option<String> {
    let percent = (this.median / first.median - 1.0).abs() * 100.0;
    match change {
        Change::Better(_) => Some(format!("user writes {percent:.0} % more")),
        Change::Worse(_) => Some(format!("user writes {percent:.0} % less")),
        Change::Even => None,
    }
}

fn speed(first: &Spread, this: &Spread, change: Change) -> String {
    let percent = (this.median / first.median - 1.0).abs() * 100.0;
    match change {
        Change::Better(_) => format!("compaction {percent:.0} % faster"),
        Change::Worse(_) => format!("compaction {percent:.0} % slower"),
        Change::Even => "compaction as fast".to_owned(),
    }
}

/// The rows that are worse beyond the noise, and those that are worse within it.
fn worse_rows(modes: &[String], rows: &[Row]) -> (Vec<WorseRow>, Vec<WorseRow>) {
    let (mut beyond, mut within) = (Vec::new(), Vec::new());
    for (mode, name) in modes.iter().enumerate().skip(1) {
        for row in rows {
            let Change::Worse(certainty) = row.change(mode) else {
                continue;
            };
            let (first, this) = (&row.modes[0], &row.modes[mode]);
            let ratio = this.median / first.median;
            let worse = WorseRow {
                mode: name.clone(),
                name: row_name(row),
                first: *first,
                this: *this,
                ratio: if row.better == Better::More {
                    ratio.recip()
                } else {
                    ratio
                },
            };
            match certainty {
                Certainty::BeyondNoise => beyond.push(worse),
                Certainty::WithinNoise | Certainty::TooFewRuns => within.push(worse),
            }
        }
    }
    for rows in [&mut beyond, &mut within] {
        rows.sort_by(|one, other| other.ratio.total_cmp(&one.ratio));
    }
    (beyond, within)
}

fn evidence(modes: &[String], runs: &[Vec<RunReport>], worse: &[WorseRow]) -> Option<String> {
    let (first, others) = modes.split_first()?;
    if others.is_empty() {
        return None;
    }
    let fewest = runs.iter().map(Vec::len).min().unwrap_or(0);
    if fewest < RUNS_MIN {
        return Some(format!(
            "{} of each mode cannot tell a difference from noise: use --runs {RUNS_MIN} or more",
            count(fewest, "run")
        ));
    }
    Some(if worse.is_empty() {
        format!("Nothing is worse than {first} beyond the noise")
    } else {
        let rows = count(worse.len(), "figure");
        format!("Worse than {first} beyond the noise: {rows}")
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{self, Figures};
    use super::*;

    fn names(modes: &[&str]) -> Vec<String> {
        modes.iter().map(|mode| (*mode).to_owned()).collect()
    }

    fn verdict_of(first: Figures, second: Figures, runs: u32) -> CaseVerdict {
        let modes = names(&["buffered", "coldstream"]);
        verdict(&modes, &fixture::case(&[first, second], runs))
    }

    fn text(sentence: &Sentence) -> String {
        let clauses = sentence.clauses.iter();
        clauses
            .map(|clause| format!("{}{}", clause.separator, clause.text))
            .collect()
    }

    #[test]
    fn the_headline_says_what_compaction_costs() {
        let headline = |first, second| verdict_of(first, second, 4).headline;
        assert_eq!(
            headline((67.0, 203.0, 100.0), (81.0, 103.0, 96.0)),
            "Compaction raises p99 from 67.0 to 203 µs; with Coldstream, from 81.0 to 103 µs"
        );
        assert_eq!(
            headline((67.0, 67.5, 100.0), (81.0, 80.0, 96.0)),
            "Compaction does not raise p99 (67.0 → 67.5 µs); with Coldstream, 81.0 → 80.0 µs"
        );
        let alone = verdict(
            &names(&["buffered"]),
            &fixture::case(&[(50.0, 100.0, 1.0)], 4),
        );
        assert_eq!(alone.headline, "Compaction raises p99 from 50.0 to 100 µs");
        assert!(alone.sentences.is_empty() && alone.evidence.is_none());
    }

    #[test]
    fn without_an_idle_phase_there_is_no_tax() {
        let modes = names(&["buffered", "coldstream"]);
        let case = fixture::case_without_idle(&[(67.0, 203.0, 100.0), (67.0, 103.0, 96.0)], 4);
        assert!(case.rows.iter().all(|row| row.phase != Some(Phase::Idle)));
        let verdict = verdict(&modes, &case);
        assert_eq!(
            verdict.headline,
            "p99 in compaction 203 → 103 µs, with Coldstream"
        );
        assert_eq!(
            text(&verdict.sentences[0]),
            "p99 in compaction 203 → 103 µs; compaction 4 % slower"
        );
        assert!(column(&verdict.columns, Measure::Tax).is_none());
        let p99 = column(&verdict.columns, Measure::P99).unwrap();
        assert_eq!(p99.heading(), ["p99 µs", "in comp."]);
        assert_eq!(p99.cells[1].text(), "103");
        let alone = fixture::case_without_idle(&[(67.0, 203.0, 100.0)], 4);
        let verdict = super::verdict(&modes[..1], &alone);
        assert_eq!(verdict.headline, "p99 in compaction 203 µs");
    }

    #[test]
    fn the_focus_is_coldstream_with_its_defaults() {
        let focus_of = |modes: &[&str]| focus(&names(modes));
        assert_eq!(
            focus_of(&["buffered", "coldstream:auto", "coldstream"]),
            Some(2)
        );
        assert_eq!(
            focus_of(&["5.0/stock", "5.0/coldstream", "6.0/own-direct"]),
            Some(1)
        );
        assert_eq!(
            focus_of(&["buffered", "coldstream:auto", "direct-writes"]),
            Some(1)
        );
        assert_eq!(
            focus_of(&["coldstream", "buffered", "direct-writes"]),
            Some(2)
        );
        assert_eq!(focus_of(&["coldstream"]), None);
        assert_eq!(focus_of(&[]), None);
    }

    #[test]
    fn a_sentence_says_direction_and_noise() {
        let sentence = |first, second| text(&verdict_of(first, second, 4).sentences[0]);
        assert_eq!(
            sentence((67.0, 203.0, 100.0), (81.0, 103.0, 96.0)),
            "p99 in compaction 203 → 103 µs, tax 3.03 → 1.27; compaction 4 % slower"
        );
        assert_eq!(
            sentence((67.0, 203.0, 100.0), (67.0, 203.0, 130.0)),
            "p99 in compaction 203 → 203 µs, tax 3.03 → 3.03; compaction 30 % faster"
        );
    }

    #[test]
    fn overlapping_spreads_are_within_the_noise() {
        let modes = names(&["buffered", "coldstream"]);
        let mut case = fixture::case(&[(67.0, 203.0, 100.0), (67.0, 103.0, 96.0)], 5);
        case.runs[1][4].compaction_mib_per_second = 101.0;
        let verdict = verdict(&modes, &CaseReport::new(case.description, case.runs));
        assert_eq!(
            text(&verdict.sentences[0]),
            "p99 in compaction 203 → 103 µs, tax 3.03 → 1.54; compaction 4 % slower (within the \
             noise)"
        );
        assert!(verdict.worse.is_empty());
        let within: Vec<String> = (verdict.worse_within_noise.iter())
            .map(WorseRow::text)
            .collect();
        assert_eq!(within, ["compaction MiB/s 100 → 96.0"]);
        assert_eq!(
            verdict.evidence.as_deref(),
            Some("Nothing is worse than buffered beyond the noise")
        );
    }

    #[test]
    fn a_sentence_names_user_writes_that_differ() {
        let modes = names(&["buffered", "coldstream"]);
        let stock = ((67.0, 203.0, 100.0), 99.0);
        let case = fixture::case_with_writes(&[stock, ((67.0, 103.0, 100.0), 30.0)], 4);
        let verdict = verdict(&modes, &case);
        assert_eq!(
            text(&verdict.sentences[0]),
            "p99 in compaction 203 → 103 µs, tax 3.03 → 1.54; user writes 70 % less; compaction as \
             fast"
        );
        let writes = column(&verdict.columns, Measure::UserWrites).unwrap();
        assert_eq!(writes.cells[1].text(), "30.0");
    }

    #[test]
    fn rows_beyond_the_noise_are_listed_the_worst_first() {
        let verdict = verdict_of((67.0, 203.0, 100.0), (134.0, 103.0, 80.0), 4);
        assert!(verdict.worse.len() > 2);
        assert!(verdict.worse[0].name.starts_with("idle: "));
        let last = &verdict.worse[verdict.worse.len() - 1];
        assert_eq!(last.text(), "compaction MiB/s 100 → 80.0");
        assert_eq!(
            verdict.evidence,
            Some(format!(
                "Worse than buffered beyond the noise: {} figures",
                verdict.worse.len()
            ))
        );
    }

    #[test]
    fn too_few_runs_prove_nothing_and_the_verdict_says_so() {
        let verdict = verdict_of((67.0, 203.0, 100.0), (134.0, 103.0, 80.0), 2);
        assert!(verdict.worse.is_empty() && !verdict.worse_within_noise.is_empty());
        assert_eq!(
            verdict.evidence.as_deref(),
            Some("2 runs of each mode cannot tell a difference from noise: use --runs 4 or more")
        );
    }

    #[test]
    fn a_measure_that_is_0_everywhere_has_no_column() {
        let verdict = verdict_of((67.0, 203.0, 0.0), (67.0, 203.0, 0.0), 4);
        let measures: Vec<Measure> = (verdict.columns.iter())
            .map(|column| column.measure)
            .collect();
        use Measure::{P50, P99, P99_9, Tax};
        assert_eq!(measures, [P50, P99, P99_9, Tax]);
    }
}
