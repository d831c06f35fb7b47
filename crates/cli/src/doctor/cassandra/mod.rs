//! The configuration of a Cassandra node: which of its I/O Coldstream sees, and what to change.

mod installation;
mod yaml;

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use installation::Daemon;
use serde::Serialize;
use yaml::Document;

use crate::exit::{self, Exit, failure};
use crate::unit::Root;

/// Cassandra's own file has 100 KiB, most of it comments.
const CONFIGURATION_BYTES_MAX: u64 = 1 << 20;

/// The report about a node.
#[derive(Serialize)]
pub struct Node {
    /// Its configuration file.
    #[serde(serialize_with = "super::paths::one")]
    pub configuration: PathBuf,
    /// The release, by the name of its jar.
    pub version: Option<String>,
    /// `disk_access_mode`, as it is written there or in the options of the virtual machine.
    pub disk_access_mode: Option<String>,
    /// How data files are read: `pread`, `mmap` or `unknown`. Coldstream sees `pread` only.
    pub data_reads: &'static str,
    /// Whether its compactions bypass the page cache for reads by themselves (6.0).
    pub own_direct_reads: bool,
    /// Whether its compactions bypass the page cache for writes by themselves (6.0).
    pub own_direct_writes: bool,
    /// `trickle_fsync`.
    pub trickle_fsync: bool,
    /// `selected_format` of new SSTables, if it is set.
    pub selected_format: Option<String>,
    /// Whether compaction output is read while it is written. `sstable_preemptive_open_interval` is 50 MiB, unless it is
    /// set to null.
    pub early_open: bool,
    /// Directories of its SSTables.
    #[serde(serialize_with = "super::paths::all")]
    pub data_directories: Vec<PathBuf>,
    /// What to change.
    pub advice: Vec<String>,
}

/// Whether a subject is a configuration file, not a data directory.
pub fn is_configuration(path: &Path) -> bool {
    let yaml = path
        .extension()
        .is_some_and(|extension| extension == "yaml" || extension == "yml");
    yaml && path.is_file()
}

/// Examines a configuration file.
pub fn of_configuration(path: &Path) -> anyhow::Result<Node> {
    let text = read(path)?;
    let document = parse(path, &text)?;
    let canonical = path
        .canonicalize()
        .map_err(|error| unreadable(path, &error))?;
    let version = installation::version_beside(&canonical);
    Ok(examine(path.to_owned(), &document, version, None))
}

/// What to change in the packaged configuration file of a root, with these options of the virtual machine. Nothing if
/// there is no such file, or it cannot be read.
pub fn advice_on_packaged(root: &Root, options: &str) -> Vec<String> {
    let Some((path, version)) = installation::packaged(root) else {
        return Vec::new();
    };
    let mode = installation::disk_access_mode_of(&mut options.split_whitespace());
    let text = root.text_inside(Path::new(path)).ok().flatten();
    let text = text.unwrap_or_default();
    match Document::parse(&text) {
        Ok(document) if !text.is_empty() => examine(path.into(), &document, version, mode).advice,
        _ => Vec::new(),
    }
}

/// Examines a process that is a Cassandra node; `None` for other programs.
pub fn of_process(pid: u32) -> Option<anyhow::Result<Node>> {
    let daemon = Daemon::of(pid)?;
    let found = daemon
        .configuration()
        .with_context(|| {
            format!(
                "process {pid} is a Cassandra node, but its cassandra.yaml was not found: give doctor the \
                 path of that file"
            )
        })
        .and_then(|path| {
            let text = read(&daemon.seen_from_here(&path))?;
            let document = parse(&path, &text)?;
            let mut node = examine(path, &document, daemon.version(), daemon.disk_access_mode());
            if node.data_directories.is_empty()
                && let Some(directory) = daemon.property("cassandra.storagedir")
            {
                node.data_directories.push(Path::new(directory).join("data"));
            }
            if !daemon.shares_our_files() {
                node.advice.push(format!(
                    "the node is in a container: run `coldstream doctor {}` in it to examine its data \
                     directories",
                    node.configuration.display()
                ));
                // Files of these names outside are others.
                node.data_directories.clear();
            }
            Ok(node)
        });
    Some(found)
}

