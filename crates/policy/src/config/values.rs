//! Kinds of values: how the text of a setting is read, written and described.

use super::log_target::LogTarget;
use crate::avoided_calls::{AVOIDABLE_CALLS, AvoidedCalls};
use crate::bytes::parse_bytes;
use crate::eviction::Margin;
use crate::priority::{self, ByRole, IoPriority};
use std::fmt;
use std::str::FromStr;
use strum::VariantNames;

pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;
pub(super) const GIB: u64 = 1 << 30;
pub(super) const TIB: u64 = 1 << 40;

/// The values that a setting accepts. `Display` lists them for a sentence that begins with "use"; with `{:#}`, for an
/// error, also what a user may not know: units, and names of system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// `on` or `off`; `true` or `false` in TOML.
    Switch,
    /// One of these names.
    Names {
        /// The names, in the order in which users see them.
        names: &'static [&'static str],
        /// Former names, each with its successor. They are accepted for one version.
        former: &'static [(&'static str, &'static str)],
    },
    /// A number of bytes, with or without a unit (`65536`, `64KiB`).
    Size {
        /// The smallest.
        min_bytes: u64,
        /// The largest.
        max_bytes: u64,
        /// Whether only powers of two are accepted.
        power_of_two: bool,
    },
    /// A whole number.
    Number {
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
        /// The unit for a sentence, ` of milliseconds` for example; may be empty.
        unit: &'static str,
    },
    /// Names of system calls.
    Calls,
    /// Something else, in words.
    Described(&'static str),
}

impl fmt::Display for Allowed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Switch => formatter.write_str("on or off"),
            Self::Names { names, .. } => match names {
                [rest @ .., before_last, last] => {
                    for name in rest {
                        write!(formatter, "{name}, ")?;
                    }
                    write!(formatter, "{before_last} or {last}")
                }
                _ => formatter.write_str(&names.concat()),
            },
            Self::Size {
                min_bytes,
                max_bytes,
                power_of_two,
            } => {
                let what = if power_of_two { "power of two" } else { "size" };
                let (min, max) = (exact_size(min_bytes), exact_size(max_bytes));
                write!(formatter, "a {what} from {min} to {max}")?;
                if formatter.alternate() {
                    write!(formatter, ", with KiB, MiB, GiB or TiB, as in {max}")?;
                }
                Ok(())
            }
            Self::Number { min, max, unit } => {
                write!(formatter, "a number{unit} from {min} to {max}")
            }
            Self::Calls => {
                formatter.write_str("none, or names of system calls with commas between")?;
                if formatter.alternate() {
                    write!(formatter, ": {}", AVOIDABLE_CALLS.join(", "))?;
                }
                Ok(())
            }
            Self::Described(words) => formatter.write_str(words),
        }
    }
}

