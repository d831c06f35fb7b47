//! The words of the page, its header, and the only way to reach them.
//!
//! A reader must expect a page that is stale, of another version or forged. It gets an error or wrong
//! figures, and nothing worse.

use std::sync::atomic::{AtomicU64, Ordering};

use coldstream_policy::{IoMode, IoModeSetting, Profile};

use crate::counter::Counter;

/// Size of the page in bytes.
pub const PAGE_BYTES: usize = 4096;
/// Size of the page in words.
pub const PAGE_WORDS: usize = PAGE_BYTES / size_of::<u64>();

/// `"coldstrm"` in memory order on a little-endian machine.
const MAGIC: u64 = u64::from_le_bytes(*b"coldstrm");
const VERSION: u64 = 1;

const MAGIC_WORD: usize = 0;
const VERSION_WORD: usize = 1;
const PID_WORD: usize = 2;
const START_TIME_WORD: usize = 3;
const PROFILE_WORD: usize = 4;
const CONFIGURED_WORD: usize = 5;
const IN_FORCE_WORD: usize = 6;
const WINDOW_BYTES_WORD: usize = 7;
const WINDOWS_IN_FLIGHT_WORD: usize = 8;
const MEMORY_BYTES_WORD: usize = 9;
/// The process that keeps the page in the place of its owner (`coldstream attach`), and its start; else zeros.
const KEEPER_PID_WORD: usize = 10;
const KEEPER_START_WORD: usize = 11;
/// The number of counters that the library has. A newer program knows more of them.
const COUNTERS_WORD: usize = 12;
/// Words 13 to 15 are reserved and zero.
const FIRST_COUNTER_WORD: usize = 16;

/// The code of [`Header::in_force`] before the first filesystem was probed.
const UNDECIDED: u64 = 0;
/// The code of [`Header::configured`] for [`IoModeSetting::Auto`].
const AUTO: u64 = 0;

/// The first word behind the counters. Behind it are the words of [`crate::phase`], [`crate::declined`] and
/// [`crate::switch`].
pub(crate) const COUNTERS_END: usize = FIRST_COUNTER_WORD + Counter::COUNT;

/// The process, and its settings that `ctl status` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The process id.
    pub pid: u32,
    /// The start of the process, in clock ticks since boot ([`crate::start_time_ticks`]).
    pub start_time_ticks: u64,
    /// The engine whose threads and files are recognised.
    pub profile: Profile,
    /// The I/O mode of background reads that was configured.
    pub configured: IoModeSetting,
    /// The I/O mode that the probe of the last filesystem allowed; `None` before the first SSTable.
    pub in_force: Option<IoMode>,
    /// Size of one window in bytes.
    pub window_bytes: u64,
    /// Windows that are read ahead in each SSTable.
    pub windows_in_flight: u64,
    /// The most memory for windows and staging buffers, in bytes.
    pub memory_bytes: u64,
}

/// The reason for which a page cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// Fewer words than a page has.
    #[error("{words} words, a status page has {PAGE_WORDS}")]
    Length {
        /// The number of words.
        words: usize,
    },
    /// The first word is not the magic number.
    #[error("not a status page of Coldstream, or one that its process has not filled yet")]
    Magic,
    /// Written by another version of the library.
    #[error("status page of layout version {found}, this program reads version {VERSION}")]
    Version {
        /// The version on the page.
        found: u64,
    },
    /// A word of the header has a value that no version writes.
    #[error("damaged status page: {field} = {value}")]
    Field {
        /// The name of the field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// The page names another process, or the process id was given out again.
    #[error("left behind by process {pid}, which has ended")]
    Stale {
        /// The process on the page.
        pid: u32,
    },
}

/// A page in shared memory.
#[derive(Clone, Copy, Debug)]
pub struct PageView<'a>(&'a [AtomicU64]);

impl<'a> PageView<'a> {
    /// A view of `words` as a page. [`PageView::header`] checks the content.
    ///
    /// # Errors
    ///
    /// [`PageError::Length`] if there are too few.
    pub fn new(words: &'a [AtomicU64]) -> Result<Self, PageError> {
        match words.get(..PAGE_WORDS) {
            Some(page) => Ok(Self(page)),
            None => Err(PageError::Length { words: words.len() }),
        }
    }

    /// Clears all words and writes the header. The magic number goes last: a reader sees a whole header or
    /// none.
    pub fn initialise(&self, header: &Header) {
        self.store(MAGIC_WORD, 0);
        for word in self.0 {
            word.store(0, Ordering::Relaxed);
        }
        self.store(VERSION_WORD, VERSION);
        self.store(PID_WORD, u64::from(header.pid));
        self.store(START_TIME_WORD, header.start_time_ticks);
        self.store(PROFILE_WORD, u64::from(header.profile as u8));
        self.store(CONFIGURED_WORD, configured_code(header.configured));
        let in_force = header.in_force.map_or(UNDECIDED, io_mode_code);
        self.store(IN_FORCE_WORD, in_force);
        self.store(WINDOW_BYTES_WORD, header.window_bytes);
        self.store(WINDOWS_IN_FLIGHT_WORD, header.windows_in_flight);
        self.store(MEMORY_BYTES_WORD, header.memory_bytes);
        self.store(COUNTERS_WORD, Counter::COUNT as u64);
        self.store(MAGIC_WORD, MAGIC);
    }

