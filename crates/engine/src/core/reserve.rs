//! Memory for code of others, which ends the process if it gets none.
//!
//! The memory is mapped before such code runs. If that fails, the code does not run. While it runs, the
//! reserve serves the calling thread where the heap refuses. Usually the heap does not, and no page of the
//! reserve is ever touched.
//!
//! What still lives when the code has ended keeps its memory for good. That is the configuration, in a process
//! that starts without a heap.
//!
//! A panic allocates too, before anybody can catch it. Some room of the library itself serves it where the heap
//! refuses.

use coldstream_io::sys::{memory, unlocked};
use std::alloc::Layout;
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Reserves at the same time, those of all threads.
const RESERVES_MAX: usize = 64;

/// All are outside the wiped region: a forked child keeps the memory.
static RESERVES: [Reserve; RESERVES_MAX] = [const { Reserve::none() }; RESERVES_MAX];
/// How many there are.
static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The reserve that serves this thread. Without a destructor and with a constant initialiser.
    static OWN: Cell<Option<&'static Reserve>> = const { Cell::new(None) };
}

struct Reserve {
    /// 0 without a reserve, [`CLAIMED`] until there is one.
    start: AtomicUsize,
    end: AtomicUsize,
    /// What is behind it was never taken.
    next: AtomicUsize,
    /// Pieces in use.
    live: AtomicUsize,
}

/// No mapping begins in the first page.
const CLAIMED: usize = 1;

impl Reserve {
    const fn none() -> Self {
        Self {
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
            live: AtomicUsize::new(0),
        }
    }

    fn map(bytes: usize) -> Option<&'static Self> {
        let claim = |it: &&Self| {
            let claimed = CLAIMED;
            (it.start)
                .compare_exchange(0, claimed, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        };
        let reserve = RESERVES.iter().find(claim)?;
        match unlocked::map_briefly(bytes) {
            Ok(start) => {
                let start = start as usize;
                reserve.live.store(0, Ordering::Relaxed);
                reserve.next.store(start, Ordering::Relaxed);
                reserve.end.store(start + bytes, Ordering::Relaxed);
                reserve.start.store(start, Ordering::Release);
                COUNT.fetch_add(1, Ordering::Release);
                Some(reserve)
            }
            Err(_) => {
                reserve.start.store(0, Ordering::Release);
                None
            }
        }
    }

    /// Gives the memory back to the system, unless some of it is in use.
    fn unmap(&self) {
        if self.live.load(Ordering::Acquire) > 0 {
            return;
        }
        let start = self.start.load(Ordering::Relaxed);
        let bytes = self.end.swap(0, Ordering::Relaxed) - start;
        // SAFETY: the mapping of this reserve, in which nothing lives.
        let _ = unsafe { memory::unmap(start as *mut u8, bytes) };
        COUNT.fetch_sub(1, Ordering::Release);
        self.start.store(0, Ordering::Release);
    }

    /// The caller is the thread that this reserve serves.
    fn take(&self, layout: Layout) -> Option<usize> {
        let next = self.next.load(Ordering::Relaxed);
        let start = next.checked_next_multiple_of(layout.align())?;
        let end = start.checked_add(layout.size())?;
        if end > self.end.load(Ordering::Relaxed) {
            return None;
        }
        self.next.store(end, Ordering::Relaxed);
        self.live.fetch_add(1, Ordering::Relaxed);
        Some(start)
    }

    fn holds(&self, address: usize) -> bool {
        let start = self.start.load(Ordering::Acquire);
        start > CLAIMED && (start..self.end.load(Ordering::Relaxed)).contains(&address)
    }
}

/// The bytes for panics without a heap. A panic takes some 100. The fuse is blown after the first one.
const PANIC_BYTES: usize = 4096;

static FOR_PANICS: RoomForPanics = RoomForPanics {
    bytes: UnsafeCell::new([0; PANIC_BYTES]),
    used: AtomicUsize::new(0),
};

/// Room that is given out once, and never used again.
#[repr(align(16))]
struct RoomForPanics {
    bytes: UnsafeCell<[u8; PANIC_BYTES]>,
    used: AtomicUsize,
}

// SAFETY: no two callers of `take` get the same bytes, and nothing else reads or writes them.
unsafe impl Sync for RoomForPanics {}

impl RoomForPanics {
    fn start(&self) -> usize {
        self.bytes.get() as usize
    }

    fn take(&self, layout: Layout) -> Option<usize> {
        let fits = |used: usize| {
            let at = (self.start() + used).checked_next_multiple_of(layout.align())?;
            let end = at.checked_add(layout.size())? - self.start();
            (end <= PANIC_BYTES).then_some((at, end))
        };
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            let (at, end) = fits(used)?;
            let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            match (self.used).compare_exchange_weak(used, end, success, failure) {
                Ok(_) => return Some(at),
                Err(present) => used = present,
            }
        }
    }

    fn holds(&self, address: usize) -> bool {
        (self.start()..self.start() + PANIC_BYTES).contains(&address)
    }
}

/// Runs `work` with a reserve of `bytes`. Returns false if there is no such memory: then it did not run.
pub fn with_reserve(bytes: usize, work: &mut dyn FnMut()) -> bool {
    let Some(reserve) = Reserve::map(bytes) else {
        return false;
    };
    let _ending = Ending {
        reserve,
        before: OWN.replace(Some(reserve)),
    };
    work();
    true
}

/// Ends the use of a reserve, also after a panic.
struct Ending {
    reserve: &'static Reserve,
    before: Option<&'static Reserve>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        OWN.set(self.before);
        self.reserve.unmap();
    }
}

