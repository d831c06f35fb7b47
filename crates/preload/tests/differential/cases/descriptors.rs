//! Descriptor numbers. The application gets the same numbers as without the library, and does not see the
//! private ones.

use super::*;
use crate::subject::operations::{DESCRIPTOR_LIMIT, HIGH_NUMBER};

const SIZE_BYTES: usize = 1 << 20;

/// Opens and scans an SSTable, so that the library has private descriptors.
fn scanned(journal: &mut Journal, path: &CStr, identity: u64) -> i32 {
    be_background();
    table(path, identity, SIZE_BYTES);
    let descriptor = open(path, libc::O_RDONLY);
    journal.line(&format!("{descriptor} {}", scan(descriptor, 0, 4096, 50)));
    descriptor
}

pub fn duplicates_share_their_status_flags(journal: &mut Journal) {
    let descriptor = scanned(journal, c"000001.sst", 1);
    // SAFETY: no memory is passed.
    let duplicate = unsafe { calls::dup(descriptor) };
    for flags in [libc::O_DIRECT, 0, libc::O_DIRECT, 0] {
        journal.line(&result(|| {
            // SAFETY: an integer command.
            unsafe { calls::fcntl(duplicate, libc::F_SETFL, flags.into()).into() }
        }));
        // Direct reads must be aligned.
        journal.line(&read(descriptor, 1000, 100));
        journal.line(&read(duplicate, 1000, 100));
    }
    raw::drop_pages(c"000001.sst");
    // A flag set by a child on an open file that it shares.
    // SAFETY: the child makes system calls only.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: an integer command.
        unsafe { calls::fcntl(descriptor, libc::F_SETFL, libc::O_DIRECT.into()) };
        raw::exit(0);
    }
    // SAFETY: waits for the child.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    journal.line(&read(descriptor, 1000, 100));
}

/// All open numbers from `lowest` on.
pub fn open_numbers(lowest: i32) -> Vec<i32> {
    let mut numbers: Vec<i32> = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|number| *number >= lowest)
        .collect();
    numbers.sort_unstable();
    numbers
}

/// Fails if the library should have private descriptors now, and has none from `lowest` on. The subject
/// itself has `own` there. Without private descriptors the case would test nothing.
pub fn assert_private_numbers(lowest: i32, own: &[i32]) {
    let reads = std::env::var("COLDSTREAM_READS").unwrap_or_default();
    if matches!(reads.as_str(), "auto" | "drop-behind") {
        let numbers = open_numbers(lowest);
        assert!(
            numbers.iter().any(|number| !own.contains(number)),
            "{reads}: no private descriptor from {lowest} on: {numbers:?}, {own:?} are the subject's"
        );
    }
}

/// Opens and scans an SSTable. The library has private descriptors afterwards.
fn privately_scanned(journal: &mut Journal, path: &CStr, identity: u64) -> i32 {
    let descriptor = scanned(journal, path, identity);
    assert_private_numbers(HIGH_NUMBER, &[]);
    descriptor
}

/// The range with the library's private numbers.
fn high_numbers() -> std::ops::Range<i32> {
    HIGH_NUMBER..HIGH_NUMBER + 8
}

pub fn private_numbers_can_be_closed_like_numbers_that_are_not_open(journal: &mut Journal) {
    let descriptor = privately_scanned(journal, c"000001.sst", 1);
    for number in high_numbers() {
        journal.line(&result(|| close(number).into()));
    }
    journal.line(&scan(descriptor, 50 * 4096, 4096, 20));
    let first = HIGH_NUMBER as u32;
    journal.line(&result(|| {
        // SAFETY: nothing of the subject's is open up there.
        unsafe { calls::close_range(first, first + 100, 0).into() }
    }));
    journal.line(&scan(descriptor, 70 * 4096, 4096, 20));
    // SAFETY: as above.
    unsafe { calls::closefrom(HIGH_NUMBER) };
    journal.line(&scan(descriptor, 90 * 4096, 4096, 20));
    journal.line(&result(|| close(descriptor).into()));
}

