//! The page's other direction: what `coldstream ctl` asks of a running process, and its answer.
//!
//! The asker writes a request, its number last, and rings the bell; the library's keeper thread
//! sleeps on the bell, does as it is asked and writes the answer, its number last. Anybody who can
//! write the page can write anything here: every value is checked before it means something.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::page::PageView;

/// Behind the counters, with room for more of both.
const FIRST_WORD: usize = 480;
const BELL_WORD: usize = FIRST_WORD;
const REQUEST_NUMBER_WORD: usize = FIRST_WORD + 1;
const REQUEST_OFF_WORD: usize = FIRST_WORD + 2;
const REQUEST_PRIORITIES_WORD: usize = FIRST_WORD + 3;
const ANSWER_NUMBER_WORD: usize = FIRST_WORD + 4;
const ANSWER_OUTCOME_WORD: usize = FIRST_WORD + 5;
const MECHANISMS_WORD: usize = FIRST_WORD + 6;
const OFF_WORD: usize = FIRST_WORD + 7;
const PRIORITIES_WORD: usize = FIRST_WORD + 8;

const _: () = assert!(crate::page::COUNTERS_END <= FIRST_WORD);
const _: () = assert!(PRIORITIES_WORD < crate::page::PAGE_WORDS);
// A futex is 32 bits: the lower half of a word, where the word begins.
const _: () = assert!(cfg!(target_endian = "little"));

/// What can be switched by itself. The number is the bit on the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Mechanism {
    /// Background reads around the page cache.
    Reads = 0,
    /// Background writes around the page cache.
    Writes = 1,
    /// What was hot in a compaction's inputs is warm in its output.
    Handover = 2,
    /// Nice values and I/O priorities of background threads.
    Priority = 3,
    /// No readahead around point reads of tables, and our own ahead of scans.
    Readahead = 4,
    /// Background I/O slows down for the foreground's device reads.
    Pacing = 5,
    /// Cold pages of tables are dropped before memory runs out.
    Eviction = 6,
}

impl Mechanism {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Reads,
        Self::Writes,
        Self::Handover,
        Self::Priority,
        Self::Readahead,
        Self::Pacing,
        Self::Eviction,
    ];

    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Writes => "writes",
            Self::Handover => "handover",
            Self::Priority => "priority",
            Self::Readahead => "readahead",
            Self::Pacing => "pacing",
            Self::Eviction => "eviction",
        }
    }

    /// The mechanism of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|mechanism| mechanism.name() == name)
    }
}

/// A set of mechanisms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mechanisms(u32);

impl Mechanisms {
    /// These.
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

    /// The set with these bits; bits of no mechanism are dropped.
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        let known = Self::of(&Mechanism::ALL).0;
        Self(bits as u32 & known)
    }

    /// The bits.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Whether it is in the set.
    #[must_use]
    pub fn contains(self, mechanism: Mechanism) -> bool {
        self.0 & 1 << mechanism as u32 != 0
    }

    /// With these too.
    #[must_use]
    pub fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Without these.
    #[must_use]
    pub fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those in the set.
    pub fn iter(self) -> impl Iterator<Item = Mechanism> {
        Mechanism::ALL
            .into_iter()
            .filter(move |mechanism| self.contains(*mechanism))
    }
}

/// What a process is asked for: everything, not what shall change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Another than that of the last answer.
    pub number: u32,
    /// Bits of the mechanisms that shall be off.
    pub off_bits: u64,
    /// The priorities, as `coldstream_policy::Priorities` writes them.
    pub priorities_bits: u64,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    /// It was done.
    Done = 0,
    /// It makes no sense to this library: nothing was changed.
    Refused = 1,
    /// It was done, but a table's staged bytes could not be brought to the kernel: the application
    /// is told by its next call on that table.
    WriteFailed = 2,
    /// It was done, but a thread's nice value could not be taken back: the process has no right to.
    PriorityKept = 3,
}

impl Outcome {
    fn from_word(word: u64) -> Self {
        match word {
            0 => Self::Done,
            2 => Self::WriteFailed,
            3 => Self::PriorityKept,
            _ => Self::Refused,
        }
    }
}

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The request's.
    pub number: u32,
    /// How it ended.
    pub outcome: Outcome,
}

/// What can be switched in a process, and what is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// What its library has; nothing if it cannot be switched.
    pub mechanisms: Mechanisms,
    /// What is off.
    pub off: Mechanisms,
    /// The priorities, as `coldstream_policy::Priorities` writes them.
    pub priorities_bits: u64,
}

