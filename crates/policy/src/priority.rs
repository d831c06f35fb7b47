//! CPU and I/O priority of background threads: what is asked for, role by role, and what that
//! means for a thread whose application may have set priorities of its own.

use crate::Role;

/// The roles that have a priority, in the order of [`Priorities::to_bits`].
const ROLES: [Role; 4] = [
    Role::Compaction,
    Role::Flush,
    Role::Validation,
    Role::Streaming,
];

impl Role {
    /// As written in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Role::Foreground => "foreground",
            Role::Compaction => "compaction",
            Role::Flush => "flush",
            Role::Validation => "validation",
            Role::Streaming => "streaming",
        }
    }
}

/// The largest nice value: the least that a thread can get of a busy processor.
const NICE_MAX: u8 = 19;
/// The lowest of the eight levels of the best-effort class.
const LEVEL_MAX: u8 = 7;

/// When nice values are changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PriorityMode {
    /// Where the process may take it back (`CAP_SYS_NICE` or `RLIMIT_NICE`).
    #[default]
    Auto,
    /// Also where it can never be taken back.
    Always,
    /// Never, nor I/O priorities.
    Off,
}

impl PriorityMode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Always, Self::Off];

    /// As written in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Off => "off",
        }
    }

    /// The mode of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// An I/O priority that needs no privilege (`ioprio_set(2)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoPriority {
    /// The best-effort class, from level 0 (first) to 7 (last).
    BestEffort(u8),
    /// The idle class: when nobody else asks the device.
    Idle,
}

impl IoPriority {
    /// Class and level as the kernel has them (`include/uapi/linux/ioprio.h`).
    pub fn kernel_value(self) -> i32 {
        match self {
            Self::BestEffort(level) => 2 << 13 | i32::from(level),
            Self::Idle => 3 << 13,
        }
    }
}

impl std::fmt::Display for IoPriority {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BestEffort(level) => level.fmt(formatter),
            Self::Idle => formatter.write_str("idle"),
        }
    }
}

/// What the threads of a role get; `None` leaves them alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Priority {
    /// From 0 to 19.
    pub nice: Option<u8>,
    /// Class and level.
    pub io: Option<IoPriority>,
}

/// What the threads of each role get. Requests are in no role that has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priorities([Priority; ROLES.len()]);

impl Default for Priorities {
    /// A compaction thread weighs a tenth of a request's where both want a processor, and all
    /// of what requests leave. A flush is never held up: writes wait for it.
    fn default() -> Self {
        let background = Priority {
            nice: Some(10),
            io: Some(IoPriority::BestEffort(LEVEL_MAX)),
        };
        Self(ROLES.map(|role| match role {
            Role::Flush | Role::Foreground => Priority::default(),
            Role::Compaction | Role::Validation | Role::Streaming => background,
        }))
    }
}

impl Priorities {
    /// Every thread is left alone.
    pub fn none() -> Self {
        Self([Priority::default(); ROLES.len()])
    }

    /// What a thread of this role gets.
    pub fn of(&self, role: Role) -> Priority {
        ROLES
            .into_iter()
            .zip(self.0)
            .find_map(|(known, priority)| (known == role).then_some(priority))
            .unwrap_or_default()
    }

    /// Sets nice values out of [`Priorities::nice_text`]'s grammar: `10` for every role but flush,
    /// or `compaction:10,streaming:none`. `None`, and nothing is changed, if it is not understood.
    #[must_use]
    pub fn with_nice(self, text: &str) -> Option<Self> {
        self.with(text, |priority, value| {
            priority.nice = match value {
                "none" => None,
                number => Some(number.parse().ok().filter(|nice| *nice <= NICE_MAX)?),
            };
            Some(())
        })
    }

