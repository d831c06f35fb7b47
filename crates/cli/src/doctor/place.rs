//! What one path allows: its filesystem, its device, and a probe of direct I/O
//! on a file in it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use coldstream_io::probe::{DirectEffect, Probe, filesystem_name, probe};
use coldstream_policy::{IoMode, IoModeSetting, Profile};
use serde::Serialize;

use super::machine::{Machine, number};
use super::mounts::{self, Mount};
use super::paths;
use crate::exit::{self, Exit, failure};

/// Enough for an absent page to be found in it, little enough for any disk.
const TEMPORARY_BYTES: usize = 1 << 20;
/// Bounds of the search for a table: a directory of a database is shallow.
const SEARCH_DEPTH: usize = 4;
const SEARCH_ENTRIES_MAX: usize = 20_000;
/// Smaller tables prove little.
const TABLE_BYTES_MIN: u64 = 64 << 10;
/// The kernel's own default; more of it hurts point reads.
const READ_AHEAD_KIB_USUAL: u64 = 128;

/// The report about a path.
#[derive(Serialize)]
pub struct Place {
    /// The path in full.
    #[serde(serialize_with = "paths::one")]
    pub path: PathBuf,
    /// The file that was probed; none if it was a temporary one.
    #[serde(serialize_with = "paths::maybe")]
    pub probed_file: Option<PathBuf>,
    /// Type of the filesystem as `mount` shows it.
    pub filesystem: String,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// What is mounted.
    pub source: String,
    /// The block device, if there is one.
    pub device: Option<Device>,
    /// Memory and offset alignment of direct I/O as the kernel reports it.
    pub reported_alignment_bytes: Option<(u32, u32)>,
    /// Alignment that Coldstream uses.
    pub alignment_bytes: u64,
    /// What a direct read did: `proven`, `unproven`, `none` or `refused`.
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

/// The queue of a block device.
#[derive(Serialize)]
pub struct Device {
    /// Its name in `/sys/block`.
    pub name: String,
    /// What the kernel reads ahead of buffered reads.
    pub read_ahead_kib: Option<u64>,
}

/// Examines a directory or a file.
pub fn examine(path: &Path, machine: &Machine) -> anyhow::Result<Place> {
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
    // A table below the path may lie on another filesystem than the path.
    let mount = mount_of(probed_file.as_ref().unwrap_or(&full), &mounts)
        .context("the mount table is empty: mount /proc")?;
    let device = device(mount);
    let advice = advice(machine, mount, device.as_ref(), &probe);
    Ok(Place {
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

fn inaccessible(path: &Path, error: &io::Error) -> anyhow::Error {
    let advice = match exit::of_io(error) {
        Exit::Permission => ": run this as a user who may read it, the database's own for example",
        Exit::DiskFull => ": free some space, the probe needs 1 MiB",
        _ => "",
    };
    failure(
        exit::of_io(error),
        format!("cannot examine {}: {error}{advice}", path.display()),
    )
}

/// Probes with the file itself, or with a table of the directory, or with a
/// temporary file where no table says anything certain.
fn probe_in(path: &Path) -> anyhow::Result<(Option<PathBuf>, Probe)> {
    if !path.is_dir() {
        let probe = probe_file(path).map_err(|error| inaccessible(path, &error))?;
        return Ok((Some(path.to_owned()), probe));
    }
    let mut budget = SEARCH_ENTRIES_MAX;
    let of_table = find_table(path, SEARCH_DEPTH, &mut budget).and_then(|table| {
        let probe = probe_file(&table).ok()?;
        Some((Some(table), probe))
    });
    match of_table {
        Some(found) if found.1.direct != DirectEffect::Unproven => Ok(found),
        uncertain => match (probe_temporary(path), uncertain) {
            (Ok(probe), _) => Ok((None, probe)),
            (Err(_), Some(found)) => Ok(found),
            (Err(error), None) => Err(inaccessible(path, &error)),
        },
    }
}

fn probe_file(path: &Path) -> io::Result<Probe> {
    // Before the open: that of a pipe would wait for a writer.
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
    // Without a name: nothing stays behind, even if this process is killed.
    let mut file = tempfile::tempfile_in(directory)?;
    file.write_all(&vec![0x5a; TEMPORARY_BYTES])?;
    file.sync_data()?;
    // The effect shows only on pages that are not in the page cache.
    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    run_probe(&file)
}

fn find_table(directory: &Path, depth: usize, budget: &mut usize) -> Option<PathBuf> {
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
                .is_table()
            && entry
                .metadata()
                .is_ok_and(|metadata| metadata.len() >= TABLE_BYTES_MIN)
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
        .find_map(|directory| find_table(directory, depth - 1, budget))
}

/// The mount that holds `path`: the deepest, and of those the last one. Device
/// numbers would not do: btrfs gives each subvolume its own.
fn mount_of<'a>(path: &Path, mounts: &'a [Mount]) -> Option<&'a Mount> {
    mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.point))
        .max_by_key(|mount| Path::new(&mount.point).components().count())
}

fn device(mount: &Mount) -> Option<Device> {
    let source = Path::new(&mount.source).metadata().ok();
    let block_device = source.filter(|metadata| metadata.file_type().is_block_device());
    let number_of_source = block_device.map(|metadata| {
        let device = metadata.rdev();
        format!(
            "{}:{}",
            rustix::fs::major(device),
            rustix::fs::minor(device)
        )
    });
    [Some(mount.device.clone()), number_of_source]
        .into_iter()
        .flatten()
        .find_map(|device| queue_of(&device))
        .map(|(name, queue, device)| {
            let of_queue = || number(queue.join("read_ahead_kb").to_str()?);
            Device {
                name,
                // The filesystem's own value, where it has one, is the one in use.
                read_ahead_kib: number(format!("/sys/class/bdi/{}/read_ahead_kb", mount.device))
                    .or_else(|| number(format!("/sys/class/bdi/{device}/read_ahead_kb")))
                    .or_else(of_queue),
            }
        })
}

