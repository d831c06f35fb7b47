//! Which metrics there are: families of samples, made of the counters of all processes.
//!
//! Names follow Prometheus' conventions: base units, `_total` for sums, a label instead of many names. A counter
//! without an entry here gets a family of its own name, so that none is forgotten.

use std::rc::Rc;

use coldstream_control::{Counter, CounterKind, Phase, Unit};
use coldstream_host::survey::{Survey, Surveyed};

/// How a family's value changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A sum that only grows.
    Counter,
    /// A value that grows and falls.
    Gauge,
    /// Samples by their upper bounds.
    Histogram,
}

/// Samples of one name.
#[derive(Clone, Debug)]
pub struct Family {
    /// The name without `_total`.
    pub name: String,
    /// How its value changes.
    pub kind: Kind,
    /// One sentence for people.
    pub help: String,
    /// The samples of all processes.
    pub samples: Vec<Sample>,
}

/// One value.
#[derive(Clone, Debug)]
pub struct Sample {
    /// What the sample's name has after that of its family: `_bucket`, `_count`, `_sum`, or nothing.
    pub suffix: &'static str,
    /// Names and values.
    pub labels: Vec<(&'static str, Rc<str>)>,
    /// The value.
    pub value: Value,
}

/// A number as it is printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Things or bytes.
    Whole(u64),
    /// A duration, printed in seconds.
    Nanoseconds(u64),
    /// A part, or how many times as much.
    Ratio(f64),
}

/// Counters that are one family, with a label that tells them apart.
struct Group {
    name: &'static str,
    help: &'static str,
    label: &'static str,
    /// The counters, and their values of the label.
    members: fn() -> Vec<(Counter, String)>,
}

const GROUPS: [Group; 5] = [
    Group {
        name: "background_read_bytes",
        help: "Bytes that background threads read from SSTables, by the way they took. Only `page_cache` and \
               `plain` touch the page cache for long.",
        label: "mode",
        members: || named(&Counter::READ_MODES),
    },
    Group {
        name: "background_written_bytes",
        help: "Bytes that background threads wrote to SSTables, by the way they took.",
        label: "mode",
        members: || named(&Counter::WRITE_MODES),
    },
    Group {
        name: "handovers_incomplete",
        help: "SSTables that were published without a handover, or with a part of it only, by reason.",
        label: "reason",
        members: || named(&Counter::HANDOVERS_INCOMPLETE),
    },
    Group {
        name: "fallbacks",
        help: "Plain calls instead of a mechanism, by reason. Correct, but worth a look if many.",
        label: "reason",
        members: || labelled(Counter::fallback_reason),
    },
    Group {
        name: "staging_ended",
        help: "SSTables that were written by plain calls from some moment on, by reason.",
        label: "reason",
        members: || labelled(Counter::staging_ended_reason),
    },
];

/// Counters that are the sum of the samples of a group.
const SUMS: [Counter; 2] = [Counter::BackgroundBytes, Counter::WriteBytes];

/// Counters whose unit stands at the end of the metric's name only.
const RENAMED: [(Counter, &str); 4] = [
    (Counter::DeviceBytesDirect, "device_read_bytes"),
    (Counter::WriteBytesOverlapped, "overlapped_written_bytes"),
    (Counter::ScanBytesAhead, "scan_ahead_bytes"),
    (Counter::SendfileBytesDropped, "sendfile_dropped_bytes"),
];

/// Counters that are classes of a histogram.
struct Classes {
    name: &'static str,
    help: &'static str,
    counters: &'static [Counter],
    first_bound_ns: u64,
    factor: u64,
    sum: Option<Counter>,
}

const HISTOGRAMS: [Classes; 2] = [
    Classes {
        name: "handover_delay_seconds",
        help: "Time for which handovers held up the publication of their SSTables.",
        counters: &Counter::HANDOVER_DELAYS,
        first_bound_ns: Counter::HANDOVER_DELAY_NS,
        factor: Counter::HANDOVER_DELAY_FACTOR,
        sum: Some(Counter::HandoverNanoseconds),
    },
    Classes {
        name: "foreground_device_read_seconds",
        help: "Latency of sampled foreground reads of SSTables that came from the device.",
        counters: &Counter::DEVICE_READS,
        first_bound_ns: Counter::DEVICE_READ_NS,
        factor: 2,
        sum: None,
    },
];

