//! Test directories on several filesystems.
//!
//! Loop devices are mounted in a mount namespace of the calling thread. Only this thread and the programs that it
//! starts see them. The kernel removes mount and device when the last of these has ended.

use std::path::{Path, PathBuf};

use nix::mount::MsFlags;
use nix::sched::CloneFlags;
use tempfile::TempDir;

use crate::cargo_build::temporary_directory;
use crate::process::{Ended, Program};
use crate::{skip, tools};

/// A filesystem to test on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filesystem {
    /// That of the build directory, on a real disk.
    Current,
    /// ext4 on a loop device.
    Ext4,
    /// XFS on a loop device.
    Xfs,
    /// btrfs on a loop device.
    Btrfs,
    /// tmpfs.
    Tmpfs,
}

/// A directory on a filesystem. Dropping it removes it.
#[derive(Debug)]
pub struct TestDirectory {
    /// Its filesystem.
    pub filesystem: Filesystem,
    directory: TempDir,
    mounted: Option<Mounted>,
}

#[derive(Debug)]
struct Mounted {
    mount_point: PathBuf,
    image_directory: TempDir,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: a child that was killed may hold a file for a moment. The loop device is removed with the mount.
        let _ = Program::new("umount")
            .argument("-l")
            .argument(&self.mount_point)
            .run();
    }
}

impl TestDirectory {
    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        match &self.mounted {
            Some(mounted) => &mounted.mount_point,
            None => self.directory.path(),
        }
    }

    /// The file behind the loop device, if there is one.
    #[must_use]
    pub fn image(&self) -> Option<PathBuf> {
        let mounted = self.mounted.as_ref()?;
        Some(mounted.image_directory.path().join("image"))
    }
}

/// A temporary directory on a real disk.
///
/// # Panics
/// It cannot be made.
#[must_use]
pub fn on_disk() -> TempDir {
    TempDir::new_in(temporary_directory()).expect("temporary directory")
}

/// A directory on this filesystem. Where this machine does not allow it, [`skip`]s with the reason.
#[must_use]
pub fn on(filesystem: Filesystem) -> Option<TestDirectory> {
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
    Some(TestDirectory {
        filesystem,
        directory,
        mounted,
    })
}

/// Size of an image. XFS requires 300 MiB. The image is sparse.
const IMAGE_BYTES: u64 = 512 << 20;

fn mount(kind: &str) -> Option<(TempDir, Option<Mounted>)> {
    let mounted = make_and_mount(kind, on_disk(), IMAGE_BYTES)?;
    Some((on_disk(), Some(mounted)))
}

/// A filesystem in an image of this size, in the directory `within`. `None` for filesystems without an image.
///
/// # Panics
/// The image cannot be made.
#[must_use]
pub fn on_image_within(filesystem: Filesystem, within: &Path, bytes: u64) -> Option<TestDirectory> {
    let kind = match filesystem {
        Filesystem::Ext4 => "ext4",
        Filesystem::Xfs => "xfs",
        Filesystem::Btrfs => "btrfs",
        Filesystem::Current | Filesystem::Tmpfs => return None,
    };
    let image_directory = TempDir::new_in(within).expect("temporary directory");
    Some(TestDirectory {
        filesystem,
        directory: on_disk(),
        mounted: Some(make_and_mount(kind, image_directory, bytes)?),
    })
}

/// A copy of the directory's disk at this moment, mounted as after a power cut. The image must lie on a filesystem
/// that shares blocks between files: only there is the copy that of one moment.
///
/// # Panics
/// The copy cannot be made or mounted.
#[must_use]
pub fn after_power_cut(original: &TestDirectory, within: &Path) -> TestDirectory {
    let image_directory = TempDir::new_in(within).expect("temporary directory");
    Program::new("cp")
        .argument("--reflink=always")
        .argument(original.image().expect("an image"))
        .argument(image_directory.path().join("image"))
        .run()
        .well();
    // The copy has the identity of its original, which is mounted. XFS needs an option for that.
    let options = match original.filesystem {
        Filesystem::Xfs => "loop,nouuid",
        _ => "loop",
    };
    let (mounted, ended) = mount_image(image_directory, options);
    assert!(ended.status.success(), "after a power cut: {ended:?}");
    TestDirectory {
        filesystem: original.filesystem,
        directory: on_disk(),
        mounted: Some(mounted),
    }
}

fn mount_image(image_directory: TempDir, options: &str) -> (Mounted, Ended) {
    let mount_point = image_directory.path().join("mounted");
    std::fs::create_dir(&mount_point).expect("mount point");
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
    if !tools::is_root() {
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

/// From now on, other threads and programs do not see what the calling thread mounts.
fn enter_own_mount_namespace() -> bool {
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    let none: Option<&str> = None;
    nix::sched::unshare(CloneFlags::CLONE_NEWNS)
        .and_then(|()| nix::mount::mount(none, "/", none, private, none))
        .is_ok()
}
