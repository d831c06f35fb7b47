//! What a setting is, and the macro that makes everything of the list in `settings.rs`.

use super::values::{Allowed, exact_size};

/// The mechanism that a setting belongs to: a section of docs/configuration.md and of the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::VariantArray)]
pub enum Section {
    /// The whole library.
    General,
    /// Background reads.
    Reads,
    /// Background writes.
    Writes,
    /// Handover.
    Handover,
    /// Readahead.
    Readahead,
    /// Pacing.
    Pacing,
    /// Eviction.
    Eviction,
    /// Priority.
    Priority,
}

impl Section {
    /// The page that explains the mechanism, seen from `docs/`.
    pub(super) const fn page(self) -> Option<&'static str> {
        match self {
            Self::General => None,
            Self::Reads => Some("design/read-path.md"),
            Self::Writes => Some("design/write-path.md"),
            Self::Handover => Some("design/handover.md"),
            Self::Readahead | Self::Priority => Some("design/readahead-and-priority.md"),
            Self::Pacing => Some("design/background.md"),
            Self::Eviction => Some("design/eviction.md"),
        }
    }

    /// The heading.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::General => "General",
            Self::Reads => "Background reads",
            Self::Writes => "Background writes",
            Self::Handover => "Handover",
            Self::Readahead => "Readahead",
            Self::Pacing => "Pacing",
            Self::Eviction => "Eviction",
            Self::Priority => "Priority",
        }
    }
}

/// A setting: its names, its values and its explanation.
pub struct Setting {
    /// The mechanism that it belongs to.
    pub section: Section,
    /// The environment variable.
    pub variable: &'static str,
    /// The key in the TOML file, after its section and a dot if it is in one.
    pub key: &'static str,
    /// The key of the version before, which is still accepted.
    pub former_key: Option<&'static str>,
    /// The option of `coldstream run` with a name for its value; empty if there is none.
    pub(super) option: &'static str,
    /// The explanation, with a space before each line.
    pub(super) lines: &'static str,
    pub(super) allowed: fn() -> Allowed,
    pub(super) default: fn() -> String,
}

impl Setting {
    /// The option of `coldstream run` without its dashes; `None` if there is none.
    #[must_use]
    pub fn option(&self) -> Option<&'static str> {
        let (option, _) = self.option.strip_prefix("--")?.split_once(' ')?;
        Some(option)
    }

    /// What the help calls the value of the option.
    #[must_use]
    pub fn value_name(&self) -> &'static str {
        self.option.split_once(' ').map_or("", |(_, name)| name)
    }

    /// What may be given.
    #[must_use]
    pub fn allowed(&self) -> Allowed {
        (self.allowed)()
    }

    /// The default, as a user would write it.
    #[must_use]
    pub fn default_text(&self) -> String {
        let text = (self.default)();
        match (self.allowed(), text.parse()) {
            (Allowed::Size { .. }, Ok(bytes)) => exact_size(bytes),
            _ => text,
        }
    }

    /// The paragraphs of the explanation, in Markdown: one line each, lists one line an item. The first
    /// one says what the setting is.
    pub fn paragraphs(&self) -> impl Iterator<Item = String> {
        self.lines.trim_end().split("\n\n").map(|paragraph| {
            let mut text = String::new();
            for line in paragraph.lines().map(str::trim) {
                match (text.is_empty(), line.starts_with("- ")) {
                    (true, _) => {}
                    (false, true) => text.push('\n'),
                    (false, false) => text.push(' '),
                }
                text.push_str(line);
            }
            text
        })
    }
}

/// Makes `Config`, its defaults and `SETTINGS` of a list of settings.
macro_rules! settings {
    ($(
        $(#[doc = $doc:literal])+
        $field:ident: $type:ty = $default:expr => {
            section: $section:ident,
            option: $option:literal,
            variable: $variable:literal,
            key: $key:literal $(formerly $former:literal)?,
            values: $values:expr,
        }
    )+) => {
        /// The configuration of the library: a field a setting.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Config {
            $($(#[doc = $doc])+ pub $field: $type,)+
        }

        impl Default for Config {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        /// Every setting.
        pub static SETTINGS: [Setting; [$($key,)+].len()] = [$(
            Setting {
                section: Section::$section,
                variable: $variable,
                key: $key,
                former_key: settings!(@former $($former)?),
                option: $option,
                lines: concat!($($doc, "\n",)+),
                allowed: || Values::<$type>::allowed(&$values),
                default: || Values::<$type>::write(&$values, &$default),
            },
        )+];

        impl Config {
            /// Sets the value of the setting `key` to that of a text; `None` if it is not allowed.
            pub(super) fn read(&mut self, key: &str, text: &str) -> Option<()> {
                match key {
                    $($key => {
                        self.$field = Values::<$type>::read(&$values, &self.$field, text)?;
                    })+
                    _ => return None,
                }
                Some(())
            }

            /// The value of the setting `key` as text.
            pub(super) fn write(&self, key: &str) -> String {
                match key {
                    $($key => Values::<$type>::write(&$values, &self.$field),)+
                    _ => String::new(),
                }
            }
        }
    };
    (@former) => { None };
    (@former $former:literal) => { Some($former) };
}

pub(super) use settings;
