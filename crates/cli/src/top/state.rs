//! What the user chose on the screen: pure. Keys change it; the view and the terminal ask it.

use std::cmp::Reverse;

use coldstream_control::Mechanism;

use super::model::{Model, Process};

/// The order of the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Ascending.
    #[default]
    Pid,
    /// Background reads, the most first.
    Read,
    /// Background writes, the most first.
    Written,
    /// Working set, the largest first.
    WorkingSet,
}

impl Sort {
    fn next(self) -> Self {
        match self {
            Self::Pid => Self::Read,
            Self::Read => Self::Written,
            Self::Written => Self::WorkingSet,
            Self::WorkingSet => Self::Pid,
        }
    }
}

/// A key that means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// To the process above.
    Up,
    /// To the process below.
    Down,
    /// Another order.
    Sort,
    /// Stop and go on.
    Pause,
    /// Ask to switch the mechanism with this number, from 1 on.
    Number(u8),
    /// Yes to the question.
    Yes,
    /// Any other key: no to the question.
    Other,
}

/// The user's choices.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The order of the list.
    pub sort: Sort,
    /// Whether the screen stands still.
    pub is_paused: bool,
    /// Whether keys are read.
    pub is_interactive: bool,
    /// Whether this is a record: nothing can be switched.
    pub is_replay: bool,
    /// The last answer or error.
    pub message: Option<String>,
    chosen: Option<u32>,
    asked: Option<(u32, Mechanism)>,
}

impl State {
    /// The state of a live screen.
    pub fn live(is_replay: bool) -> Self {
        Self {
            is_interactive: true,
            is_replay,
            ..Self::default()
        }
    }

