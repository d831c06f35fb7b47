//! Which mechanisms are on in this process. It is the process's own copy, which nobody else can write. The
//! control thread alone changes it ([`crate::control_thread`]).

use coldstream_control::{Mechanism, Mechanisms};
use coldstream_policy::Config;
use std::sync::atomic::{AtomicU32, Ordering};

/// What can be switched in a process of this configuration. Not a handover where heat was never kept, nor
/// readahead that was left to the kernel, nor pacing or eviction that was never configured.
pub(crate) fn mechanisms(config: &Config) -> Mechanisms {
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
pub(crate) struct OwnSwitches {
    off: AtomicU32,
}

impl OwnSwitches {
    /// One load; a thread may see a change a moment late.
    #[inline]
    pub(crate) fn is_on(&self, mechanism: Mechanism) -> bool {
        !self.off().contains(mechanism)
    }

    pub(crate) fn off(&self) -> Mechanisms {
        Mechanisms::from_bits(u64::from(self.off.load(Ordering::Relaxed)))
    }

    pub(crate) fn set_off(&self, off: Mechanisms) {
        self.off.store(off.bits(), Ordering::SeqCst);
    }
}
