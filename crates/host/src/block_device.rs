//! The disk below a path, as `/sys` shows it.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::kernel_file;
use crate::mounts::Mount;

/// A block device. The queue of a partition is that of its disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    /// `major:minor`; of the partition, if it is one.
    pub number: String,
    /// Name of the disk under `/sys/block`.
    pub name: String,
    directory: PathBuf,
}

impl BlockDevice {
    /// The device with this number, `major:minor`.
    #[must_use]
    pub fn with_number(number: &str) -> Option<Self> {
        let node = fs::canonicalize(format!("/sys/dev/block/{number}")).ok()?;
        let disk = [node.as_path(), node.parent()?]
            .into_iter()
            .find(|directory| directory.join("queue").is_dir())?;
        Some(Self {
            number: number.to_owned(),
            name: disk.file_name()?.to_string_lossy().into_owned(),
            directory: disk.to_owned(),
        })
    }

    /// The device that holds a file or directory, by its device number.
    #[must_use]
    pub fn of_path(path: &Path) -> Option<Self> {
        Self::with_number(&number_text(fs::metadata(path).ok()?.dev()))
    }

    /// The device of a mounted filesystem: by the mount's number, else by the mounted file. btrfs has numbers that
    /// are not those of its disk.
    #[must_use]
    pub fn of_mount(mount: &Mount) -> Option<Self> {
        let of_source = || {
            let source = fs::metadata(&mount.source).ok()?;
            let is_device = source.file_type().is_block_device();
            is_device.then(|| number_text(source.rdev()))
        };
        Self::with_number(&mount.device).or_else(|| Self::with_number(&of_source()?))
    }

    /// `major:minor` of the whole disk.
    #[must_use]
    pub fn disk_number(&self) -> Option<String> {
        kernel_file::text(self.directory.join("dev"))
    }

    /// The file that holds the readahead of the queue, KiB.
    #[must_use]
    pub fn read_ahead_file(&self) -> PathBuf {
        self.directory.join("queue/read_ahead_kb")
    }

    /// The readahead of the queue, KiB.
    #[must_use]
    pub fn read_ahead_kib(&self) -> Option<u64> {
        kernel_file::number(self.read_ahead_file())
    }

    /// The readahead of a filesystem on this device, KiB. A filesystem may have a value of its own, and that one is
    /// in use then.
    #[must_use]
    pub fn read_ahead_kib_of_mount(&self, mount: &Mount) -> Option<u64> {
        read_ahead_kib_of_bdi(&mount.device)
            .or_else(|| read_ahead_kib_of_bdi(&self.number))
            .or_else(|| self.read_ahead_kib())
    }

    /// The I/O scheduler, as the kernel writes it.
    #[must_use]
    pub fn scheduler(&self) -> Option<String> {
        kernel_file::text(self.directory.join("queue/scheduler"))
    }

    /// Whether the device reports that it is rotational.
    #[must_use]
    pub fn is_rotational(&self) -> bool {
        kernel_file::number(self.directory.join("queue/rotational")) == Some(1)
    }
}

/// The readahead of files on a device, KiB, by the number that `stat(2)` has for them.
#[must_use]
pub fn read_ahead_kib_of_files(device: u64) -> Option<u64> {
    let number = number_text(device);
    read_ahead_kib_of_bdi(&number).or_else(|| BlockDevice::with_number(&number)?.read_ahead_kib())
}

fn read_ahead_kib_of_bdi(number: &str) -> Option<u64> {
    kernel_file::number(format!("/sys/class/bdi/{number}/read_ahead_kb"))
}

fn number_text(device: u64) -> String {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    format!("{major}:{minor}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_of_a_partition_has_the_queue() {
        let numbers = fs::read_dir("/sys/dev/block")
            .into_iter()
            .flatten()
            .flatten();
        for number in numbers {
            let number = number.file_name().into_string().unwrap();
            if let Some(device) = BlockDevice::with_number(&number) {
                assert!(device.read_ahead_file().is_file(), "{device:?}");
                assert!(device.disk_number().is_some(), "{device:?}");
                let mut parts = number.split(':').map(|part| part.parse().unwrap());
                let (major, minor) = (parts.next().unwrap(), parts.next().unwrap());
                let of_files = read_ahead_kib_of_files(rustix::fs::makedev(major, minor));
                assert_eq!(of_files, device.read_ahead_kib(), "{device:?}");
            }
        }
        assert_eq!(BlockDevice::with_number("no number"), None);
        assert_eq!(BlockDevice::of_path(Path::new("/proc")), None);
    }
}
