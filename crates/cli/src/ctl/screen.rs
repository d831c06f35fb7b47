//! The screen of `ctl status`: a row a mechanism, in words and units. Zeros are left out, so that a
//! process at work fits into 24 lines of 80 columns.

use std::collections::BTreeMap;

use coldstream_control::{Counter, DeclinedDirectory, Mechanism, Snapshot};
use coldstream_policy::display_bytes;
use comfy_table::{ContentArrangement, Table, presets};

use super::refusal;
use super::values::{changes_no_priority, count, duration, misses_text, tax_text, thousands};
use crate::{output, title};

/// Reads slower than this are in the last of [`Counter::DEVICE_READS`].
const DEVICE_READ_MS_MAX: u64 = 262;
/// Problems and notes on the screen; `--all` shows every counter.
const IRREGULARITIES_SHOWN: usize = 5;

/// The screen, in lines of at most `width` columns.
pub fn render(snapshot: &Snapshot, command: &str, width: u16) -> String {
    let pid = snapshot.header.pid;
    let title = title::cut(&format!("process {pid}: {command}"), width.into());
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width);
    for (label, phrases) in rows(snapshot) {
        table.add_row([label.to_owned(), phrases.join("; ")]);
    }
    // What is normal is shown too, but not as a problem.
    let (notes, problems): (Vec<_>, Vec<_>) = snapshot
        .irregularities()
        .partition(|(counter, _)| counter.is_normal());
    let room_for_notes = IRREGULARITIES_SHOWN.saturating_sub(problems.len());
    for (name, counters, lines_max) in [
        ("problems", &problems, IRREGULARITIES_SHOWN),
        ("notes", &notes, room_for_notes),
    ] {
        for (index, line) in lines(counters, lines_max).iter().enumerate() {
            table.add_row([if index == 0 { name } else { "" }, line]);
        }
    }
    for (index, declined) in snapshot.declined().enumerate() {
        let label = if index == 0 { "declined" } else { "" };
        table.add_row([label.to_owned(), declined_in(declined)]);
    }
    let mut rows = table.trim_fmt();
    if !problems.is_empty() {
        rows = rows.replacen(
            "\n problems",
            &format!("\n {}", output::yellow("problems")),
            1,
        );
    }
    format!("{}\n{rows}\n", output::bold(title))
}

/// Where there is no handover, and why.
fn declined_in(declined: &DeclinedDirectory) -> String {
    format!("{}: {}", declined.directory(), declined.reason())
}

/// The I/O mode of reads, and the setting where it is another.
pub fn io_mode(snapshot: &Snapshot) -> String {
    let configured = snapshot.header.configured.name();
    match snapshot.header.in_force {
        Some(in_force) if in_force.name() == configured => configured.to_owned(),
        Some(in_force) => format!("{} (configured: {configured})", in_force.name()),
        None => format!("{configured}, no SSTable probed yet"),
    }
}

/// All rows but the problems: label and phrases.
fn rows(snapshot: &Snapshot) -> Vec<(&'static str, Vec<String>)> {
    let mut rows = vec![
        ("reads", reads(snapshot)),
        ("writes", writes(snapshot)),
        ("handover", handover(snapshot)),
        ("pacing", pacing(snapshot)),
        ("eviction", eviction(snapshot)),
        ("readahead", readahead(snapshot)),
        ("priority", priority(snapshot)),
        ("memory", memory(snapshot)),
        ("foreground", foreground(snapshot)),
        ("tax", tax(snapshot)),
        (
            "verdict",
            snapshot.verdict().map(str::to_owned).into_iter().collect(),
        ),
    ];
    if snapshot.switches.mechanisms.is_empty() {
        let reason = "this process cannot be switched while it runs".to_owned();
        rows.push(("switches", vec![reason]));
    }
    rows.retain(|(_, phrases)| !phrases.is_empty());
    rows
}

/// The phrases of one row; a counter that is zero adds none.
struct Phrases<'a> {
    snapshot: &'a Snapshot,
    phrases: Vec<String>,
}

