//! Facts about one path: its filesystem, its device, and the result of a probe of direct I/O on a file there.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use coldstream_host::block_device::BlockDevice;
use coldstream_host::mounts::{self, Mount};
use coldstream_io::probe::{DirectEffect, Probe, filesystem_name, probe};
use coldstream_policy::{IoMode, IoModeSetting, Profile};
use serde::Serialize;

use super::machine::Machine;
use super::paths;
use crate::exit::{self, Exit, failure};

/// Size of the temporary file: enough pages for the probe, and little for any disk.
const TEMPORARY_BYTES: usize = 1 << 20;
/// Bounds of the search for an SSTable: directories of databases are shallow.
const SEARCH_DEPTH: usize = 4;
const SEARCH_ENTRIES_MAX: usize = 20_000;
/// A probe of a smaller SSTable proves little.
const SSTABLE_BYTES_MIN: u64 = 64 << 10;
/// The kernel's default. A larger readahead slows point reads down.
const READ_AHEAD_KIB_USUAL: u64 = 128;

/// The report about a path.
#[derive(Serialize)]
pub struct PathFacts {
    /// The absolute path.
    #[serde(serialize_with = "paths::one")]
    pub path: PathBuf,
    /// The probed file; `None` if it was a temporary one.
    #[serde(serialize_with = "paths::maybe")]
    pub probed_file: Option<PathBuf>,
    /// Filesystem type, as `mount` shows it.
    pub filesystem: String,
    /// Its mount point.
    pub mount_point: PathBuf,
    /// What is mounted, usually a device.
    pub source: String,
    /// Its block device, if it has one.
    pub device: Option<Device>,
    /// Alignment of memory and of offsets for direct I/O, as the kernel reports it, bytes.
    pub reported_alignment_bytes: Option<(u32, u32)>,
    /// Alignment that Coldstream uses.
    pub alignment_bytes: u64,
    /// Whether a direct read left the page cache alone: `proven`, `unproven`, `none` or `refused`.
    pub direct_effect: &'static str,
    /// Whether `RWF_DONTCACHE` is accepted (Linux 6.14 and newer).
    pub dont_cache: bool,
    /// Whether `cachestat` answers (Linux 6.5 and newer).
    pub cache_statistics: bool,
    /// What `auto` does with background reads here.
    pub io_mode: &'static str,
    /// The former name of `io_mode`, for one version.
    pub treatment: &'static str,
    /// Why.
    pub reason: String,
    /// What `auto` does with background writes here.
    pub write_io_mode: &'static str,
    /// The former name of `write_io_mode`, for one version.
    pub write_treatment: &'static str,
    /// Why.
    pub write_reason: String,
    /// What to change.
    pub advice: Vec<String>,
}

/// A block device.
#[derive(Serialize)]
pub struct Device {
    /// Its name in `/sys/block`.
    pub name: String,
    /// Readahead of buffered reads.
    pub read_ahead_kib: Option<u64>,
}