/// Reads a file that may be named by a process: perhaps a pipe, a device, or without an end.
fn read(path: &Path) -> anyhow::Result<String> {
    let text = || {
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let file = fs::OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(path)?;
        let found = file.metadata()?;
        if !found.is_file() || found.len() > CONFIGURATION_BYTES_MAX {
            return Err(io::Error::other("not a regular file of 1 MiB at most"));
        }
        let mut text = String::new();
        file.take(CONFIGURATION_BYTES_MAX)
            .read_to_string(&mut text)?;
        Ok(text)
    };
    text().map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &io::Error) -> anyhow::Error {
    let message = format!("cannot read {}: {error}", path.display());
    failure(exit::of_io(error), message)
}

fn parse<'a>(path: &Path, text: &'a str) -> anyhow::Result<Document<'a>> {
    Document::parse(text).map_err(|error| {
        let message = format!("{} is not valid YAML: {error}", path.display());
        failure(Exit::Failure, message)
    })
}

/// `mode` is `disk_access_mode` of the virtual machine's options, which wins.
fn examine(
    configuration: PathBuf,
    document: &Document,
    version: Option<String>,
    mode: Option<String>,
) -> Node {
    let is_direct = |key| document.scalar(key).is_some_and(|value| value == "direct");
    let disk_access_mode = mode.or_else(|| document.scalar("disk_access_mode"));
    let number = version.as_deref().and_then(installation::number);
    let mut node = Node {
        data_reads: data_reads(disk_access_mode.as_deref(), number),
        own_direct_reads: is_direct("compaction_read_disk_access_mode"),
        own_direct_writes: is_direct("background_write_disk_access_mode"),
        trickle_fsync: document
            .scalar("trickle_fsync")
            .is_some_and(|value| value == "true"),
        selected_format: document.nested_scalar("sstable", "selected_format"),
        early_open: !document.is_null("sstable_preemptive_open_interval"),
        data_directories: document
            .list("data_file_directories")
            .into_iter()
            .map(PathBuf::from)
            .collect(),
        configuration,
        version,
        disk_access_mode,
        advice: Vec::new(),
    };
    node.advice = advice(&node);
    node
}

/// `DatabaseDescriptor` and `disk_access_mode` on 64-bit machines. Before 5.0, `auto` is the default and maps data files.
/// From 5.0 on, `auto` means `mmap_index_only`, which is the default.
fn data_reads(mode: Option<&str>, number: Option<installation::Number>) -> &'static str {
    match (mode, number) {
        (Some("mmap" | "legacy"), _) => "mmap",
        (Some("standard" | "mmap_index_only"), _) => "pread",
        (None | Some("auto"), Some(number)) if number < (5, 0) => "mmap",
        (None | Some("auto"), Some(_)) => "pread",
        _ => "unknown",
    }
}

fn is_before_5(version: &str) -> bool {
    installation::number(version).is_some_and(|number| number < (5, 0))
}