fn labelled(reason: fn(Counter) -> Option<&'static str>) -> Vec<(Counter, String)> {
    let all = Counter::ALL.into_iter();
    all.filter_map(|counter| Some((counter, reason(counter)?.to_owned())))
        .collect()
}

/// The names as values of a label: words with `_` between them, as in the names of counters.
fn named(members: &[(Counter, &str)]) -> Vec<(Counter, String)> {
    let named = members.iter();
    let named = named.map(|(counter, name)| (*counter, name.replace([' ', '-'], "_")));
    named.collect()
}

/// All families, in an order that does not change.
pub fn of(survey: &Survey) -> Vec<Family> {
    let processes = survey.processes.as_slice();
    let mut families = vec![
        unreadable(survey),
        information(processes),
        switches(processes),
        nice_refused(processes),
    ];
    families.extend(
        HISTOGRAMS
            .iter()
            .map(|classes| histogram(classes, processes)),
    );
    families.extend(phases(processes));
    families.push(tax(processes));
    let mut placed: Vec<Counter> = SUMS.to_vec();
    for classes in &HISTOGRAMS {
        placed.extend(classes.counters);
        placed.extend(classes.sum);
    }
    for group in &GROUPS {
        let members = (group.members)();
        placed.extend(members.iter().map(|(counter, _)| counter));
        families.push(Family {
            name: group.name.to_owned(),
            kind: Kind::Counter,
            help: group.help.to_owned(),
            samples: each(processes, |process| {
                let members =
                    (members.iter()).filter(|(counter, _)| process.snapshot.has(*counter));
                let samples = members.map(|(counter, label)| {
                    let value = value(process, *counter);
                    sample("", [(group.label, label.clone())], value)
                });
                samples.collect()
            }),
        });
    }
    let alone = Counter::ALL.into_iter();
    let alone = alone.filter(|counter| !placed.contains(counter));
    families.extend(alone.map(|counter| of_one(counter, processes)));
    families
}

/// The samples of each process, with the labels that name it in front.
fn each(processes: &[Surveyed], of: impl Fn(&Surveyed) -> Vec<Sample>) -> Vec<Sample> {
    let mut all = Vec::new();
    for process in processes {
        let (pid, program): (Rc<str>, Rc<str>) = (
            process.pid.to_string().into(),
            process.program.as_str().into(),
        );
        for mut sample in of(process) {
            let names = [("pid", Rc::clone(&pid)), ("program", Rc::clone(&program))];
            sample.labels.splice(0..0, names);
            all.push(sample);
        }
    }
    all
}

