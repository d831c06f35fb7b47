//! CPU and I/O priority of background threads: the priority of each role, and its effect on a thread. The
//! application may have set priorities of its own.

use crate::role::Role;
use std::fmt::{self, Display};

/// The roles that have a priority, in the order of [`Priorities::to_bits`].
const ROLES: [Role; 4] = [
    Role::Compaction,
    Role::Flush,
    Role::Validation,
    Role::Streaming,
];

/// The largest nice value: the least that a thread can get of a busy processor.
const NICE_MAX: u8 = 19;
/// The lowest of the eight levels of the best-effort class.
const LEVEL_MAX: u8 = 7;

/// When Coldstream changes nice values and I/O priorities.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::VariantNames,
)]
#[strum(serialize_all = "kebab-case")]
pub enum PriorityMode {
    /// Nice values where the process may restore them (`CAP_SYS_NICE` or `RLIMIT_NICE`); I/O
    /// priorities always. Both are restored while background threads starve.
    #[default]
    Auto,
    /// As `Auto`, but nothing is restored while background threads starve, and handovers take all the time that
    /// they need.
    ReadsFirst,
    /// As `ReadsFirst`, also where the process cannot restore nice values.
    Always,
    /// Neither nice values nor I/O priorities.
    Off,
}

impl PriorityMode {
    /// The name in configurations.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// An I/O priority that needs no privilege (`ioprio_set(2)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoPriority {
    /// The best-effort class, from level 0 (first) to 7 (last).
    BestEffort(u8),
    /// The idle class: only while no other thread uses the device.
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

impl Display for IoPriority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BestEffort(level) => level.fmt(formatter),
            Self::Idle => formatter.write_str("idle"),
        }
    }
}

/// The priority of the threads of one role; `None` leaves them alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Priority {
    /// From 0 to 19.
    pub nice: Option<u8>,
    /// Class and level.
    pub io: Option<IoPriority>,
}

/// A value for each role that can have a priority; `None` leaves its threads alone.
///
/// As text it is `compaction:10,flush:none,validation:10,streaming:10`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByRole<T>([Option<T>; ROLES.len()]);

impl<T: Copy> ByRole<T> {
    /// The same value for the background roles, none for flushes.
    fn for_background(value: T) -> Self {
        Self(ROLES.map(|role| (role != Role::Flush).then_some(value)))
    }

    /// The value of a role.
    fn of(&self, role: Role) -> Option<T> {
        let mut values = ROLES.into_iter().zip(self.0);
        values.find_map(|(its, value)| (its == role).then_some(value))?
    }

    /// These values, changed by a text: `10` for every role but flush, or
    /// `compaction:10,streaming:none`. `read` reads one value; its outer `None` is for a text that it
    /// does not understand. So is the result's.
    pub(crate) fn with(
        mut self,
        text: &str,
        read: impl Fn(&str) -> Option<Option<T>>,
    ) -> Option<Self> {
        for part in text.split(',') {
            let (name, text) = match part.split_once(':') {
                Some((name, text)) => (Some(name.trim()), text.trim()),
                None => (None, part.trim()),
            };
            let mut found = false;
            for (role, value) in ROLES.into_iter().zip(&mut self.0) {
                if name.map_or(role != Role::Flush, |name| name == role.name()) {
                    *value = read(text)?;
                    found = true;
                }
            }
            found.then_some(())?;
        }
        Some(self)
    }
}

impl<T: Display> Display for ByRole<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (role, value)) in ROLES.into_iter().zip(&self.0).enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(formatter, "{comma}{}:", role.name())?;
            match value {
                Some(value) => value.fmt(formatter)?,
                None => formatter.write_str("none")?,
            }
        }
        Ok(())
    }
}

/// Reads a nice value: 0 to 19, or `none`.
pub(crate) fn read_nice(text: &str) -> Option<Option<u8>> {
    match text {
        "none" => Some(None),
        number => {
            let nice = number.parse().ok().filter(|nice| *nice <= NICE_MAX)?;
            Some(Some(nice))
        }
    }
}

/// Reads an I/O priority: 0 to 7, `idle` or `none`.
pub(crate) fn read_io(text: &str) -> Option<Option<IoPriority>> {
    match text {
        "none" => Some(None),
        "idle" => Some(Some(IoPriority::Idle)),
        number => {
            let level = number.parse().ok().filter(|level| *level <= LEVEL_MAX)?;
            Some(Some(IoPriority::BestEffort(level)))
        }
    }
}

