//! The subject that writes until it is killed. Three background threads write SSTables like Cassandra and
//! RocksDB. It records every promise in a progress page, shared memory that outlives it and needs no call.

use crate::subject::{calls, machine, raw};
use coldstream_testkit::crash::{
    Progress, Promise, TABLE_BYTES_MAX, TABLES, THREADS, identity, name,
};
use coldstream_testkit::files::fill;
use coldstream_testkit::random::Random;
use std::ffi::{CStr, CString};
use std::sync::atomic::Ordering;

/// The progress page's path, for C.
const PAGE: &CStr = c"../progress";

pub fn run() {
    machine::set_limits();
    let page = raw::open(PAGE, libc::O_RDWR);
    let length = size_of::<Progress>();
    let address = raw::map(length, libc::PROT_READ | libc::PROT_WRITE, page, 0).expect("progress");
    // SAFETY: a shared mapping of a file that is long enough, and of which zeros are valid.
    let progress: &'static Progress = unsafe { &*address.cast::<Progress>() };
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| std::thread::spawn(move || write_tables(thread, &progress.promises[thread])))
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

fn write_tables(thread: usize, promises: &[Promise; TABLES as usize]) {
    let name_of_thread = if thread < 2 {
        c"CompactionExecu"
    } else {
        c"rocksdb:low"
    };
    // SAFETY: NUL-terminated.
    unsafe { calls::prctl(libc::PR_SET_NAME, name_of_thread.as_ptr()) };
    let mut random = Random::new(std::process::id().into());
    for number in 1.. {
        let promise = &promises[(number % TABLES) as usize];
        promise.number.store(0, Ordering::SeqCst);
        if number > TABLES {
            let old = CString::new(name(thread, number - TABLES)).unwrap();
            // SAFETY: NUL-terminated.
            unsafe { calls::unlink(old.as_ptr()) };
        }
        promise.intended.store(0, Ordering::SeqCst);
        promise.durable.store(0, Ordering::SeqCst);
        promise.shortest.store(u64::MAX, Ordering::SeqCst);
        promise.number.store(number, Ordering::SeqCst);
        let mut table = Table {
            path: CString::new(name(thread, number)).unwrap(),
            identity: identity(thread, number),
            promise,
            descriptor: -1,
            end: 0,
            bytes: Vec::new(),
        };
        if thread < 2 {
            table.as_cassandra(&mut random);
        } else {
            table.as_rocksdb(&mut random);
        }
    }
}

struct Table<'a> {
    path: CString,
    identity: u64,
    promise: &'a Promise,
    descriptor: i32,
    end: u64,
    bytes: Vec<u8>,
}

impl Table<'_> {
    fn open(&mut self, flags: i32) {
        // SAFETY: NUL-terminated.
        self.descriptor = unsafe { calls::open64(self.path.as_ptr(), flags, 0o644) };
        assert!(self.descriptor >= 0, "{:?}", self.path);
    }

    fn append(&mut self, length: usize) {
        self.bytes.resize(length, 0);
        fill(self.identity, self.end, &mut self.bytes);
        let intended = self.end + length as u64;
        self.promise.intended.fetch_max(intended, Ordering::SeqCst);
        // SAFETY: the buffer is readable for its length.
        let written = unsafe { calls::write(self.descriptor, self.bytes.as_ptr().cast(), length) };
        assert_eq!(written, length as isize);
        self.end += length as u64;
    }

    fn sync(&mut self) {
        // SAFETY: no memory is passed.
        assert_eq!(unsafe { calls::fdatasync(self.descriptor) }, 0);
        self.promise.durable.store(self.end, Ordering::SeqCst);
    }

    fn truncate(&mut self, length: u64) {
        // From now on the file may be this short, whatever was synced.
        self.promise.durable.fetch_min(length, Ordering::SeqCst);
        self.promise.shortest.fetch_min(length, Ordering::SeqCst);
        // SAFETY: no memory is passed.
        unsafe {
            assert_eq!(
                calls::lseek64(self.descriptor, length as i64, libc::SEEK_SET),
                length as i64
            );
            assert_eq!(calls::ftruncate64(self.descriptor, length as i64), 0);
        }
        self.end = length;
    }

    fn close(&mut self) {
        // SAFETY: no memory is passed.
        assert_eq!(unsafe { calls::close(self.descriptor) }, 0);
    }

    /// Writes chunks with checksums. Opens the file early, and sometimes truncates it.
    fn as_cassandra(&mut self, random: &mut Random) {
        self.open(libc::O_RDWR | libc::O_CREAT | libc::O_EXCL);
        let wanted = random.below(TABLE_BYTES_MAX);
        while self.end < wanted {
            self.append(4118);
            self.append(4);
            // SAFETY: no memory is passed.
            let position = unsafe { calls::lseek64(self.descriptor, 0, libc::SEEK_CUR) };
            assert_eq!(position as u64, self.end);
            if random.once_in(150) {
                self.open_early();
            }
            if random.once_in(60) {
                self.sync();
            }
            if random.once_in(4000) {
                let length = random.below(self.end);
                self.truncate(length);
            }
        }
        self.sync();
        self.close();
    }

    fn open_early(&self) {
        let mut bytes = [0_u8; 4096];
        // SAFETY: NUL-terminated path, a buffer of that length.
        unsafe {
            let reader = calls::open64(self.path.as_ptr(), libc::O_RDONLY, 0);
            let start = self.end.saturating_sub(4096);
            let read = calls::pread64(reader, bytes.as_mut_ptr().cast(), 4096, start as i64);
            assert_eq!(read as u64, self.end - start);
            calls::close(reader);
        }
    }

    /// Preallocated, in large writes, cut to its length, synced.
    fn as_rocksdb(&mut self, random: &mut Random) {
        self.open(libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC);
        let keep = libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: no memory is passed.
        unsafe { calls::fallocate(self.descriptor, keep, 0, TABLE_BYTES_MAX as i64) };
        let wanted = random.below(TABLE_BYTES_MAX);
        while self.end < wanted {
            let length = 1_048_576 - random.index(4096);
            self.append(length.min((wanted - self.end).max(1) as usize));
        }
        let (descriptor, end) = (self.descriptor, self.end as i64);
        // SAFETY: no memory is passed.
        unsafe {
            assert_eq!(calls::ftruncate64(descriptor, end), 0);
            calls::sync_file_range(descriptor, 0, end, libc::SYNC_FILE_RANGE_WRITE);
        }
        self.sync();
        self.close();
    }
}
