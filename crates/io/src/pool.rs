//! The memory of all windows of a process.
//!
//! Its promises:
//! - the memory never exceeds the cap;
//! - it is one reserved range, given out in blocks of 64 KiB, without the application's allocator;
//! - at most 8 MiB that no window uses keep their pages.
//!
//! A window is contiguous, and its blocks are mostly a power of two. So a first-fit search over a bitmap
//! wastes little.

use crate::lock::FutexLock;
use crate::mapping::{OnFork, map_for_life};
use crate::sys::{Errno, memory};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The smallest window in bytes, and the unit of accounting.
pub const BLOCK_BYTES: usize = 64 * 1024;
/// Bytes of a huge page on x86-64, and on aarch64 with pages of 4 KiB.
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// The largest cap in bytes.
pub const CAP_BYTES_MAX: usize = 1 << 30;
/// The most free blocks that keep their pages: 8 MiB. Giving every window back to the system would be
/// expensive. It stops other processors for a moment, and the next file costs a fault for each page.
const SPARE_BLOCKS_MAX: usize = (8 << 20) / BLOCK_BYTES;
const WORDS: usize = CAP_BYTES_MAX / BLOCK_BYTES / 64;

/// Window memory with a cap. Any thread may use it. Zeroed memory is a valid pool with a cap of 0 bytes.
#[repr(C)]
pub struct WindowPool {
    base: AtomicPtr<u8>,
    blocks: AtomicUsize,
    used_blocks: AtomicUsize,
    peak_blocks: AtomicUsize,
    map: FutexLock<Map>,
}

/// One bit for each block.
#[repr(C)]
struct Map {
    taken: [u64; WORDS],
    /// Taken since the system last got its pages: the block may have pages.
    touched: [u64; WORDS],
}

impl Map {
    fn is_free(&self, block: usize) -> bool {
        self.taken
            .get(block / 64)
            .is_some_and(|word| word >> (block % 64) & 1 == 0)
    }

    /// Free blocks that may have pages.
    fn spare_blocks(&self) -> usize {
        let words = self.touched.iter().zip(&self.taken);
        words
            .map(|(touched, taken)| (touched & !taken).count_ones() as usize)
            .sum()
    }
}

/// A contiguous range of blocks. It belongs to its holder until [`WindowPool::give_back`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct WindowMemory {
    first_block: u32,
    blocks: u32,
}

impl WindowMemory {
    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.blocks as usize * BLOCK_BYTES
    }

    /// Whether it is no memory at all.
    pub fn is_empty(&self) -> bool {
        self.blocks == 0
    }
}

impl WindowPool {
    /// Reserves address space for `cap_bytes`, rounded down to blocks. Called once, before other threads use
    /// the pool.
    ///
    /// # Errors
    /// The kernel's, such as `ENOMEM`.
    pub fn reserve(&self, cap_bytes: usize) -> Result<(), Errno> {
        let blocks = cap_bytes.min(CAP_BYTES_MAX) / BLOCK_BYTES;
        // One huge page more, so that the first block can start at a multiple of a huge page. The memory then
        // has every alignment that `Alignment` allows. And a window is one piece of memory to the device,
        // instead of 256.
        let base = map_for_life(blocks * BLOCK_BYTES + HUGE_PAGE_BYTES, OnFork::Unmap)?;
        let aligned = base.wrapping_add(base.align_offset(HUGE_PAGE_BYTES));
        let length_bytes = blocks * BLOCK_BYTES;
        // SAFETY: changes no byte. If the kernel refuses, nothing is lost.
        let _ = unsafe { memory::advise(aligned, length_bytes, memory::ADVICE_HUGE_PAGES) };
        self.base.store(aligned, Ordering::Relaxed);
        self.blocks.store(blocks, Ordering::Release);
        Ok(())
    }

