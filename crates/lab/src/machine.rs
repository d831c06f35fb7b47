//! What the machine is: everything that bears on the figures and differs between machines.

use crate::reclaimers;
use coldstream_io::probe::filesystem_name;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The machine as the report records it.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Machine {
    /// Release of the kernel.
    pub kernel: String,
    /// Processors.
    pub cores: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Filesystem of the work directory.
    pub filesystem: String,
    /// Its block device.
    pub device: Option<Device>,
    /// Multi-generational LRU: contents of `lru_gen/enabled`, or "not built in".
    pub multi_generational_lru: String,
    /// Whether its processors were kept from going to sleep.
    pub kept_awake: bool,
    /// Reclaimers beside the kernel's own that were found.
    pub reclaimers: Vec<String>,
}

/// A block device.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Device {
    /// `major:minor`, of a partition where it is one.
    pub number: String,
    /// `major:minor` of the whole disk.
    pub disk_number: String,
    /// Name under `/sys/block`.
    pub name: String,
    /// Its readahead in KiB.
    pub read_ahead_kb: u64,
    /// Its I/O scheduler.
    pub scheduler: String,
    /// Whether it says that it is rotational.
    pub rotational: bool,
}

pub(crate) fn read(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_string())
}

impl Machine {
    /// Looks at this machine, from the work directory.
    pub fn observe(work_dir: &Path) -> Self {
        let memory_kib = read("/proc/meminfo")
            .and_then(|text| {
                let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
                line.split_whitespace().nth(1)?.parse::<u64>().ok()
            })
            .unwrap_or(0);
        Self {
            kernel: read("/proc/sys/kernel/osrelease").unwrap_or_default(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_kib * 1024,
            filesystem: filesystem(work_dir),
            device: Device::of(work_dir),
            multi_generational_lru: read("/sys/kernel/mm/lru_gen/enabled")
                .unwrap_or_else(|| "not built in".into()),
            kept_awake: false,
            reclaimers: reclaimers::find(Path::new("/sys")),
        }
    }

    /// How many processors there are, and what was done to them.
    pub fn processors(&self) -> String {
        let what = if self.kept_awake { " kept awake" } else { "" };
        format!("{} cores{what}", self.cores)
    }
}

impl Device {
    fn of(path: &Path) -> Option<Self> {
        let number = fs::metadata(path).ok()?.dev();
        let number = format!(
            "{}:{}",
            rustix::fs::major(number),
            rustix::fs::minor(number)
        );
        let mut directory = fs::canonicalize(format!("/sys/dev/block/{number}")).ok()?;
        if !directory.join("queue").exists() {
            directory = directory.parent()?.to_path_buf();
        }
        let queue = directory.join("queue");
        Some(Self {
            number,
            disk_number: read(directory.join("dev"))?,
            name: directory.file_name()?.to_string_lossy().into_owned(),
            read_ahead_kb: read(queue.join("read_ahead_kb"))?.parse().ok()?,
            scheduler: read(queue.join("scheduler")).unwrap_or_default(),
            rotational: read(queue.join("rotational")).is_some_and(|text| text == "1"),
        })
    }

    /// The file with its readahead in KiB.
    pub fn read_ahead_path(&self) -> String {
        format!("/sys/block/{}/queue/read_ahead_kb", self.name)
    }
}

fn filesystem(path: &Path) -> String {
    let Ok(status) = rustix::fs::statfs(path) else {
        return "unknown".into();
    };
    filesystem_name(status.f_type).map_or_else(|| format!("{:#x}", status.f_type), str::to_owned)
}
