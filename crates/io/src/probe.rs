//! What going around the page cache really does on one filesystem: reported alignment, a real
//! transfer, and the effect of it. An `open` with `O_DIRECT` that succeeds proves nothing (tmpfs
//! accepts it and serves from memory, other filesystems silently fall back to buffered I/O).

use crate::alignment::{Alignment, PAGE_BYTES};
use crate::proc_fd::reopen;
use crate::residency;
use crate::sys::{Errno, file, memory};

/// Filesystems whose change time moves with every change of the content, so that windows in
/// user memory can be proven current (numbers of `include/uapi/linux/magic.h`; XFS's and F2FS's
/// from their own headers).
const TRUSTED_FILESYSTEMS: [(i64, &str); 4] = [
    (0xEF53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683E, "btrfs"),
    (0xF2F5_2010, "f2fs"),
];

/// tmpfs lives in the page cache: there is nothing to go around.
const TMPFS: i64 = 0x0102_1994;

/// Whether direct reads leave the page cache alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectEffect {
    /// A direct read of absent pages left them absent.
    Proven,
    /// The transfer worked, but the whole file was resident or the kernel cannot tell
    /// residency: nothing contradicts it.
    Unproven,
    /// The pages that were read directly appeared in the page cache.
    None,
    /// The filesystem refuses direct I/O on this file, or the transfer failed.
    Refused(Errno),
}

/// What a filesystem offers for background reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// `f_type` of `statfs(2)`.
    pub filesystem_type: i64,
    /// Whether the change time can be relied upon; without it no window in user memory is.
    pub trusted: bool,
    /// Alignment that the kernel reported as `(memory, offset)` bytes, if it did.
    pub reported_alignment: Option<(u32, u32)>,
    /// Alignment that Coldstream uses for direct I/O here.
    pub alignment: Alignment,
    /// What a direct read did.
    pub direct: DirectEffect,
    /// Whether `RWF_DONTCACHE` is accepted.
    pub dont_cache: bool,
    /// Whether `cachestat(2)` answers.
    pub cache_statistics: bool,
}

impl Probe {
    /// Whether direct I/O was refused for want of something that may be there the next time: no
    /// reason to judge the filesystem.
    pub fn is_inconclusive(&self) -> bool {
        matches!(
            self.direct,
            DirectEffect::Refused(Errno(
                libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EAGAIN | libc::EINTR
            ))
        )
    }

    /// Whether direct reads may be used: they transfer, and do not demonstrably go through the
    /// page cache.
    pub fn direct_is_usable(&self) -> bool {
        self.trusted && matches!(self.direct, DirectEffect::Proven | DirectEffect::Unproven)
    }
}

/// Whether a filesystem is one whose change time moves with every change of the content.
pub fn is_trusted(filesystem_type: i64) -> bool {
    TRUSTED_FILESYSTEMS
        .iter()
        .any(|(known, _)| *known == filesystem_type)
}

/// Name of a filesystem type, where it is a known one.
pub fn filesystem_name(filesystem_type: i64) -> Option<&'static str> {
    if filesystem_type == TMPFS {
        return Some("tmpfs");
    }
    TRUSTED_FILESYSTEMS
        .iter()
        .find(|(known, _)| *known == filesystem_type)
        .map(|(_, name)| *name)
}

/// Probes with the open regular file `descriptor`, which it only reads: a page or two of it.
/// It should not be empty, else nothing can be transferred and the effect stays unproven.
pub fn probe(descriptor: i32) -> Result<Probe, Errno> {
    let filesystem_type = file::filesystem_type(descriptor)?;
    let size_bytes = file::stamp(descriptor)?.size_bytes;
    let reported_alignment = file::direct_alignment(descriptor).unwrap_or(None);
    let (alignment, direct) = probe_direct(descriptor, size_bytes, reported_alignment);
    Ok(Probe {
        filesystem_type,
        trusted: is_trusted(filesystem_type),
        reported_alignment,
        alignment,
        direct,
        dont_cache: accepts_dont_cache(descriptor, size_bytes),
        cache_statistics: file::cache_statistics(descriptor, 0, PAGE_BYTES).is_ok(),
    })
}

/// An offset at which a page is missing from the page cache, and whether it really is: looked
/// for at a few places, so that the probe costs microseconds on a file of any size.
fn absent_page(descriptor: i32, size_bytes: u64) -> (u64, bool) {
    const PLACES: u64 = 16;
    let chunk = u64::from(Alignment::MAX_BYTES);
    for place in 0..PLACES {
        let offset = (size_bytes / PLACES * place) & !(chunk - 1);
        let length_bytes = chunk.min(size_bytes.saturating_sub(offset));
        let absent = residency::of_range(descriptor, offset, length_bytes)
            .is_ok_and(|residency| residency.pages > 0 && residency.resident_pages == 0);
        if absent {
            return (offset, true);
        }
    }
    (0, false)
}

/// A page that appears during a direct read may be the foreground's doing: only when it happens
/// every time has the direct read no effect.
const ATTEMPTS: usize = 5;

fn probe_direct(
    descriptor: i32,
    size_bytes: u64,
    reported: Option<(u32, u32)>,
) -> (Alignment, DirectEffect) {
    let Some(alignment) = Alignment::of_reported(reported) else {
        let refused = DirectEffect::Refused(Errno(libc::EINVAL));
        return (Alignment::PAGE, refused);
    };
    let flags = libc::O_RDONLY | libc::O_DIRECT | file::access_time_flag(descriptor);
    let direct = match reopen(descriptor, flags) {
        Ok(direct) => direct,
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
    let _ = file::close(direct);
    (alignment, effect)
}

/// Asked behind the end of the file: the flag is checked, and no page is touched.
fn accepts_dont_cache(descriptor: i32, size_bytes: u64) -> bool {
    read_once(
        descriptor,
        size_bytes.next_multiple_of(PAGE_BYTES),
        PAGE_BYTES as usize,
        file::RWF_DONTCACHE,
    )
    .is_ok()
}

/// Reads into memory of its own, aligned to [`Alignment::MAX_BYTES`].
fn read_once(descriptor: i32, offset: u64, bytes: usize, flags: i32) -> Result<usize, Errno> {
    let room = 2 * Alignment::MAX_BYTES as usize;
    let base = memory::map_anonymous(room, 0)?;
    let aligned = base.wrapping_add(base.align_offset(Alignment::MAX_BYTES as usize));
    // SAFETY: `bytes` is at most MAX_BYTES, for which there is room behind `aligned`.
    let read = unsafe { file::pread_with_flags(descriptor, aligned, bytes, offset, flags) };
    // SAFETY: mapped here, used by nobody else.
    let _ = unsafe { memory::unmap(base, room) };
    read
}
