//! Status pages that ended processes left behind: killed ones, and those that ended by a raw system call.

use super::status_page::PageAddress;
use super::text::Text;
use coldstream_control::pid_of_file_name;
use coldstream_io::Errno;
use coldstream_io::sys::{file, getdents, process};
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

/// Calls that list the directory at most: some 120 names each. The work is done in a call of the application,
/// and takes a few microseconds a name. A thread of the library's own could not do it: the descriptor of the
/// directory would change the numbers that the application gets meanwhile.
const LISTINGS_MAX: usize = 8;
/// Room for the names of one call.
const LISTING_BYTES: usize = 4096;

/// Removes the pages of ended processes with the user and the namespace of `own`.
#[cold]
#[inline(never)]
pub(super) fn remove_pages(own: &PageAddress) {
    // Without this `/proc`, or with that of another namespace, every process would seem to have ended.
    if !is_own_proc() {
        return;
    }
    let how = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let path = own.directory();
    let opened = path.as_c_str().map(|path| file::open(path, how, 0));
    let Some(Ok(directory)) = opened else {
        return;
    };
    let is_own = file::owner_and_mode(directory).is_ok_and(|(owner, _)| owner == own.user);
    let mut room = [0; LISTING_BYTES];
    for _ in 0..LISTINGS_MAX {
        let visit = |name: &[u8]| {
            let of = pid_of_file_name(OsStr::from_bytes(name), own.namespace);
            if let Some(process_id) = of
                && has_ended(process_id)
                && let Some(path) = own.page_of(process_id).as_c_str()
            {
                let _ = file::unlink(path);
            }
        };
        if !is_own || !getdents::next_names(directory, &mut room, visit).unwrap_or(false) {
            break;
        }
    }
    let _ = file::close(directory);
}

/// Whether `/proc` shows the processes by the ids that they have here.
fn is_own_proc() -> bool {
    let mut link = [0; 16];
    let length = file::read_link(c"/proc/self", &mut link).unwrap_or(0);
    let mut own = Text::<16>::new();
    let _ = write!(own, "{}", process::process_id());
    link.get(..length) == Some(own.as_bytes())
}

/// Whether there is no process with this id. A page whose id another process has now stays: it may be one
/// that is just being made.
fn has_ended(process_id: u32) -> bool {
    let mut directory = Text::<32>::new();
    let _ = write!(directory, "/proc/{process_id}\0");
    directory.as_c_str().is_some_and(|path| {
        // SAFETY: a NUL-terminated string that does not change.
        let found = unsafe { file::stamp_of_path(path.as_ptr()) };
        found == Err(Errno(libc::ENOENT))
    })
}