    /// Publishes the I/O mode that is in force from now on.
    pub fn set_in_force(&self, io_mode: IoMode) {
        self.store(IN_FORCE_WORD, io_mode_code(io_mode));
    }

    /// Says that another process keeps this page: the page is stale when that one has ended.
    pub fn set_keeper(&self, pid: u32, start_time_ticks: u64) {
        self.store(KEEPER_START_WORD, start_time_ticks);
        self.store(KEEPER_PID_WORD, u64::from(pid));
    }

    /// The process that keeps the page, and its start, if it is not the page's own process.
    #[must_use]
    pub fn keeper(&self) -> Option<(u32, u64)> {
        match self.load(KEEPER_PID_WORD) {
            0 => None,
            pid => Some((u32::try_from(pid).ok()?, self.load(KEEPER_START_WORD))),
        }
    }

    /// Adds to a counter. An addition of nothing costs no store, which would take the line from other processors.
    pub fn add(&self, counter: Counter, amount: u64) {
        if amount == 0 {
            return;
        }
        if let Some(word) = self.counter(counter) {
            word.fetch_add(amount, Ordering::Relaxed);
        }
    }

    /// Raises a counter that keeps a peak.
    pub fn raise(&self, counter: Counter, value: u64) {
        if let Some(word) = self.counter(counter) {
            word.fetch_max(value, Ordering::Relaxed);
        }
    }

    /// Sets a counter.
    pub fn set(&self, counter: Counter, value: u64) {
        if let Some(word) = self.counter(counter) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Reads a counter.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        self.counter(counter)
            .map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// The number of counters that both the page's library and this program know.
    pub(crate) fn counters_known(&self) -> usize {
        let of_library = usize::try_from(self.load(COUNTERS_WORD)).unwrap_or(usize::MAX);
        of_library.min(Counter::COUNT)
    }

    /// Reads and checks the header.
    ///
    /// # Errors
    ///
    /// [`PageError`] for the first word that is not valid.
    pub fn header(&self) -> Result<Header, PageError> {
        if self.load(MAGIC_WORD) != MAGIC {
            return Err(PageError::Magic);
        }
        let version = self.load(VERSION_WORD);
        if version != VERSION {
            return Err(PageError::Version { found: version });
        }
        let in_force = match self.load(IN_FORCE_WORD) {
            UNDECIDED => None,
            code => Some(decoded(code, "I/O mode in force", IoMode::from_repr)?),
        };
        let pid = self.load(PID_WORD);
        Ok(Header {
            pid: u32::try_from(pid).map_err(|_| field("pid", pid))?,
            start_time_ticks: self.load(START_TIME_WORD),
            profile: decoded(self.load(PROFILE_WORD), "profile", |code| {
                let profile = Profile::from_u8(code);
                (profile as u8 == code).then_some(profile)
            })?,
            configured: match self.load(CONFIGURED_WORD) {
                AUTO => IoModeSetting::Auto,
                code => {
                    IoModeSetting::Fixed(decoded(code, "configured I/O mode", IoMode::from_repr)?)
                }
            },
            in_force,
            window_bytes: self.load(WINDOW_BYTES_WORD),
            windows_in_flight: self.load(WINDOWS_IN_FLIGHT_WORD),
            memory_bytes: self.load(MEMORY_BYTES_WORD),
        })
    }

    fn counter(&self, counter: Counter) -> Option<&AtomicU64> {
        self.word(FIRST_COUNTER_WORD + counter as usize)
    }

    pub(crate) fn word(&self, word: usize) -> Option<&'a AtomicU64> {
        self.0.get(word)
    }