impl<'a> Phrases<'a> {
    /// A row that begins with whether the mechanism is on.
    fn of(snapshot: &'a Snapshot, mechanism: Mechanism) -> Self {
        let switches = snapshot.switches;
        let state = if switches.off.contains(mechanism) {
            Some("off")
        } else if switches.mechanisms.contains(mechanism) {
            Some("on")
        } else {
            // Where nothing can be switched, nothing says what was configured.
            (!switches.mechanisms.is_empty()).then_some("not configured")
        };
        let phrases = state.into_iter().map(str::to_owned).collect();
        Self { snapshot, phrases }
    }

    fn add(&mut self, phrase: String) {
        self.phrases.push(phrase);
    }

    /// Adds a phrase about the value of a counter, unless that is zero.
    fn about(&mut self, counter: Counter, phrase: impl FnOnce(u64) -> String) -> &mut Self {
        match self.snapshot.get(counter) {
            0 => {}
            value => self.phrases.push(phrase(value)),
        }
        self
    }

    /// Adds `3 MiB` and the words behind it.
    fn bytes(&mut self, counter: Counter, words: &str) -> &mut Self {
        self.about(counter, |bytes| format!("{} {words}", display_bytes(bytes)))
    }
}

fn reads(snapshot: &Snapshot) -> Vec<String> {
    let mut row = Phrases::of(snapshot, Mechanism::Reads);
    row.add(io_mode(snapshot));
    row.bytes(Counter::BytesDirect, "direct")
        .bytes(Counter::BytesDontcache, "with RWF_DONTCACHE")
        .bytes(Counter::BytesDropBehind, "dropped behind")
        .bytes(Counter::BytesFromCache, "from the page cache")
        .bytes(Counter::BytesBuffered, "by plain calls")
        .bytes(Counter::BytesEngineDirect, "by the engine's own direct I/O")
        .about(Counter::WindowsRead, |windows| {
            let window = display_bytes(snapshot.header.window_bytes);
            let windows = count(windows, "window", "windows");
            let late = match snapshot.windows_waited_percent() {
                0 => String::new(),
                percent => format!(", {percent} % late"),
            };
            format!("{windows} of up to {window}{late}")
        })
        .bytes(Counter::ReadAheadWastedBytes, "read ahead in vain")
        .about(Counter::AttachEventsLost, |events| {
            format!("{} lost", count(events, "event", "events"))
        });
    row.phrases
}

fn writes(snapshot: &Snapshot) -> Vec<String> {
    let mut row = Phrases::of(snapshot, Mechanism::Writes);
    row.about(Counter::StagedFiles, |files| {
        count(files, "new SSTable", "new SSTables")
    })
    .about(Counter::WriteBytesDirect, |bytes| {
        let overlapped = snapshot.get(Counter::WriteBytesOverlapped);
        let beside = match overlapped {
            0 => String::new(),
            overlapped => format!(" ({} in helper threads)", display_bytes(overlapped)),
        };
        format!("{} direct{beside}", display_bytes(bytes))
    })
    .bytes(Counter::WriteBytesDontcache, "with RWF_DONTCACHE")
    .bytes(Counter::WriteBytesDropBehind, "dropped behind")
    .bytes(Counter::WriteBytesBuffered, "through the page cache")
    .bytes(
        Counter::WriteBytesEngineDirect,
        "by the engine's own direct I/O",
    )
    .about(Counter::StagedWrites, |calls| {
        format!("{} gathered", count(calls, "call", "calls"))
    })
    .about(Counter::Drains, |drains| {
        format!("drained early {}", count(drains, "time", "times"))
    })
    .about(Counter::KeptCached, |files| {
        let files = count(files, "SSTable", "SSTables");
        format!("{files} left in the page cache")
    })
    .about(Counter::FlushesBypassed, |files| {
        let files = count(files, "flush", "flushes");
        format!("{files} around it")
    });
    row.phrases
}