    /// As [`Priorities::with_nice`], of I/O priorities: 0 to 7, `idle` or `none`.
    #[must_use]
    pub fn with_io(self, text: &str) -> Option<Self> {
        self.with(text, |priority, value| {
            priority.io = match value {
                "none" => None,
                "idle" => Some(IoPriority::Idle),
                number => {
                    let level = number.parse().ok().filter(|level| *level <= LEVEL_MAX)?;
                    Some(IoPriority::BestEffort(level))
                }
            };
            Some(())
        })
    }

    fn with(mut self, text: &str, set: impl Fn(&mut Priority, &str) -> Option<()>) -> Option<Self> {
        for part in text.split(',') {
            let (name, value) = match part.split_once(':') {
                Some((name, value)) => (Some(name.trim()), value.trim()),
                None => (None, part.trim()),
            };
            let mut found = false;
            for (role, priority) in ROLES.into_iter().zip(&mut self.0) {
                if name.map_or(role != Role::Flush, |name| name == role.name()) {
                    set(priority, value)?;
                    found = true;
                }
            }
            found.then_some(())?;
        }
        Some(self)
    }

    /// All nice values, role by role.
    pub fn nice_text(&self) -> String {
        self.text(|priority| priority.nice.map(|nice| nice.to_string()))
    }

    /// All I/O priorities, role by role.
    pub fn io_text(&self) -> String {
        self.text(|priority| priority.io.map(|io| io.to_string()))
    }

    fn text(&self, value: impl Fn(&Priority) -> Option<String>) -> String {
        let parts = ROLES.into_iter().zip(&self.0).map(|(role, priority)| {
            let value = value(priority).unwrap_or_else(|| "none".to_owned());
            format!("{}:{value}", role.name())
        });
        parts.collect::<Vec<_>>().join(",")
    }

    /// Sixteen bits a role: nice plus one, and the I/O priority plus one (9 is idle).
    pub fn to_bits(self) -> u64 {
        let bits = |priority: Priority| {
            let nice = priority.nice.map_or(0, |nice| u64::from(nice) + 1);
            let io = match priority.io {
                None => 0,
                Some(IoPriority::BestEffort(level)) => u64::from(level) + 1,
                Some(IoPriority::Idle) => 9,
            };
            nice | io << 8
        };
        self.0
            .into_iter()
            .rev()
            .fold(0, |all, priority| all << 16 | bits(priority))
    }

    /// Back from bits, which may come from anybody: `None` for those that nobody would write.
    pub fn from_bits(bits: u64) -> Option<Self> {
        let mut priorities = Self::none();
        for (place, priority) in priorities.0.iter_mut().enumerate() {
            let [nice, io] = ((bits >> (place * 16)) as u16).to_le_bytes();
            priority.nice = match nice.checked_sub(1) {
                None => None,
                Some(nice) => Some(nice).filter(|nice| *nice <= NICE_MAX).map(Some)?,
            };
            priority.io = match io {
                0 => None,
                1..=8 => Some(IoPriority::BestEffort(io - 1)),
                9 => Some(IoPriority::Idle),
                _ => return None,
            };
        }
        Some(priorities)
    }
}

/// A value of a thread: what it was, and what it was set to; if both are the same, it has not been
/// changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Before.
    pub before: i32,
    /// Since.
    pub set: i32,
}

impl Held {
    /// Whether it has been changed.
    pub fn is_changed(self) -> bool {
        self.set != self.before
    }
}

/// What a value is to become, and what it was before anything was changed: that which was
/// `held`, or what it is `now` if the application has set it since. It only ever gets worse, by
/// its `rank`, than the application had it.
pub fn changed(now: i32, held: Held, wanted: Option<i32>, rank: impl Fn(i32) -> i32) -> Held {
    let before = if held.set == now { held.before } else { now };
    let set = wanted
        .filter(|wanted| rank(*wanted) > rank(before))
        .unwrap_or(before);
    Held { before, set }
}

