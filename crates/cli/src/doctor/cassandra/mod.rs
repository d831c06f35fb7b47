//! A Cassandra node's configuration: which of its I/O Coldstream can see, and what to change.

mod installation;
mod yaml;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use installation::Daemon;
use serde::Serialize;

use crate::exit::{self, failure};

/// The report about a node.
#[derive(Serialize)]
pub struct Node {
    /// Its configuration file.
    #[serde(serialize_with = "super::paths::one")]
    pub configuration: PathBuf,
    /// The release, where a jar tells.
    pub version: Option<String>,
    /// `disk_access_mode` as it is written there.
    pub disk_access_mode: Option<String>,
    /// How data files are read: `pread`, which is seen, `mmap`, which is not, or `unknown`.
    pub data_reads: &'static str,
    /// Whether it reads around the page cache in compactions by itself (6.0).
    pub own_direct_reads: bool,
    /// Whether it writes around the page cache in compactions by itself (6.0).
    pub own_direct_writes: bool,
    /// `trickle_fsync`.
    pub trickle_fsync: bool,
    /// `selected_format` of new tables, if it says one.
    pub selected_format: Option<String>,
    /// Whether compaction's output is read while it is being written
    /// (`sstable_preemptive_open_interval`, 50 MiB unless it is there and empty).
    pub early_open: bool,
    /// Where its tables are.
    #[serde(serialize_with = "super::paths::all")]
    pub data_directories: Vec<PathBuf>,
    /// What to change.
    pub advice: Vec<String>,
}

/// Whether a subject is a configuration file and not a place of data.
pub fn is_configuration(path: &Path) -> bool {
    let yaml = path
        .extension()
        .is_some_and(|extension| extension == "yaml" || extension == "yml");
    yaml && path.is_file()
}

/// Examines a configuration file.
pub fn of_configuration(path: &Path) -> anyhow::Result<Node> {
    let text = read(path)?;
    let canonical = path
        .canonicalize()
        .map_err(|error| unreadable(path, &error))?;
    let version = installation::version_beside(&canonical);
    Ok(examine(path.to_owned(), &text, version))
}

/// Examines the node that a process is; `None` if it is none.
pub fn of_process(pid: u32) -> Option<anyhow::Result<Node>> {
    let daemon = Daemon::of(pid)?;
    let found = daemon
        .configuration()
        .with_context(|| {
            format!("process {pid} is a Cassandra node, but where its cassandra.yaml is could not be told: name that file")
        })
        .and_then(|path| {
            let text = read(&daemon.seen_from_here(&path))?;
            let mut node = examine(path, &text, daemon.version());
            if node.data_directories.is_empty()
                && let Some(directory) = daemon.property("cassandra.storagedir")
            {
                node.data_directories.push(Path::new(directory).join("data"));
            }
            if !daemon.shares_our_files() {
                node.advice.push(format!(
                    "the node is in a container: run `coldstream doctor {}` in it for the \
                     directories of its data",
                    node.configuration.display()
                ));
                // Our files of these names are others.
                node.data_directories.clear();
            }
            Ok(node)
        });
    Some(found)
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &io::Error) -> anyhow::Error {
    let message = format!("cannot read {}: {error}", path.display());
    failure(exit::of_io(error), message)
}

fn examine(configuration: PathBuf, text: &str, version: Option<String>) -> Node {
    let is_direct = |key| yaml::scalar(text, key).is_some_and(|value| value == "direct");
    let disk_access_mode = yaml::scalar(text, "disk_access_mode");
    let number = version.as_deref().and_then(installation::number);
    let mut node = Node {
        data_reads: data_reads(disk_access_mode.as_deref(), number),
        own_direct_reads: is_direct("compaction_read_disk_access_mode"),
        own_direct_writes: is_direct("background_write_disk_access_mode"),
        trickle_fsync: yaml::scalar(text, "trickle_fsync").is_some_and(|value| value == "true"),
        selected_format: yaml::nested_scalar(text, "sstable", "selected_format"),
        early_open: !yaml::is_null(text, "sstable_preemptive_open_interval"),
        data_directories: yaml::list(text, "data_file_directories")
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

/// What `DatabaseDescriptor` makes of `disk_access_mode` on 64-bit machines: `auto` maps before 5.0
/// and is the default there; from 5.0 on it means `mmap_index_only`, which is the default.
fn data_reads(mode: Option<&str>, number: Option<installation::Number>) -> &'static str {
    match (mode, number) {
        (Some("mmap" | "legacy"), _) => "mmap",
        (Some("standard" | "mmap_index_only"), _) => "pread",
        (None | Some("auto"), Some(number)) if number < (5, 0) => "mmap",
        (None | Some("auto"), Some(_)) => "pread",
        _ => "unknown",
    }
}

fn advice(node: &Node) -> Vec<String> {
    let mut advice = Vec::new();
    let set = format!(
        "set `disk_access_mode: mmap_index_only` in {} and restart the node",
        node.configuration.display()
    );
    match (node.data_reads, &node.disk_access_mode, &node.version) {
        ("mmap", Some(mode), _) if mode != "auto" => advice.push(format!(
            "`disk_access_mode: {mode}` maps data files, and no library sees such reads: {set}"
        )),
        ("mmap", _, Some(version)) => advice.push(format!(
            "Cassandra {version} maps data files unless told otherwise, and no library sees such \
             reads: {set}"
        )),
        ("unknown", _, _) => advice.push(format!(
            "which release this is could not be told; before 5.0 data files are mapped unless told \
             otherwise, and no library sees such reads: if it is one of these, {set}"
        )),
        _ => {}
    }
    match (node.own_direct_reads, node.own_direct_writes) {
        (true, true) => advice.push(
            "compaction goes around the page cache by Cassandra's own direct modes, which Coldstream \
             leaves alone: use one of the two. Keep Cassandra's and start the node without the \
             library, or remove `compaction_read_disk_access_mode` and \
             `background_write_disk_access_mode` to leave it to Coldstream"
                .to_owned(),
        ),
        (true, false) => advice.push(
            "`compaction_read_disk_access_mode: direct` is Cassandra's own, and Coldstream leaves \
             such reads alone; what compaction writes is still Coldstream's. Remove the line to \
             leave both to it, or add `background_write_disk_access_mode: direct` and do without"
                .to_owned(),
        ),
        (false, true) => advice.push(
            "`background_write_disk_access_mode: direct` is Cassandra's own, and Coldstream leaves \
             such writes alone; what compaction reads is still Coldstream's. Remove the line to \
             leave both to it, or add `compaction_read_disk_access_mode: direct` and do without"
                .to_owned(),
        ),
        (false, false) => {}
    }
    if node.trickle_fsync {
        advice.push(
            "`trickle_fsync: true` has no effect on compressed tables, and tables that Coldstream \
             writes directly leave nothing dirty: remove it"
                .to_owned(),
        );
    }
    advice
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(text: &str, version: Option<&str>) -> Node {
        examine("/c/cassandra.yaml".into(), text, version.map(str::to_owned))
    }

    #[test]
    fn silence_means_another_mode_in_each_release() {
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
    }

    #[test]
    fn format_and_early_parts_of_new_tables_are_told() {
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
