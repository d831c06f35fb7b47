//! Directories on the filesystems that the suites run on. Loop devices are mounted in a mount
//! namespace of the calling thread: only it and the programs that it starts see them, and the
//! kernel takes mount and device away when the last of these has ended, however they end.

use super::process::{Ended, Program};
use super::{skip, tools};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A filesystem to test on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filesystem {
    /// Whatever the build directory is on: a real disk.
    Current,
    Ext4,
    Xfs,
    Btrfs,
    Tmpfs,
}

/// A directory on it that is removed when dropped.
pub struct Place {
    pub filesystem: Filesystem,
    directory: TempDir,
    mounted: Option<Mounted>,
}

struct Mounted {
    mount_point: PathBuf,
    image_directory: TempDir,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: a child that was killed may still hold a file for a moment. The loop device
        // goes with the mount.
        let _ = Program::new("umount")
            .argument("-l")
            .argument(&self.mount_point)
            .run();
    }
}

impl Place {
    pub fn path(&self) -> &Path {
        match &self.mounted {
            Some(mounted) => &mounted.mount_point,
            None => self.directory.path(),
        }
    }

    /// The file that is the loop device's disk, if it is one.
    pub fn image(&self) -> Option<PathBuf> {
        let mounted = self.mounted.as_ref()?;
        Some(mounted.image_directory.path().join("image"))
    }
}

/// A temporary directory on a real disk.
pub fn on_disk() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("temporary directory")
}

/// A place on that filesystem; `None`, and a word on standard error, where it cannot be had.
pub fn on(filesystem: Filesystem) -> Option<Place> {
    let (directory, mounted) = match filesystem {
        Filesystem::Current => (on_disk(), None),
        Filesystem::Tmpfs => match TempDir::new_in("/dev/shm") {
            Ok(directory) => (directory, None),
            Err(error) => {
                skip(format!("tmpfs: /dev/shm: {error}"));
                return None;
            }
        },
        Filesystem::Ext4 => mount("ext4")?,
        Filesystem::Xfs => mount("xfs")?,
        Filesystem::Btrfs => mount("btrfs")?,
    };
    Some(Place {
        filesystem,
        directory,
        mounted,
    })
}

/// Size of an image: XFS wants 300 MiB at least. Sparse, so that only what is written counts.
const IMAGE_BYTES: u64 = 512 << 20;

fn mount(kind: &str) -> Option<(TempDir, Option<Mounted>)> {
    let mounted = make_and_mount(kind, on_disk(), IMAGE_BYTES)?;
    Some((on_disk(), Some(mounted)))
}

/// A filesystem in an image of so many bytes that lies in the directory `within`.
pub fn on_image_within(filesystem: Filesystem, within: &Path, bytes: u64) -> Option<Place> {
    let kind = match filesystem {
        Filesystem::Ext4 => "ext4",
        Filesystem::Xfs => "xfs",
        Filesystem::Btrfs => "btrfs",
        Filesystem::Current | Filesystem::Tmpfs => return None,
    };
    let image_directory = TempDir::new_in(within).expect("temporary directory");
    Some(Place {
        filesystem,
        directory: on_disk(),
        mounted: Some(make_and_mount(kind, image_directory, bytes)?),
    })
}

/// A copy of the place's disk as it is at this moment, mounted as after a power cut. The image
/// must lie on a filesystem that shares blocks between files: only then is the copy of one moment.
pub fn after_power_cut(place: &Place, within: &Path) -> Place {
    let image_directory = TempDir::new_in(within).expect("temporary directory");
    Program::new("cp")
        .argument("--reflink=always")
        .argument(place.image().expect("an image"))
        .argument(image_directory.path().join("image"))
        .run()
        .well();
    // The copy has the identity of its original, which is mounted: XFS must be told.
    let options = match place.filesystem {
        Filesystem::Xfs => "loop,nouuid",
        _ => "loop",
    };
    let (mounted, ended) = mount_image(image_directory, options);
    assert!(ended.status.success(), "after a power cut: {ended:?}");
    Place {
        filesystem: place.filesystem,
        directory: on_disk(),
        mounted: Some(mounted),
    }
}

fn mount_image(image_directory: TempDir, options: &str) -> (Mounted, Ended) {
    let mount_point = image_directory.path().join("mounted");
    std::fs::create_dir(&mount_point).unwrap();
    let ended = Program::new("mount")
        .arguments(["-o", options])
        .argument(image_directory.path().join("image"))
        .argument(&mount_point)
        .run();
    let mounted = Mounted {
        mount_point,
        image_directory,
    };
    (mounted, ended)
}

fn make_and_mount(kind: &str, image_directory: TempDir, bytes: u64) -> Option<Mounted> {
    if !tools::root() {
        skip(format!("{kind}: mounting needs root"));
        return None;
    }
    let maker = tools::find(&format!("mkfs.{kind}"))?;
    let image = image_directory.path().join("image");
    std::fs::File::create(&image)
        .and_then(|file| file.set_len(bytes))
        .expect("image");
    Program::new(maker)
        .argument("-q")
        .argument(&image)
        .run()
        .well();
    if !enter_own_mount_namespace() {
        skip(format!("{kind}: no mount namespace can be made here"));
        return None;
    }
    let (mounted, ended) = mount_image(image_directory, "loop");
    if !ended.status.success() {
        skip(format!("{kind}: cannot be mounted here: {ended:?}"));
        return None;
    }
    Some(mounted)
}

fn enter_own_mount_namespace() -> bool {
    // SAFETY: changes what the calling thread, and programs that it starts, see mounted.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return false;
    }
    // SAFETY: the path is NUL-terminated; the other arguments are not looked at for this flag.
    // Keeps what is mounted here from showing outside.
    let private = unsafe {
        libc::mount(
            std::ptr::null(),
            c"/".as_ptr(),
            std::ptr::null(),
            libc::MS_REC | libc::MS_PRIVATE,
            std::ptr::null(),
        )
    };
    private == 0
}