/// Order of the kernel's I/O priorities, the best first. A thread without one is served like the
/// middle of the best-effort class, unless its nice value says otherwise.
pub fn io_rank(kernel_value: i32) -> i32 {
    let level = kernel_value & 7;
    match kernel_value >> 13 {
        0 => 2 * 8 + 4,
        3 => 3 * 8,
        class => class * 8 + level,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_flush_is_left_alone_unless_it_is_named() {
        let priorities = Priorities::default();
        assert_eq!(priorities.of(Role::Flush), Priority::default());
        assert_eq!(priorities.of(Role::Foreground), Priority::default());
        assert_eq!(priorities.of(Role::Compaction).nice, Some(10));
        let priorities = priorities.with_nice("5").unwrap();
        assert_eq!(
            priorities.nice_text(),
            "compaction:5,flush:none,validation:5,streaming:5"
        );
        let priorities = priorities
            .with_nice("flush:1, streaming:none")
            .unwrap()
            .with_io("compaction:idle,validation:0")
            .unwrap();
        assert_eq!(
            priorities.nice_text(),
            "compaction:5,flush:1,validation:5,streaming:none"
        );
        assert_eq!(
            priorities.io_text(),
            "compaction:idle,flush:none,validation:0,streaming:7"
        );
        let (nice, io) = (priorities.nice_text(), priorities.io_text());
        let again = Priorities::none().with_nice(&nice).unwrap().with_io(&io);
        assert_eq!(again, Some(priorities));
    }

    #[test]
    fn what_is_not_understood_is_none() {
        for text in ["", "20", "-1", "ten", "request:5", "compaction:", "5,,"] {
            assert_eq!(Priorities::default().with_nice(text), None, "{text}");
        }
        for text in ["8", "realtime", "compaction=7"] {
            assert_eq!(Priorities::default().with_io(text), None, "{text}");
        }
    }

    #[test]
    fn a_thread_gets_back_what_it_had() {
        let nice = |now, held, wanted| changed(now, held, wanted, |nice| nice);
        let of = |before, set| Held { before, set };
        let held = nice(0, Held::default(), Some(10));
        assert_eq!(held, of(0, 10));
        assert!(held.is_changed());
        // Changed at run time, then switched off.
        assert_eq!(nice(10, held, Some(5)), of(0, 5));
        assert_eq!(nice(10, held, None), of(0, 0));
        // Never better than the application had it, and what it sets since is its own.
        assert_eq!(nice(15, Held::default(), Some(10)), of(15, 15));
        assert_eq!(nice(3, held, None), of(3, 3));
        assert_eq!(nice(12, held, Some(10)), of(12, 12));
        assert!(!of(12, 12).is_changed());
    }

    #[test]
    fn io_priorities_have_an_order() {
        let best_effort = |level| IoPriority::BestEffort(level).kernel_value();
        let real_time = 1 << 13 | 7;
        let order = [
            real_time,
            best_effort(0),
            best_effort(3),
            0,
            best_effort(5),
            best_effort(7),
            IoPriority::Idle.kernel_value(),
        ];
        assert!(order.is_sorted_by_key(|value| io_rank(*value)));
        assert_eq!(best_effort(7), 0x4007);
    }

    proptest! {
        #[test]
        fn bits_from_anywhere(bits in any::<u64>()) {
            if let Some(priorities) = Priorities::from_bits(bits) {
                prop_assert_eq!(priorities.to_bits(), bits);
            }
        }

        #[test]
        fn bits_round_trip(
            nice in proptest::array::uniform4(proptest::option::of(0_u8..=19)),
            io in proptest::array::uniform4(proptest::option::of(0_u8..=8)),
        ) {
            let mut priorities = Priorities::none();
            for (priority, (nice, io)) in priorities.0.iter_mut().zip(nice.into_iter().zip(io)) {
                priority.nice = nice;
                priority.io = io.map(|level| match level {
                    8 => IoPriority::Idle,
                    level => IoPriority::BestEffort(level),
                });
            }
            prop_assert_eq!(Priorities::from_bits(priorities.to_bits()), Some(priorities));
        }
    }
}
