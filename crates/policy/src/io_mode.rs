//! How background I/O reaches the device.

use crate::FileKind;

/// An I/O mode: how background reads and writes reach the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum IoMode {
    /// `O_DIRECT` into windows of our own.
    Direct = 1,
    /// `preadv2` with `RWF_DONTCACHE` (Linux 6.14).
    DontCache = 2,
    /// Buffered; the pages that came in are dropped behind.
    DropBehind = 3,
    /// As the application asked.
    Buffered = 4,
}

impl IoMode {
    /// As written in configurations.
    pub fn name(self) -> &'static str {
        match self {
            IoMode::Direct => "direct",
            IoMode::DontCache => "dontcache",
            IoMode::DropBehind => "drop-behind",
            IoMode::Buffered => "buffered",
        }
    }

    /// The I/O mode with this number.
    pub fn from_u8(number: u8) -> Option<Self> {
        match number {
            1 => Some(IoMode::Direct),
            2 => Some(IoMode::DontCache),
            3 => Some(IoMode::DropBehind),
            4 => Some(IoMode::Buffered),
            _ => None,
        }
    }
}

/// An I/O mode as configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IoModeSetting {
    /// The best that the probe of each filesystem allows.
    #[default]
    Auto,
    /// This one wherever it works, else buffered.
    Fixed(IoMode),
}

impl IoModeSetting {
    /// As written in configurations.
    pub fn name(self) -> &'static str {
        match self {
            IoModeSetting::Auto => "auto",
            IoModeSetting::Fixed(io_mode) => io_mode.name(),
        }
    }

    /// The I/O mode of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        // `window` was the name of drop-behind; it is accepted for one version.
        let name = if name == "window" {
            "drop-behind"
        } else {
            name
        };
        [
            IoModeSetting::Auto,
            IoModeSetting::Fixed(IoMode::Direct),
            IoModeSetting::Fixed(IoMode::DontCache),
            IoModeSetting::Fixed(IoMode::DropBehind),
            IoModeSetting::Fixed(IoMode::Buffered),
        ]
        .into_iter()
        .find(|io_mode| io_mode.name() == name)
    }

    /// The I/O mode of reads on a filesystem of which this is known: `direct` works and has an effect,
    /// `RWF_DONTCACHE` is accepted, windows can be proven current (`trusted`).
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

    /// The I/O mode of writes on a filesystem of which this is known: `direct` writes work,
    /// `RWF_DONTCACHE` is accepted. `auto` prefers drop-behind to `RWF_DONTCACHE`, whose write side
    /// is broken in Linux 6.14 and 6.15 and has a bad tail before 7.2.
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

/// Whom the bytes of a table must be visible to when `write` returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Visibility {
    /// By kind of table: [`Visibility::Process`] for Cassandra, whose writes of a few kilobytes
    /// could not go around the page cache otherwise; [`Visibility::Everywhere`] for the others.
    #[default]
    Auto,
    /// The kernel has them: every process sees them.
    Everywhere,
    /// Every thread of the process sees them; other processes once a staging buffer is full, and
    /// whenever a thread looks.
    Process,
}

impl Visibility {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Everywhere, Self::Process];

    /// As written in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Visibility::Auto => "auto",
            Visibility::Everywhere => "everywhere",
            Visibility::Process => "process",
        }
    }

    /// The visibility of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|visibility| visibility.name() == name)
    }

    /// Whether writes to a table of `kind` may be staged in user memory.
    pub fn may_stage(self, kind: FileKind) -> bool {
        match self {
            Visibility::Auto => kind == FileKind::CassandraData,
            Visibility::Everywhere => false,
            Visibility::Process => true,
        }
    }
}

/// Whether direct writes must be refused on a kernel (`release` and `version` of `uname(2)`): the
/// stable kernels 6.1.64 and 6.1.65 have a defect of ext4 that leaves the file position behind
/// after a direct, extending write and so overwrites data (Debian #1057843).
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
        assert!(!Visibility::Auto.may_stage(FileKind::RocksDbTable));
        assert!(Visibility::Process.may_stage(FileKind::RocksDbTable));
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
            let io_mode = IoMode::from_u8(number).unwrap();
            assert_eq!(io_mode as u8, number);
            let configured = IoModeSetting::Fixed(io_mode);
            assert_eq!(
                IoModeSetting::from_name(configured.name()),
                Some(configured)
            );
        }
        assert_eq!(IoMode::from_u8(0), None);
        assert_eq!(IoModeSetting::from_name("auto"), Some(IoModeSetting::Auto));
        assert_eq!(
            IoModeSetting::from_name("window"),
            Some(IoModeSetting::Fixed(IoMode::DropBehind))
        );
        assert_eq!(IoModeSetting::from_name("Direct"), None);
    }
}