    /// The processes in the chosen order.
    pub fn order<'a>(&self, model: &'a Model) -> Vec<&'a Process> {
        let mut processes: Vec<_> = model.processes.iter().collect();
        let whole = |rate: f64| Reverse(rate as u64);
        match self.sort {
            Sort::Pid => processes.sort_by_key(|process| process.pid),
            Sort::Read => processes.sort_by_key(|process| whole(process.read_per_second())),
            Sort::Written => processes.sort_by_key(|process| whole(process.written_per_second())),
            Sort::WorkingSet => processes.sort_by_key(|process| {
                let memory = process.memory.as_ref();
                Reverse(memory.and_then(|memory| memory.working_set_bytes))
            }),
        }
        processes
    }

    /// The process whose details are shown: the chosen one, else the first.
    pub fn chosen<'a>(&self, model: &'a Model) -> Option<&'a Process> {
        let order = self.order(model);
        let chosen = order
            .iter()
            .find(|process| Some(process.pid) == self.chosen);
        chosen.or(order.first()).copied()
    }

    /// The question on the screen.
    pub fn question(&self, model: &Model) -> Option<String> {
        let (pid, mechanism) = self.asked?;
        let process = model.processes.iter().find(|process| process.pid == pid)?;
        let name = mechanism.name();
        let switch = process.mechanisms.iter().find(|it| it.mechanism == name)?;
        let to = if switch.is_on { "off" } else { "on" };
        Some(format!(
            "Switch {name} {to} in process {pid} ({})? y/n",
            process.program
        ))
    }

    /// Takes a key. Returns what is to be switched now.
    pub fn press(&mut self, key: Key, model: &Model) -> Option<(u32, Mechanism)> {
        self.message = None;
        if let Some(asked) = self.asked.take() {
            return (key == Key::Yes).then_some(asked);
        }
        match key {
            Key::Up => self.step(model, -1),
            Key::Down => self.step(model, 1),
            Key::Sort => self.sort = self.sort.next(),
            Key::Pause => self.is_paused = !self.is_paused,
            Key::Number(number) if !self.is_replay => self.ask(model, number),
            Key::Number(_) | Key::Yes | Key::Other => {}
        }
        None
    }

    fn step(&mut self, model: &Model, by: isize) {
        let order = self.order(model);
        let now = self.chosen(model).map(|process| process.pid);
        let at = order.iter().position(|process| Some(process.pid) == now);
        let next = at.and_then(|at| at.checked_add_signed(by));
        if let Some(process) = next.and_then(|next| order.get(next)) {
            self.chosen = Some(process.pid);
        }
    }

    fn ask(&mut self, model: &Model, number: u8) {
        let Some(process) = self.chosen(model) else {
            return;
        };
        let index = usize::from(number).checked_sub(1);
        let switch = index.and_then(|index| process.mechanisms.get(index));
        let mechanism = switch.and_then(|switch| Mechanism::from_name(&switch.mechanism));
        match mechanism {
            Some(mechanism) => self.asked = Some((process.pid, mechanism)),
            None => self.message = Some(format!("process {} has no switch {number}", process.pid)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::view;

    fn model(pids: &[u32]) -> Model {
        // As older versions record it: a field that is added needs `#[serde(default)]`.
        let process = serde_json::json!({
            "pid": 1, "user": 0, "program": "mariadbd", "profile": "rocksdb", "reads": "direct",
            "mechanisms": [{ "mechanism": "reads", "is_on": true }, { "mechanism": "writes", "is_on": false },
                           { "mechanism": "handover", "is_on": true }, { "mechanism": "pacing", "is_on": true }],
            "foreground": { "timed_per_second": 12.0, "p50_below_ns": 128_000, "p99_below_ns": 1_024_000 },
            "tax": { "of_last_seconds": 590, "device_reads": {
                "ratio": { "estimate": 1.62, "low": 1.5, "high": 1.7 },
                "in_compaction": { "device_reads": 999, "p99_ns": 1_620_000, "sampled_reads": 9, "missed_percent": 4.06 },
                "at_rest": { "device_reads": 999, "p99_ns": 1_000_000, "sampled_reads": 9, "missed_percent": null } } },
            "background_read": [{ "mode": "direct", "bytes_per_second": 83_886_080.0, "bytes": 99 }],
            "background_written": [], "page_cache_spared_bytes": 5 << 20,
            "handover": { "sstables": 3, "pages_warmed": 1234, "hit_percent": 95.0, "delay_ms": 7.3, "incomplete": 1 },
            "pacing": { "limit_bytes_per_second": 1 << 20, "debt_bytes": 0, "waited_per_second": 0.5 },
            "eviction_bytes_per_second": 0.0,
            "priority": { "releases": 0, "run_per_second": 0.8, "wait_per_second": 0.1 },
            "problems": [{ "counter": "fallback_call", "count": 3 }],
            "memory": { "limit_bytes": 440_401_920, "used_bytes": 9, "anonymous_bytes": 9, "file_bytes": 9,
                        "working_set_bytes": 300 << 20, "dirty_bytes": 0 },
        });
        let process: Process = serde_json::from_value(process).unwrap();
        let processes = pids.iter().map(|pid| Process {
            pid: *pid,
            ..process.clone()
        });
        Model {
            processes: processes.collect(),
            ..Model::default()
        }
    }

    #[test]
    fn nothing_is_switched_without_a_yes() {
        let model = model(&[7, 9]);
        let mut state = State::live(false);
        assert_eq!(state.press(Key::Down, &model), None);
        assert_eq!(state.press(Key::Number(2), &model), None);
        assert_eq!(
            state.question(&model).unwrap(),
            "Switch writes on in process 9 (mariadbd)? y/n"
        );
        assert_eq!(state.press(Key::Other, &model), None);
        assert_eq!(state.question(&model), None);
        assert_eq!(state.press(Key::Yes, &model), None);
        state.press(Key::Number(1), &model);
        assert_eq!(state.press(Key::Yes, &model), Some((9, Mechanism::Reads)));
        state.press(Key::Number(7), &model);
        assert_eq!(state.message.as_deref(), Some("process 9 has no switch 7"));
        state.is_replay = true;
        state.press(Key::Number(1), &model);
        assert_eq!(state.question(&model), None);
    }

    #[test]
    fn the_chosen_process_stays_chosen_while_others_come_and_go() {
        let mut state = State::live(false);
        state.press(Key::Down, &model(&[7, 9]));
        assert_eq!(state.chosen(&model(&[3, 7, 9])).unwrap().pid, 9);
        assert_eq!(state.chosen(&model(&[3, 7])).unwrap().pid, 3);
        assert!(state.chosen(&model(&[])).is_none());
        state.press(Key::Up, &model(&[]));
    }

    #[test]
    fn the_first_line_is_whole_at_eighty_columns() {
        let mut model = model(&(1..=100).collect::<Vec<_>>());
        model.memory_stall_percent = Some(100.0);
        let mut state = State {
            sort: Sort::Written,
            ..State::default()
        };
        let text = view::text(&model, &state, 80);
        assert_eq!(
            text.lines().next(),
            Some("coldstream top  by background writes · 100 processes · memory stall 100 %")
        );
        // What is rare goes on below.
        model.unreadable = vec![String::new(); 12];
        state.is_paused = true;
        let text = view::text(&model, &state, 80);
        let words = text.split("PID").next().unwrap_or_default();
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(
            words,
            "coldstream top PAUSED by background writes · 100 processes · 12 unreadable pages · memory stall 100 %"
        );
    }

    #[test]
    fn screens_wide_narrow_empty_and_full() {
        let wide = view::text(&model(&[7]), &State::default(), 120);
        for words in [
            "by process id · 1 process",
            "mariadbd        1.0 ms    1.6   4.1/- %       80.0 MiB/s",
            "p50 under 128 µs, p99 under 1.0 ms",
            "1.6 times as slow in compaction (1.5 to 1.7): p99 1.6 ms, at rest 1.0 ms (in the last 10 min)",
            "misses      reads that missed the page cache: 4.06 % in compaction, none sampled at rest",
            "300 MiB     writes",
            "2 writes OFF",
            "3 SSTables, 1,234 pages warmed, 95 % read since, 7.3 ms each; 1 incomplete or put off",
            "limit 1 MiB/s; compactions are some 0 B behind; threads waited 0.50 s/s",
            "eviction    not configured",
            "problems    fallback_call 3",
        ] {
            assert!(wide.contains(words), "{words} is not in\n{wide}");
        }
        for (processes, width) in [(1, 1), (1, 20), (50, 40), (0, 80), (50, 200)] {
            let pids: Vec<u32> = (1..=processes).collect();
            let text = view::text(&model(&pids), &State::default(), width);
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest.unwrap_or_default() <= usize::from(width), "{text}");
        }
        let none = view::text(&model(&[]), &State::default(), 80);
        assert!(none.contains("No process that you may see"), "{none}");
        let full = view::text(
            &model(&(1..=50).collect::<Vec<_>>()),
            &State::default(),
            100,
        );
        assert!(full.contains("\n50 "), "{full}");
    }
}
