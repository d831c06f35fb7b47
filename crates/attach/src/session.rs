//! The work after the start: look, act, rest.

use crate::attached::Attached;
use crate::idle::IdlePolicy;
use crate::look::LOOK;
use crate::lost_events::LostEvents;
use crate::tracer::Tracer;
use std::thread;
use std::time::{Duration, Instant};

/// Longer a session does not wait for idle processors to take events in: inputs that are deleted keep their space meanwhile.
const LATE: Duration = Duration::from_millis(250);
/// The time is asked at each so many events.
const EVENTS_A_CHECK: u32 = 1024;

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All processes have ended.
    Processes,
    /// It was asked to end.
    Asked,
}

/// What happens meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// This process has ended.
    Ended(u32),
    /// The kernel lost so many events, of any process.
    Lost(u64),
}

/// Follows the processes until they have ended, or `is_over`.
pub fn run(
    tracer: &mut Tracer,
    mut attached: Vec<Attached>,
    is_over: impl Fn() -> bool,
    mut tell: impl FnMut(News),
) -> Ended {
    let policy = IdlePolicy::begin();
    let mut first = 0;
    let mut lost = LostEvents::default();
    let ended = loop {
        attached.iter_mut().for_each(Attached::catch_up);
        lost.add(take_events_when_idle(&policy, tracer, &mut attached));
        attached.retain(|target| {
            let is_alive = !target.has_ended();
            if !is_alive {
                let _ = tracer.leave(target.pid());
                tell(News::Ended(target.pid()));
            }
            is_alive
        });
        if attached.is_empty() {
            break Ended::Processes;
        }
        let acted = policy.as_others_do(|| act(tracer, &mut attached, &mut first));
        lost.add(acted.lost);
        if let Some(lost) = lost.take_due(Instant::now()) {
            tell(News::Lost(lost));
        }
        if is_over() {
            break Ended::Asked;
        }
        // Others may wait to be warmed. There are no more looks than their clock has.
        thread::sleep(LOOK.saturating_sub(acted.warmed_for));
    };
    if let Some(lost) = lost.take_rest() {
        tell(News::Lost(lost));
    }
    ended
}

/// Gives each event to its process. While all processors are busy it soon asks for its share of one. Returns how many
/// were lost.
fn take_events_when_idle(
    policy: &IdlePolicy,
    tracer: &mut Tracer,
    attached: &mut [Attached],
) -> u64 {
    let (began, mut events, mut hurry) = (Instant::now(), 0_u32, None);
    take_events(tracer, attached, || {
        events = events.wrapping_add(1);
        if events.is_multiple_of(EVENTS_A_CHECK) && hurry.is_none() && began.elapsed() > LATE {
            hurry = Some(policy.as_others());
        }
    })
}

fn take_events(tracer: &mut Tracer, attached: &mut [Attached], mut each: impl FnMut()) -> u64 {
    let lost = tracer.drain(|event| {
        each();
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
    lost
}

/// What a look has come to.
struct Acted {
    warmed_for: Duration,
    /// Events.
    lost: u64,
}

/// Drops what is due, and then warms one output. The process at `first` has the first turn.
fn act(tracer: &mut Tracer, attached: &mut [Attached], first: &mut usize) -> Acted {
    let (count, mut lost) = (attached.len(), 0);
    for place in 0..count {
        let files = attached.get_mut(place).map(Attached::begin_look);
        for id in files.unwrap_or_default() {
            // A page that somebody has read since the last file stays.
            lost += take_events(tracer, attached, || ());
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
    let mut warms = |place: &usize| {
        let target = attached.get_mut(*place);
        target.is_some_and(Attached::hand_over_next)
    };
    let warmed = (*first..count).chain(0..*first).find(&mut warms);
    *first = warmed.map_or(*first, |place| place + 1);
    Acted {
        warmed_for: started.elapsed(),
        lost,
    }
}
