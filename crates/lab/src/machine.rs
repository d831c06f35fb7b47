//! Facts of the machine that influence the figures and differ between machines.

use coldstream_host::block_device::BlockDevice;
use coldstream_host::{machine, reclaimers};
use coldstream_io::probe::filesystem_name;
use std::path::{Path, PathBuf};

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
    /// Multi-generational LRU: the text of `lru_gen/enabled`, or "not built in".
    pub multi_generational_lru: String,
    /// Whether the processors were kept awake.
    pub kept_awake: bool,
    /// Whether this was asked for and cannot be done here.
    #[serde(default)]
    pub awake_refused: bool,
    /// Active reclaimers beside the kernel's own.
    pub reclaimers: Vec<String>,
}

/// A block device.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Device {
    /// `major:minor`; of the partition, if it is one.
    pub number: String,
    /// `major:minor` of the whole disk.
    pub disk_number: String,
    /// Name under `/sys/block`.
    pub name: String,
    /// Its readahead, KiB.
    pub read_ahead_kb: u64,
    /// Its I/O scheduler.
    pub scheduler: String,
    /// Whether it reports that it is rotational.
    pub rotational: bool,
}

impl Machine {
    /// Collects the facts, for a work directory.
    pub fn observe(work_dir: &Path) -> Self {
        Self {
            kernel: machine::kernel_release(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: machine::memory_bytes().unwrap_or(0),
            filesystem: filesystem(work_dir),
            device: Device::of(work_dir),
            multi_generational_lru: machine::multi_generational_lru_mask()
                .unwrap_or_else(|| "not built in".into()),
            kept_awake: false,
            awake_refused: false,
            reclaimers: reclaimers::find(Path::new("/sys")),
        }
    }

    /// The number of processors, and whether they were kept awake.
    pub fn processors(&self) -> String {
        let awake = match (self.kept_awake, self.awake_refused) {
            (true, _) => " kept awake",
            (false, true) => " not kept awake",
            (false, false) => "",
        };
        format!("{} cores{awake}", self.cores)
    }
}

impl Device {
    fn of(path: &Path) -> Option<Self> {
        let device = BlockDevice::of_path(path)?;
        Some(Self {
            disk_number: device.disk_number()?,
            read_ahead_kb: device.read_ahead_kib()?,
            scheduler: device.scheduler().unwrap_or_default(),
            rotational: device.is_rotational(),
            number: device.number,
            name: device.name,
        })
    }

    /// The file with its readahead, KiB.
    pub fn read_ahead_file(&self) -> PathBuf {
        PathBuf::from(format!("/sys/block/{}/queue/read_ahead_kb", self.name))
    }
}

fn filesystem(path: &Path) -> String {
    let Ok(status) = rustix::fs::statfs(path) else {
        return "unknown".into();
    };
    filesystem_name(status.f_type).map_or_else(|| format!("{:#x}", status.f_type), str::to_owned)
}
