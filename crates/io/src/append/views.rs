//! What any thread may know of staged files without their locks.
//!
//! Whoever writes a staged file holds its lock, also while a write is in flight. Readers must not wait for that.
//! So the lock's holder publishes here how far the kernel has the file, and how long the file is.
//!
//! Its promises:
//! - `landed` is never ahead of the kernel, but while the file is truncated;
//! - `size` is what `write` has accepted, before `write` returns;
//! - what is read between [`Views::moment`] and a successful [`Views::is_still`] is of one and the same file;
//! - a file of which nothing is staged is the kernel's: every call but those of its writer sees all of it there.

use super::Operation;
use crate::alignment::PAGE_BYTES;
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// The size of a staged file that the application must see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Bytes that `write` has accepted.
    pub bytes: u64,
    /// When the last of them were accepted, in nanoseconds since the epoch.
    pub written_ns: u64,
}

/// One staged file.
#[repr(C)]
struct View {
    device: AtomicU64,
    /// The kernel has all bytes before.
    landed: AtomicU64,
    size: AtomicU64,
    written_ns: AtomicU64,
    /// The application's descriptor.
    descriptor: AtomicU32,
    /// The file is being truncated by another descriptor: `landed` may be wrong from then on.
    is_truncated: AtomicU32,
}

/// The staged files, each at its number. All-zero memory has none.
#[repr(C)]
pub struct Views<const FILES: usize> {
    /// How many files have come and gone.
    changes: AtomicU32,
    /// The inode of each file; 0 for a free place. Apart from the rest: a search reads only these.
    inodes: [AtomicU64; FILES],
    views: [View; FILES],
}

impl<const FILES: usize> Views<FILES> {
    /// An empty file takes the place `number`. The caller holds its lock.
    pub fn enter(&self, number: usize, (device, inode): (u64, u64), descriptor: i32) {
        let (Some(view), Some(its_inode)) = (self.views.get(number), self.inodes.get(number))
        else {
            return;
        };
        // First: whoever sees one of the values below sees this, too.
        self.changes.fetch_add(1, Ordering::AcqRel);
        view.landed.store(0, Ordering::Release);
        view.size.store(0, Ordering::Release);
        view.is_truncated.store(0, Ordering::Release);
        view.descriptor.store(descriptor as u32, Ordering::Release);
        view.device.store(device, Ordering::Release);
        its_inode.store(inode, Ordering::Release);
    }

    /// The file leaves its place. The kernel has all of its bytes. The caller holds its lock.
    pub fn leave(&self, number: usize) {
        if let (Some(view), Some(its_inode)) = (self.views.get(number), self.inodes.get(number)) {
            self.changes.fetch_add(1, Ordering::AcqRel);
            its_inode.store(0, Ordering::Release);
            view.landed.store(0, Ordering::Release);
            view.size.store(0, Ordering::Release);
        }
    }

    /// The kernel has the file's bytes before `landed`, and `write` has accepted `size` bytes. The caller holds
    /// the file's lock.
    pub fn publish(&self, number: usize, landed: u64, size: u64) {
        if let Some(view) = self.views.get(number) {
            // In this order: a reader that sees the kernel's part sees at least this size.
            view.size.store(size, Ordering::Release);
            view.landed.store(landed, Ordering::Release);
        }
    }

    /// `write` accepted bytes at this time.
    pub fn record_write(&self, number: usize, written_ns: u64) {
        if let Some(view) = self.views.get(number) {
            view.written_ns.store(written_ns, Ordering::Release);
        }
    }

    /// The file was truncated by another descriptor, and its lock is not held yet. From now on
    /// [`Views::sees_only_landed`] asks for the lock, and the kernel's size counts.
    pub fn distrust(&self, number: usize) {
        if let Some(view) = self.views.get(number) {
            view.is_truncated.store(1, Ordering::Release);
        }
    }