pub fn advice_on_a_number_that_was_closed_unseen(journal: &mut Journal) {
    be_background();
    table(c"000001.sst", 1, SIZE_BYTES);
    let descriptor = open(c"000001.sst", libc::O_RDONLY);
    let advise = || {
        // SAFETY: numbers only.
        result(|| unsafe {
            calls::posix_fadvise(descriptor, 0, 0, libc::POSIX_FADV_SEQUENTIAL).into()
        })
    };
    journal.line(&advise());
    raw::close(descriptor);
    journal.line(&advise());
}

/// A socket that does not wait has the mark of a private descriptor. It gets the number of one that was closed unseen.
pub fn private_numbers_that_a_socket_has_got_are_the_sockets(journal: &mut Journal) {
    privately_scanned(journal, c"000001.sst", 1);
    for number in high_numbers() {
        raw::close(number);
    }
    let mut pair = [0; 2];
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;
    // SAFETY: the kernel writes two numbers.
    let made = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) };
    assert_eq!(made, 0);
    for number in high_numbers() {
        assert_eq!(raw::duplicate_to(pair[0], number, 0), number);
    }
    for number in high_numbers() {
        let bytes = [7_u8; 9];
        let mut received = [0_u8; 9];
        journal.line(&result(|| {
            // SAFETY: the bytes are readable.
            unsafe { calls::write(number, bytes.as_ptr().cast(), bytes.len()) as i64 }
        }));
        raw::read_all(pair[1], &mut received);
        raw::write(pair[1], &received);
        journal.line(&result(|| {
            // SAFETY: there is room for the bytes.
            unsafe { calls::read(number, received.as_mut_ptr().cast(), received.len()) as i64 }
        }));
        journal.line(&result(|| {
            // SAFETY: an integer command.
            unsafe { calls::fcntl(number, libc::F_GETFD, 0).into() }
        }));
        journal.line(&result(|| close(number).into()));
    }
}

pub fn private_numbers_can_be_taken(journal: &mut Journal) {
    let descriptor = privately_scanned(journal, c"000001.sst", 1);
    table(c"000002.sst", 2, SIZE_BYTES);
    let other = open(c"000002.sst", libc::O_RDONLY);
    for number in high_numbers() {
        // SAFETY: no memory is passed.
        journal.line(&result(|| unsafe { calls::dup2(other, number).into() }));
        journal.line(&scan(descriptor, 0, 4096, 30));
        journal.line(&scan(number, 0, 4096, 30));
    }
    for number in high_numbers() {
        journal.line(&result(|| close(number).into()));
        journal.line(&scan(descriptor, 0, 4096, 30));
    }
}

pub fn private_numbers_look_as_if_they_were_not_open(journal: &mut Journal) {
    let _descriptor = privately_scanned(journal, c"000001.sst", 1);
    let mut bytes = [0_u8; 16];
    let mut status = std::mem::MaybeUninit::<libc::stat>::zeroed();
    let (nowhere, reads, shared) = (std::ptr::null_mut(), libc::PROT_READ, libc::MAP_SHARED);
    let mut no_blocking = 0_i32;
    for number in high_numbers() {
        let buffer = bytes.as_mut_ptr();
        let no: *mut libc::c_void = (&raw mut no_blocking).cast();
        // SAFETY: integer commands; room for one structure, and for the bytes; nothing is mapped.
        unsafe {
            for text in [
                result(|| calls::fcntl(number, libc::F_GETFD, 0).into()),
                result(|| calls::fcntl(number, libc::F_GETFL, 0).into()),
                result(|| calls::fcntl(number, libc::F_DUPFD, 0).into()),
                result(|| calls::dup(number).into()),
                result(|| calls::dup2(number, 60).into()),
                result(|| calls::fstat(number, status.as_mut_ptr()).into()),
                result(|| calls::read(number, buffer.cast(), 16) as i64),
                result(|| calls::pread64(number, buffer.cast(), 16, 0) as i64),
                result(|| calls::lseek64(number, 0, libc::SEEK_CUR)),
                result(|| calls::fsync(number).into()),
                result(|| calls::write(number, buffer.cast(), 16) as i64),
                result(|| calls::ftruncate64(number, 0).into()),
                result(|| calls::fallocate64(number, 0, 0, 16).into()),
                result(|| calls::posix_fallocate64(number, 0, 16).into()),
                result(|| calls::mmap64(nowhere, 4096, reads, shared, number, 0) as i64),
                result(|| calls::ioctl(number, libc::FIONBIO, no).into()),
                result(|| calls::futimens(number, std::ptr::null()).into()),
                result(|| calls::dprintf(number, c"%d".as_ptr(), 1).into()),
                result(|| calls::fdopen(number, c"r".as_ptr()) as i64),
            ] {
                journal.line(&format!("{number} {text}"));
            }
        }
    }
}

