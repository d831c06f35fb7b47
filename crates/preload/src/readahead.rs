//! Readahead of tables: none around reads at random places, whatever the kernel would do, and our
//! own ahead of range scans.
//!
//! A descriptor is shared by all threads of the database, and so is the kernel's idea of how it is
//! read: point reads of many threads look like a scan once enough is cached, and each then pulls in
//! up to `read_ahead_kb`. So every descriptor of a table is told `FADV_RANDOM`, and who scans is found
//! out for each thread by itself ([`coldstream_policy::scan`]).

use crate::books::Books;
use crate::descriptors::{Entry, Table};
use crate::errno::ErrnoGuard;
use crate::settings;
use crate::thread;
use coldstream_control::{Counter, Mechanism};
use coldstream_io::sys::file;

impl Books {
    /// Whether readahead is ours.
    #[inline]
    pub(crate) fn controls_readahead(&self) -> bool {
        settings::get().is_some_and(|settings| settings.config.readahead)
            && self.switches.is_on(Mechanism::Readahead)
    }

    /// A table was opened to be read.
    pub(crate) fn begin_readahead(&self, table: Table, descriptor: i32) {
        if table.servable && self.controls_readahead() {
            let _ = file::advise(descriptor, 0, 0, libc::POSIX_FADV_RANDOM);
        }
    }

    /// A table is read plainly: reads ahead if that is part of a scan.
    #[inline]
    pub(crate) fn note_plain_read(
        &self,
        table: Table,
        descriptor: i32,
        offset: u64,
        length_bytes: u64,
    ) {
        if table.servable
            && let Some(range) = thread::note_sequence(descriptor, offset, length_bytes)
            && self.controls_readahead()
        {
            read_ahead(self, descriptor, range.start, range.end - range.start);
        }
    }

    /// The application advises how it will read the whole of a table; whether the advice is done
    /// with: we know better, but remember it.
    #[cold]
    pub(crate) fn advised(&self, table: Table, descriptor: i32, advice: i32) -> bool {
        if !table.servable {
            return false;
        }
        let random = advice == libc::POSIX_FADV_RANDOM;
        self.remember_advice(descriptor, Table { random, ..table });
        self.controls_readahead()
    }

    /// Bytes of a table are moved by the kernel, in sequence, which finds no thread to read ahead
    /// for: whoever does that has a descriptor of its own.
    #[cold]
    pub(crate) fn moves_in_sequence(&self, table: Table, descriptor: i32) {
        if table.servable && self.controls_readahead() {
            let _errno = ErrnoGuard::new();
            let _ = file::advise(descriptor, 0, 0, libc::POSIX_FADV_NORMAL);
        }
    }

    /// Brings the present switch to all tables that are open. Called by the keeper: uses no
    /// thread-local storage.
    pub(crate) fn switch_readahead(&self) {
        let is_on = self.controls_readahead();
        self.each_descriptor(|descriptor, entry| {
            if let Entry::Table(table) = entry
                && table.servable
            {
                let advice = if is_on || table.random {
                    libc::POSIX_FADV_RANDOM
                } else {
                    libc::POSIX_FADV_NORMAL
                };
                let _ = file::advise(descriptor, 0, 0, advice);
            }
        });
    }
}

#[cold]
fn read_ahead(books: &Books, descriptor: i32, offset: u64, length_bytes: u64) {
    let _errno = ErrnoGuard::new();
    // In pieces: the kernel cuts off what is longer than the device takes at once.
    let mut done = 0;
    while done < length_bytes {
        let piece = (length_bytes - done).min(128 << 10);
        let _ = file::advise(descriptor, offset + done, piece, libc::POSIX_FADV_WILLNEED);
        done += piece;
    }
    books.count(Counter::ScanBytesAhead, length_bytes);
}