fn handover(snapshot: &Snapshot) -> Vec<String> {
    let mut row = Phrases::of(snapshot, Mechanism::Handover);
    row.about(Counter::HandoverSsTables, |files| {
        let files = count(files, "SSTable or part", "SSTables or parts");
        // `attach` delays nobody, and so times nothing.
        let time = match snapshot.get(Counter::HandoverNanoseconds) {
            0 => String::new(),
            time => format!(" in {}{}", duration(time), longest_handover(snapshot)),
        };
        format!("{files}{time}")
    })
    .about(Counter::HandoverPagesWarmed, |pages| {
        format!("{} warmed", count(pages, "page", "pages"))
    })
    .about(Counter::HandoverRangesWarmed, |warmed| {
        let hit = thousands(snapshot.get(Counter::HandoverRangesHit));
        let ranges = count(warmed, "warm range", "warm ranges");
        format!("{hit} of {ranges} read since")
    })
    .about(Counter::HandoversFrugal, |handovers| {
        let handovers = count(handovers, "handover", "handovers");
        format!("{handovers} of what was read twice only, since few warm ranges are read")
    })
    .bytes(
        Counter::HandoverBlockCacheBytes,
        "of inputs in the block cache",
    )
    .about(Counter::HandoverPagesRecalled, |pages| {
        format!(
            "{} recalled from the page cache",
            count(pages, "page", "pages")
        )
    })
    .about(Counter::HandoverPagesLeftOut, |pages| {
        format!(
            "{} not warmed before publication",
            count(pages, "page", "pages")
        )
    })
    .about(Counter::HandoverPagesWarmedLate, |pages| {
        format!("{} warmed after publication", count(pages, "page", "pages"))
    })
    .about(Counter::HandoverPutOff, |files| {
        let files = count(files, "SSTable", "SSTables");
        format!("{files} put off: the share of time was taken")
    })
    .about(Counter::HeatDisplaced, |ranges| {
        format!("{} displaced", count(ranges, "hot range", "hot ranges"))
    });
    row.phrases
}

/// `, the longest under 64 ms`: the upper bound of the slowest class that has a handover.
fn longest_handover(snapshot: &Snapshot) -> String {
    let mut below_ms = 1;
    let mut longest = String::new();
    for counter in Counter::HANDOVER_DELAYS {
        if snapshot.get(counter) != 0 {
            longest = format!(", the longest under {below_ms} ms");
            if counter == Counter::HandoverDelayLonger {
                longest = ", the longest over a second".to_owned();
            }
        }
        below_ms *= Counter::HANDOVER_DELAY_FACTOR;
    }
    longest
}

fn pacing(snapshot: &Snapshot) -> Vec<String> {
    let mut row = Phrases::of(snapshot, Mechanism::Pacing);
    row.about(Counter::PacingBytesPerSecond, |limit| {
        format!("limit now {}/s", display_bytes(limit))
    })
    .about(Counter::PacingBrakes, |brakes| {
        format!("slowed down {}", count(brakes, "time", "times"))
    })
    .about(Counter::PacingNanoseconds, |ns| {
        format!("threads waited {}", duration(ns))
    })
    .about(Counter::PacingIdleNanoseconds, |ns| {
        format!("idle latency {}", duration(ns))
    });
    // Without pacing the debt slows nothing down, and is a guess while compactions do not rest.
    if snapshot.switches.mechanisms.contains(Mechanism::Pacing) {
        row.about(Counter::PacingDebtBytes, |bytes| {
            format!("compaction some {} behind flushes", display_bytes(bytes))
        })
        .about(Counter::PacingReleases, |releases| {
            let releases = count(releases, "time", "times");
            format!("gave way {releases}: compaction seemed to fall behind")
        });
    }
    row.phrases
}

fn eviction(snapshot: &Snapshot) -> Vec<String> {
    let mut row = Phrases::of(snapshot, Mechanism::Eviction);
    row.bytes(Counter::EvictionBytes, "dropped from the page cache")
        .about(Counter::EvictionNanoseconds, |ns| {
            format!("{} of processor time", duration(ns))
        });
    row.phrases
}

fn readahead(snapshot: &Snapshot) -> Vec<String> {
    let mut row = Phrases::of(snapshot, Mechanism::Readahead);
    row.bytes(Counter::ScanBytesAhead, "read ahead of range scans")
        .about(Counter::ReadaheadAdviceSkipped, |calls| {
            let calls = count(calls, "readahead call", "readahead calls");
            format!("{calls} of background threads skipped")
        })
        .about(Counter::SendfileBytes, |sent| {
            let dropped = snapshot.get(Counter::SendfileBytesDropped);
            let (sent, dropped) = (display_bytes(sent), display_bytes(dropped));
            format!("{sent} sent by sendfile, {dropped} of them dropped")
        });
    row.phrases
}