/// Memory of the calling thread's reserve, or for its panic; null without one, or if it has not enough.
pub(super) fn take(layout: Layout) -> *mut u8 {
    let taken = match OWN.get() {
        Some(reserve) => reserve.take(layout),
        None if std::thread::panicking() => FOR_PANICS.take(layout),
        None => None,
    };
    taken.map_or(std::ptr::null_mut(), |address| address as *mut u8)
}

/// Whether memory is of a reserve.
#[inline]
pub(super) fn in_reserve(memory: *mut u8) -> bool {
    let address = memory as usize;
    FOR_PANICS.holds(address)
        || COUNT.load(Ordering::Acquire) > 0 && RESERVES.iter().any(|it| it.holds(address))
}

/// Gives memory back that is [`in_reserve`].
pub(super) fn give_back(memory: *mut u8, layout: Layout) {
    let start = memory as usize;
    if let Some(reserve) = RESERVES.iter().find(|it| it.holds(start)) {
        let is_own = OWN.get().is_some_and(|own| std::ptr::eq(own, reserve));
        if is_own && reserve.next.load(Ordering::Relaxed) == start + layout.size() {
            reserve.next.store(start, Ordering::Relaxed);
        }
        reserve.live.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    thread_local! {
        static HEAP_IS_EXHAUSTED: Cell<bool> = const { Cell::new(false) };
    }

    /// Whether the heap refuses the calling thread everything.
    pub fn heap_is_exhausted() -> bool {
        HEAP_IS_EXHAUSTED.get()
    }

    /// Runs `work` without a heap, but with a reserve.
    pub fn without_heap(bytes: usize, mut work: impl FnMut()) -> bool {
        with_reserve(bytes, &mut || {
            HEAP_IS_EXHAUSTED.set(true);
            work();
            HEAP_IS_EXHAUSTED.set(false);
        })
    }

    #[test]
    fn the_reserve_serves_where_the_heap_refuses() {
        let mut seen = (0, 0);
        assert!(without_heap(1 << 20, || {
            let mut text = String::new();
            for number in 0..1000 {
                text.push_str("0123456789");
                assert!(in_reserve(text.as_mut_ptr()), "{number}");
            }
            let zeros = vec![0_u8; 100_000];
            seen = (text.len(), zeros.iter().filter(|byte| **byte == 0).count());
        }));
        assert_eq!(seen, (10_000, 100_000));
    }

    #[test]
    fn its_end_is_an_error_of_fallible_code() {
        let mut result = Ok(());
        assert!(without_heap(1 << 16, || {
            result = Vec::<u8>::new().try_reserve(1 << 17);
        }));
        assert!(result.is_err());
        assert!(Vec::<u8>::new().try_reserve(1 << 17).is_ok());
    }

    #[test]
    fn what_outlives_the_work_stays() {
        let mut kept = None;
        assert!(without_heap(1 << 16, || kept = Some(Box::new([7_u8; 1000]))));
        let kept = kept.unwrap();
        assert!(in_reserve(std::ptr::from_ref(&*kept).cast_mut().cast()));
        assert_eq!(kept.iter().map(|byte| u32::from(*byte)).sum::<u32>(), 7000);
    }

    #[test]
    fn a_panic_is_caught_without_a_heap() {
        let caught = std::panic::catch_unwind(|| {
            HEAP_IS_EXHAUSTED.set(true);
            // Without the hook, which prints and allocates in tests.
            std::panic::resume_unwind(Box::new(()));
        });
        HEAP_IS_EXHAUSTED.set(false);
        assert!(caught.is_err());
        assert!(FOR_PANICS.used.load(Ordering::Relaxed) > 0);
    }

    #[test]
    fn without_memory_the_work_does_not_run() {
        assert!(!with_reserve(usize::MAX / 2, &mut || panic!("it ran")));
    }

    /// A block of Zstandard: literals of one byte, then copies of 3 bytes.
    fn block(literals: u32, copies: u32) -> Vec<u8> {
        let of_one_byte = 1 | 3 << 2;
        let mut body = (of_one_byte | literals << 4).to_le_bytes()[..3].to_vec();
        body.push(b'a');
        match copies {
            0 => body.push(0),
            1..0x7f00 => body.extend([128 + (copies >> 8) as u8, copies as u8]),
            _ => body.extend([255, (copies - 0x7f00) as u8, ((copies - 0x7f00) >> 8) as u8]),
        }
        if copies > 0 {
            let one_symbol_each = 0b0101_0100;
            body.extend([one_symbol_each, 0, 0, 0, 1]);
        }
        let compressed = 2 << 1;
        let mut block = (compressed | (body.len() as u32) << 3).to_le_bytes()[..3].to_vec();
        block.extend(body);
        block
    }

    /// Otherwise a malformed SSTable ends a process without a heap.
    #[test]
    fn the_reserve_is_enough_for_blocks_that_make_a_decoder_grow() {
        use coldstream_sstable::cassandra::Compression;
        coldstream_sstable::memory::set_working_memory(with_reserve);
        let window_of_1_mib = 0x50;
        let frame = [
            &[0x28, 0xb5, 0x2f, 0xfd, 0, window_of_1_mib][..],
            &block(1 << 19, 0),
            &block(1, 0x7eff),
            &block((1 << 20) - 1, 0x7f00 + 0xffff),
        ]
        .concat();
        let compression = Compression::new(b"ZstdCompressor", 1 << 16, u64::MAX);
        let mut chunk = None;
        assert!(without_heap(4 << 20, || {
            chunk = Some(compression.decompress(&frame));
        }));
        assert!(matches!(chunk, Some(Ok(None))));
    }
}