    /// Whether an operation of `descriptor` on the file at `number` sees only what the kernel has.
    pub fn sees_only_landed(&self, number: usize, descriptor: i32, operation: Operation) -> bool {
        let Some(view) = self.views.get(number) else {
            return false;
        };
        let landed = view.landed.load(Ordering::Acquire);
        // Read after `landed`: so the kernel has everything that was accepted before.
        let has_all = view.size.load(Ordering::Acquire) == landed;
        if view.is_truncated.load(Ordering::Acquire) != 0 {
            return false;
        }
        match operation {
            Operation::ReadAt { end, .. } => has_all || end <= landed,
            // A mapping shows whole pages, and later bytes in them.
            Operation::Map { end } => end <= landed & !(PAGE_BYTES - 1),
            // Another descriptor's position is the kernel's.
            Operation::AskPosition | Operation::MovePosition => {
                !self.is_written_by(number, descriptor)
            }
            Operation::Observe
            | Operation::Read
            | Operation::MoveToEnd
            | Operation::MoveByContent => has_all && !self.is_written_by(number, descriptor),
            _ => false,
        }
    }

    /// Whether the file at `number` is written by this descriptor.
    pub fn is_written_by(&self, number: usize, descriptor: i32) -> bool {
        let view = self.views.get(number);
        view.is_some_and(|view| view.descriptor.load(Ordering::Acquire) == descriptor as u32)
    }

    /// The number of the file with this identity.
    pub fn find(&self, device: u64, inode: u64) -> Option<usize> {
        let is_it = |(its_inode, view): (&AtomicU64, &View)| {
            its_inode.load(Ordering::Acquire) == inode
                && view.device.load(Ordering::Acquire) == device
        };
        (inode != 0)
            .then(|| self.inodes.iter().zip(&self.views).position(is_it))
            .flatten()
    }

    /// How far the kernel has the file at `number`.
    pub fn landed(&self, number: usize) -> u64 {
        self.views
            .get(number)
            .map_or(0, |view| view.landed.load(Ordering::Acquire))
    }

    /// The size of the file at `number`. `None` if the kernel's own is right: it had `landed` bytes already
    /// before it was asked.
    pub fn size_beyond(&self, number: usize, landed: u64) -> Option<Size> {
        let view = self.views.get(number)?;
        let bytes = view.size.load(Ordering::Acquire);
        let is_truncated = view.is_truncated.load(Ordering::Acquire) != 0;
        (bytes > landed && !is_truncated).then(|| Size {
            bytes,
            written_ns: view.written_ns.load(Ordering::Acquire),
        })
    }

    /// The present moment, for [`Views::is_still`].
    pub fn moment(&self) -> u32 {
        self.changes.load(Ordering::Acquire)
    }

    /// Whether no file has come or gone since.
    pub fn is_still(&self, moment: u32) -> bool {
        fence(Ordering::Acquire);
        self.changes.load(Ordering::Relaxed) == moment
    }
}