/// The priorities of background threads, by role. Threads that serve requests have no such role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priorities {
    /// Nice values, from 0 to 19.
    pub nice: ByRole<u8>,
    /// Classes and levels of I/O priority.
    pub io: ByRole<IoPriority>,
}

impl Default for Priorities {
    /// A compaction thread weighs a tenth of a request's where both want a processor, and gets all
    /// that requests leave. If that is too little, it gets its former priority back
    /// ([`crate::background`]). Flushes are left alone: writes wait for them.
    fn default() -> Self {
        Self {
            nice: ByRole::for_background(10),
            io: ByRole::for_background(IoPriority::BestEffort(LEVEL_MAX)),
        }
    }
}

impl Priorities {
    /// Every thread is left alone.
    pub fn none() -> Self {
        Self {
            nice: ByRole([None; ROLES.len()]),
            io: ByRole([None; ROLES.len()]),
        }
    }

    /// The priority of a thread of this role.
    pub fn of(&self, role: Role) -> Priority {
        Priority {
            nice: self.nice.of(role),
            io: self.io.of(role),
        }
    }

    /// With the nice values of a text: `10` for every role but flush, or `compaction:10,streaming:none`.
    /// `None` if it is not understood.
    #[must_use]
    pub fn with_nice(self, text: &str) -> Option<Self> {
        let nice = self.nice.with(text, read_nice)?;
        Some(Self { nice, ..self })
    }

    /// With the I/O priorities of a text, as [`Priorities::with_nice`]: 0 to 7, `idle` or `none`.
    #[must_use]
    pub fn with_io(self, text: &str) -> Option<Self> {
        let io = self.io.with(text, read_io)?;
        Some(Self { io, ..self })
    }

    /// Whether some role gets a nice value above 0. All others need no permission to be taken back.
    pub fn has_nice(&self) -> bool {
        self.nice.0.iter().flatten().any(|nice| *nice > 0)
    }

    /// All nice values, role by role.
    pub fn nice_text(&self) -> String {
        self.nice.to_string()
    }

    /// All I/O priorities, role by role.
    pub fn io_text(&self) -> String {
        self.io.to_string()
    }

    /// The status page's form: sixteen bits a role. The low eight are the nice value plus one, the high
    /// eight the I/O level plus one; 9 is idle. Zero is none.
    pub fn to_bits(self) -> u64 {
        let pairs = self.nice.0.into_iter().zip(self.io.0);
        let bits = pairs.map(|(nice, io)| {
            let nice = nice.map_or(0, |nice| u64::from(nice) + 1);
            let io = match io {
                None => 0,
                Some(IoPriority::BestEffort(level)) => u64::from(level) + 1,
                Some(IoPriority::Idle) => 9,
            };
            nice | io << 8
        });
        bits.rev().fold(0, |all, bits| all << 16 | bits)
    }

    /// The priorities of [`Priorities::to_bits`]. `None` for bits that it never writes: the page may
    /// hold anything.
    pub fn from_bits(bits: u64) -> Option<Self> {
        let mut priorities = Self::none();
        let values = priorities.nice.0.iter_mut().zip(&mut priorities.io.0);
        for (index, (nice_value, io_value)) in values.enumerate() {
            let [nice, io] = ((bits >> (index * 16)) as u16).to_le_bytes();
            *nice_value = match nice.checked_sub(1) {
                None => None,
                Some(nice) => Some(nice).filter(|nice| *nice <= NICE_MAX).map(Some)?,
            };
            *io_value = match io {
                0 => None,
                1..=8 => Some(IoPriority::BestEffort(io - 1)),
                9 => Some(IoPriority::Idle),
                _ => return None,
            };
        }
        Some(priorities)
    }
}

/// A value of a thread before and after Coldstream changed it. Both are equal if it did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The application's value.
    pub before: i32,
    /// Coldstream's value.
    pub set: i32,
}

impl Held {
    /// Whether Coldstream changed it.
    pub fn is_changed(self) -> bool {
        self.set != self.before
    }
}

/// The value that a thread gets, and the one to give back later.
///
/// The one to give back is that of `held`, or `now` if the application has set the value since. The
/// new value is `wanted` if its `rank` is worse than the application's own; priorities are never raised.
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
        assert!(priorities.has_nice() && !Priorities::none().has_nice());
        assert!(!Priorities::default().with_nice("0").unwrap().has_nice());
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
            let io = io.map(|level| match level {
                Some(8) => Some(IoPriority::Idle),
                level => level.map(IoPriority::BestEffort),
            });
            let priorities = Priorities { nice: ByRole(nice), io: ByRole(io) };
            prop_assert_eq!(Priorities::from_bits(priorities.to_bits()), Some(priorities));
        }
    }
}
