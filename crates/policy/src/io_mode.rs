//! How background I/O reaches the device.

use crate::kind::FileKind;

/// An I/O mode: how background reads and writes reach the device.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    strum::EnumString,
    strum::FromRepr,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[repr(u8)]
pub enum IoMode {
    /// `O_DIRECT` into windows of our own.
    #[strum(serialize = "direct")]
    Direct = 1,
    /// `preadv2` or `pwritev2` with `RWF_DONTCACHE` (Linux 6.14).
    #[strum(serialize = "dontcache")]
    DontCache = 2,
    /// Buffered; the pages that came in are dropped behind.
    #[strum(serialize = "drop-behind")]
    DropBehind = 3,
    /// The plain call of the application.
    #[strum(serialize = "buffered")]
    Buffered = 4,
}

impl IoMode {
    /// The name in configurations.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// An I/O mode as configured. Its names are written by hand: strum does not look into a variant's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IoModeSetting {
    /// The best one that the probe of each filesystem allows.
    #[default]
    Auto,
    /// This one wherever it works, else buffered.
    Fixed(IoMode),
}

impl strum::VariantNames for IoModeSetting {
    const VARIANTS: &'static [&'static str] =
        &["auto", "direct", "dontcache", "drop-behind", "buffered"];
}

impl std::str::FromStr for IoModeSetting {
    type Err = strum::ParseError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "auto" => Ok(Self::Auto),
            mode => mode.parse().map(Self::Fixed),
        }
    }
}

impl From<IoModeSetting> for &'static str {
    fn from(setting: IoModeSetting) -> Self {
        setting.name()
    }
}

impl IoModeSetting {
    /// The name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            IoModeSetting::Auto => "auto",
            IoModeSetting::Fixed(io_mode) => io_mode.name(),
        }
    }

    /// The I/O mode of reads on a filesystem. `direct`: direct reads work and have an effect.
    /// `dont_cache`: `RWF_DONTCACHE` is accepted. `trusted`: the filesystem's change times prove that a
    /// window is current.
    pub fn choose_for_reads(self, direct: bool, dont_cache: bool, trusted: bool) -> IoMode {
        let works = |io_mode| match io_mode {
            IoMode::Direct => trusted && direct,
            IoMode::DontCache => trusted && dont_cache,
            IoMode::DropBehind => trusted,
            IoMode::Buffered => true,
        };
        self.first_that_works(
            [IoMode::Direct, IoMode::DontCache, IoMode::DropBehind],
            works,
        )
    }

    /// The I/O mode of writes on a filesystem. `direct`: direct writes work. `dont_cache`:
    /// `RWF_DONTCACHE` is accepted. `auto` prefers drop-behind to `RWF_DONTCACHE`, whose write side is
    /// broken in Linux 6.14 and 6.15 and has a bad tail before 7.2.
    pub fn choose_for_writes(self, direct: bool, dont_cache: bool) -> IoMode {
        let works = |io_mode| match io_mode {
            IoMode::Direct => direct,
            IoMode::DontCache => dont_cache,
            IoMode::DropBehind | IoMode::Buffered => true,
        };
        self.first_that_works([IoMode::Direct, IoMode::DropBehind], works)
    }

    fn first_that_works<const COUNT: usize>(
        self,
        preferred: [IoMode; COUNT],
        works: impl Fn(IoMode) -> bool,
    ) -> IoMode {
        match self {
            IoModeSetting::Auto => preferred
                .into_iter()
                .find(|io_mode| works(*io_mode))
                .unwrap_or(IoMode::Buffered),
            IoModeSetting::Fixed(io_mode) if works(io_mode) => io_mode,
            IoModeSetting::Fixed(_) => IoMode::Buffered,
        }
    }
}

/// Which processes must see the bytes of a new SSTable when `write` returns.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::VariantNames,
)]
#[strum(serialize_all = "kebab-case")]
pub enum Visibility {
    /// By engine: [`Visibility::Process`] for Cassandra, whose writes of a few kilobytes could not go
    /// around the page cache otherwise; [`Visibility::Everywhere`] for the others.
    #[default]
    Auto,
    /// Every process. The kernel has the bytes.
    Everywhere,
    /// The threads of this process. Other processes see the bytes when a staging buffer is full, and
    /// when a thread of this process looks at the file.
    Process,
}

impl Visibility {
    /// The name in configurations.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether writes to an SSTable of `kind` may wait in user memory.
    pub fn may_stage(self, kind: FileKind) -> bool {
        match self {
            Visibility::Auto => kind == FileKind::CassandraData,
            Visibility::Everywhere => false,
            Visibility::Process => true,
        }
    }
}

