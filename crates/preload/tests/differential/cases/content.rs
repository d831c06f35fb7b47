//! Changes of content without an interposed call, and state that reads must not change.

use super::descriptors::{assert_private_numbers, open_numbers};
use super::*;
use crate::subject::operations::HIGH_NUMBER;

const SIZE_BYTES: usize = 1 << 20;

/// Makes a shared mapping of a page, through a descriptor that is closed again.
fn map_page(path: &CStr, protection: i32, flags: i32) -> *mut u8 {
    let descriptor = open(path, flags);
    // SAFETY: a new mapping.
    let address = unsafe {
        calls::mmap64(
            std::ptr::null_mut(),
            4096,
            protection,
            libc::MAP_SHARED,
            descriptor,
            8192,
        )
    };
    assert_ne!(address, libc::MAP_FAILED);
    close(descriptor);
    address.cast()
}

fn store(address: *mut u8, value: u8) {
    // SAFETY: a writable mapping of a page within the file.
    unsafe { address.add(100).write_volatile(value) };
}

/// Alternates stores and scans. A store to a dirty page leaves no trace in the change time.
fn store_and_scan(journal: &mut Journal, descriptor: i32, mut store: impl FnMut(u8)) {
    for round in 0..6_u8 {
        store(round * 2 + 1);
        std::thread::sleep(REST);
        journal.line(&scan(descriptor, 0, 4096, 2));
        store(round * 2 + 2);
        journal.line(&scan(descriptor, 8192, 4096, 20));
        if round == 2 {
            raw::drop_pages(c"000001.sst");
        }
    }
}

pub fn a_store_through_a_mapping_under_another_name_is_seen(journal: &mut Journal) {
    table(c"000001.sst", 1, SIZE_BYTES);
    // SAFETY: NUL-terminated paths.
    unsafe { calls::link(c"000001.sst".as_ptr(), c"alias".as_ptr()) };
    let address = map_page(c"alias", libc::PROT_READ | libc::PROT_WRITE, libc::O_RDWR);
    be_background();
    let descriptor = open(c"000001.sst", libc::O_RDONLY);
    store_and_scan(journal, descriptor, |value| store(address, value));
}

pub fn a_store_by_a_child_through_an_old_mapping_is_seen(journal: &mut Journal) {
    table(c"000001.sst", 1, SIZE_BYTES);
    let address = map_page(
        c"000001.sst",
        libc::PROT_READ | libc::PROT_WRITE,
        libc::O_RDWR,
    );
    let [requests, request] = raw::pipe();
    let [answers, answer] = raw::pipe();
    // SAFETY: the child only copies bytes and makes system calls.
    if unsafe { libc::fork() } == 0 {
        raw::close(request);
        let mut value = [0];
        while raw::read_all(requests, &mut value) == 1 {
            store(address, value[0]);
            raw::write(answer, &value);
        }
        raw::exit(0);
    }
    // SAFETY: the parent's own mapping is not used any more.
    unsafe { calls::munmap(address.cast(), 4096) };
    be_background();
    let descriptor = open(c"000001.sst", libc::O_RDONLY);
    store_and_scan(journal, descriptor, |value| {
        raw::write(request, &[value]);
        assert_eq!(raw::read_all(answers, &mut [0]), 1);
    });
    raw::close(request);
    let mut status = 0;
    // SAFETY: waits for the child.
    unsafe { libc::wait(&raw mut status) };
}

pub fn a_read_only_mapping_made_writable_later_is_seen(journal: &mut Journal) {
    table(c"000001.sst", 1, SIZE_BYTES);
    let address = map_page(c"000001.sst", libc::PROT_READ, libc::O_RDWR);
    be_background();
    let descriptor = open(c"000001.sst", libc::O_RDONLY);
    journal.line(&scan(descriptor, 0, 4096, 5));
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the mapping just made.
    unsafe { assert_eq!(libc::mprotect(address.cast(), 4096, protection), 0) };
    store_and_scan(journal, descriptor, |value| store(address, value));
}

pub fn a_file_under_a_reused_name_is_another_file(journal: &mut Journal) {
    be_background();
    for identity in 0..10 {
        table(c"000001.sst", identity, SIZE_BYTES + identity as usize);
        let descriptor = open(c"000001.sst", libc::O_RDONLY);
        journal.line(&format!("{descriptor} {}", scan(descriptor, 0, 65_536, 20)));
        if identity % 3 == 0 {
            table(c"new", identity + 100, SIZE_BYTES / 2);
            // SAFETY: NUL-terminated paths.
            unsafe { calls::rename(c"new".as_ptr(), c"000001.sst".as_ptr()) };
            journal.line(&scan(descriptor, 0, 4096, 20));
        }
        // The inode's number is free for the next file.
        // SAFETY: as above.
        unsafe { calls::unlink(c"000001.sst".as_ptr()) };
        journal.line(&scan(descriptor, 4096, 4096, 20));
        close(descriptor);
    }
}