fn priority(snapshot: &Snapshot) -> Vec<String> {
    // `--priority off`. The guard works all the same: it holds handovers back.
    let changes_none = changes_no_priority(snapshot);
    let mut row = Phrases::of(snapshot, Mechanism::Priority);
    row.about(Counter::PriorityThreads, |threads| {
        format!("{} changed", count(threads, "thread", "threads"))
    })
    .about(Counter::PriorityReleases, |releases| {
        let releases = count(releases, "time", "times");
        match changes_none {
            true => format!("compaction starved {releases}"),
            false => format!("given back {releases} because compaction starved"),
        }
    });
    let switches = snapshot.switches;
    // While it is off, all values are those of before.
    if switches.mechanisms.contains(Mechanism::Priority)
        && !switches.off.contains(Mechanism::Priority)
        && let Some(priorities) = snapshot.priorities()
    {
        if changes_none {
            row.add("no priority is changed".to_owned());
            return row.phrases;
        }
        let refused = refusal::words(snapshot.nice_refused_threads());
        row.add(format!(
            "nice {}{refused}",
            by_role(&priorities.nice_text())
        ));
        row.add(format!("I/O priority {}", by_role(&priorities.io_text())));
    }
    row.phrases
}

/// `compaction:10,flush:none,streaming:10` as `10 for compaction, streaming`. Roles without a
/// priority are left out.
fn by_role(text: &str) -> String {
    let mut by_value: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (role, value) in text.split(',').filter_map(|part| part.split_once(':')) {
        if value != "none" {
            by_value.entry(value).or_default().push(role);
        }
    }
    let phrases: Vec<_> = by_value
        .iter()
        .map(|(value, roles)| format!("{value} for {}", roles.join(", ")))
        .collect();
    match phrases.is_empty() {
        true => "unchanged".to_owned(),
        false => phrases.join(" and "),
    }
}

fn memory(snapshot: &Snapshot) -> Vec<String> {
    let limit = display_bytes(snapshot.header.memory_bytes);
    let mut row = Phrases {
        snapshot,
        phrases: Vec::new(),
    };
    row.bytes(Counter::WindowMemoryBytes, "in buffers now")
        .about(Counter::WindowMemoryPeakBytes, |peak| {
            let peak = display_bytes(peak);
            format!("buffers reached {peak} of the limit of {limit}")
        })
        .about(Counter::HeapPeakBytes, |peak| {
            format!("heap reached {}", display_bytes(peak))
        });
    row.phrases
}

/// The latency of the application's reads that reached the device.
fn foreground(snapshot: &Snapshot) -> Vec<String> {
    let below = |per_mille| match snapshot.device_reads_below_ns(per_mille) {
        Some(ns) if ns < 1_000_000 => format!("under {} µs", ns / 1000),
        Some(ns) => format!("under {:.1} ms", ns as f64 / 1e6),
        None => format!("over {DEVICE_READ_MS_MAX} ms"),
    };
    match snapshot.device_reads() {
        0 => Vec::new(),
        timed => vec![format!(
            "device reads: p50 {}, p99 {} ({} timed)",
            below(500),
            below(990),
            thousands(timed)
        )],
    }
}

/// How much slower device reads are while compactions run, and how many more there are, since the start.
fn tax(snapshot: &Snapshot) -> Vec<String> {
    let tax = snapshot.device_read_tax();
    if tax.is_empty() {
        return Vec::new();
    }
    vec![tax_text(&tax), misses_text(&tax)]
}