/// Whether direct writes lose data on this kernel (`release` and `version` of `uname(2)`).
///
/// The stable kernels 6.1.64 and 6.1.65 have a defect in ext4 (Debian #1057843). It leaves the file
/// position behind after a direct, extending write, so that the next write overwrites data.
pub fn direct_writes_corrupt(release: &[u8], version: &[u8]) -> bool {
    // Debian names the stable version in `version` only: `… Debian 6.1.64-1 (…)`.
    let names = |text: &[u8], broken: &[u8]| {
        (0..text.len()).any(|at| {
            let after = text.get(at + broken.len());
            text.get(at..).is_some_and(|rest| rest.starts_with(broken))
                && !after.is_some_and(u8::is_ascii_digit)
                && (at == 0 || text.get(at - 1).is_some_and(|before| *before == b' '))
        })
    };
    [b"6.1.64".as_slice(), b"6.1.65"]
        .iter()
        .any(|broken| names(release, broken) || names(version, broken))
}

#[cfg(test)]
mod tests {
    use super::*;
    use strum::VariantNames;

    #[test]
    fn the_best_that_works_is_chosen() {
        use IoMode::{Buffered, Direct, DontCache, DropBehind};
        let auto = IoModeSetting::Auto;
        assert_eq!(auto.choose_for_reads(true, true, true), Direct);
        assert_eq!(auto.choose_for_reads(false, true, true), DontCache);
        assert_eq!(auto.choose_for_reads(false, false, true), DropBehind);
        assert_eq!(auto.choose_for_reads(true, true, false), Buffered);
        let fixed = IoModeSetting::Fixed;
        assert_eq!(
            fixed(DropBehind).choose_for_reads(true, true, true),
            DropBehind
        );
        assert_eq!(
            fixed(DontCache).choose_for_reads(true, false, true),
            Buffered
        );
        assert_eq!(fixed(Buffered).choose_for_reads(true, true, true), Buffered);
    }

    #[test]
    fn writes_prefer_drop_behind_to_dontcache() {
        use IoMode::{Buffered, Direct, DontCache, DropBehind};
        assert_eq!(IoModeSetting::Auto.choose_for_writes(true, true), Direct);
        assert_eq!(
            IoModeSetting::Auto.choose_for_writes(false, true),
            DropBehind
        );
        let fixed = IoModeSetting::Fixed;
        assert_eq!(fixed(DontCache).choose_for_writes(true, true), DontCache);
        assert_eq!(fixed(Direct).choose_for_writes(false, true), Buffered);
    }

    #[test]
    fn only_engines_with_small_writes_are_staged_by_themselves() {
        assert!(Visibility::Auto.may_stage(FileKind::CassandraData));
        assert!(!Visibility::Auto.may_stage(FileKind::RocksDbSsTable));
        assert!(Visibility::Process.may_stage(FileKind::RocksDbSsTable));
        assert!(!Visibility::Everywhere.may_stage(FileKind::CassandraData));
    }

    #[test]
    fn the_kernels_that_lose_data_are_known() {
        let corrupt = |release: &str, version: &str| {
            direct_writes_corrupt(release.as_bytes(), version.as_bytes())
        };
        assert!(corrupt("6.1.64", "#1 SMP"));
        assert!(corrupt("6.1.65-arch1-1", "#1 SMP"));
        assert!(corrupt(
            "6.1.0-14-amd64",
            "#1 SMP PREEMPT_DYNAMIC Debian 6.1.64-1 (2023-11-30)"
        ));
        assert!(!corrupt(
            "6.1.0-15-amd64",
            "#1 SMP PREEMPT_DYNAMIC Debian 6.1.66-1 (2023-12-09)"
        ));
        assert!(!corrupt("6.1.640", ""));
        assert!(!corrupt("16.1.64", ""));
        assert!(!corrupt("6.18.5", "#1"));
    }

    #[test]
    fn names_and_numbers_round_trip() {
        for number in 1..=4 {
            let io_mode = IoMode::from_repr(number).unwrap();
            assert_eq!(io_mode as u8, number);
            let configured = IoModeSetting::Fixed(io_mode);
            assert_eq!(configured.name().parse(), Ok(configured));
        }
        assert_eq!(IoMode::from_repr(0), None);
        assert_eq!("auto".parse(), Ok(IoModeSetting::Auto));
        for name in IoModeSetting::VARIANTS {
            let setting: IoModeSetting = name.parse().unwrap();
            assert_eq!(setting.name(), *name);
        }
        assert!("Direct".parse::<IoModeSetting>().is_err());
    }
}