#[cfg(test)]
impl<const FILES: usize> Views<FILES> {
    fn for_test() -> Self {
        let view = || View {
            device: AtomicU64::new(0),
            landed: AtomicU64::new(0),
            size: AtomicU64::new(0),
            written_ns: AtomicU64::new(0),
            descriptor: AtomicU32::new(0),
            is_truncated: AtomicU32::new(0),
        };
        Self {
            changes: AtomicU32::new(0),
            inodes: std::array::from_fn(|_| AtomicU64::new(0)),
            views: std::array::from_fn(|_| view()),
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64 as KernelSize;

    /// The views, the kernel's size of file 1, and the size that its writer was told.
    type Shared = (Views<1>, KernelSize, KernelSize);

    fn shared() -> Shared {
        (Views::for_test(), KernelSize::new(0), KernelSize::new(0))
    }

    /// File 1 is written, and the kernel gets it.
    fn write_and_drain((views, kernel, told): &Shared) {
        views.enter(0, (7, 1), 3);
        views.publish(0, 0, 10);
        told.store(10, Ordering::Release);
        kernel.store(10, Ordering::Release);
        views.publish(0, 10, 10);
    }

    /// A file is written, drained and released, and another one takes its place. A reader sees no size that is
    /// smaller than what was written before it asked, and never the other file's.
    #[test]
    fn loom_a_size_is_the_files_own_and_never_stale() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let shared = Arc::new(shared());
            let writer = {
                let shared = Arc::clone(&shared);
                loom::thread::spawn(move || {
                    write_and_drain(&shared);
                    let (views, ..) = &*shared;
                    views.leave(0);
                    // Another file takes the place.
                    views.enter(0, (7, 2), 4);
                    views.publish(0, 0, 1000);
                })
            };
            let (views, kernel, told) = &*shared;
            let told_before = told.load(Ordering::Acquire);
            for _ in 0..2 {
                let moment = views.moment();
                let landed = views.find(7, 1).map(|number| views.landed(number));
                let of_kernel = kernel.load(Ordering::Acquire);
                let size = views
                    .find(7, 1)
                    .and_then(|number| views.size_beyond(number, landed.unwrap_or(0)));
                if views.is_still(moment) {
                    let seen = size.map_or(of_kernel, |size| size.bytes.max(of_kernel));
                    assert!((told_before..=10).contains(&seen), "{seen}");
                    break;
                }
            }
            writer.join().unwrap();
        });
    }

    /// A read that is said to see only what the kernel has sees all that was written before it.
    #[test]
    fn loom_what_has_landed_is_in_the_kernel() {
        loom::model(|| {
            let shared = Arc::new(shared());
            let writer = {
                let shared = Arc::clone(&shared);
                loom::thread::spawn(move || {
                    write_and_drain(&shared);
                })
            };
            let (views, kernel, told) = &*shared;
            let told_before = told.load(Ordering::Acquire);
            if views.sees_only_landed(0, 5, Operation::ReadAt { start: 0, end: 10 }) {
                assert!(kernel.load(Ordering::Acquire) >= told_before);
            }
            writer.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_kernel_has_is_seen_without_a_lock() {
        let views = Views::<2>::for_test();
        views.enter(1, (7, 9), 3);
        views.publish(1, 10_000, 12_000);
        let sees = |descriptor, operation| views.sees_only_landed(1, descriptor, operation);
        let read = |end| sees(5, Operation::ReadAt { start: 0, end });
        assert!(read(10_000) && !read(10_001));
        assert!(sees(5, Operation::Map { end: 8192 }));
        assert!(
            !sees(5, Operation::Map { end: 8193 }),
            "its page gets later bytes"
        );
        assert!(sees(5, Operation::MovePosition) && sees(5, Operation::AskPosition));
        assert!(!sees(3, Operation::MovePosition) && !sees(3, Operation::AskPosition));
        let moving = [
            Operation::Observe,
            Operation::Read,
            Operation::MoveToEnd,
            Operation::MoveByContent,
        ];
        let always = [Operation::Sync, Operation::Truncate, Operation::Unknown];
        for operation in moving.iter().chain(&always) {
            assert!(!sees(5, *operation), "{operation:?}");
        }
        views.publish(1, 12_000, 12_000);
        assert!(read(20_000), "nothing is staged");
        assert!(!sees(5, Operation::Map { end: 12_288 }));
        for operation in moving {
            assert!(sees(5, operation), "{operation:?}");
            assert!(!sees(3, operation), "{operation:?} of the writer");
        }
        for operation in always {
            assert!(!sees(5, operation), "{operation:?}");
        }
        views.distrust(1);
        assert!(!read(1));
        views.enter(1, (7, 9), 3);
        views.publish(1, 1, 1);
        assert!(read(1));
    }

    #[test]
    fn a_size_is_told_while_bytes_are_staged() {
        let views = Views::<2>::for_test();
        views.enter(1, (7, 9), 3);
        views.record_write(1, 5);
        views.publish(1, 10, 12);
        let moment = views.moment();
        assert_eq!((views.find(7, 9), views.find(8, 9)), (Some(1), None));
        let size = Size {
            bytes: 12,
            written_ns: 5,
        };
        assert_eq!(views.size_beyond(1, views.landed(1)), Some(size));
        views.publish(1, 12, 12);
        assert_eq!(
            views.size_beyond(1, 10),
            Some(size),
            "asked before it landed"
        );
        assert_eq!(views.size_beyond(1, views.landed(1)), None);
        assert!(views.is_still(moment));
        views.leave(1);
        assert!(!views.is_still(moment));
        assert_eq!(views.find(7, 9), None);
        assert_eq!(views.find(0, 0), None);
    }
}
