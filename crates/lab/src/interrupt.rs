//! Ctrl-C and SIGTERM: noted, so that the laboratory can clean up behind itself.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static INSTALLED: OnceLock<()> = OnceLock::new();

/// From now on interrupts are noted instead of ending the process.
pub fn watch() {
    INSTALLED.get_or_init(|| {
        // Without a handler an interrupt ends the process at once: worse, but no reason to stop.
        let _ = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed));
    });
}

/// Whether somebody interrupted.
pub fn is_requested() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}