fn sample<V: Into<Rc<str>>, const N: usize>(
    suffix: &'static str,
    labels: [(&'static str, V); N],
    value: Value,
) -> Sample {
    // Room for those of the process and the phase, too.
    let mut all = Vec::with_capacity(N + 3);
    all.extend(labels.map(|(name, value)| (name, value.into())));
    Sample {
        suffix,
        labels: all,
        value,
    }
}

/// A sample without labels of its own.
fn plain_sample(suffix: &'static str, value: Value) -> Sample {
    sample::<&str, 0>(suffix, [], value)
}

fn value(process: &Surveyed, counter: Counter) -> Value {
    let value = process.snapshot.get(counter);
    match counter.unit() {
        Unit::Nanoseconds => Value::Nanoseconds(value),
        Unit::Count | Unit::Bytes | Unit::BytesPerSecond => Value::Whole(value),
    }
}

fn of_one(counter: Counter, processes: &[Surveyed]) -> Family {
    let renamed = RENAMED.iter().find(|(renamed, _)| *renamed == counter);
    let name = renamed.map_or_else(|| counter.name(), |(_, name)| name);
    let name = match name.strip_suffix("_nanoseconds") {
        Some(what) => format!("{what}_seconds"),
        None => name.to_owned(),
    };
    let kind = match counter.kind() {
        CounterKind::Total => Kind::Counter,
        CounterKind::Gauge | CounterKind::Peak => Kind::Gauge,
    };
    Family {
        name,
        kind,
        help: counter.explanation().replace('`', ""),
        samples: each(processes, |process| {
            let has = process.snapshot.has(counter);
            let value = has.then(|| plain_sample("", value(process, counter)));
            value.into_iter().collect()
        }),
    }
}

fn histogram(classes: &Classes, processes: &[Surveyed]) -> Family {
    let samples = each(processes, |process| {
        let mut samples = Vec::new();
        let mut below = 0_u64;
        let mut bound_ns = classes.first_bound_ns;
        for (index, counter) in classes.counters.iter().enumerate() {
            below = below.saturating_add(process.snapshot.get(*counter));
            let is_last = index + 1 == classes.counters.len();
            let bound = if is_last {
                "+Inf".to_owned()
            } else {
                seconds(bound_ns)
            };
            samples.push(sample("_bucket", [("le", bound)], Value::Whole(below)));
            bound_ns = bound_ns.saturating_mul(classes.factor);
        }
        if let Some(sum) = classes.sum {
            samples.push(plain_sample("_sum", value(process, sum)));
        }
        samples.push(plain_sample("_count", Value::Whole(below)));
        samples
    });
    Family {
        name: classes.name.to_owned(),
        kind: Kind::Histogram,
        help: classes.help.to_owned(),
        samples,
    }
}

/// The sampled foreground reads of each phase: latencies of those from the device, all, and those that missed.
fn phases(processes: &[Surveyed]) -> [Family; 3] {
    let of_phases = |of: fn(&Surveyed, Phase) -> Vec<Sample>| {
        each(processes, |process| {
            let samples = Phase::ALL.into_iter().flat_map(|phase| {
                let mut samples = of(process, phase);
                for sample in &mut samples {
                    let label = ("phase", phase.name().into());
                    sample.labels.insert(0, label);
                }
                samples
            });
            samples.collect()
        })
    };
    let counter = |name: &str, help: &str, of| Family {
        name: name.to_owned(),
        kind: Kind::Counter,
        help: help.to_owned(),
        samples: of_phases(of),
    };
    [
        Family {
            name: "foreground_phase_device_read_seconds".to_owned(),
            kind: Kind::Histogram,
            help: "Latency of sampled foreground reads of SSTables that came from the device, apart for the time in \
                   which compactions run (or validations, or streaming) and the time in which they rest."
                .to_owned(),
            samples: of_phases(|process, phase| {
                let reads = process.snapshot.phase_reads(phase);
                let all = Value::Whole(reads.device_reads());
                let bucket = |bound, below| sample("_bucket", [("le", bound)], below);
                let below = reads.below();
                let mut samples: Vec<_> = below
                    .map(|(bound_ns, below)| bucket(seconds(bound_ns), Value::Whole(below)))
                    .collect();
                samples.push(bucket("+Inf".to_owned(), all));
                samples.push(plain_sample("_count", all));
                samples
            }),
        },
        counter(
            "foreground_phase_sampled_reads",
            "Foreground reads of SSTables that stand for all, by phase: one in 64.",
            |process, phase| {
                let sampled = process.snapshot.phase_reads(phase).sampled;
                vec![plain_sample("", Value::Whole(sampled))]
            },
        ),
        counter(
            "foreground_phase_missed_reads",
            "Part of coldstream_foreground_phase_sampled_reads_total that missed the page cache.",
            |process, phase| {
                let missed = process.snapshot.phase_reads(phase).missed;
                vec![plain_sample("", Value::Whole(missed))]
            },
        ),
    ]
}

fn tax(processes: &[Surveyed]) -> Family {
    Family {
        name: "device_read_tax_ratio".to_owned(),
        kind: Kind::Gauge,
        help: "p99 of foreground device reads in compaction, divided by p99 at rest, since the process started. Absent \
               while too few were timed. It leaves out that a compaction makes more reads miss the page cache."
            .to_owned(),
        samples: each(processes, |process| {
            let ratio = process.snapshot.device_read_tax().ratio;
            let samples = ratio.map(|ratio| plain_sample("", Value::Ratio(ratio.estimate)));
            samples.into_iter().collect()
        }),
    }
}

/// Nanoseconds in seconds, as text: exact, without an exponent.
pub fn seconds(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    let text = text.trim_end_matches('0');
    text.strip_suffix('.')
        .map_or_else(|| text.to_owned(), |whole| format!("{whole}.0"))
}

fn unreadable(survey: &Survey) -> Family {
    let pages = u64::try_from(survey.unreadable.len()).unwrap_or(u64::MAX);
    Family {
        name: "status_pages_unreadable".to_owned(),
        kind: Kind::Gauge,
        help: "Status pages that could not be read, for instance of another version.".to_owned(),
        samples: vec![plain_sample("", Value::Whole(pages))],
    }
}

fn information(processes: &[Surveyed]) -> Family {
    let samples = each(processes, |process| {
        let header = &process.snapshot.header;
        let in_force = header
            .in_force
            .map_or("undecided", |io_mode| io_mode.name());
        let labels = [
            ("profile", header.profile.name().to_owned()),
            ("reads_configured", header.configured.name().to_owned()),
            ("reads", in_force.to_owned()),
            ("attached", process.keeper.is_some().to_string()),
        ];
        vec![sample("", labels, Value::Whole(1))]
    });
    Family {
        name: "process_info".to_owned(),
        kind: Kind::Gauge,
        help: "Always 1: the processes under Coldstream, their engine, how background reads are made, and whether \
               coldstream attach makes them."
            .to_owned(),
        samples,
    }
}

fn switches(processes: &[Surveyed]) -> Family {
    let samples = each(processes, |process| {
        let switches = process.snapshot.switches.iter();
        let samples = switches.map(|(mechanism, is_on)| {
            let label = [("mechanism", mechanism.name().to_owned())];
            sample("", label, Value::Whole(u64::from(is_on)))
        });
        samples.collect()
    });
    Family {
        name: "mechanism_on".to_owned(),
        kind: Kind::Gauge,
        help: "1 where a mechanism is on, 0 where `coldstream ctl` switched it off.".to_owned(),
        samples,
    }
}

/// Beside `priority_refused`, which tells of former refusals, too.
fn nice_refused(processes: &[Surveyed]) -> Family {
    Family {
        name: "nice_refused_threads".to_owned(),
        kind: Kind::Gauge,
        help: "Threads whose nice value was left alone since the start, because the process could not restore it; 0 \
               while none is wanted."
            .to_owned(),
        samples: each(processes, |process| {
            let threads = process.snapshot.nice_refused_threads();
            vec![plain_sample("", Value::Whole(threads))]
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_its_place_once() {
        let mut places: Vec<Counter> = SUMS.to_vec();
        for group in &GROUPS {
            places.extend((group.members)().into_iter().map(|(counter, _)| counter));
        }
        for classes in &HISTOGRAMS {
            places.extend(classes.counters);
            places.extend(classes.sum);
        }
        let mut distinct = places.clone();
        distinct.sort_unstable_by_key(|counter| *counter as usize);
        distinct.dedup();
        assert_eq!(distinct.len(), places.len());
    }

    #[test]
    fn the_page_names_each_counter_whose_metric_has_another_name() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/watch.md");
        let page = std::fs::read_to_string(path).unwrap();
        for (counter, name) in RENAMED {
            let row = format!("| `{}` | `coldstream_{name}_total` |", counter.name());
            assert!(page.contains(&row), "add a row to {path}: {row}");
        }
        for counter in SUMS {
            let name = format!("`{}`", counter.name());
            let mut rows = page.lines().filter(|line| line.contains(&name));
            let is_said = rows.any(|row| row.contains("| none: the sums"));
            assert!(is_said, "{path} must say that {name} has no metric");
        }
    }

    #[test]
    fn names_are_distinct_and_have_base_units() {
        let families = of(&Survey::default());
        let mut names: Vec<_> = families.iter().map(|family| &family.name).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
        for family in &families {
            let name = &family.name;
            assert!(
                !name.contains("nanoseconds") && !name.contains("milliseconds"),
                "`{name}`: the unit of time is seconds; a counter's name ends in `_nanoseconds`, or is in `RENAMED`"
            );
            assert!(
                !name.ends_with("_total"),
                "`{name}`: `_total` is added where it is printed"
            );
            if name.contains("bytes") {
                assert!(
                    name.ends_with("_bytes") || name.ends_with("_per_second"),
                    "`{name}`: the unit must be at the end; add the counter to `RENAMED`, with a row in docs/watch.md"
                );
            }
            assert!(
                family.help.ends_with('.'),
                "the explanation of `{name}` must end with a full stop: {}",
                family.help
            );
        }
    }

    #[test]
    fn durations_are_exact_seconds() {
        assert_eq!(seconds(0), "0.0");
        assert_eq!(seconds(64_000), "0.000064");
        assert_eq!(seconds(1_024_000_000), "1.024");
        assert_eq!(seconds(2_000_000_000), "2.0");
        assert_eq!(seconds(u64::MAX), "18446744073.709551615");
    }
}
