//! Facts of the whole machine.

use procfs::{Current, Meminfo};

use crate::kernel_file;

/// Memory of the machine in bytes.
#[must_use]
pub fn memory_bytes() -> Option<u64> {
    Some(Meminfo::current().ok()?.mem_total)
}

/// Whether the machine has swap that is on.
#[must_use]
pub fn has_swap() -> bool {
    // The first line is the heading.
    kernel_file::text("/proc/swaps").is_some_and(|swaps| swaps.lines().count() > 1)
}

/// `uname -r`.
#[must_use]
pub fn kernel_release() -> String {
    rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned()
}

/// `lru_gen/enabled` as the kernel writes it; `None` where the kernel has no multi-generational LRU
/// (`Documentation/admin-guide/mm/multigen_lru.rst`).
#[must_use]
pub fn multi_generational_lru_mask() -> Option<String> {
    kernel_file::text("/sys/kernel/mm/lru_gen/enabled")
}

/// Whether the multi-generational LRU is on; `None` where the kernel has none.
#[must_use]
pub fn multi_generational_lru() -> Option<bool> {
    let mask = multi_generational_lru_mask()?;
    let mask = u32::from_str_radix(mask.trim_start_matches("0x"), 16).ok()?;
    Some(mask & 1 != 0)
}

/// Asynchronous I/O requests that all processes together have reserved, and the limit
/// (`Documentation/admin-guide/sysctl/fs.rst`).
#[must_use]
pub fn aio_requests() -> (Option<u64>, Option<u64>) {
    let number = |name| kernel_file::number(format!("/proc/sys/fs/{name}"));
    (number("aio-nr"), number("aio-max-nr"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_memory_and_a_kernel() {
        assert!(memory_bytes().unwrap() > 1 << 20);
        assert!(!kernel_release().is_empty());
        let total_kib = Meminfo::current().unwrap().swap_total >> 10;
        assert_eq!(has_swap(), total_kib > 0);
    }
}