fn advice(node: &Node) -> Vec<String> {
    let mut advice = Vec::new();
    let set = format!(
        "set `disk_access_mode: mmap_index_only` in {} and restart the node",
        node.configuration.display()
    );
    match (node.data_reads, &node.disk_access_mode, &node.version) {
        ("mmap", Some(mode), _) if mode != "auto" => advice.push(format!(
            "`disk_access_mode: {mode}` maps data files, and no library sees these reads: {set}"
        )),
        ("mmap", _, Some(version)) => advice.push(format!(
            "Cassandra {version} maps data files by default, and no library sees these reads: {set}"
        )),
        ("pread", Some(mode), Some(version)) if mode == "standard" && is_before_5(version) => {
            advice.push(format!(
                "with `disk_access_mode: standard` Cassandra {version} does not map its indexes, and only the first \
                 part of a large SSTable gets a handover: {set}"
            ));
        }
        ("unknown", _, _) => advice.push(format!(
            "the release is unknown. Before 5.0 Cassandra maps data files by default, and no library \
             sees these reads: if this is such a release, {set}"
        )),
        _ => {}
    }
    match (node.own_direct_reads, node.own_direct_writes) {
        (true, true) => advice.push(
            "Cassandra's own direct modes make compaction bypass the page cache, and Coldstream does \
             not change that: use one of the two. Keep Cassandra's modes and start the node without \
             the library, or remove `compaction_read_disk_access_mode` and \
             `background_write_disk_access_mode`"
                .to_owned(),
        ),
        (true, false) => advice.push(
            "`compaction_read_disk_access_mode: direct` is Cassandra's own mode, and Coldstream does \
             not change such reads; what compaction writes is still Coldstream's. Remove the line to \
             use Coldstream for both, or add `background_write_disk_access_mode: direct` and start \
             the node without the library"
                .to_owned(),
        ),
        (false, true) => advice.push(
            "`background_write_disk_access_mode: direct` is Cassandra's own mode, and Coldstream does \
             not change such writes; what compaction reads is still Coldstream's. Remove the line to \
             use Coldstream for both, or add `compaction_read_disk_access_mode: direct` and start \
             the node without the library"
                .to_owned(),
        ),
        (false, false) => {}
    }
    if node.trickle_fsync {
        advice.push(
            "`trickle_fsync: true` has no effect on compressed SSTables, and direct writes leave no \
             dirty pages: remove it"
                .to_owned(),
        );
    }
    advice
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(text: &str, version: Option<&str>) -> Node {
        examine(
            "/c/cassandra.yaml".into(),
            &Document::parse(text).unwrap(),
            version.map(str::to_owned),
            None,
        )
    }

    #[test]
    fn the_default_mode_depends_on_the_release() {
        let reads = |text, version| node(text, version).data_reads;
        assert_eq!(reads("", Some("4.1.10")), "mmap");
        assert_eq!(reads("", Some("5.0.9")), "pread");
        assert_eq!(reads("", None), "unknown");
        assert_eq!(reads("disk_access_mode: auto", Some("4.0.1")), "mmap");
        assert_eq!(reads("disk_access_mode: auto", Some("6.0-alpha2")), "pread");
        assert_eq!(reads("disk_access_mode: mmap", Some("5.0.9")), "mmap");
        assert_eq!(reads("disk_access_mode: legacy", Some("5.0.9")), "mmap");
        assert_eq!(reads("disk_access_mode: mmap_index_only", None), "pread");
    }

    #[test]
    fn advice_says_what_to_write_where() {
        let silent = node("", Some("4.1.10")).advice;
        assert_eq!(silent.len(), 1);
        for words in ["4.1.10", "mmap_index_only", "/c/cassandra.yaml"] {
            assert!(silent[0].contains(words), "{silent:?}");
        }
        let mapped = node("disk_access_mode: mmap", Some("5.0.9")).advice;
        assert!(mapped[0].contains("`disk_access_mode: mmap` maps"));
        assert!(node("", Some("5.0.9")).advice.is_empty());
        let standard = "disk_access_mode: standard";
        assert!(node(standard, Some("4.1.10")).advice[0].contains("does not map its indexes"));
        assert!(node(standard, Some("5.0.9")).advice.is_empty());
    }

    #[test]
    fn an_option_of_the_virtual_machine_wins_if_it_may() {
        let mode = |options: &str| installation::disk_access_mode_of(&mut options.split(' '));
        let allowed = "-Dcassandra.config.allow_system_properties=true";
        let set = "-Dcassandra.settings.disk_access_mode=mmap_index_only";
        let wanted = Some("mmap_index_only".to_owned());
        assert_eq!(mode(&format!("-ea {allowed} {set}")), wanted);
        assert_eq!(mode(&format!("\"{set} {allowed}\"")), wanted);
        assert_eq!(mode(set), None);
        assert_eq!(
            mode(&format!(
                "{allowed} {set} {}",
                allowed.replace("true", "false")
            )),
            None
        );
        let document = Document::parse("disk_access_mode: mmap").unwrap();
        let node = examine("/c".into(), &document, Some("4.1.10".into()), wanted);
        assert_eq!((node.data_reads, node.advice.len()), ("pread", 0));
    }

    #[test]
    fn format_and_early_open_of_new_sstables() {
        let bti = "storage_compatibility_mode: NONE\nsstable:\n  selected_format: bti\n";
        let early_open = |text: &str| node(&[bti, text].concat(), Some("5.0.9")).early_open;
        assert!(early_open("") && early_open("sstable_preemptive_open_interval: 50MiB\n"));
        assert!(!early_open("sstable_preemptive_open_interval:\n"));
        let node = node(bti, Some("5.0.9"));
        assert_eq!(node.selected_format.as_deref(), Some("bti"));
        assert!(node.advice.is_empty());
    }

    #[test]
    fn own_direct_modes_leave_nothing_or_a_half() {
        let reads = "compaction_read_disk_access_mode: direct\n";
        let writes = "background_write_disk_access_mode: direct\n";
        let advice = |text: &str| node(text, Some("6.0-alpha2")).advice.join("");
        assert!(advice(&[reads, writes].concat()).contains("use one of the two"));
        assert!(advice(reads).contains("writes is still Coldstream's"));
        assert!(advice(writes).contains("reads is still Coldstream's"));
        assert!(advice("compaction_read_disk_access_mode: auto").is_empty());
    }
}
