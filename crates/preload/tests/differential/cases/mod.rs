//! Cases that random programs meet too rarely. Each is a short program. Its notes must be the same with and
//! without the library, in every I/O mode of reads.

mod content;
mod descriptors;
mod memory;
mod process;

use crate::subject::journal::Journal;
use crate::subject::machine::{self, NO_ERRNO, set_errno};
use crate::subject::{self, calls, execute, name_thread, raw};
use coldstream_testkit::files::{self, Hash, REST};
use coldstream_testkit::library::Preload;
use coldstream_testkit::{directories, skip};
use std::ffi::CStr;

/// Declares the cases: a test for each, and the function that finds the case of a subject.
macro_rules! cases {
    ($($module:ident::$name:ident,)*) => {
        $(#[test]
        fn $name() {
            compare(stringify!($name));
        })*

        fn find(name: &str) -> Option<fn(&mut Journal)> {
            $(if name == stringify!($name) {
                return Some($module::$name);
            })*
            None
        }
    };
}

cases! {
    content::a_store_through_a_mapping_under_another_name_is_seen,
    content::a_store_by_a_child_through_an_old_mapping_is_seen,
    content::a_read_only_mapping_made_writable_later_is_seen,
    content::a_file_under_a_reused_name_is_another_file,
    content::what_is_named_like_a_table_but_is_none,
    content::the_access_time_is_left_alone_if_the_application_says_so,
    content::record_locks_outlive_background_reads,
    descriptors::duplicates_share_their_status_flags,
    descriptors::private_numbers_can_be_closed_like_numbers_that_are_not_open,
    descriptors::advice_on_a_number_that_was_closed_unseen,
    descriptors::private_numbers_that_a_socket_has_got_are_the_sockets,
    descriptors::private_numbers_can_be_taken,
    descriptors::private_numbers_look_as_if_they_were_not_open,
    descriptors::numbers_are_those_that_the_kernel_would_have_given,
    descriptors::as_many_descriptors_can_be_opened,
    descriptors::a_limit_lowered_on_the_way_changes_nothing,
    descriptors::a_number_reused_unseen_is_what_it_is_now,
    descriptors::nothing_is_left_open_after_the_last_close,
    descriptors::private_numbers_taken_unseen_give_no_wrong_bytes,
    memory::buffers_that_cannot_be_written_fail_as_the_kernel_says,
    memory::lengths_and_offsets_without_sense_fail_as_the_kernel_says,
    memory::so_they_do_in_the_foreground,
    memory::a_mapping_of_the_same_file_can_be_the_buffer,
    memory::the_smallest_stack_is_enough,
    process::privileges_can_be_dropped,
    process::without_proc_everything_is_read,
    process::a_signal_handler_may_read_too,
    process::many_short_threads_leave_nothing_behind,
    process::a_child_of_a_child_reads,
}

/// Runs the case with this name, in a subject.
pub fn run(name: &str) {
    let mut journal = subject::own_journal();
    machine::set_limits();
    find(name).unwrap_or_else(|| panic!("no case is called {name}"))(&mut journal);
    journal.line("end");
}

fn compare(name: &str) {
    let directory = directories::on_disk();
    let work = directory.path().join("work");
    let journal = directory.path().join("journal");
    let run = |preload: Option<&Preload>| {
        let _ = std::fs::remove_dir_all(&work);
        std::fs::create_dir(&work).unwrap();
        let _ = std::fs::remove_file(&journal);
        let program = subject::program(&format!("case {name}"), &work, &journal);
        let ended = program.run_either(preload);
        (Journal::read(&journal), ended)
    };
    let (expected, plain) = run(None);
    assert_eq!(
        expected.last().map(String::as_str),
        Some("end"),
        "{plain:?}"
    );
    // Nobody sees the standard error of the subject.
    if let Some(why) = expected[0].strip_prefix("skipped: ") {
        return skip(why);
    }
    for reads in ["auto", "drop-behind", "dontcache", "buffered"] {
        let preload = Preload::quiet().with("COLDSTREAM_READS", reads);
        let (lines, ended) = run(Some(&preload));
        let place = (0..expected.len().max(lines.len()))
            .find(|&line| expected.get(line) != lines.get(line));
        if let Some(place) = place {
            panic!(
                "reads = {reads}, line {place}\nwithout: {:?}\nwith:    {:?}\n{ended:?}",
                expected.get(place),
                lines.get(place)
            );
        }
        assert_eq!(ended.status, plain.status, "reads = {reads}: {ended:?}");
    }
}

/// Makes an SSTable with the content `identity`. It is not in the page cache, and old enough for windows.
fn table(path: &CStr, identity: u64, size_bytes: usize) {
    let descriptor = raw::open(path, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC);
    assert!(descriptor >= 0, "{path:?}");
    let mut bytes = vec![0; size_bytes];
    files::fill(identity, 0, &mut bytes);
    assert!(raw::write_at(descriptor, &bytes, 0));
    raw::close(descriptor);
    raw::drop_pages(path);
    std::thread::sleep(REST);
}

fn open(path: &CStr, flags: i32) -> i32 {
    // SAFETY: the path is NUL-terminated.
    unsafe { calls::open64(path.as_ptr(), flags, 0o644) }
}

fn close(descriptor: i32) -> i32 {
    // SAFETY: no memory is passed.
    unsafe { calls::close(descriptor) }
}

/// The result of a call that sets `errno`.
fn result(call: impl FnOnce() -> i64) -> String {
    set_errno(NO_ERRNO);
    execute::outcome(call())
}

/// Reads once. Returns the result, and a hash of the whole buffer.
fn read(descriptor: i32, length: usize, offset: i64) -> String {
    let mut bytes = vec![0xA5; length];
    let text = result(|| {
        execute::reads::positional("pread64", descriptor, bytes.as_mut_ptr(), length, offset, 0)
            as i64
    });
    format!("{text} {}", Hash::of(&bytes))
}

/// Reads chunks from an offset on.
fn scan(descriptor: i32, offset: i64, chunk: usize, count: usize) -> String {
    let reads: Vec<String> = (0..count)
        .map(|number| read(descriptor, chunk, offset + (number * chunk) as i64))
        .collect();
    let first = reads.first().cloned().unwrap_or_default();
    format!("{first} … {}", Hash::of(reads.join(" ").as_bytes()))
}

/// Makes the calling thread a background reader.
fn be_background() {
    name_thread(c"rocksdb:low");
}