    /// Takes `bytes`, rounded up to blocks. `None` if no such range is free.
    pub fn take(&self, bytes: usize) -> Option<WindowMemory> {
        let wanted = bytes.div_ceil(BLOCK_BYTES).max(1);
        let blocks = self.blocks.load(Ordering::Acquire);
        let mut map = self.map.lock();
        let mut run = 0;
        let mut block = 0;
        while block < blocks {
            let word = map.taken.get(block / 64).copied().unwrap_or(u64::MAX);
            if word == u64::MAX {
                run = 0;
                block = (block / 64 + 1) * 64;
                continue;
            }
            run = if word >> (block % 64) & 1 == 0 {
                run + 1
            } else {
                0
            };
            block += 1;
            if run == wanted {
                let first = block - wanted;
                set(&mut map.taken, first, wanted);
                set(&mut map.touched, first, wanted);
                let used = self.used_blocks.load(Ordering::Relaxed) + wanted;
                self.used_blocks.store(used, Ordering::Relaxed);
                self.peak_blocks.fetch_max(used, Ordering::Relaxed);
                return Some(WindowMemory {
                    first_block: first as u32,
                    blocks: wanted as u32,
                });
            }
        }
        None
    }

    /// Returns memory to the pool. While any window is in use, the pool keeps a little memory for the next
    /// one.
    pub fn give_back(&self, window: WindowMemory) {
        if window.is_empty() {
            return;
        }
        let mut map = self.map.lock();
        clear(
            &mut map.taken,
            window.first_block as usize,
            window.blocks as usize,
        );
        let used = self.used_blocks.load(Ordering::Relaxed) - window.blocks as usize;
        self.used_blocks.store(used, Ordering::Relaxed);
        if used == 0 || map.spare_blocks() > SPARE_BLOCKS_MAX {
            self.empty(&mut map);
        }
    }

    /// Gives the pages of all free blocks to the system.
    pub fn give_free_to_system(&self) {
        // The lock is held meanwhile: nobody may take a block that is being emptied.
        self.empty(&mut self.map.lock());
    }

    /// Gives the pages of all free blocks to the system. The caller holds the map's lock.
    fn empty(&self, map: &mut Map) {
        let blocks = self.blocks.load(Ordering::Acquire);
        map.touched = map.taken;
        let is_free = |block: usize| block < blocks && map.is_free(block);
        let mut first = 0;
        while first < blocks {
            let mut end = first;
            while is_free(end) {
                end += 1;
            }
            let window = WindowMemory {
                first_block: first as u32,
                blocks: (end - first) as u32,
            };
            if !window.is_empty() {
                // SAFETY: these blocks are free, and nobody can take them while the lock is held.
                let _ = unsafe {
                    memory::advise(
                        self.address(&window),
                        window.bytes(),
                        memory::ADVICE_DONT_NEED,
                    )
                };
            }
            first = end + 1;
        }
    }

    /// The first byte of a window. It is aligned to [`BLOCK_BYTES`].
    pub fn address(&self, window: &WindowMemory) -> *mut u8 {
        self.base
            .load(Ordering::Relaxed)
            .wrapping_add(window.first_block as usize * BLOCK_BYTES)
    }

    /// The cap in bytes.
    pub fn cap_bytes(&self) -> usize {
        self.blocks.load(Ordering::Relaxed) * BLOCK_BYTES
    }

    /// Bytes that are taken now.
    pub fn used_bytes(&self) -> usize {
        self.used_blocks.load(Ordering::Relaxed) * BLOCK_BYTES
    }

    /// The most bytes that were ever taken at once. Never above the cap.
    pub fn peak_bytes(&self) -> usize {
        self.peak_blocks.load(Ordering::Relaxed) * BLOCK_BYTES
    }
}

fn set(bits: &mut [u64; WORDS], first: usize, blocks: usize) {
    for block in first..first + blocks {
        if let Some(word) = bits.get_mut(block / 64) {
            *word |= 1 << (block % 64);
        }
    }
}

