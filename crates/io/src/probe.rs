//! Finds out what direct I/O really does on a filesystem: the reported alignment, a real transfer, and
//! its effect on the page cache.
//!
//! A successful `open` with `O_DIRECT` proves nothing. Tmpfs accepts it and serves from memory. Other
//! filesystems fall back to buffered I/O without an error.

use crate::alignment::{Alignment, PAGE_BYTES};
use crate::proc_fd::reopen;
use crate::residency;
use crate::sys::cachestat::cache_statistics;
use crate::sys::pread::{RWF_DONTCACHE, pread_with_flags};
use crate::sys::{Descriptor, Errno, close, fcntl, memory, stat, statfs, statx};

/// Filesystems whose change time moves with every change of the content. There, windows in user memory
/// can be proven current. The numbers are from `include/uapi/linux/magic.h`, those of XFS and F2FS from
/// their own headers.
const TRUSTED_FILESYSTEMS: [(i64, &str); 4] = [
    (0xEF53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683E, "btrfs"),
    (0xF2F5_2010, "f2fs"),
];

/// The type of tmpfs (`TMPFS_MAGIC`). Its files live in the page cache, so nothing can bypass it.
const TMPFS: i64 = 0x0102_1994;

/// Whether direct reads leave the page cache unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectEffect {
    /// A direct read of absent pages left them absent.
    Proven,
    /// The transfer worked, but its effect is unknown: the whole file was resident, or the kernel does not
    /// report residency.
    Unproven,
    /// A direct read brought its pages into the page cache.
    None,
    /// The filesystem refuses direct I/O on this file, or the transfer failed.
    Refused(Errno),
}

/// What a filesystem offers for background reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// `f_type` of `statfs(2)`.
    pub filesystem_type: i64,
    /// Whether the change time moves with every change. Without that no window in user memory can be
    /// trusted.
    pub trusted: bool,
    /// The alignment that the kernel reports, as `(memory, offset)` in bytes.
    pub reported_alignment: Option<(u32, u32)>,
    /// The alignment that Coldstream uses for direct I/O here.
    pub alignment: Alignment,
    /// The effect of a direct read.
    pub direct: DirectEffect,
    /// Whether `RWF_DONTCACHE` is accepted.
    pub dont_cache: bool,
    /// Whether `cachestat(2)` answers.
    pub cache_statistics: bool,
}

impl Probe {
    /// Whether direct I/O failed for a reason that may be gone the next time, such as a lack of
    /// descriptors or memory. It says nothing about the filesystem.
    pub fn is_inconclusive(&self) -> bool {
        matches!(
            self.direct,
            DirectEffect::Refused(Errno(
                libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EAGAIN | libc::EINTR
            ))
        )
    }

    /// Whether direct reads may be used: they work, and were not seen to go through the page cache.
    pub fn direct_is_usable(&self) -> bool {
        self.trusted && matches!(self.direct, DirectEffect::Proven | DirectEffect::Unproven)
    }
}

/// Whether the change time of this filesystem moves with every change of the content.
pub fn is_trusted(filesystem_type: i64) -> bool {
    TRUSTED_FILESYSTEMS
        .iter()
        .any(|(known, _)| *known == filesystem_type)
}

/// The name of a filesystem type. `None` if it is not in the list.
pub fn filesystem_name(filesystem_type: i64) -> Option<&'static str> {
    if filesystem_type == TMPFS {
        return Some("tmpfs");
    }
    TRUSTED_FILESYSTEMS
        .iter()
        .find(|(known, _)| *known == filesystem_type)
        .map(|(_, name)| *name)
}