pub fn what_is_named_like_a_table_but_is_none(journal: &mut Journal) {
    be_background();
    table(c"target", 3, SIZE_BYTES);
    // SAFETY: NUL-terminated paths.
    unsafe {
        libc::mkdir(c"1.sst".as_ptr(), 0o755);
        libc::mkfifo(c"2.sst".as_ptr(), 0o644);
        libc::symlink(c"target".as_ptr(), c"3.sst".as_ptr());
        libc::symlink(c"/dev/zero".as_ptr(), c"4.sst".as_ptr());
        libc::symlink(c"/proc/version".as_ptr(), c"5.sst".as_ptr());
    }
    for path in [c"1.sst", c"2.sst", c"3.sst", c"4.sst", c"5.sst"] {
        for flags in [
            libc::O_RDONLY | libc::O_NONBLOCK,
            libc::O_RDWR | libc::O_NONBLOCK,
            libc::O_PATH,
        ] {
            let descriptor = open(path, flags);
            journal.line(&format!("{path:?} {flags:o}: {descriptor}"));
            journal.line(&scan(descriptor, 0, 4096, 20));
            journal.line(&result(|| close(descriptor).into()));
        }
    }
}

pub fn the_access_time_is_left_alone_if_the_application_says_so(journal: &mut Journal) {
    be_background();
    for (path, flags) in [(c"000001.sst", libc::O_NOATIME), (c"000002.sst", 0)] {
        table(path, 1, SIZE_BYTES);
        let long_ago = [libc::timespec {
            tv_sec: 1_000_000,
            tv_nsec: 0,
        }; 2];
        // SAFETY: NUL-terminated path, two times.
        unsafe { libc::utimensat(libc::AT_FDCWD, path.as_ptr(), long_ago.as_ptr(), 0) };
        std::thread::sleep(REST);
        let descriptor = open(path, libc::O_RDONLY | flags);
        journal.line(&scan(descriptor, 0, 4096, 200));
        let mut status = std::mem::MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: room for one structure.
        let status = unsafe {
            calls::fstat(descriptor, status.as_mut_ptr());
            status.assume_init()
        };
        journal.line(&format!(
            "{path:?} untouched: {}",
            status.st_atime == 1_000_000
        ));
    }
}

pub fn record_locks_outlive_background_reads(journal: &mut Journal) {
    be_background();
    table(c"000001.sst", 1, SIZE_BYTES);
    let descriptor = open(c"000001.sst", libc::O_RDONLY);
    let lock = |kind| libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 100,
        l_pid: 0,
    };
    let wanted = lock(libc::F_RDLCK);
    journal.line(&scan(descriptor, 0, 4096, 50));
    assert_private_numbers(HIGH_NUMBER, &[]);
    // A lock belongs to the process. Closing any descriptor of the file would release it.
    journal.line(&result(|| {
        // SAFETY: one structure is read.
        unsafe { calls::fcntl(descriptor, libc::F_SETLK, (&raw const wanted) as i64).into() }
    }));
    let held = || {
        // SAFETY: the child makes system calls only.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let mut probe = lock(libc::F_WRLCK);
            let other = raw::open(c"000001.sst", libc::O_RDWR);
            // SAFETY: one structure is read and written.
            unsafe { calls::fcntl(other, libc::F_GETLK, (&raw mut probe) as i64) };
            raw::exit(probe.l_type.into());
        }
        let mut status = 0;
        // SAFETY: waits for the child.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        status
    };
    journal.line(&format!("high: {:?}", open_numbers(HIGH_NUMBER)));
    journal.line(&format!("{:x}", held()));
    journal.line(&scan(descriptor, 0, 4096, 100));
    journal.line(&format!("high: {:?}", open_numbers(HIGH_NUMBER)));
    journal.line(&format!("{:x}", held()));
    journal.line(&scan(descriptor, 0, 65_536, 20));
    journal.line(&format!("{:x}", held()));
    // The second kind of lock call: a read-only descriptor cannot take this lock.
    journal.line(&result(|| {
        // SAFETY: no memory is passed.
        unsafe { calls::lockf(descriptor, libc::F_TLOCK, 10).into() }
    }));
    journal.line(&result(|| {
        // SAFETY: no memory is passed.
        unsafe { calls::lockf64(descriptor, libc::F_ULOCK, 10).into() }
    }));
    journal.line(&scan(descriptor, 0, 4096, 100));
    journal.line(&format!("{:x}", held()));
}
