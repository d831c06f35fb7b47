//! Requests to a running process, and its answers: the words of the page behind the counters.
//!
//! `coldstream ctl` writes a request, its number last, and rings the bell. The library's control thread
//! sleeps on the bell. It carries the request out and writes the answer, its number last.
//!
//! Whoever can write the page can write anything here. The library checks every value before use.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::mechanism::{Mechanisms, Switches};
use crate::page::PageView;
use coldstream_policy::Priorities;

/// The first word of this part: there is room for more counters before, and for more words behind.
pub(crate) const FIRST_WORD: usize = 480;
const BELL_WORD: usize = FIRST_WORD;
const REQUEST_NUMBER_WORD: usize = FIRST_WORD + 1;
const REQUEST_OFF_WORD: usize = FIRST_WORD + 2;
const REQUEST_PRIORITIES_WORD: usize = FIRST_WORD + 3;
const ANSWER_NUMBER_WORD: usize = FIRST_WORD + 4;
const ANSWER_OUTCOME_WORD: usize = FIRST_WORD + 5;
const MECHANISMS_WORD: usize = FIRST_WORD + 6;
const OFF_WORD: usize = FIRST_WORD + 7;
const PRIORITIES_WORD: usize = FIRST_WORD + 8;

const _: () = assert!(PRIORITIES_WORD < crate::page::PAGE_WORDS);
// A futex is 32 bits: the lower half of a word, where the word begins.
const _: () = assert!(cfg!(target_endian = "little"));

/// The state that a process shall have. It is the whole state, not a change: a request that is carried
/// out twice does no harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Different from the number of the last answer.
    pub number: u32,
    /// The mechanisms that shall be off, as bits.
    pub off_bits: u64,
    /// The priorities, in the form of `coldstream_policy::Priorities::to_bits`.
    pub priorities_bits: u64,
}

impl Request {
    /// What shall be off, and the priorities; `None` if some bit is unknown, or the process lacks a mechanism of them.
    #[must_use]
    pub fn checked(&self, has: Mechanisms) -> Option<(Mechanisms, Priorities)> {
        let off = Mechanisms::from_bits(self.off_bits);
        let is_known = u64::from(off.bits()) == self.off_bits && off.without(has).is_empty();
        let priorities = Priorities::from_bits(self.priorities_bits)?;
        is_known.then_some((off, priorities))
    }
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr)]
#[repr(u8)]
pub enum Outcome {
    /// It was done.
    Done = 0,
    /// Some of its bits are not known, or stand for a mechanism that the process lacks. Nothing was changed.
    Refused = 1,
    /// It was done, but staged bytes could not be written. The application gets the error from its
    /// next call on that file.
    WriteFailed = 2,
    /// It was done, but a thread's nice value could not be restored: the process has no right to.
    PriorityKept = 3,
}

impl Outcome {
    fn from_word(word: u64) -> Self {
        let known = u8::try_from(word).ok().and_then(Self::from_repr);
        known.unwrap_or(Self::Refused)
    }
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The number of the request.
    pub number: u32,
    /// Its result.
    pub outcome: Outcome,
}

impl<'a> PageView<'a> {
    /// The word that the control thread sleeps on. Its lower half is the futex.
    #[must_use]
    pub fn bell(&self) -> Option<&'a AtomicU64> {
        self.word(BELL_WORD)
    }

    /// Changes the bell, so that a control thread that is about to sleep does not. The caller wakes it.
    pub fn ring(&self) {
        if let Some(bell) = self.bell() {
            bell.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The word that `coldstream ctl` sleeps on. Its lower half is the futex, and the answer's number.
    #[must_use]
    pub fn answered(&self) -> Option<&'a AtomicU64> {
        self.word(ANSWER_NUMBER_WORD)
    }

    /// The last request. The number is read first.
    #[must_use]
    pub fn request(&self) -> Request {
        Request {
            number: self.load(REQUEST_NUMBER_WORD) as u32,
            off_bits: self.load(REQUEST_OFF_WORD),
            priorities_bits: self.load(REQUEST_PRIORITIES_WORD),
        }
    }

    /// Writes a request and rings the bell. The caller holds the lock on the page's file: only one process
    /// may ask at a time.
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

    /// Writes an answer. The number goes last.
    pub fn put_answer(&self, answer: &Answer) {
        self.store(ANSWER_OUTCOME_WORD, answer.outcome as u64);
        self.store(ANSWER_NUMBER_WORD, u64::from(answer.number));
    }

    /// The mechanisms of the process, and those that are off.
    #[must_use]
    pub fn switches(&self) -> Switches {
        Switches {
            mechanisms: Mechanisms::from_bits(self.load(MECHANISMS_WORD)),
            off: Mechanisms::from_bits(self.load(OFF_WORD)),
            priorities_bits: self.load(PRIORITIES_WORD),
        }
    }

    /// Publishes the mechanisms of the process, and those that are off.
    pub fn put_switches(&self, switches: &Switches) {
        self.store(OFF_WORD, u64::from(switches.off.bits()));
        self.store(PRIORITIES_WORD, switches.priorities_bits);
        self.store(MECHANISMS_WORD, u64::from(switches.mechanisms.bits()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::Mechanism;
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
    fn an_unknown_outcome_is_a_refusal() {
        assert_eq!(Outcome::from_word(u64::MAX), Outcome::Refused);
        assert_eq!(Outcome::from_word(0), Outcome::Done);
    }
}
