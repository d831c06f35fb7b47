//! The work after the start: look, act, rest.

use crate::attached::Attached;
use crate::idle::IdlePolicy;
use crate::look::LOOK;
use crate::tracer::Tracer;
use std::thread;
use std::time::{Duration, Instant};

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All processes have ended.
    Processes,
    /// It was asked to end.
    Asked,
}

/// Follows the processes until they have ended, or `is_over`. `ended` hears of each that has.
pub fn run(
    tracer: &mut Tracer,
    mut attached: Vec<Attached>,
    is_over: impl Fn() -> bool,
    mut ended: impl FnMut(u32),
) -> Ended {
    let policy = IdlePolicy::begin();
    loop {
        attached.iter_mut().for_each(Attached::catch_up);
        take_events(tracer, &mut attached);
        attached.retain(|target| {
            let is_alive = !target.has_ended();
            if !is_alive {
                let _ = tracer.leave(target.pid());
                ended(target.pid());
            }
            is_alive
        });
        if attached.is_empty() {
            return Ended::Processes;
        }
        let warmed_for = policy.as_others_do(|| act(tracer, &mut attached));
        if is_over() {
            return Ended::Asked;
        }
        // Others may wait to be warmed. There are no more looks than their clock has.
        thread::sleep(LOOK.saturating_sub(warmed_for));
    }
}

/// Gives each event to its process.
fn take_events(tracer: &mut Tracer, attached: &mut [Attached]) {
    let lost = tracer.drain(|event| {
        let mut targets = attached.iter_mut();
        if let Some(target) = targets.find(|target| target.pid() == event.process) {
            target.record(event);
        }
    });
    if lost > 0 {
        for target in attached {
            target.forget_pages(lost);
        }
    }
}

/// Drops what is due, and then warms what is. Returns how long it has warmed.
fn act(tracer: &mut Tracer, attached: &mut [Attached]) -> Duration {
    for place in 0..attached.len() {
        let files = attached.get_mut(place).map(Attached::begin_look);
        for id in files.unwrap_or_default() {
            // A page that somebody has read since the last file stays.
            take_events(tracer, attached);
            if let Some(target) = attached.get_mut(place) {
                target.act_on(id);
            }
        }
        if let Some(target) = attached.get_mut(place) {
            target.end_look();
        }
    }
    // Last: it may take two seconds, and nothing may be dropped by what was seen before.
    let started = Instant::now();
    attached.iter_mut().for_each(Attached::hand_over_next);
    started.elapsed()
}