/// A line for each of these counters, with its explanation; at most `lines_max`, and one about the rest.
fn lines(counters: &[(Counter, u64)], lines_max: usize) -> Vec<String> {
    if lines_max == 0 {
        return Vec::new();
    }
    let mut lines: Vec<_> = (counters.iter().take(lines_max))
        .map(|(counter, value)| {
            let explanation = counter.explanation().replace('`', "");
            format!("{}={value}: {explanation}", counter.name())
        })
        .collect();
    let hidden = counters.len().saturating_sub(lines_max);
    if hidden > 0 {
        lines.push(format!("… and {hidden} more"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldstream_control::{Header, Mechanisms, PAGE_WORDS, PageView, Switches};
    use coldstream_policy::{IoMode, IoModeSetting, Priorities, Profile};
    use std::sync::atomic::AtomicU64;

    fn snapshot(values: &[(Counter, u64)], switches: &Switches) -> Snapshot {
        let words: Vec<AtomicU64> = (0..PAGE_WORDS).map(|_| AtomicU64::new(0)).collect();
        let page = PageView::new(&words).unwrap();
        page.initialise(&Header {
            pid: 1,
            start_time_ticks: 1,
            profile: Profile::Auto,
            configured: IoModeSetting::Auto,
            in_force: Some(IoMode::Direct),
            window_bytes: 1 << 20,
            windows_in_flight: 1,
            memory_bytes: 64 << 20,
        });
        page.put_switches(switches);
        for (counter, value) in values {
            page.add(*counter, *value);
        }
        page.snapshot().unwrap()
    }

    fn switches(off: &[Mechanism]) -> Switches {
        Switches {
            mechanisms: Mechanisms::of(&Mechanism::ALL),
            off: Mechanisms::of(off),
            priorities_bits: Priorities::default().to_bits(),
        }
    }

    #[test]
    fn the_longest_device_reads_are_those_behind_the_last_bound() {
        let [.., last_bound, longer] = Counter::DEVICE_READS;
        let one = snapshot(&[(last_bound, 1)], &Switches::default());
        let bound_ns = one.device_reads_below_ns(1000);
        assert_eq!(bound_ns.unwrap() / 1_000_000, DEVICE_READ_MS_MAX);
        let slow = snapshot(&[(last_bound, 1), (longer, 99)], &Switches::default());
        assert!(foreground(&slow)[0].contains("p99 over 262 ms "));
    }

    #[test]
    fn zeros_are_left_out() {
        let quiet = render(&snapshot(&[], &switches(&[])), "db", 80);
        assert!(!quiet.contains("problems"), "{quiet}");
        assert!(!quiet.contains(" 0 windows"), "{quiet}");
        assert!(quiet.lines().count() < 12, "{quiet}");
    }

    #[test]
    fn nothing_is_given_back_where_no_priority_is_changed() {
        let released = [(Counter::PriorityReleases, 2)];
        let mut switches = switches(&[]);
        let given_back = priority(&snapshot(&released, &switches)).join("; ");
        assert!(
            given_back.contains("given back 2 times because compaction starved"),
            "{given_back}"
        );
        assert!(given_back.contains("nice "), "{given_back}");
        switches.priorities_bits = Priorities::none().to_bits();
        let off = priority(&snapshot(&released, &switches)).join("; ");
        assert!(
            off.ends_with("compaction starved 2 times; no priority is changed"),
            "{off}"
        );
    }

    /// The most that can stand on it still fits on a screen.
    #[test]
    fn a_busy_process_fits_on_a_screen() {
        let values = Counter::ALL.map(|counter| (counter, 123_456_789));
        let busy = snapshot(&values, &switches(&[Mechanism::Writes]));
        for (width, lines_max) in [(80, 48), (160, 26)] {
            let text = render(&busy, &"x".repeat(500), width);
            assert!(text.lines().count() <= lines_max, "{text}");
            let plain = anstream::adapter::strip_str(&text).to_string();
            let longest = plain.lines().map(|line| line.chars().count()).max();
            assert!(longest.unwrap() <= usize::from(width), "{text}");
        }
    }

    #[test]
    fn handovers_that_were_put_off_are_said_in_their_row() {
        let values = [(Counter::HandoverPutOff, 54)];
        let row = handover(&snapshot(&values, &switches(&[]))).join("; ");
        assert!(
            row.contains("54 SSTables put off: the share of time was taken"),
            "{row}"
        );
    }

    #[test]
    fn a_refused_nice_value_is_said_beside_it() {
        let refused = priority(&snapshot(&[(Counter::PriorityRefused, 2)], &switches(&[])));
        let nice = refused
            .iter()
            .find(|phrase| phrase.starts_with("nice 10 for"));
        assert!(
            nice.is_some_and(|it| it.contains("but refused for 2 threads")),
            "{refused:?}"
        );
        let accepted = priority(&snapshot(&[], &switches(&[])));
        assert!(!accepted.concat().contains("refused"), "{accepted:?}");
    }

    #[test]
    fn debt_is_said_where_pacing_is_configured() {
        let values = [
            (Counter::PacingDebtBytes, 3 << 30),
            (Counter::PacingReleases, 1),
        ];
        let paced = pacing(&snapshot(&values, &switches(&[]))).join("; ");
        assert!(
            paced.contains("compaction some 3 GiB behind flushes; gave way 1 time"),
            "{paced}"
        );
        let mut without = switches(&[]);
        without.mechanisms = without
            .mechanisms
            .without(Mechanisms::of(&[Mechanism::Pacing]));
        assert_eq!(pacing(&snapshot(&values, &without)), ["not configured"]);
    }

    #[test]
    fn a_verdict_is_a_row() {
        let values =
            [Counter::BackgroundBytes, Counter::BytesFromCache].map(|counter| (counter, 1 << 30));
        let text = render(&snapshot(&values, &switches(&[])), "db", 160);
        assert!(
            text.contains("verdict    Most inputs were cached"),
            "{text}"
        );
        let text = render(&snapshot(&values[..1], &switches(&[])), "db", 160);
        assert!(!text.contains("verdict"), "{text}");
    }

    #[test]
    fn problems_are_explained_and_normal_ones_are_notes_behind_them() {
        let some = snapshot(
            &[
                (Counter::FallbackChangedRecently, 4),
                (Counter::WriteErrors, 1),
            ],
            &switches(&[]),
        );
        let text = render(&some, "db", 160);
        let plain = anstream::adapter::strip_str(&text).to_string();
        let at = |words: &str| {
            plain
                .find(words)
                .unwrap_or_else(|| panic!("no {words}: {plain}"))
        };
        assert!(at("problems") < at("write_errors=1: "), "{plain}");
        assert!(at("write_errors=1: ") < at("notes"), "{plain}");
        assert!(at("notes") < at("fallback_changed_recently=4: "), "{plain}");
    }

    #[test]
    fn directories_without_handover_are_named_with_the_reason() {
        let words: Vec<AtomicU64> = (0..PAGE_WORDS).map(|_| AtomicU64::new(0)).collect();
        let page = PageView::new(&words).unwrap();
        page.initialise(&snapshot(&[], &switches(&[])).header);
        page.record_declined(b"/var/lib/one", b"keys in no order");
        page.record_declined(b"/var/lib/\x1b[2Jtwo", b"a compression dictionary");
        let text = render(&page.snapshot().unwrap(), "db", 80);
        for line in [
            "declined  /var/lib/one: keys in no order",
            "/var/lib/?[2Jtwo: a compression dictionary",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn a_state_is_said_of_each_mechanism() {
        let some = snapshot(&[], &switches(&[Mechanism::Reads]));
        assert_eq!(reads(&some)[0], "off");
        assert_eq!(writes(&some)[0], "on");
        let none = snapshot(&[], &Switches::default());
        assert!(writes(&none).is_empty());
        assert!(rows(&none).iter().any(|(label, _)| *label == "switches"));
    }

    #[test]
    fn the_longest_handover_is_that_of_the_slowest_class() {
        for (counter, words) in [
            (Counter::HandoverDelay1Ms, "under 1 ms"),
            (Counter::HandoverDelay64Ms, "under 64 ms"),
            (Counter::HandoverDelay1024Ms, "under 1024 ms"),
            (Counter::HandoverDelayLonger, "over a second"),
        ] {
            let values = [
                (Counter::HandoverSsTables, 2),
                (Counter::HandoverNanoseconds, 1000),
                (Counter::HandoverDelay1Ms, 1),
                (counter, 1),
            ];
            let row = handover(&snapshot(&values, &switches(&[])));
            assert!(row[1].ends_with(words), "{row:?}");
        }
        let untimed = snapshot(&[(Counter::HandoverSsTables, 2)], &switches(&[]));
        assert_eq!(handover(&untimed)[1], "2 SSTables or parts");
        assert_eq!(longest_handover(&snapshot(&[], &switches(&[]))), "");
    }

    #[test]
    fn roles_without_a_priority_are_left_out() {
        assert_eq!(
            by_role("compaction:10,flush:none,validation:5,streaming:10"),
            "10 for compaction, streaming and 5 for validation"
        );
        assert_eq!(by_role("flush:none"), "unchanged");
    }
}
