//! The result of the probe, filesystem by filesystem. Each is probed with the first SSTable that a background
//! thread reads on it, and again while the effect is unproven.

use crate::settings::Settings;
use coldstream_control::Counter;
use coldstream_io::alignment::Alignment;
use coldstream_io::lock::FutexLock;
use coldstream_io::probe::{self, DirectEffect, Probe};
use coldstream_io::scan::ReadMode;
use coldstream_policy::IoMode;

/// The most filesystems that are remembered. With more, some are probed again for every file.
const FILESYSTEMS_MAX: usize = 32;
/// While the effect is unproven, each of the first 16 files is probed.
const PROBES_MAX: u32 = 16;
/// After these, every 64th file is probed. A file that is wholly in the page cache proves nothing.
const FILES_A_PROBE: u32 = 64;

#[derive(Clone, Copy)]
struct FilesystemModes {
    device: u64,
    /// A [`Choice`], encoded; 0 is none.
    choice: u32,
    /// The probe knows the effect.
    is_final: bool,
    /// Files that were read while the effect was unknown.
    files: u32,
}

impl FilesystemModes {
    /// Counts the next file. Returns whether to probe it.
    fn take_probe_turn(&mut self) -> bool {
        if self.is_final {
            return false;
        }
        self.files = self.files.wrapping_add(1);
        self.files <= PROBES_MAX || self.files.is_multiple_of(FILES_A_PROBE)
    }
}

/// The list; all-zero memory is an empty one.
#[repr(C)]
pub struct Filesystems {
    known: FutexLock<[FilesystemModes; FILESYSTEMS_MAX]>,
}

/// How background reads of a filesystem's SSTables are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// In windows.
    Windows(ReadMode),
    /// Not at all, for this reason; `None` if the configuration says so.
    Buffered(Option<Counter>),
}

impl Choice {
    /// Encodes a choice in a word that is never 0.
    pub fn encode(self) -> u32 {
        match self {
            Choice::Buffered(None) => 1,
            Choice::Buffered(Some(Counter::FallbackNoEffect)) => 2,
            Choice::Buffered(Some(_)) => 3,
            Choice::Windows(ReadMode::DontCache) => 4,
            Choice::Windows(ReadMode::DropBehind) => 5,
            Choice::Windows(ReadMode::Direct(alignment)) => 6 | (alignment.bytes() as u32) << 8,
        }
    }

    /// The choice in a word; `None` if none was made.
    pub fn decode(word: u32) -> Option<Self> {
        match word & 0xFF {
            1 => Some(Choice::Buffered(None)),
            2 => Some(Choice::Buffered(Some(Counter::FallbackNoEffect))),
            3 => Some(Choice::Buffered(Some(Counter::FallbackFilesystem))),
            4 => Some(Choice::Windows(ReadMode::DontCache)),
            5 => Some(Choice::Windows(ReadMode::DropBehind)),
            6 => Alignment::covering(1, word >> 8)
                .map(|alignment| Choice::Windows(ReadMode::Direct(alignment))),
            _ => None,
        }
    }

    /// The I/O mode's name for figures.
    pub fn io_mode(self) -> IoMode {
        match self {
            Choice::Windows(ReadMode::Direct(_)) => IoMode::Direct,
            Choice::Windows(ReadMode::DontCache) => IoMode::DontCache,
            Choice::Windows(ReadMode::DropBehind) => IoMode::DropBehind,
            Choice::Buffered(_) => IoMode::Buffered,
        }
    }

    /// What the settings make of a probe's result.
    fn of(probe: &Probe, settings: &Settings) -> Self {
        let reads = settings.config.reads;
        match reads.choose_for_reads(probe.direct_is_usable(), probe.dont_cache, probe.trusted) {
            IoMode::Direct => Choice::Windows(ReadMode::Direct(probe.alignment)),
            IoMode::DontCache => Choice::Windows(ReadMode::DontCache),
            IoMode::DropBehind => Choice::Windows(ReadMode::DropBehind),
            IoMode::Buffered if reads.name() == IoMode::Buffered.name() => Choice::Buffered(None),
            IoMode::Buffered if probe.trusted && probe.direct == DirectEffect::None => {
                Choice::Buffered(Some(Counter::FallbackNoEffect))
            }
            IoMode::Buffered => Choice::Buffered(Some(Counter::FallbackFilesystem)),
        }
    }
}

impl Filesystems {
    /// The choice for the file behind `descriptor`, on `device`; `None` if the probe found nothing this time.
    pub fn choose(&self, settings: &Settings, descriptor: i32, device: u64) -> Option<Choice> {
        let mut chosen = None;
        if let Some(entry) = entry_of(&mut self.known.lock(), device) {
            chosen = Choice::decode(entry.choice);
            if chosen.is_some() && !entry.take_probe_turn() {
                return chosen;
            }
        }
        // Without the lock: it waits for the device, and others may wait for another one.
        let probe = match probe::probe(descriptor) {
            Ok(probe) if !probe.is_inconclusive() => probe,
            _ => return chosen,
        };
        let choice = Choice::of(&probe, settings);
        if let Some(entry) = entry_of(&mut self.known.lock(), device) {
            *entry = FilesystemModes {
                device,
                choice: choice.encode(),
                is_final: probe.direct != DirectEffect::Unproven,
                files: entry.files,
            };
        }
        Some(choice)
    }
}

/// The entry of a filesystem, or a free one.
fn entry_of(
    known: &mut [FilesystemModes; FILESYSTEMS_MAX],
    device: u64,
) -> Option<&mut FilesystemModes> {
    let index = known
        .iter()
        .position(|entry| entry.choice != 0 && entry.device == device)
        .or_else(|| known.iter().position(|entry| entry.choice == 0))?;
    known.get_mut(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_told_is_asked_again_but_ever_more_seldom() {
        let mut known = FilesystemModes {
            device: 1,
            choice: 6,
            is_final: false,
            files: 0,
        };
        let mut probed = |files: u32| (0..files).filter(|_| known.take_probe_turn()).count();
        assert_eq!(probed(PROBES_MAX), PROBES_MAX as usize);
        assert_eq!(probed(10 * FILES_A_PROBE), 10);
        known.is_final = true;
        assert!(!known.take_probe_turn());
    }

    #[test]
    fn choices_survive_encoding() {
        let alignment = |bytes| Alignment::covering(1, bytes).unwrap();
        for choice in [
            Choice::Buffered(None),
            Choice::Buffered(Some(Counter::FallbackNoEffect)),
            Choice::Buffered(Some(Counter::FallbackFilesystem)),
            Choice::Windows(ReadMode::DontCache),
            Choice::Windows(ReadMode::DropBehind),
            Choice::Windows(ReadMode::Direct(alignment(4096))),
            Choice::Windows(ReadMode::Direct(alignment(65_536))),
        ] {
            assert_ne!(choice.encode(), 0);
            assert_eq!(Choice::decode(choice.encode()), Some(choice));
        }
        assert_eq!(Choice::decode(0), None);
    }
}
