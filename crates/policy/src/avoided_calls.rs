//! System calls that Coldstream can do without, and those of them that are not made.

use std::fmt;

/// System calls that Coldstream can do without. The place of a name is its bit.
pub const AVOIDABLE_CALLS: [&str; 30] = [
    "cachestat",
    "mincore",
    "statx",
    "preadv2",
    "pwritev2",
    "sync_file_range",
    "fadvise64",
    "clone",
    "close_range",
    "getrusage",
    "sysinfo",
    "getdents64",
    "io_setup",
    "io_submit",
    "io_getevents",
    "io_destroy",
    "getpriority",
    "setpriority",
    "ioprio_get",
    "ioprio_set",
    "sched_setscheduler",
    "tgkill",
    "capget",
    "capset",
    "setgroups",
    "setresuid",
    "setresgid",
    "getresuid",
    "getresgid",
    "ioctl",
];

/// Some of [`AVOIDABLE_CALLS`]. Its text is `none`, or their names with commas between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AvoidedCalls(u32);

impl AvoidedCalls {
    /// The calls of a text; `None` if a name is unknown.
    #[must_use]
    pub fn from_names(text: &str) -> Option<Self> {
        if text == "none" {
            return Some(Self::default());
        }
        text.split(',').try_fold(Self::default(), |all, name| {
            let place = AVOIDABLE_CALLS
                .iter()
                .position(|call| *call == name.trim())?;
            Some(all.with(place))
        })
    }

    /// With the call at this place too.
    #[must_use]
    pub fn with(self, place: usize) -> Self {
        match place < AVOIDABLE_CALLS.len() {
            true => Self(self.0 | 1 << place),
            false => self,
        }
    }

    /// Both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// A bit for each call, in the order of [`AVOIDABLE_CALLS`].
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for AvoidedCalls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return formatter.write_str("none");
        }
        let avoided = AVOIDABLE_CALLS.iter().enumerate();
        let mut between = "";
        for (_, name) in avoided.filter(|(place, _)| self.0 >> place & 1 != 0) {
            write!(formatter, "{between}{name}")?;
            between = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_back() {
        for text in ["none", "cachestat", "statx,io_setup", "setresuid"] {
            assert_eq!(AvoidedCalls::from_names(text).unwrap().to_string(), text);
        }
        let spaced = AvoidedCalls::from_names("cachestat, statx");
        assert_eq!(spaced.unwrap().to_string(), "cachestat,statx");
        for text in ["", "read", "cachestat,", "none,statx"] {
            assert_eq!(AvoidedCalls::from_names(text), None, "{text:?}");
        }
    }
}
