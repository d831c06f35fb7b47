//! The three states of the switches that a trial knows: before, with, without.

use coldstream_control::{Mechanisms, Switches};

use super::plan::Side;
use crate::ctl::request::{Desired, ask};
use crate::exit::{Exit, failure};

/// The switches before a trial, and what it switches.
#[derive(Clone, Copy, Debug)]
pub struct States {
    /// What was off before.
    pub before: Mechanisms,
    /// What is switched.
    pub chosen: Mechanisms,
}

impl States {
    fn off(self, side: Side) -> Mechanisms {
        match side {
            Side::With => self.before.without(self.chosen),
            Side::Without => self.before.with(self.chosen),
        }
    }

    /// Whether these switches are some that the trial made, or found.
    pub fn are_ours(self, off: Mechanisms) -> bool {
        off == self.before || off == self.off(Side::With) || off == self.off(Side::Without)
    }

    /// Switches to a side.
    ///
    /// # Errors
    /// Somebody else changed the switches meanwhile, or as [`ask`].
    pub fn switch(self, pid: u32, side: Side) -> anyhow::Result<()> {
        self.ask_for(pid, self.off(side))
    }

    /// Makes the switches as they were before. If somebody else changed them meanwhile, they stay.
    ///
    /// # Errors
    /// As [`ask`].
    pub fn restore(self, pid: u32) -> anyhow::Result<()> {
        let answered = ask(pid, |now| {
            let off = if self.are_ours(now.off) {
                self.before
            } else {
                now.off
            };
            Ok(desired(now, off))
        });
        answered.map(|_| ())
    }

    fn ask_for(self, pid: u32, off: Mechanisms) -> anyhow::Result<()> {
        let answered = ask(pid, |now| {
            if !self.are_ours(now.off) {
                return Err(changed(pid));
            }
            Ok(desired(now, off))
        });
        answered.map(|_| ())
    }
}

/// Priorities are nothing of a trial.
fn desired(now: &Switches, off: Mechanisms) -> Desired {
    Desired {
        off,
        priorities_bits: now.priorities_bits,
    }
}

/// The error if somebody else changed the switches.
pub fn changed(pid: u32) -> anyhow::Error {
    failure(
        Exit::Failure,
        format!(
            "somebody else changed the switches of process {pid}: they stay as they are now, and the trial ends"
        ),
    )
}

#[cfg(test)]
mod tests {
    use coldstream_control::Mechanism;

    use super::*;

    #[test]
    fn what_is_not_chosen_stays_as_it_was() {
        let of = Mechanisms::of;
        let states = States {
            before: of(&[Mechanism::Pacing, Mechanism::Reads]),
            chosen: of(&[Mechanism::Reads, Mechanism::Writes]),
        };
        assert_eq!(states.off(Side::With), of(&[Mechanism::Pacing]));
        let without = [Mechanism::Pacing, Mechanism::Reads, Mechanism::Writes];
        assert_eq!(states.off(Side::Without), of(&without));
        assert!(states.are_ours(states.before));
        assert!(!states.are_ours(of(&[])));
    }
}