impl Switches {
    /// Mechanisms with whether they are on.
    pub fn iter(self) -> impl Iterator<Item = (Mechanism, bool)> {
        self.mechanisms
            .iter()
            .map(move |mechanism| (mechanism, !self.off.contains(mechanism)))
    }
}

impl<'a> PageView<'a> {
    /// The word that the keeper sleeps on; its lower half is the futex.
    #[must_use]
    pub fn bell(&self) -> Option<&'a AtomicU64> {
        self.word(BELL_WORD)
    }

    /// Moves the bell, so that a keeper that is about to sleep does not. Whoever rings wakes it.
    pub fn ring(&self) {
        if let Some(bell) = self.bell() {
            bell.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The word that an asker sleeps on; its lower half is the futex, and the answer's number.
    #[must_use]
    pub fn answered(&self) -> Option<&'a AtomicU64> {
        self.word(ANSWER_NUMBER_WORD)
    }

    /// What is asked for; the number is read first.
    #[must_use]
    pub fn request(&self) -> Request {
        Request {
            number: self.load(REQUEST_NUMBER_WORD) as u32,
            off_bits: self.load(REQUEST_OFF_WORD),
            priorities_bits: self.load(REQUEST_PRIORITIES_WORD),
        }
    }

    /// Asks. One asker at a time: they exclude each other by a lock on the page's file.
    pub fn ask(&self, request: &Request) {
        self.store(REQUEST_OFF_WORD, request.off_bits);
        self.store(REQUEST_PRIORITIES_WORD, request.priorities_bits);
        self.store(REQUEST_NUMBER_WORD, u64::from(request.number));
        self.ring();
    }

    /// The last answer.
    #[must_use]
    pub fn answer(&self) -> Answer {
        let number = self.load(ANSWER_NUMBER_WORD) as u32;
        Answer {
            number,
            outcome: Outcome::from_word(self.load(ANSWER_OUTCOME_WORD)),
        }
    }

    /// Answers; the number goes last.
    pub fn put_answer(&self, answer: &Answer) {
        self.store(ANSWER_OUTCOME_WORD, answer.outcome as u64);
        self.store(ANSWER_NUMBER_WORD, u64::from(answer.number));
    }

    /// What can be switched, and what is.
    #[must_use]
    pub fn switches(&self) -> Switches {
        Switches {
            mechanisms: Mechanisms::from_bits(self.load(MECHANISMS_WORD)),
            off: Mechanisms::from_bits(self.load(OFF_WORD)),
            priorities_bits: self.load(PRIORITIES_WORD),
        }
    }

    /// Says what can be switched, and what is.
    pub fn put_switches(&self, switches: &Switches) {
        self.store(OFF_WORD, u64::from(switches.off.bits()));
        self.store(PRIORITIES_WORD, switches.priorities_bits);
        self.store(MECHANISMS_WORD, u64::from(switches.mechanisms.bits()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::PAGE_WORDS;

    #[test]
    fn the_layout_is_pinned() {
        let memory: Vec<_> = (0..PAGE_WORDS).map(|_| AtomicU64::new(0)).collect();
        let page = PageView::new(&memory).unwrap();
        let request = Request {
            number: 7,
            off_bits: 9,
            priorities_bits: 11,
        };
        page.ask(&request);
        assert_eq!(page.request(), request);
        let answer = Answer {
            number: 7,
            outcome: Outcome::PriorityKept,
        };
        page.put_answer(&answer);
        assert_eq!(page.answer(), answer);
        let switches = Switches {
            mechanisms: Mechanisms::of(&[Mechanism::Reads, Mechanism::Priority]),
            off: Mechanisms::of(&[Mechanism::Priority]),
            priorities_bits: 13,
        };
        page.put_switches(&switches);
        assert_eq!(page.switches(), switches);
        let words: Vec<_> = memory[480..490]
            .iter()
            .map(|word| word.load(Ordering::Relaxed))
            .collect();
        assert_eq!(words, [1, 7, 9, 11, 7, 3, 9, 8, 13, 0]);
    }

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

    #[test]
    fn an_outcome_that_nobody_writes_is_a_refusal() {
        assert_eq!(Outcome::from_word(u64::MAX), Outcome::Refused);
        assert_eq!(Outcome::from_word(0), Outcome::Done);
    }
}