/// Examines a directory or a file.
pub fn examine(path: &Path, machine: &Machine) -> anyhow::Result<PathFacts> {
    let full = path
        .canonicalize()
        .map_err(|error| inaccessible(path, &error))?;
    let (probed_file, probe) = probe_in(&full)?;
    let io_mode = IoModeSetting::Auto.choose_for_reads(
        probe.direct_is_usable(),
        probe.dont_cache,
        probe.trusted,
    );
    let writes = io_mode_of_writes(machine, &probe);
    let mounts = mounts::read();
    // An SSTable below the path may lie on another filesystem than the path.
    let mount = mounts::of_path(probed_file.as_ref().unwrap_or(&full), &mounts)
        .context("/proc/self/mountinfo is empty: mount /proc")?;
    let device = BlockDevice::of_mount(mount).map(|device| Device {
        read_ahead_kib: device.read_ahead_kib_of_mount(mount),
        name: device.name,
    });
    let mut advice = advice(machine, mount, &probe);
    advice.extend(device.as_ref().and_then(read_ahead_advice));
    Ok(PathFacts {
        probed_file,
        filesystem: mount.filesystem.clone(),
        mount_point: PathBuf::from(&mount.point),
        source: mount.source.clone(),
        device,
        reported_alignment_bytes: probe.reported_alignment,
        alignment_bytes: probe.alignment.bytes(),
        direct_effect: match probe.direct {
            DirectEffect::Proven => "proven",
            DirectEffect::Unproven => "unproven",
            DirectEffect::None => "none",
            DirectEffect::Refused(_) => "refused",
        },
        dont_cache: probe.dont_cache,
        cache_statistics: probe.cache_statistics,
        io_mode: io_mode.name(),
        treatment: io_mode.name(),
        reason: reason(io_mode, &probe),
        write_io_mode: writes.name(),
        write_treatment: writes.name(),
        write_reason: reason_of_writes(writes, machine, &probe),
        advice,
        path: full,
    })
}

/// The error for a directory where no temporary file can be probed. It exists: no error means "no such path".
fn without_temporary_file(directory: &Path, error: &io::Error) -> anyhow::Error {
    let (exit, advice) = match exit::of_io(error) {
        Exit::DiskFull => (Exit::DiskFull, "the probe needs 1 MiB, free some space"),
        Exit::Permission if error.kind() == io::ErrorKind::ReadOnlyFilesystem => (
            Exit::Permission,
            "name a regular file there, which is only read",
        ),
        Exit::Permission => (
            Exit::Permission,
            "run this as a user who may write there, for example the database's, or name a regular file there, \
             which is only read",
        ),
        _ => (
            Exit::Failure,
            "name a directory that can hold files, for example the database's",
        ),
    };
    let directory = directory.display();
    failure(
        exit,
        format!("cannot examine {directory} by a temporary file there: {error}: {advice}"),
    )
}

fn inaccessible(path: &Path, error: &io::Error) -> anyhow::Error {
    let advice = match exit::of_io(error) {
        Exit::Permission => ": run this as a user who may read it, for example the database's",
        _ => "",
    };
    failure(
        exit::of_io(error),
        format!("cannot examine {}: {error}{advice}", path.display()),
    )
}

/// Probes the file itself, or an SSTable in the directory. Where no SSTable gives a certain result, probes a temporary
/// file.
fn probe_in(path: &Path) -> anyhow::Result<(Option<PathBuf>, Probe)> {
    if !path.is_dir() {
        let probe = probe_file(path).map_err(|error| inaccessible(path, &error))?;
        return Ok((Some(path.to_owned()), probe));
    }
    let mut budget = SEARCH_ENTRIES_MAX;
    let of_sstable = find_sstable(path, SEARCH_DEPTH, &mut budget).and_then(|sstable| {
        let probe = probe_file(&sstable).ok()?;
        Some((Some(sstable), probe))
    });
    match of_sstable {
        Some(found) if found.1.direct != DirectEffect::Unproven => Ok(found),
        uncertain => match (probe_temporary(path), uncertain) {
            (Ok(probe), _) => Ok((None, probe)),
            (Err(_), Some(found)) => Ok(found),
            (Err(error), None) => Err(without_temporary_file(path, &error)),
        },
    }
}

