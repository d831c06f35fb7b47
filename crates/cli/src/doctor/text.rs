//! The report as text.

use std::path::PathBuf;

use coldstream_control::{Counter, Snapshot};
use coldstream_host::cgroup::MemoryLimit;
use coldstream_policy::display_bytes;

use super::cassandra::Node;
use super::machine::Machine;
use super::path_facts::PathFacts;
use super::process::Process;
use super::report::Report;
use super::service::Service;
use crate::output::{bold, green, labelled, yellow};
use crate::processes;

/// SSTables that are listed by name. The rest is counted.
const SSTABLES_SHOWN: usize = 5;

/// The whole report.
pub fn render(report: &Report) -> String {
    let mut lines = machine(&report.machine);
    for subject in &report.paths {
        lines.push(String::new());
        lines.extend(path_facts(subject));
        lines.extend(conclusion(subject.advice.iter()));
    }
    for subject in &report.cassandra {
        lines.push(String::new());
        lines.push(heading(subject.configuration.display()));
        lines.extend(cassandra(subject));
        lines.extend(conclusion(subject.advice.iter()));
    }
    for subject in &report.services {
        lines.push(String::new());
        lines.extend(service(subject));
        lines.extend(conclusion(subject.advice.iter()));
    }
    for subject in &report.processes {
        lines.push(String::new());
        lines.extend(process(subject));
        let of_node = subject.cassandra.iter().flat_map(|node| &node.advice);
        lines.extend(conclusion(subject.advice.iter().chain(of_node)));
    }
    lines.join("\n") + "\n"
}

fn row(name: &str, value: impl std::fmt::Display) -> String {
    labelled(&format!("  {name:<20} "), &value.to_string())
}

fn heading(text: impl std::fmt::Display) -> String {
    bold(labelled("", &text.to_string()))
}

fn advice(all: &[String]) -> impl Iterator<Item = String> {
    all.iter()
        .map(|text| labelled(&format!("  {} ", yellow("change:")), text))
}

/// The report on a subject that is as it shall be would just end.
fn conclusion<'a>(mut advice: impl Iterator<Item = &'a String>) -> Option<String> {
    let is_well = advice.next().is_none();
    is_well.then(|| format!("  {}", green("nothing to change")))
}

fn notes(all: &[String]) -> impl Iterator<Item = String> {
    all.iter().map(|text| labelled("  note: ", text))
}

fn machine(machine: &Machine) -> Vec<String> {
    let lru = match machine.multi_generational_lru {
        Some(true) => "on",
        Some(false) => "off",
        None => "not in this kernel",
    };
    let aio = match (machine.aio_in_use, machine.aio_max) {
        (Some(in_use), Some(max)) => format!("{in_use} of {max} in use"),
        _ => "unknown".to_owned(),
    };
    let library = machine
        .library
        .as_ref()
        .map_or("not found".to_owned(), |path| path.display().to_string());
    let mut lines = vec![
        heading("machine"),
        row("library", library),
        row("kernel", &machine.kernel_release),
        row("multi-gen LRU", lru),
        row("asynchronous I/O", aio),
        row(
            "memory",
            machine
                .memory_bytes
                .map_or("unknown".to_owned(), display_bytes),
        ),
        row("memory limit", limit(machine.memory_limit.as_ref())),
        row("open files", machine.descriptor_limit),
    ];
    lines.extend(advice(&machine.advice));
    lines
}

fn limit(limit: Option<&MemoryLimit>) -> String {
    match limit {
        Some(limit) => format!(
            "{} (cgroup v{}, {} used, {})",
            display_bytes(limit.limit_bytes),
            limit.cgroup_version,
            limit.used_bytes.map_or("?".to_owned(), display_bytes),
            limit.cgroup.display()
        ),
        None => "none".to_owned(),
    }
}

/// The disk and its readahead.
fn device(facts: &PathFacts) -> String {
    match &facts.device {
        Some(device) => {
            let ahead = device
                .read_ahead_kib
                .map_or("unknown".to_owned(), |kib| format!("{kib} KiB"));
            format!("{}, kernel reads ahead {ahead}", device.name)
        }
        None => "none".to_owned(),
    }
}

/// The alignment that direct I/O needs, and the one that Coldstream uses.
fn alignment(facts: &PathFacts) -> String {
    match facts.reported_alignment_bytes {
        Some((memory, offset)) => format!(
            "memory {memory} B, offset {offset} B (used: {})",
            display_bytes(facts.alignment_bytes)
        ),
        None => format!(
            "not reported (used: {})",
            display_bytes(facts.alignment_bytes)
        ),
    }
}

fn path_facts(facts: &PathFacts) -> Vec<String> {
    let probed = facts
        .probed_file
        .as_ref()
        .map_or("a temporary file".to_owned(), |path| {
            path.display().to_string()
        });
    let colour = |io_mode| match io_mode {
        "buffered" => yellow("buffered"),
        better => green(better),
    };
    let mut lines = vec![
        heading(facts.path.display()),
        row(
            "filesystem",
            format!(
                "{} on {}, mounted at {}",
                facts.filesystem,
                facts.source,
                facts.mount_point.display()
            ),
        ),
        row("device", device(facts)),
        row("direct alignment", alignment(facts)),
        row(
            "direct read",
            format!("{} (probed with {probed})", facts.direct_effect),
        ),
        row(
            "RWF_DONTCACHE",
            if facts.dont_cache {
                "accepted"
            } else {
                "not accepted"
            },
        ),
        row(
            "cachestat",
            if facts.cache_statistics {
                "answers"
            } else {
                "does not answer"
            },
        ),
        row(
            "background reads",
            format!("{}: {}", colour(facts.io_mode), facts.reason),
        ),
        row(
            "background writes",
            format!("{}: {}", colour(facts.write_io_mode), facts.write_reason),
        ),
    ];
    lines.extend(advice(&facts.advice));
    lines
}

