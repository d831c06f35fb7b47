//! The turns of a trial: with and without, in an order that cancels a steady drift. Pure.

use std::time::Duration;

/// A trial has a multiple of this many turns.
const TURNS_STEP: u32 = 4;
const TURNS_MAX: u32 = 1000;
/// The shortest turn.
const TURN_MIN: Duration = Duration::from_secs(1);
/// What a turn begins with is not counted: this share of it, and this time at most. The device and the page cache still
/// have what the turn before left.
const SETTLING_SHARE: f64 = 0.2;
const SETTLING_MAX: Duration = Duration::from_secs(2);

/// A state of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The chosen mechanisms are on.
    With,
    /// They are off.
    Without,
}

impl Side {
    /// The word for a person.
    pub fn name(self) -> &'static str {
        match self {
            Self::With => "with",
            Self::Without => "without",
        }
    }
}

/// The parser of a number of turns.
pub fn parse_turns(text: &str) -> Result<u32, String> {
    let turns = text.parse().ok();
    let turns = turns.filter(|it: &u32| (TURNS_STEP..=TURNS_MAX).contains(it));
    turns
        .filter(|it| it.is_multiple_of(TURNS_STEP))
        .ok_or_else(|| format!("use 4, 8, 12 and so on, up to {TURNS_MAX}"))
}

/// The turns.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    turns: u32,
    /// Of one turn.
    pub turn: Duration,
    /// The part of it that is not counted.
    pub settling: Duration,
}

impl Plan {
    /// The plan of a trial of this length, with as many turns as [`parse_turns`] allows.
    ///
    /// # Errors
    /// The turns would be too short.
    pub fn new(seconds: f64, turns: u32) -> Result<Self, String> {
        let turn = Duration::from_secs_f64(seconds / f64::from(turns));
        if turn < TURN_MIN {
            return Err(format!(
                "--seconds {seconds} are too few for {turns} turns: use {turns} or more"
            ));
        }
        let settling = turn.mul_f64(SETTLING_SHARE).min(SETTLING_MAX);
        Ok(Self {
            turns,
            turn,
            settling,
        })
    }

    /// With, without, without, with, and so on.
    pub fn sides(&self) -> impl ExactSizeIterator<Item = Side> + use<> {
        (0..self.turns).map(|turn| match turn % TURNS_STEP {
            0 | 3 => Side::With,
            _ => Side::Without,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_have_the_same_mean_time() {
        let plan = Plan::new(60.0, 8).unwrap();
        let places = |side| -> usize {
            let sides = plan.sides().enumerate();
            sides
                .filter(|(_, it)| *it == side)
                .map(|(place, _)| place)
                .sum()
        };
        assert_eq!(places(Side::With), places(Side::Without));
        assert_eq!(
            plan.sides().next(),
            Some(Side::With),
            "a bound comes from it"
        );
        assert_eq!(plan.turn, Duration::from_millis(7500));
        assert_eq!(plan.settling, Duration::from_millis(1500));
    }

    #[test]
    fn odd_turns_and_short_ones_are_refused() {
        assert_eq!(parse_turns("12"), Ok(12));
        for odd in ["6", "3", "0", "1004", "many"] {
            let error = parse_turns(odd).unwrap_err();
            assert!(error.contains("use 4, 8, 12"), "{odd}: {error}");
        }
        assert!(Plan::new(7.0, 8).unwrap_err().contains("too few"));
    }
}
