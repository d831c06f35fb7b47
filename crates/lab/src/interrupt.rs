//! Ctrl-C and SIGTERM: recorded, so that the laboratory can clean up before it ends.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static INSTALLED: OnceLock<()> = OnceLock::new();

/// From now on an interrupt is recorded and does not end the process.
pub fn watch() {
    INSTALLED.get_or_init(|| {
        // Without a handler an interrupt ends the process at once. The measurement can still start.
        let _ = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed));
    });
}

/// Whether the user has interrupted the laboratory.
pub fn is_requested() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}