fn probe_file(path: &Path) -> io::Result<Probe> {
    // Before the open: opening a pipe would wait for a writer.
    if !path.metadata()?.is_file() {
        let message = "neither a directory nor a regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    run_probe(&File::open(path)?)
}

fn run_probe(file: &File) -> io::Result<Probe> {
    probe(file.as_raw_fd()).map_err(io::Error::from)
}

fn probe_temporary(directory: &Path) -> io::Result<Probe> {
    // Without a name: nothing stays behind if this process is killed.
    let mut file = tempfile::tempfile_in(directory)?;
    file.write_all(&vec![0x5a; TEMPORARY_BYTES])?;
    file.sync_data()?;
    // The probe needs pages that are not in the page cache.
    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    run_probe(&file)
}

fn find_sstable(directory: &Path, depth: usize, budget: &mut usize) -> Option<PathBuf> {
    let mut directories = Vec::new();
    for entry in fs::read_dir(directory).ok()?.flatten() {
        *budget = budget.checked_sub(1)?;
        let kind = entry.file_type().ok()?;
        let path = entry.path();
        if kind.is_dir() {
            directories.push(path);
        } else if kind.is_file()
            && Profile::Auto
                .kind_of_file(path.as_os_str().as_bytes())
                .is_sstable()
            && entry
                .metadata()
                .is_ok_and(|metadata| metadata.len() >= SSTABLE_BYTES_MIN)
            && File::open(&path).is_ok()
        {
            return Some(path);
        }
    }
    if depth == 0 {
        return None;
    }
    directories
        .iter()
        .find_map(|directory| find_sstable(directory, depth - 1, budget))
}

fn reason(io_mode: IoMode, probe: &Probe) -> String {
    match (io_mode, probe.direct) {
        (IoMode::Direct, DirectEffect::Proven) => {
            "a direct read left the page cache unchanged".to_owned()
        }
        (IoMode::Direct, _) => {
            "direct reads work; whether they leave the page cache unchanged could not be checked"
                .to_owned()
        }
        (_, _) if filesystem_name(probe.filesystem_type) == Some("tmpfs") => {
            "tmpfs lives in the page cache, which cannot be bypassed there".to_owned()
        }
        (_, _) if !probe.trusted => {
            "this filesystem may change a file without a new change time, so bytes in Coldstream's \
             windows could be stale"
                .to_owned()
        }
        (_, DirectEffect::None) => {
            "direct reads are accepted, but go through the page cache".to_owned()
        }
        (_, DirectEffect::Refused(errno)) => format!("direct reads are refused: {errno}"),
        (_, _) => "no I/O mode has an effect here".to_owned(),
    }
}

/// As the library chooses with `auto`.
fn io_mode_of_writes(machine: &Machine, probe: &Probe) -> IoMode {
    if !probe.trusted {
        return IoMode::Buffered;
    }
    let direct = probe.direct_is_usable() && !machine.ext4_direct_write_bug;
    IoModeSetting::Auto.choose_for_writes(direct, probe.dont_cache)
}

fn reason_of_writes(io_mode: IoMode, machine: &Machine, probe: &Probe) -> String {
    match io_mode {
        IoMode::Direct => {
            "new SSTables bypass the page cache, unless their inputs are in it".to_owned()
        }
        IoMode::Buffered => reason(io_mode, probe),
        _ if machine.ext4_direct_write_bug => {
            "this kernel corrupts direct writes (Debian #1057843): new SSTables are written back \
             early and dropped from the page cache"
                .to_owned()
        }
        _ => {
            "direct writes do not bypass the page cache here: new SSTables are written back early \
              and dropped from it"
                .to_owned()
        }
    }
}

/// What to do about a readahead above the usual one. The command works for a user with sudo, too: a redirection would
/// be this user's own.
fn read_ahead_advice(device: &Device) -> Option<String> {
    let kib = device
        .read_ahead_kib
        .filter(|kib| *kib > READ_AHEAD_KIB_USUAL)?;
    Some(format!(
        "the kernel reads up to {kib} KiB ahead on {name}, and a point read without FADV_RANDOM fetches all of it: \
         `echo 16 | sudo tee /sys/block/{name}/queue/read_ahead_kb`",
        name = device.name
    ))
}

fn advice(machine: &Machine, mount: &Mount, probe: &Probe) -> Vec<String> {
    let mut advice = Vec::new();
    if mount.filesystem == "overlay" {
        advice.push(
            "overlay is the container's own layer, and Coldstream does nothing there: put the \
             database's data on a volume"
                .to_owned(),
        );
    } else if !probe.trusted && mount.filesystem != "tmpfs" {
        advice.push(format!(
            "Coldstream does nothing on {}: put the data on ext4, XFS, btrfs or F2FS",
            mount.filesystem
        ));
    }
    if mount.filesystem == "btrfs" && mount.options.contains("compress") {
        advice.push(
            "btrfs reads compressed files through the page cache: mount the data without \
             compression. The database compresses it already"
                .to_owned(),
        );
    }
    if mount.filesystem == "ext4" && machine.ext4_direct_write_bug {
        advice.push(
            "this kernel loses the file position after direct writes on ext4 (Debian #1057843): \
             Coldstream does not write directly here. Reads are safe. Install a newer kernel"
                .to_owned(),
        );
    }
    if !probe.cache_statistics {
        advice.push(without_cachestat(&machine.kernel_release).to_owned());
    }
    advice
}

/// The first release with `cachestat(2)`.
const CACHESTAT_RELEASE: (u32, u32) = (6, 5);

/// What to do where `cachestat` does not answer. The kernel refuses it for files of others, a filter for all.
fn without_cachestat(kernel_release: &str) -> &'static str {
    let mut numbers = kernel_release.split(|it: char| !it.is_ascii_digit());
    let mut next = || numbers.next()?.parse().ok();
    let release = next().zip(next());
    if release.is_some_and(|release| release >= CACHESTAT_RELEASE) {
        "cachestat does not answer, although this kernel has it: run doctor as the owner of the files. If it does not \
         answer then either, a filter of system calls forbids it"
    } else {
        "cachestat is not available here, so mincore finds windows in the page cache, at a higher cost: use Linux 6.5 \
         or newer"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_sstable_is_found_below() {
        let directory = tempfile::tempdir().unwrap();
        let sstable = directory.path().join("ks/t-1/nb-1-big-Data.db");
        fs::create_dir_all(sstable.parent().unwrap()).unwrap();
        fs::write(&sstable, vec![1; 100]).unwrap();
        assert_eq!(find_sstable(directory.path(), 4, &mut 100), None);
        fs::write(&sstable, vec![1; 100_000]).unwrap();
        assert_eq!(find_sstable(directory.path(), 4, &mut 100), Some(sstable));
        assert_eq!(find_sstable(directory.path(), 1, &mut 100), None);
        assert_eq!(find_sstable(directory.path(), 4, &mut 2), None);
    }

    #[test]
    fn a_newer_kernel_is_advised_where_this_one_is_older() {
        for (release, is_old) in [
            ("6.4.0-150600.21-default", true),
            ("5.15.0", true),
            ("6.5.0", false),
            ("6.18.5+deb14-amd64", false),
            ("7.0-rc1", false),
            ("?", true),
        ] {
            let advice = without_cachestat(release);
            assert_eq!(advice.contains("use Linux 6.5"), is_old, "{release}");
            assert_eq!(
                advice.contains("as the owner of the files"),
                !is_old,
                "{release}"
            );
        }
    }

    #[test]
    fn a_large_readahead_is_lowered_by_a_command_that_sudo_can_carry_out() {
        let advice = |read_ahead_kib| {
            let name = "vda".to_owned();
            read_ahead_advice(&Device {
                name,
                read_ahead_kib,
            })
        };
        assert_eq!(advice(Some(128)), None);
        assert_eq!(advice(None), None);
        let large = advice(Some(8192)).unwrap();
        let command = "`echo 16 | sudo tee /sys/block/vda/queue/read_ahead_kb`";
        assert!(large.ends_with(command), "{large}");
    }

    #[test]
    fn a_directory_is_left_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let facts = examine(directory.path(), &super::super::machine::examine()).unwrap();
        assert_eq!(facts.probed_file, None);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
