//! The mechanisms that can be switched in a running process, and sets of them.

/// A mechanism that can be switched by itself. Its number is its bit on the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
#[repr(u8)]
pub enum Mechanism {
    /// Background reads around the page cache.
    Reads = 0,
    /// Background writes around the page cache.
    Writes = 1,
    /// Pages of a compaction's output are warmed for keys that were hot in its inputs.
    Handover = 2,
    /// Nice values and I/O priorities of background threads.
    Priority = 3,
    /// No readahead around point reads of SSTables; our own readahead of scans.
    Readahead = 4,
    /// Background I/O slows down for the foreground's device reads.
    Pacing = 5,
    /// Cold pages of SSTables are dropped before memory runs out.
    Eviction = 6,
}

impl Mechanism {
    /// All mechanisms, in the order of their bits.
    pub const ALL: [Self; 7] = [
        Self::Reads,
        Self::Writes,
        Self::Handover,
        Self::Priority,
        Self::Readahead,
        Self::Pacing,
        Self::Eviction,
    ];

    /// The name in commands and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The mechanism with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        name.parse().ok()
    }
}

/// A set of mechanisms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mechanisms(u32);

impl Mechanisms {
    /// The set of these mechanisms.
    #[must_use]
    pub const fn of(mechanisms: &[Mechanism]) -> Self {
        let mut bits = 0;
        let mut rest = mechanisms;
        while let [first, others @ ..] = rest {
            bits |= 1 << *first as u32;
            rest = others;
        }
        Self(bits)
    }

    /// The set with these bits. Bits of no mechanism are dropped.
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        let known = Self::of(&Mechanism::ALL).0;
        Self(bits as u32 & known)
    }

    /// The bits of the set: bit 0 is [`Mechanism::Reads`].
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Whether the mechanism is in the set.
    #[must_use]
    pub fn contains(self, mechanism: Mechanism) -> bool {
        self.0 & 1 << mechanism as u32 != 0
    }

    /// The union of both sets.
    #[must_use]
    pub fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// This set without the mechanisms of the other.
    #[must_use]
    pub fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The mechanisms in the set.
    pub fn iter(self) -> impl Iterator<Item = Mechanism> {
        Mechanism::ALL
            .into_iter()
            .filter(move |mechanism| self.contains(*mechanism))
    }
}

/// The mechanisms of a process, those that are off, and its priorities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// The mechanisms that its library has; empty if it cannot be switched.
    pub mechanisms: Mechanisms,
    /// The mechanisms that are off.
    pub off: Mechanisms,
    /// The priorities, in the form of `coldstream_policy::Priorities::to_bits`.
    pub priorities_bits: u64,
}

impl Switches {
    /// Each mechanism, and whether it is on.
    pub fn iter(self) -> impl Iterator<Item = (Mechanism, bool)> {
        self.mechanisms
            .iter()
            .map(move |mechanism| (mechanism, !self.off.contains(mechanism)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_mechanisms() {
        let all = Mechanisms::of(&Mechanism::ALL);
        assert_eq!(Mechanisms::from_bits(u64::MAX), all);
        assert_eq!(all.iter().collect::<Vec<_>>(), Mechanism::ALL);
        let reads = Mechanisms::of(&[Mechanism::Reads]);
        assert!(all.contains(Mechanism::Writes) && !reads.contains(Mechanism::Writes));
        assert_eq!(all.without(reads).with(reads), all);
        assert!(reads.without(reads).is_empty());
        for mechanism in Mechanism::ALL {
            assert_eq!(Mechanism::from_name(mechanism.name()), Some(mechanism));
        }
        assert_eq!(Mechanism::from_name("all"), None);
    }
}
