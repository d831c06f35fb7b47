//! What the load and the phase sequence of a run share.

use crate::phase::Phase;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// The state of a run. The phase sequence writes the phase, the load reads it and counts its updates.
/// Any thread may use it.
#[derive(Debug)]
pub struct RunState {
    phase: AtomicU8,
    first_pass_over: AtomicBool,
    over: AtomicBool,
    updates: AtomicU64,
    updated_bytes: AtomicU64,
}

impl RunState {
    /// Before the first phase.
    pub fn new() -> Self {
        Self {
            phase: AtomicU8::new(Phase::WarmUp as u8),
            first_pass_over: AtomicBool::new(false),
            over: AtomicBool::new(false),
            updates: AtomicU64::new(0),
            updated_bytes: AtomicU64::new(0),
        }
    }

    /// Begins a phase. Requests that start from now on belong to it.
    pub fn begin(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// The phase that began last.
    pub fn phase(&self) -> Phase {
        Phase::from_number(u32::from(self.phase.load(Ordering::Relaxed)))
    }

    /// Records that the load has read the hot keys once, and has all answers.
    pub fn end_first_pass(&self) {
        self.first_pass_over.store(true, Ordering::Relaxed);
    }

    /// Whether the load has read the hot keys once.
    pub fn is_first_pass_over(&self) -> bool {
        self.first_pass_over.load(Ordering::Relaxed)
    }

    /// Counts an update that the node has acknowledged and that started in this phase.
    pub fn count_update(&self, phase: Phase, bytes: u64) {
        if phase == Phase::Compaction {
            self.updates.fetch_add(1, Ordering::Relaxed);
            self.updated_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// The updates of the compaction phase, and their bytes.
    pub fn updates(&self) -> (u64, u64) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (load(&self.updates), load(&self.updated_bytes))
    }

    /// Ends the run. The load sends no further request.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Whether the run was ended.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}