pub fn numbers_are_those_that_the_kernel_would_have_given(journal: &mut Journal) {
    let descriptor = privately_scanned(journal, c"000001.sst", 1);
    let mut duplicates = Vec::new();
    for (command, lowest) in [
        (libc::F_DUPFD, 0),
        (libc::F_DUPFD, HIGH_NUMBER - 2),
        (libc::F_DUPFD, HIGH_NUMBER),
        (libc::F_DUPFD_CLOEXEC, HIGH_NUMBER + 1),
        (libc::F_DUPFD, HIGH_NUMBER),
        (libc::F_DUPFD_CLOEXEC, HIGH_NUMBER + 5),
        (libc::F_DUPFD, DESCRIPTOR_LIMIT as i32 - 1),
        (libc::F_DUPFD, DESCRIPTOR_LIMIT as i32),
        (libc::F_DUPFD, -1),
    ] {
        journal.line(&result(|| {
            // SAFETY: an integer command.
            let duplicate = unsafe { calls::fcntl(descriptor, command, lowest.into()) };
            duplicates.push(duplicate);
            duplicate.into()
        }));
        journal.line(&scan(descriptor, 0, 4096, 50));
        assert_private_numbers(HIGH_NUMBER, &duplicates);
    }
}

fn set_limit(descriptors: u64) {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: one structure is written, then read.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = descriptors;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
    }
}

/// Opens descriptors until that fails. Returns their number, and the error.
fn exhaust(journal: &mut Journal) -> Vec<i32> {
    let mut opened = Vec::new();
    loop {
        set_errno(NO_ERRNO);
        let number = open(c"/dev/null", libc::O_RDONLY);
        if number < 0 {
            journal.line(&format!(
                "{} opened, {}",
                opened.len(),
                execute::outcome(number)
            ));
            return opened;
        }
        opened.push(number);
    }
}

pub fn as_many_descriptors_can_be_opened(journal: &mut Journal) {
    // The smallest limit at which the library opens private descriptors.
    set_limit(256);
    let lowest_private = 256 - 256 / 8;
    let inherited = open_numbers(lowest_private);
    let first = scanned(journal, c"000001.sst", 1);
    let second = scanned(journal, c"000002.sst", 2);
    assert_private_numbers(lowest_private, &inherited);
    let mut opened = exhaust(journal);
    // The library's numbers become free when there are no others.
    opened.sort_unstable();
    journal.line(&format!("{opened:?}"));
    raw::drop_pages(c"000001.sst");
    journal.line(&scan(first, 0, 4096, 100));
    journal.line(&scan(second, 0, 4096, 100));
    for number in opened {
        close(number);
    }
    journal.line(&scan(first, 0, 4096, 100));
    for number in exhaust(journal) {
        close(number);
    }
}

