//! Which mechanisms are on in this process. This is the process's own copy: no other process can write it.
//! Only the control thread changes it (`control_thread`).

use coldstream_control::{Mechanism, Mechanisms};
use coldstream_policy::Config;
use std::sync::atomic::{AtomicU32, Ordering};

/// The mechanisms that can be switched in a process with this configuration. Handover, readahead, pacing and
/// eviction cannot be, if the configuration leaves them off: they have no state then, such as heat.
pub fn mechanisms(config: &Config) -> Mechanisms {
    use Mechanism::{Eviction, Handover, Pacing, Readahead};
    let mut mechanisms = Mechanisms::of(&Mechanism::ALL);
    if !config.handover {
        mechanisms = mechanisms.without(Mechanisms::of(&[Handover]));
    }
    if config.readahead == coldstream_policy::Readahead::Kernel {
        mechanisms = mechanisms.without(Mechanisms::of(&[Readahead]));
    }
    if !config.pacing {
        mechanisms = mechanisms.without(Mechanisms::of(&[Pacing]));
    }
    if !config.eviction {
        mechanisms = mechanisms.without(Mechanisms::of(&[Eviction]));
    }
    mechanisms
}

/// All-zero memory: everything is on.
#[repr(C)]
pub struct OwnSwitches {
    off: AtomicU32,
}

impl OwnSwitches {
    /// One load; a thread may see a change a moment late.
    #[inline]
    pub fn is_on(&self, mechanism: Mechanism) -> bool {
        !self.off().contains(mechanism)
    }

    /// The mechanisms that are off.
    pub fn off(&self) -> Mechanisms {
        Mechanisms::from_bits(u64::from(self.off.load(Ordering::Relaxed)))
    }

    /// Replaces the mechanisms that are off.
    pub fn set_off(&self, off: Mechanisms) {
        self.off.store(off.bits(), Ordering::SeqCst);
    }
}