fn clear(bits: &mut [u64; WORDS], first: usize, blocks: usize) {
    for block in first..first + blocks {
        if let Some(word) = bits.get_mut(block / 64) {
            *word &= !(1 << (block % 64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pool(cap_bytes: usize) -> &'static WindowPool {
        let memory = map_for_life(size_of::<WindowPool>(), OnFork::Unmap).unwrap();
        // SAFETY: page-aligned, zeroed, and never unmapped; zeroed memory is valid.
        let pool = unsafe { &*memory.cast::<WindowPool>() };
        pool.reserve(cap_bytes).unwrap();
        pool
    }

    #[test]
    fn only_free_blocks_go_to_the_system() {
        let pool = pool(8 * BLOCK_BYTES);
        let [first, kept, last] = [1, 2, 5].map(|blocks| pool.take(blocks * BLOCK_BYTES).unwrap());
        for window in [&first, &kept, &last] {
            // SAFETY: the window is this test's.
            unsafe { pool.address(window).write_bytes(7, window.bytes()) };
        }
        let byte = |window: &WindowMemory, index: usize| {
            // SAFETY: no other thread writes there.
            unsafe { pool.address(window).add(index).read() }
        };
        let copies = [WindowMemory { ..first }, WindowMemory { ..last }];
        pool.give_back(first);
        pool.give_back(last);
        assert!(copies.iter().all(|window| byte(window, 0) == 7));
        pool.give_free_to_system();
        for window in &copies {
            assert_eq!((byte(window, 0), byte(window, window.bytes() - 1)), (0, 0));
        }
        assert_eq!((byte(&kept, 0), byte(&kept, kept.bytes() - 1)), (7, 7));
    }

    #[test]
    fn the_pool_keeps_a_little_while_windows_are_in_use() {
        let pool = pool(16 << 20);
        let first_byte = |window: &WindowMemory| {
            // SAFETY: no other thread writes there.
            unsafe { pool.address(window).read() }
        };
        let take = |bytes| {
            let window = pool.take(bytes).unwrap();
            // SAFETY: the window is this test's.
            unsafe { pool.address(&window).write_bytes(7, window.bytes()) };
            window
        };
        let kept = take(BLOCK_BYTES);
        let [little, more] = [SPARE_BLOCKS_MAX, 1].map(|blocks| take(blocks * BLOCK_BYTES));
        let copies = [
            WindowMemory { ..little },
            WindowMemory { ..more },
            WindowMemory { ..kept },
        ];
        let bytes = || copies.each_ref().map(first_byte);
        pool.give_back(little);
        assert_eq!(bytes(), [7, 7, 7]);
        pool.give_back(more);
        assert_eq!(bytes(), [0, 0, 7], "more than the pool keeps");
        let again = take(SPARE_BLOCKS_MAX * BLOCK_BYTES);
        pool.give_back(again);
        assert_eq!(bytes(), [7, 0, 7]);
        pool.give_back(kept);
        assert_eq!(bytes(), [0, 0, 0], "no window is in use");
    }

    /// Small windows leave holes. Large ones do not fit into them, and take other memory.
    #[test]
    fn free_blocks_in_holes_count_as_kept() {
        let pool = pool(64 << 20);
        let fill = |window: &WindowMemory| {
            // SAFETY: the window is this test's.
            unsafe { pool.address(window).write_bytes(7, window.bytes()) };
        };
        let small: Vec<_> = (0..2 * SPARE_BLOCKS_MAX)
            .map(|_| pool.take(BLOCK_BYTES).unwrap())
            .collect();
        small.iter().for_each(fill);
        let mut kept = Vec::new();
        for (number, window) in small.into_iter().enumerate() {
            if number % 2 == 0 {
                kept.push(window);
            } else {
                pool.give_back(window);
            }
        }
        let large: Vec<_> = (0..8).map(|_| pool.take(1 << 20).unwrap()).collect();
        large.iter().for_each(fill);
        for window in large {
            pool.give_back(window);
        }
        let spare = pool.map.lock().spare_blocks();
        assert!(spare <= SPARE_BLOCKS_MAX, "{spare}");
        assert_eq!(pool.used_bytes(), kept.len() * BLOCK_BYTES);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn never_overlaps_and_never_exceeds_the_cap(
            operations in proptest::collection::vec((any::<bool>(), 0_usize..6), 1..200)
        ) {
            let pool = pool(40 * BLOCK_BYTES);
            let mut held: Vec<WindowMemory> = Vec::new();
            for (take, size) in operations {
                if take {
                    if let Some(window) = pool.take(BLOCK_BYTES << size) {
                        for other in &held {
                            prop_assert!(
                                window.first_block + window.blocks <= other.first_block
                                    || other.first_block + other.blocks <= window.first_block
                            );
                        }
                        prop_assert!(window.first_block + window.blocks <= 40);
                        held.push(window);
                    }
                } else if !held.is_empty() {
                    let window = held.swap_remove(size % held.len());
                    pool.give_back(window);
                }
                let used: usize = held.iter().map(WindowMemory::bytes).sum();
                prop_assert_eq!(pool.used_bytes(), used);
                prop_assert!(pool.peak_bytes() <= pool.cap_bytes());
            }
            for window in held.drain(..) {
                pool.give_back(window);
            }
            prop_assert!(pool.take(40 * BLOCK_BYTES).is_some());
        }
    }
}