    pub(crate) fn add_to_word(&self, word: usize) {
        if let Some(word) = self.word(word) {
            word.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn load(&self, word: usize) -> u64 {
        self.word(word)
            .map_or(0, |word| word.load(Ordering::Acquire))
    }

    pub(crate) fn store(&self, word: usize, value: u64) {
        if let Some(word) = self.word(word) {
            word.store(value, Ordering::Release);
        }
    }
}

fn io_mode_code(io_mode: IoMode) -> u64 {
    u64::from(io_mode as u8)
}

fn configured_code(configured: IoModeSetting) -> u64 {
    match configured {
        IoModeSetting::Auto => AUTO,
        IoModeSetting::Fixed(io_mode) => io_mode_code(io_mode),
    }
}

fn field(field: &'static str, value: u64) -> PageError {
    PageError::Field { field, value }
}

fn decoded<T>(
    value: u64,
    name: &'static str,
    decode: impl Fn(u8) -> Option<T>,
) -> Result<T, PageError> {
    u8::try_from(value)
        .ok()
        .and_then(decode)
        .ok_or_else(|| field(name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(count: usize) -> Vec<AtomicU64> {
        (0..count).map(|_| AtomicU64::new(0)).collect()
    }

    fn header() -> Header {
        Header {
            pid: 4711,
            start_time_ticks: 987_654,
            profile: Profile::Cassandra,
            configured: IoModeSetting::Fixed(IoMode::DropBehind),
            in_force: None,
            window_bytes: 1 << 20,
            windows_in_flight: 2,
            memory_bytes: 64 << 20,
        }
    }

    #[test]
    fn the_layout_is_pinned() {
        let memory = words(PAGE_WORDS);
        let page = PageView::new(&memory).unwrap();
        page.initialise(&header());
        page.set_in_force(IoMode::DontCache);
        page.set(Counter::TrackedFilesOpened, 77);
        page.set(Counter::ALL[Counter::COUNT - 1], 88);
        let word = |place: usize| memory[place].load(Ordering::Relaxed);
        assert_eq!(PAGE_BYTES, 4096);
        assert_eq!(word(0), 0x6d72_7473_646c_6f63);
        assert_eq!(word(1), 1);
        assert_eq!(word(2), 4711);
        assert_eq!(word(3), 987_654);
        assert_eq!((word(4), word(5), word(6)), (3, 3, 2));
        assert_eq!((word(7), word(8), word(9)), (1 << 20, 2, 64 << 20));
        assert_eq!(word(12), Counter::COUNT as u64);
        let is_unused = |place: &usize| [10, 11, 13, 14, 15].contains(place);
        assert!((10..16).filter(is_unused).all(|place| word(place) == 0));
        assert_eq!(page.keeper(), None);
        page.set_keeper(99, 12);
        assert_eq!((word(10), word(11)), (99, 12));
        assert_eq!(page.keeper(), Some((99, 12)));
        assert_eq!(word(16), 77);
        assert_eq!(word(16 + Counter::COUNT - 1), 88);
        assert!((16 + Counter::COUNT..PAGE_WORDS).all(|place| word(place) == 0));
    }

    #[test]
    fn counters_add_up() {
        let memory = words(PAGE_WORDS);
        let page = PageView::new(&memory).unwrap();
        page.add(Counter::BytesDirect, 5);
        page.add(Counter::BytesDirect, 6);
        page.raise(Counter::WindowMemoryPeakBytes, 9);
        page.raise(Counter::WindowMemoryPeakBytes, 3);
        assert_eq!(page.get(Counter::BytesDirect), 11);
        assert_eq!(page.get(Counter::WindowMemoryPeakBytes), 9);
        page.initialise(&header());
        assert_eq!(page.get(Counter::BytesDirect), 0);
    }

    #[test]
    fn a_header_comes_back() {
        let memory = words(PAGE_WORDS + 3);
        let page = PageView::new(&memory).unwrap();
        page.initialise(&header());
        assert_eq!(page.header(), Ok(header()));
        page.set_in_force(IoMode::Direct);
        let in_force = page.header().unwrap().in_force;
        assert_eq!(in_force, Some(IoMode::Direct));
    }

    #[test]
    fn short_empty_foreign_and_damaged_pages_are_errors() {
        let short = words(PAGE_WORDS - 1);
        assert_eq!(
            PageView::new(&short).unwrap_err(),
            PageError::Length { words: 511 }
        );
        let memory = words(PAGE_WORDS);
        let page = PageView::new(&memory).unwrap();
        assert_eq!(page.header(), Err(PageError::Magic));
        for (word, value, error) in [
            (MAGIC_WORD, 1, PageError::Magic),
            (VERSION_WORD, 2, PageError::Version { found: 2 }),
            (PID_WORD, u64::MAX, field("pid", u64::MAX)),
            (PROFILE_WORD, 9, field("profile", 9)),
            (CONFIGURED_WORD, 256, field("configured I/O mode", 256)),
            (IN_FORCE_WORD, 9, field("I/O mode in force", 9)),
        ] {
            page.initialise(&header());
            memory[word].store(value, Ordering::Relaxed);
            assert_eq!(page.snapshot().unwrap_err(), error);
        }
    }

    #[test]
    fn a_page_of_another_process_is_stale() {
        let memory = words(PAGE_WORDS);
        let page = PageView::new(&memory).unwrap();
        page.initialise(&header());
        assert!(page.snapshot_of(4711, 987_654).is_ok());
        let stale = PageError::Stale { pid: 4711 };
        assert_eq!(page.snapshot_of(4711, 987_655), Err(stale.clone()));
        assert_eq!(page.snapshot_of(4712, 987_654), Err(stale));
    }
}
