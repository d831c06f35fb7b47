//! Whether the process may dump core (`PR_SET_DUMPABLE`) belongs to the memory, so to all threads. A thread that
//! changes its user takes the permission away from all of them. A helper that follows changes nothing of it.

use crate::sys::credentials::{is_dumpable, set_dumpable};
use crate::sys::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// What the application said last. The lowest bit: whether the process may dump core. The next: the call is
/// still to come. The others count.
static SAID: AtomicU32 = AtomicU32::new(0);
const YES: u32 = 1;
const TO_COME: u32 = 2;
const ONE_MORE: u32 = 4;

/// One helper at a time changes its user.
static TURN: AtomicU32 = AtomicU32::new(0);
/// A helper that died in its turn holds the others up for a tenth of a second.
const TURN_MILLISECONDS_MAX: u32 = 100;
/// So often a helper looks whether the application has said something else.
const LOOKS_MAX: u32 = 100;

pub(super) fn forget() {
    SAID.store(0, Ordering::Relaxed);
    TURN.store(0, Ordering::Relaxed);
}

/// The application is about to make a call that sets this permission. A change of users sets it to no.
pub fn will_say_dumpable(yes: bool) {
    say(u32::from(yes) | TO_COME);
}

/// The call is done.
pub fn said_dumpable(yes: bool) {
    say(u32::from(yes));
}

fn say(bits: u32) {
    let said = |before: u32| (before & !(YES | TO_COME)).wrapping_add(ONE_MORE) | bits;
    let _ = SAID.fetch_update(Ordering::AcqRel, Ordering::Acquire, |before| {
        Some(said(before))
    });
}

/// Runs `change`, which takes the permission away. Afterwards the process has what it had, or what the
/// application has said since.
pub(super) fn kept_dumpable(change: impl FnOnce()) {
    let is_mine = |_: &u32| {
        TURN.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    };
    for _ in (0..TURN_MILLISECONDS_MAX).take_while(|turn| !is_mine(turn)) {
        process::sleep(1);
    }
    let before = SAID.load(Ordering::Acquire);
    let had = match before & TO_COME {
        0 => is_dumpable(),
        _ => before & YES != 0,
    };
    change();
    let mut is_set = false;
    for _ in 0..LOOKS_MAX {
        let said = SAID.load(Ordering::Acquire);
        let wanted = if said == before { had } else { said & YES != 0 };
        if wanted || is_set {
            set_dumpable(wanted);
            is_set = true;
        }
        if SAID.load(Ordering::Acquire) == said {
            break;
        }
    }
    TURN.store(0, Ordering::Release);
}
