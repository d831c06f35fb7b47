//! The work after the start: look, act, rest.

use crate::attached::Attached;
use crate::look::LOOK;
use crate::tracer::Tracer;
use coldstream_io::sys::thread_priority;
use std::thread;

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
    // An error: another thread may wait for it now and then.
    let _ = thread_priority::run_only_when_idle();
    loop {
        attached.iter_mut().for_each(Attached::catch_up);
        let lost = tracer.drain(|event| {
            let mut targets = attached.iter_mut();
            if let Some(target) = targets.find(|target| target.pid() == event.process) {
                target.record(event);
            }
        });
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
        for target in &mut attached {
            if lost > 0 {
                target.forget_pages();
            }
            target.act();
        }
        if is_over() {
            return Ended::Asked;
        }
        thread::sleep(LOOK);
    }
}
