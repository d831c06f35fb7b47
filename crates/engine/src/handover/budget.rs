//! What a handover may take while compactions are behind, or where all mapped SSTables may be inputs: a share of the time
//! that passes, for each thread.
//!
//! A compaction may write for minutes and publish all its outputs at once. So time that no handover has taken is
//! saved, up to a limit. That goes on while no share is in force: compactions may be behind at the next output.

/// The most time that is saved, in nanoseconds.
const SAVED_NS_MAX: i128 = 60_000_000_000;

/// The processor time that handovers may take, in percent of the time that passes. Waits for a device take none of it.
#[derive(Clone, Copy)]
pub(super) struct ProcessorShare {
    /// For finding what is hot.
    search_percent: i128,
    /// Together with warming.
    all_percent: i128,
}

/// While compactions are behind: they wait for processors. A page that is warmed and then read spares the foreground a read
/// of the device, which takes as much processor time. So warming may take more than the search.
pub(super) const SHARE_BEHIND: ProcessorShare = ProcessorShare {
    search_percent: 5,
    all_percent: 15,
};
/// At other times, where all mapped SSTables may be inputs. A search through many of them takes long.
pub(super) const SHARE_OF_MAPPED: ProcessorShare = ProcessorShare {
    search_percent: 25,
    all_percent: 25,
};

/// Times of a thread's last handover.
pub struct LastHandover {
    /// Its end, by the monotonic clock.
    ended_ns: i128,
    /// The processor time in which it found what is hot.
    search_ns: i128,
    /// What was left of the time before it.
    saved_ns: i128,
}

/// What a handover has taken, in nanoseconds.
pub(super) struct Taken {
    /// Processor time of the search.
    pub(super) search_ns: i128,
    /// Processor time of all.
    pub(super) processor_ns: i128,
    /// With all waits.
    pub(super) time_ns: i128,
}

/// What a handover may take.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    share: ProcessorShare,
    /// The time of which it may take the share.
    earned_ns: i128,
}

impl LastHandover {
    /// That of a thread which had none, and whose work has begun at `began_ns`.
    pub(super) fn none(began_ns: i128) -> Self {
        Self {
            ended_ns: began_ns,
            search_ns: 0,
            saved_ns: 0,
        }
    }

    /// One that ended at `ended_ns`.
    pub(super) fn new(ended_ns: i128, taken: &Taken, budget: &Budget) -> Self {
        Self {
            ended_ns,
            search_ns: taken.search_ns,
            saved_ns: budget.left_after(taken),
        }
    }
}

impl Default for Budget {
    /// Nothing.
    fn default() -> Self {
        Self {
            share: SHARE_BEHIND,
            earned_ns: 0,
        }
    }
}

impl Budget {
    /// That of a handover that begins at `started_ns`.
    pub(super) fn since(started_ns: i128, last: &LastHandover, share: ProcessorShare) -> Self {
        let passed_ns = started_ns - last.ended_ns;
        let earned_ns = (last.saved_ns + passed_ns).min(SAVED_NS_MAX);
        Self { share, earned_ns }
    }

    /// Whether it is enough for a search as long as the last one's. Otherwise it is the turn of a later output.
    pub(super) fn is_enough_after(&self, last: &LastHandover) -> bool {
        self.search_ns() > last.search_ns
    }

    /// Processor time of the search, in nanoseconds.
    pub(super) fn search_ns(&self) -> i128 {
        self.earned_ns * self.share.search_percent / 100
    }

    /// Processor time of all, in nanoseconds.
    pub(super) fn processor_ns(&self) -> i128 {
        self.earned_ns * self.share.all_percent / 100
    }

    /// With all waits, in nanoseconds: as long as compaction had. It has half of its speed on the slowest device.
    pub(super) fn time_ns(&self) -> i128 {
        self.earned_ns
    }

    /// The time that no handover has taken a share of.
    fn left_after(&self, taken: &Taken) -> i128 {
        let paid_ns = (taken.search_ns * 100 / self.share.search_percent)
            .max(taken.processor_ns * 100 / self.share.all_percent)
            .max(taken.time_ns);
        (self.earned_ns - paid_ns).max(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEARCH_NS: i128 = 20_000_000;
    /// A handover that has the time takes so long, all of it processor time.
    const HANDOVER_NS: i128 = 200_000_000;

    /// A handover that takes that long, and had no time before it.
    fn first() -> LastHandover {
        let taken = Taken {
            search_ns: SEARCH_NS,
            processor_ns: HANDOVER_NS,
            time_ns: HANDOVER_NS,
        };
        let budget = Budget::since(
            -HANDOVER_NS,
            &LastHandover::none(-HANDOVER_NS),
            SHARE_BEHIND,
        );
        LastHandover::new(0, &taken, &budget)
    }

    /// Publishes an output at `now_ns`. Returns the time that its handover takes.
    fn publish(now_ns: i128, last: &mut LastHandover) -> i128 {
        let budget = Budget::since(now_ns, last, SHARE_BEHIND);
        if !budget.is_enough_after(last) {
            return 0;
        }
        assert!(budget.search_ns() > SEARCH_NS && budget.time_ns() > budget.processor_ns());
        let taken_ns = HANDOVER_NS.min(budget.processor_ns());
        let taken = Taken {
            search_ns: SEARCH_NS,
            processor_ns: taken_ns,
            time_ns: taken_ns,
        };
        *last = LastHandover::new(now_ns + taken_ns, &taken, &budget);
        taken_ns
    }

    #[test]
    fn handovers_keep_to_their_share_of_a_threads_time() {
        // Outputs once in 400 ms.
        let (mut now_ns, mut spent_ns, mut searched_ns) = (0, 0, 0);
        let mut last = first();
        for _ in 0..1000 {
            now_ns += 400_000_000;
            let taken_ns = publish(now_ns, &mut last);
            now_ns += taken_ns;
            spent_ns += taken_ns;
            searched_ns += if taken_ns > 0 { SEARCH_NS } else { 0 };
        }
        let [all, search] = [spent_ns, searched_ns].map(|ns: i128| ns * 1000 / now_ns);
        assert!((100..=150).contains(&all), "{all} in a thousand");
        assert!(search <= 50, "{search} in a thousand");
    }

    #[test]
    fn outputs_that_are_published_at_once_share_the_time_before() {
        let mut last = first();
        let mut now_ns = 40_000_000_000;
        let mut count = 0;
        for _ in 0..100 {
            now_ns += 1_000_000;
            let taken_ns = publish(now_ns, &mut last);
            now_ns += taken_ns;
            count += i128::from(taken_ns > 0);
        }
        // Each takes the search of 400 ms, and the processor of 1333 ms.
        assert!((29..=32).contains(&count), "{count}");
    }

    /// The first outputs of a thread, after a compaction of half a minute.
    #[test]
    fn the_first_output_leaves_time_for_the_others() {
        let mut last = LastHandover::none(0);
        let mut now_ns = 30_000_000_000;
        for output in 0..4 {
            let taken_ns = publish(now_ns, &mut last);
            assert_eq!(taken_ns, HANDOVER_NS, "{output}");
            now_ns += taken_ns;
        }
    }

    #[test]
    fn what_is_saved_has_a_limit() {
        let budget = Budget::since(i128::from(u64::MAX), &first(), SHARE_BEHIND);
        assert_eq!(budget.time_ns(), SAVED_NS_MAX);
    }
}