/// Name, queue directory and number of a block device; a partition's queue is
/// that of its disk.
fn queue_of(device: &str) -> Option<(String, PathBuf, String)> {
    let node = fs::canonicalize(format!("/sys/dev/block/{device}")).ok()?;
    let disk = [node.as_path(), node.parent()?]
        .into_iter()
        .find(|directory| directory.join("queue").is_dir())?;
    let name = disk.file_name()?.to_string_lossy().into_owned();
    Some((name, disk.join("queue"), device.to_owned()))
}

fn reason(io_mode: IoMode, probe: &Probe) -> String {
    match (io_mode, probe.direct) {
        (IoMode::Direct, DirectEffect::Proven) => {
            "a direct read left the page cache as it was".to_owned()
        }
        (IoMode::Direct, _) => {
            "direct reads work; that they leave the page cache alone could not be checked"
                .to_owned()
        }
        (_, _) if filesystem_name(probe.filesystem_type) == Some("tmpfs") => {
            "tmpfs lives in the page cache: there is nothing to go around".to_owned()
        }
        (_, _) if !probe.trusted => {
            "this filesystem does not promise that the change time moves with every change, so \
             bytes in own windows could be stale"
                .to_owned()
        }
        (_, DirectEffect::None) => {
            "direct reads are accepted but go through the page cache all the same".to_owned()
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
        IoMode::Direct => "new tables go around the page cache, unless what they are made of is \
                              in it"
            .to_owned(),
        IoMode::Buffered => reason(io_mode, probe),
        _ if machine.ext4_direct_write_bug => {
            "this kernel corrupts direct writes (Debian #1057843): new tables are written back \
             early and dropped"
                .to_owned()
        }
        _ => "direct writes do not go around the page cache here: new tables are written back \
              early and dropped"
            .to_owned(),
    }
}

fn advice(machine: &Machine, mount: &Mount, device: Option<&Device>, probe: &Probe) -> Vec<String> {
    let mut advice = Vec::new();
    if mount.filesystem == "overlay" {
        advice.push(
            "put the database's data on a volume: overlay is the container's own layer".to_owned(),
        );
    } else if !probe.trusted && mount.filesystem != "tmpfs" {
        advice.push("keep the data on ext4, XFS, btrfs or F2FS for Coldstream to act".to_owned());
    }
    if mount.filesystem == "btrfs" && mount.options.contains("compress") {
        advice.push(
            "btrfs reads compressed files through the page cache: mount the data without \
             compression, the database compresses already"
                .to_owned(),
        );
    }
    if mount.filesystem == "ext4" && machine.ext4_direct_write_bug {
        advice.push(
            "this kernel loses the file position after direct writes on ext4 (Debian #1057843): \
             Coldstream does not write directly here, and reads are safe; install a newer kernel"
                .to_owned(),
        );
    }
    if let Some(device) = device
        && let Some(kib) = device
            .read_ahead_kib
            .filter(|kib| *kib > READ_AHEAD_KIB_USUAL)
    {
        advice.push(format!(
            "the kernel reads up to {kib} KiB ahead of buffered reads on {name}; point reads \
             without FADV_RANDOM fetch all of it: `echo 16 > /sys/block/{name}/queue/read_ahead_kb`",
            name = device.name
        ));
    }
    if !probe.cache_statistics {
        advice.push(
            "residency cannot be asked for cheaply here (cachestat: Linux 6.5 and ownership of \
             the file): windows in the page cache are found with mincore"
                .to_owned(),
        );
    }
    advice
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(point: &str) -> Mount {
        Mount {
            device: "0:1".into(),
            root: "/".into(),
            point: point.into(),
            filesystem: "ext4".into(),
            source: "none".into(),
            options: "rw".into(),
        }
    }

    #[test]
    fn the_deepest_and_last_mount_holds_the_path() {
        let mut mounts = vec![mount("/"), mount("/data"), mount("/dat"), mount("/data")];
        mounts[3].source = "last".into();
        let found = mount_of(Path::new("/data/db"), &mounts).unwrap();
        assert_eq!(found.source, "last");
        let found = mount_of(Path::new("/database"), &mounts).unwrap();
        assert_eq!(found.point, "/");
    }

    #[test]
    fn a_table_is_found_below() {
        let directory = tempfile::tempdir().unwrap();
        let table = directory.path().join("ks/t-1/nb-1-big-Data.db");
        fs::create_dir_all(table.parent().unwrap()).unwrap();
        fs::write(&table, vec![1; 100]).unwrap();
        assert_eq!(find_table(directory.path(), 4, &mut 100), None);
        fs::write(&table, vec![1; 100_000]).unwrap();
        assert_eq!(find_table(directory.path(), 4, &mut 100), Some(table));
        assert_eq!(find_table(directory.path(), 1, &mut 100), None);
        assert_eq!(find_table(directory.path(), 4, &mut 2), None);
    }

    #[test]
    fn a_directory_is_left_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let place = examine(directory.path(), &super::super::machine::examine()).unwrap();
        assert_eq!(place.probed_file, None);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