/// A size in its largest unit that needs no fraction: `1MiB`, `65KiB`, `7`.
pub(super) fn exact_size(bytes: u64) -> String {
    let units = [(TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")];
    let fits = |(unit, _): &(u64, &str)| bytes >= *unit && bytes.is_multiple_of(*unit);
    match units.into_iter().find(fits) {
        Some((unit, name)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}

/// How the values of a setting of type `T` are read and written.
pub(super) trait Values<T> {
    /// What may be given.
    fn allowed(&self) -> Allowed;
    /// The value of a text; `None` if it is not allowed. `before` is the value so far, which a text
    /// may change in part.
    fn read(&self, before: &T, text: &str) -> Option<T>;
    /// The text that [`Values::read`] makes this value of.
    fn write(&self, value: &T) -> String;
}

/// `on` or `off`; `1` and `0` are accepted too.
pub(super) struct Switch;

impl Values<bool> for Switch {
    fn allowed(&self) -> Allowed {
        Allowed::Switch
    }

    fn read(&self, _: &bool, text: &str) -> Option<bool> {
        match text {
            "on" | "1" => Some(true),
            "off" | "0" => Some(false),
            _ => None,
        }
    }

    fn write(&self, is_on: &bool) -> String {
        if *is_on { "on" } else { "off" }.into()
    }
}

/// The names of an enum's variants. Former names are pairs of a former and the present name.
pub(super) struct Names {
    pub(super) former: &'static [(&'static str, &'static str)],
}

impl<T: Copy + FromStr + Into<&'static str> + VariantNames> Values<T> for Names {
    fn allowed(&self) -> Allowed {
        Allowed::Names {
            names: T::VARIANTS,
            former: self.former,
        }
    }

    fn read(&self, _: &T, text: &str) -> Option<T> {
        let former = self.former.iter().find(|(former, _)| *former == text);
        former.map_or(text, |(_, name)| name).parse().ok()
    }

    fn write(&self, value: &T) -> String {
        let name: &str = (*value).into();
        name.to_owned()
    }
}

/// A size in bytes.
pub(super) struct Size {
    pub(super) min_bytes: u64,
    pub(super) max_bytes: u64,
    pub(super) power_of_two: bool,
}

impl<T: Copy + TryFrom<u64> + ToString> Values<T> for Size {
    fn allowed(&self) -> Allowed {
        Allowed::Size {
            min_bytes: self.min_bytes,
            max_bytes: self.max_bytes,
            power_of_two: self.power_of_two,
        }
    }

    fn read(&self, _: &T, text: &str) -> Option<T> {
        parse_bytes(text)
            .filter(|bytes| (self.min_bytes..=self.max_bytes).contains(bytes))
            .filter(|bytes| !self.power_of_two || bytes.is_power_of_two())
            .and_then(|bytes| bytes.try_into().ok())
    }

    fn write(&self, bytes: &T) -> String {
        bytes.to_string()
    }
}

/// A whole number. The unit is for a sentence: ` of milliseconds` for example.
pub(super) struct Number {
    pub(super) min: u64,
    pub(super) max: u64,
    pub(super) unit: &'static str,
}

impl<T: Copy + TryFrom<u64> + ToString> Values<T> for Number {
    fn allowed(&self) -> Allowed {
        Allowed::Number {
            min: self.min,
            max: self.max,
            unit: self.unit,
        }
    }

    fn read(&self, _: &T, text: &str) -> Option<T> {
        let number = text.parse().ok()?;
        (self.min..=self.max)
            .contains(&number)
            .then(|| number.try_into().ok())?
    }

    fn write(&self, number: &T) -> String {
        number.to_string()
    }
}

/// The destination of the log.
pub(super) struct Log;

impl Values<LogTarget> for Log {
    fn allowed(&self) -> Allowed {
        Allowed::Described("none, stderr or an absolute path")
    }

    fn read(&self, _: &LogTarget, text: &str) -> Option<LogTarget> {
        match text {
            "none" => Some(LogTarget::None),
            "stderr" => Some(LogTarget::Stderr),
            path if path.starts_with('/') => Some(LogTarget::File(path.into())),
            _ => None,
        }
    }

    fn write(&self, log: &LogTarget) -> String {
        match log {
            LogTarget::None => "none".into(),
            LogTarget::Stderr => "stderr".into(),
            LogTarget::File(path) => path.to_string_lossy().into_owned(),
        }
    }
}

/// The margin of eviction.
pub(super) struct Margins;

impl Values<Margin> for Margins {
    fn allowed(&self) -> Allowed {
        Allowed::Described("1% to 25%, or a size from 1MiB to 64GiB")
    }

    fn read(&self, _: &Margin, text: &str) -> Option<Margin> {
        Margin::from_name(text)
    }

    fn write(&self, margin: &Margin) -> String {
        margin.name()
    }
}

/// Nice values by role.
pub(super) struct NiceValues;

impl Values<ByRole<u8>> for NiceValues {
    fn allowed(&self) -> Allowed {
        Allowed::Described("none or 0 to 19, for all or by role as in compaction:10,streaming:none")
    }

    fn read(&self, before: &ByRole<u8>, text: &str) -> Option<ByRole<u8>> {
        before.with(text, priority::read_nice)
    }

    fn write(&self, nice: &ByRole<u8>) -> String {
        nice.to_string()
    }
}

/// I/O priorities by role.
pub(super) struct IoPriorities;

impl Values<ByRole<IoPriority>> for IoPriorities {
    fn allowed(&self) -> Allowed {
        Allowed::Described(
            "none, 0 to 7 or idle, for all or by role as in compaction:7,streaming:idle",
        )
    }

    fn read(&self, before: &ByRole<IoPriority>, text: &str) -> Option<ByRole<IoPriority>> {
        before.with(text, priority::read_io)
    }

    fn write(&self, io: &ByRole<IoPriority>) -> String {
        io.to_string()
    }
}

/// System calls that are not made.
pub(super) struct Calls;

impl Values<AvoidedCalls> for Calls {
    fn allowed(&self) -> Allowed {
        Allowed::Calls
    }

    fn read(&self, _: &AvoidedCalls, text: &str) -> Option<AvoidedCalls> {
        AvoidedCalls::from_names(text)
    }

    fn write(&self, calls: &AvoidedCalls) -> String {
        calls.to_string()
    }
}
