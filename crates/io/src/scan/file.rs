//! One file of the scanner: its private descriptors, its stamp, and its streams.

use super::outcome::Fallback;
use super::request::Request;
use crate::private::{DescriptorRegistry, OpenError, PrivateDescriptor};
use crate::sys::stat::FileStamp;
use crate::sys::{clock, fadvise, fcntl};

/// The scanner does not trust a file whose change time is younger than this, in nanoseconds. It is two
/// ticks of the slowest kernel clock that stamps a change (HZ=100).
pub const CHANGED_RECENTLY_NS: i128 = 20_000_000;

/// Streams of one file: subcompactions that read it at the same time.
pub(super) const STREAMS_PER_FILE: usize = 8;

/// A file. All-zero memory is a valid one that was never read.
pub(super) struct ScannedFile {
    /// How often the slot was given to another file.
    generation: u32,
    pub(super) direct: PrivateDescriptor,
    pub(super) buffered: PrivateDescriptor,
    pub(super) stamp: FileStamp,
    /// Stream numbers plus one; zero is none.
    pub(super) streams: [u16; STREAMS_PER_FILE],
}

impl ScannedFile {
    /// The key by which streams name their owner. It changes when the slot gets another file.
    pub(super) fn key(&self, slot: u32) -> u64 {
        u64::from(self.generation) << 32 | u64::from(slot + 1)
    }

    /// Whether it has descriptors.
    pub(super) fn is_open(&self) -> bool {
        self.direct.get().is_some() || self.buffered.get().is_some()
    }

    /// Closes its descriptors, and makes the slot ready for another file. Its streams must have been released.
    pub(super) fn close<R: DescriptorRegistry>(&mut self, registry: &R) {
        self.generation = self.generation.wrapping_add(1);
        self.streams = [0; STREAMS_PER_FILE];
        self.direct.close(&self.stamp, registry);
        self.buffered.close(&self.stamp, registry);
        self.stamp = FileStamp::default();
    }

    /// Accepts the stamp of a request. A new stamp is trusted only if the change time is old enough.
    pub(super) fn check_stamp(&mut self, stamp: &FileStamp) -> Result<(), Fallback> {
        if self.stamp != *stamp {
            if changed_recently(stamp) {
                return Err(Fallback::ChangedRecently);
            }
            self.stamp = *stamp;
        }
        Ok(())
    }

    /// Opens the private descriptors that the request needs.
    pub(super) fn ensure_open<R: DescriptorRegistry>(
        &mut self,
        request: &Request,
        registry: &R,
    ) -> Result<(), Fallback> {
        let open = |flags| {
            if !registry.has_room_to_keep() {
                return Err(OpenError::DescriptorLimit);
            }
            PrivateDescriptor::open(
                request.descriptor,
                flags,
                &request.stamp,
                request.slot,
                registry,
            )
        };
        if self.buffered.get().is_none() {
            self.buffered = open(fcntl::access_time_flag(request.descriptor))?;
            // The scanner reads ahead itself. The kernel's readahead would bring in pages without a
            // reader.
            if let Some(descriptor) = self.buffered.get() {
                let _ = fadvise::advise(descriptor, 0, 0, libc::POSIX_FADV_RANDOM);
            }
        }
        if request.mode.is_direct() && self.direct.get().is_none() {
            let flags = libc::O_DIRECT | fcntl::access_time_flag(request.descriptor);
            self.direct = open(flags)?;
        }
        Ok(())
    }
}

/// Whether the change time is so young that the next change may leave it as it is.
fn changed_recently(stamp: &FileStamp) -> bool {
    let age_ns = clock::clock_ns(libc::CLOCK_REALTIME) - stamp.changed_ns;
    // A clock that was set back makes change times in the future. One that is further away than a tick
    // is as good as an old one.
    (-CHANGED_RECENTLY_NS..CHANGED_RECENTLY_NS).contains(&age_ns)
}
