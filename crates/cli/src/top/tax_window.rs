//! The tax of device reads over the last minutes: what a node pays now, and not since it was started weeks ago.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use coldstream_control::{DeviceReadTax, Phase, PhaseReads};
use coldstream_host::survey::Surveyed;

use super::look::Look;
use super::model::{Model, Tax};

/// The time of the window. Most compactions are shorter, and rests between them come more often.
const WINDOW: Duration = Duration::from_secs(600);
/// The time between two moments that are kept.
const STEP: Duration = Duration::from_secs(30);

/// What the processes had counted at earlier moments.
pub struct TaxWindow {
    /// In their order; the first is the oldest.
    moments: VecDeque<Moment>,
}

struct Moment {
    at: Instant,
    counted: HashMap<Identity, [PhaseReads; 2]>,
}

/// Process id and start: ids are given out again.
type Identity = (u32, u64);

fn identity(surveyed: &Surveyed) -> Identity {
    (surveyed.pid, surveyed.snapshot.header.start_time_ticks)
}

fn counted(surveyed: &Surveyed) -> [PhaseReads; 2] {
    Phase::ALL.map(|phase| surveyed.snapshot.phase_reads(phase).clone())
}

impl Moment {
    fn of(look: &Look) -> Self {
        let processes = look.survey.processes.iter();
        Self {
            at: look.at,
            counted: processes.map(|it| (identity(it), counted(it))).collect(),
        }
    }
}

impl TaxWindow {
    /// A window that begins with this look.
    pub fn since(look: &Look) -> Self {
        Self {
            moments: [Moment::of(look)].into(),
        }
    }

    /// Takes a look. Puts the tax of the window into its model, where the window has enough reads: otherwise the tax
    /// since the start stays.
    pub fn follow(&mut self, look: &Look, model: &mut Model) {
        while let [_, next, ..] = self.moments.make_contiguous()
            && look.at.saturating_duration_since(next.at) >= WINDOW
        {
            self.moments.pop_front();
        }
        if let Some(oldest) = self.moments.front() {
            let seconds = look.at.saturating_duration_since(oldest.at).as_secs();
            for (surveyed, process) in look.survey.processes.iter().zip(&mut model.processes) {
                let Some(earlier) = oldest.counted.get(&identity(surveyed)) else {
                    continue;
                };
                let [compaction, rest] = counted(surveyed);
                let [compaction_then, rest_then] = earlier;
                let device_reads =
                    DeviceReadTax::of(&compaction.since(compaction_then), &rest.since(rest_then));
                if device_reads.ratio.is_some() {
                    process.tax = Tax {
                        device_reads,
                        of_last_seconds: Some(seconds),
                    };
                }
            }
        }
        let last = self.moments.back();
        if last.is_none_or(|last| look.at.saturating_duration_since(last.at) >= STEP) {
            self.moments.push_back(Moment::of(look));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::model::tests::{look, surveyed_with_reads};

    fn tax_at(window: &mut TaxWindow, at: Instant, reads: [u64; 2]) -> Tax {
        let look = look(at, vec![surveyed_with_reads(7, reads)]);
        let mut model = Model::between(&look, &look);
        window.follow(&look, &mut model);
        model.processes[0].tax
    }

    #[test]
    fn the_last_minutes_count_where_they_have_enough_reads() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let first = look(start, vec![surveyed_with_reads(7, [500, 500])]);
        let mut window = TaxWindow::since(&first);
        let tax = tax_at(&mut window, at(1), [501, 501]);
        assert_eq!(tax.of_last_seconds, None);
        assert_eq!(tax.device_reads.at_rest.device_reads, 501);
        let tax = tax_at(&mut window, at(300), [1000, 1000]);
        assert_eq!(tax.of_last_seconds, Some(300));
        assert_eq!(tax.device_reads.at_rest.device_reads, 500);
        // What is older than the window is forgotten, and moments stay few.
        for second in 301..4000 {
            tax_at(&mut window, at(second), [1000, 1000]);
        }
        let tax = tax_at(&mut window, at(4000), [1400, 1400]);
        assert_eq!(tax.device_reads.at_rest.device_reads, 400);
        assert!(tax.of_last_seconds.unwrap() < (WINDOW + STEP).as_secs() + 2);
        assert!(window.moments.len() <= 22, "{}", window.moments.len());
    }
}