/// Probes the filesystem of the open regular file `descriptor`. It reads a page or two of the file and
/// writes nothing. With an empty file nothing can be transferred, and the effect stays unproven.
///
/// # Errors
/// The kernel's, such as `EBADF`. A refusal of direct I/O is no error: see [`Probe::direct`].
pub fn probe(descriptor: impl Into<Descriptor>) -> Result<Probe, Errno> {
    let descriptor = descriptor.into();
    let filesystem_type = statfs::filesystem_type(descriptor)?;
    let size_bytes = stat::stamp(descriptor)?.size_bytes;
    let reported_alignment = statx::direct_alignment(descriptor).unwrap_or(None);
    let (alignment, direct) = probe_direct(descriptor, size_bytes, reported_alignment);
    Ok(Probe {
        filesystem_type,
        trusted: is_trusted(filesystem_type),
        reported_alignment,
        alignment,
        direct,
        dont_cache: accepts_dont_cache(descriptor, size_bytes),
        cache_statistics: cache_statistics(descriptor, 0, PAGE_BYTES).is_ok(),
    })
}

/// An offset whose page is not in the page cache, and whether one was found. It looks at a few offsets
/// only, so the probe takes microseconds with a file of any size.
fn absent_page(descriptor: Descriptor, size_bytes: u64) -> (u64, bool) {
    const OFFSETS: u64 = 16;
    let chunk = u64::from(Alignment::MAX_BYTES);
    for number in 0..OFFSETS {
        let offset = (size_bytes / OFFSETS * number) & !(chunk - 1);
        let length_bytes = chunk.min(size_bytes.saturating_sub(offset));
        let absent = residency::of_range(descriptor, offset, length_bytes)
            .is_ok_and(|residency| residency.pages > 0 && residency.resident_pages == 0);
        if absent {
            return (offset, true);
        }
    }
    (0, false)
}

/// How often a direct read is tried. The foreground may bring a page in during one. Only if the page
/// appears every time, direct reads go through the page cache.
const ATTEMPTS: usize = 5;

fn probe_direct(
    descriptor: Descriptor,
    size_bytes: u64,
    reported: Option<(u32, u32)>,
) -> (Alignment, DirectEffect) {
    let Some(alignment) = Alignment::of_reported(reported) else {
        let refused = DirectEffect::Refused(Errno(libc::EINVAL));
        return (Alignment::PAGE, refused);
    };
    let flags = libc::O_RDONLY | libc::O_DIRECT | fcntl::access_time_flag(descriptor);
    let direct = match reopen(descriptor, flags) {
        Ok(direct) => Descriptor::from(direct),
        Err(errno) => return (alignment, DirectEffect::Refused(errno)),
    };
    let mut effect = DirectEffect::None;
    for _ in 0..ATTEMPTS {
        let (offset, absent) = absent_page(descriptor, size_bytes);
        effect = match read_once(direct, offset, alignment.bytes() as usize, 0) {
            Err(errno) => DirectEffect::Refused(errno),
            Ok(_) if !absent => DirectEffect::Unproven,
            Ok(_) => match residency::of_range(descriptor, offset, alignment.bytes()) {
                Ok(after) if after.resident_pages == 0 => DirectEffect::Proven,
                Ok(_) => DirectEffect::None,
                Err(_) => DirectEffect::Unproven,
            },
        };
        if effect != DirectEffect::None {
            break;
        }
    }
    let _ = close::close(direct);
    (alignment, effect)
}

/// Whether a read with `RWF_DONTCACHE` succeeds. It reads behind the end of the file: the kernel checks
/// the flag, and touches no page.
fn accepts_dont_cache(descriptor: Descriptor, size_bytes: u64) -> bool {
    read_once(
        descriptor,
        size_bytes.next_multiple_of(PAGE_BYTES),
        PAGE_BYTES as usize,
        RWF_DONTCACHE,
    )
    .is_ok()
}

/// Reads into memory of its own, aligned to [`Alignment::MAX_BYTES`].
fn read_once(
    descriptor: Descriptor,
    offset: u64,
    bytes: usize,
    flags: i32,
) -> Result<usize, Errno> {
    let room = 2 * Alignment::MAX_BYTES as usize;
    let base = memory::map_anonymous(room, 0)?;
    let aligned = base.wrapping_add(base.align_offset(Alignment::MAX_BYTES as usize));
    // SAFETY: `bytes` is at most MAX_BYTES, and `aligned` has room for that.
    let read = unsafe { pread_with_flags(descriptor, aligned, bytes, offset, flags) };
    // SAFETY: mapped here, used by nobody else.
    let _ = unsafe { memory::unmap(base, room) };
    read
}
