//! Which process the state belongs to.
//!
//! A forked child finds all state empty (`MADV_WIPEONFORK`) and starts its own. A `vfork` child shares
//! its parent's memory: it must not write there, and its descriptors are not its parent's.

use coldstream_io::sys::process;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// Whether a call was ever made whose child may share this memory. It is outside the wiped region, because
/// such a child may fork.
static MEMORY_WAS_SHARED: AtomicBool = AtomicBool::new(false);

/// The process that owns the state. All-zero memory has no owner.
#[repr(C)]
pub struct Owner {
    /// The process that made the region; 0 in a forked child, which found it empty.
    maker: AtomicI32,
    /// The process whose SSTables are tracked; 0 before the first.
    process_id: AtomicI32,
}

impl Owner {
    /// The calling process has made the region.
    pub fn set_maker(&self) {
        self.maker.store(process::process_id(), Ordering::Relaxed);
    }

    /// The calling process tracks its first file.
    pub fn set_process(&self) {
        self.process_id
            .store(process::process_id(), Ordering::Relaxed);
    }

    /// To be called before a call whose child may share this memory (`vfork`, `clone`). The child shares it
    /// until it calls `exec` or ends. `owner` is `None` before the constructor.
    pub fn before_sharing(owner: Option<&Self>) {
        MEMORY_WAS_SHARED.store(true, Ordering::Relaxed);
        if let Some(owner) = owner {
            // The region of a forked child has no owner before its first file. The parent takes it here, so
            // that the sharing child does not.
            let (nobody, own) = (0, process::process_id());
            let _ = owner
                .maker
                .compare_exchange(nobody, own, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Whether the calling process may write here: a `vfork` child may not.
    pub fn is_this_process(&self) -> bool {
        self.process_id.load(Ordering::Relaxed) == process::process_id()
    }

    /// As [`Owner::is_this_process`], but also before the first tracked file.
    pub fn is_this_process_or_nobody(&self) -> bool {
        let owner = match self.process_id.load(Ordering::Relaxed) {
            0 => self.maker.load(Ordering::Relaxed),
            owner => owner,
        };
        owner == 0 || owner == process::process_id()
    }

    /// Whether the caller is a child that shares its parent's memory. Its descriptors have the same numbers
    /// as the parent's, but are not the parent's. Costs one load if no such child was ever made.
    #[inline]
    pub fn is_seen_by_a_child(&self) -> bool {
        MEMORY_WAS_SHARED.load(Ordering::Relaxed) && !self.is_this_process()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_belong_to_nobody_until_a_process_claims_them() {
        let owner = Owner {
            maker: AtomicI32::new(0),
            process_id: AtomicI32::new(0),
        };
        assert!(!owner.is_this_process() && owner.is_this_process_or_nobody());
        owner.maker.store(-7, Ordering::Relaxed);
        assert!(!owner.is_this_process_or_nobody(), "the parent's");
        owner.set_process();
        assert!(owner.is_this_process() && owner.is_this_process_or_nobody());
    }
}