fn service(service: &Service) -> Vec<String> {
    let path = |path: &Option<PathBuf>, none: &str| {
        path.as_ref()
            .map_or(none.to_owned(), |path| path.display().to_string())
    };
    let pids: Vec<_> = service.processes.iter().map(u32::to_string).collect();
    let mut lines = vec![
        heading(&service.unit),
        row("loaded by", path(&service.attached_by, "nothing")),
        row("library", path(&service.library, "none")),
        row(
            "processes",
            if pids.is_empty() {
                "none known".to_owned()
            } else {
                pids.join(", ")
            },
        ),
    ];
    for (index, file) in service.files.iter().enumerate() {
        let label = if index == 0 { "files" } else { "" };
        lines.push(row(label, file.display()));
    }
    lines.extend(advice(&service.advice));
    lines
}

fn process(process: &Process) -> Vec<String> {
    let library = match &process.library {
        Some(path) => path.display().to_string(),
        None if process.is_linked() => "linked in, by the C interface or a plugin".to_owned(),
        None => "not loaded".to_owned(),
    };
    let status = match (&process.status, &process.status_missing) {
        (Some(snapshot), _) if process.is_attached => {
            let dropped = |counter| display_bytes(snapshot.get(counter));
            format!(
                "followed from outside: {} of inputs and {} of outputs dropped behind compactions",
                dropped(Counter::BytesDropBehind),
                dropped(Counter::WriteBytesDropBehind)
            )
        }
        (Some(snapshot), _) => {
            let headline = snapshot.headline();
            format!("{headline} (see `coldstream ctl status {}`)", process.pid)
        }
        (None, Some(reason)) => reason.clone(),
        (None, None) if process.waits_for_sstables() => {
            "none yet: no SSTable was opened".to_owned()
        }
        (None, None) => "none".to_owned(),
    };
    let threads: Vec<_> = process
        .background_threads
        .iter()
        .map(|(role, count)| format!("{count} {role}"))
        .collect();
    let threads = if threads.is_empty() {
        "none recognised".to_owned()
    } else {
        threads.join(", ")
    };
    let mut lines = vec![
        heading(format!("process {}: {}", process.pid, process.title)),
        row("library", library),
        row("status", status),
    ];
    if !process.mechanisms_off.is_empty() {
        let on = format!(
            "{}coldstream ctl on {}",
            processes::sudo_for(process.pid),
            process.pid
        );
        let off = process.mechanisms_off.join(", ");
        lines.push(row("switched off", format!("{off} (`{on}`)")));
    }
    let verdict = process.status.as_ref().and_then(Snapshot::verdict);
    lines.extend(verdict.map(|verdict| row("verdict", verdict)));
    lines.extend(process.profile.map(|profile| row("profile", profile)));
    lines.extend([
        row("background threads", threads),
        row("open SSTables", process.open_sstables.len()),
    ]);
    lines.extend(sstables(process.open_sstables.iter()));
    lines.push(row("mapped SSTables", process.mapped_sstables.len()));
    lines.extend(sstables(process.mapped_sstables.iter()));
    if process.io_uring {
        let text = "open: what is read through it is not seen, and stays as it is";
        lines.push(row("io_uring", text));
    }
    let declined = process.status.iter().flat_map(Snapshot::declined);
    for (index, declined) in declined.enumerate() {
        let label = if index == 0 { "no handover" } else { "" };
        let (directory, reason) = (declined.directory(), declined.reason());
        lines.push(row(label, format!("{directory}: {reason}")));
    }
    lines.push(row("memory limit", limit(process.memory_limit.as_ref())));
    let files = process.descriptor_limit.map(|limit| limit.to_string());
    lines.push(row("open files", files.as_deref().unwrap_or("unlimited")));
    if let Some(node) = &process.cassandra {
        lines.push(row("configuration", node.configuration.display()));
        lines.extend(cassandra(node));
    }
    lines.extend(notes(&process.notes));
    lines.extend(advice(&process.advice));
    lines
}

fn cassandra(node: &Node) -> Vec<String> {
    let mode = node.disk_access_mode.as_deref().unwrap_or("not set");
    let own = match (node.own_direct_reads, node.own_direct_writes) {
        (false, false) => "none",
        (true, false) => "reads",
        (false, true) => "writes",
        (true, true) => "reads and writes",
    };
    let since = if node.early_open {
        "read while they are written"
    } else {
        "read when they are complete"
    };
    let mut lines = vec![
        row(
            "Cassandra",
            node.version.as_deref().unwrap_or("unknown release"),
        ),
        row(
            "data files",
            format!("{} (disk_access_mode: {mode})", node.data_reads),
        ),
        row("own direct modes", own),
        row(
            "new SSTables",
            match &node.selected_format {
                Some(format) => format!("{format}, {since}"),
                None => since.to_owned(),
            },
        ),
    ];
    if node.data_directories.is_empty() {
        let text = "not set there, so not examined: name them, as in `coldstream doctor DIRECTORY`";
        lines.push(row("data directories", text));
    }
    lines.extend(advice(&node.advice));
    lines
}

fn sstables<'a>(paths: impl ExactSizeIterator<Item = &'a PathBuf>) -> Vec<String> {
    let more = paths.len().saturating_sub(SSTABLES_SHOWN);
    let mut lines: Vec<_> = paths
        .take(SSTABLES_SHOWN)
        .map(|path| row("", path.display()))
        .collect();
    if more > 0 {
        lines.push(row("", format!("… and {more} more")));
    }
    lines
}