pub fn a_limit_lowered_on_the_way_changes_nothing(journal: &mut Journal) {
    let first = scanned(journal, c"000001.sst", 1);
    set_limit(16);
    let second = scanned(journal, c"000002.sst", 2);
    journal.line(&scan(first, 0, 4096, 100));
    journal.line(&scan(second, 0, 4096, 100));
    for number in exhaust(journal) {
        close(number);
    }
    journal.line(&result(|| close(first).into()));
    journal.line(&result(|| close(second).into()));
}

pub fn a_number_reused_unseen_is_what_it_is_now(journal: &mut Journal) {
    let descriptor = scanned(journal, c"000001.sst", 1);
    table(c"000002.sst", 2, SIZE_BYTES);
    let [pipe, _] = raw::pipe();
    for (path, flags) in [
        (c"000001.sst", libc::O_WRONLY),
        (c"000001.sst", libc::O_PATH),
        (c"000001.sst", libc::O_DIRECT),
        (c"000001.sst", libc::O_RDWR),
        (c"000002.sst", libc::O_RDONLY),
        (c"000001.sst", libc::O_RDONLY),
        (c".", libc::O_RDONLY),
    ] {
        let new = raw::open(path, flags);
        journal.line(&format!(
            "{path:?} {flags:o}: {}",
            raw::duplicate_to(new, descriptor, 0)
        ));
        raw::close(new);
        journal.line(&read(descriptor, 1000, 100));
        journal.line(&scan(descriptor, 0, 5000, 20));
    }
    raw::duplicate_to(pipe, descriptor, 0);
    journal.line(&read(descriptor, 1000, 100));
    raw::close(descriptor);
    journal.line(&read(descriptor, 1000, 100));
}

/// Number of this process's open descriptors of SSTables.
fn open_tables() -> usize {
    std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .filter(|target| target.to_string_lossy().contains(".sst"))
        .count()
}

pub fn nothing_is_left_open_after_the_last_close(journal: &mut Journal) {
    type Close = fn(i32) -> i32;
    // SAFETY: no memory is passed.
    let ways: [Close; 6] = unsafe {
        [
            |number| close(number),
            |number| calls::close_range(number as u32, number as u32, 0),
            |number| calls::dup2(0, number),
            |number| calls::dup3(0, number, libc::O_CLOEXEC),
            |number| calls::close_range(number as u32, u32::MAX, 0),
            |number| {
                let duplicate = calls::dup(number);
                close(number);
                close(duplicate)
            },
        ]
    };
    for (identity, way) in ways.iter().enumerate() {
        let descriptor = scanned(journal, c"000001.sst", identity as u64);
        journal.line(&format!("{}", way(descriptor)));
        journal.line(&format!("{} tables are open", open_tables()));
    }
    // Closed unseen, and the number reused: at that time at the latest.
    let descriptor = scanned(journal, c"000001.sst", 77);
    raw::close(descriptor);
    let reopened = open(c"/dev/null", libc::O_RDONLY);
    journal.line(&format!("{reopened}: {} tables are open", open_tables()));
}

pub fn private_numbers_taken_unseen_give_no_wrong_bytes(journal: &mut Journal) {
    let descriptor = privately_scanned(journal, c"000001.sst", 1);
    table(c"other", 9, SIZE_BYTES);
    let other = raw::open(c"other", libc::O_RDONLY);
    for round in 0..16 {
        if round % 4 < 2 {
            // Reads everything into the page cache, so that windows are served from there.
            std::fs::read("000001.sst").unwrap();
        } else {
            raw::drop_pages(c"000001.sst");
        }
        journal.line(&scan(descriptor, 0, 4096, 5));
        // In the middle of a window, one of the library's two descriptors.
        let taken = open_numbers(HIGH_NUMBER);
        let taken = taken.get(round % 2).copied();
        if let Some(number) = taken {
            raw::duplicate_to(other, number, 0);
        }
        journal.line(&scan(descriptor, 5 * 4096, 4096, 100));
        journal.line(&scan(descriptor, 0, 4096, 30));
        if let Some(number) = taken {
            raw::close(number);
        }
        journal.line(&scan(descriptor, 0, 4096, 30));
    }
}
