//! Events around reads: dropped privileges, signals, ending threads, forks.

use super::*;
use coldstream_testkit::tools::is_root;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

const SIZE_BYTES: usize = 1 << 20;
const SKIPPED_WITHOUT_ROOT: &str = "skipped: needs root";

pub fn privileges_can_be_dropped(journal: &mut Journal) {
    if !is_root() {
        return journal.line(SKIPPED_WITHOUT_ROOT);
    }
    be_background();
    table(c"000001.sst", 1, SIZE_BYTES);
    table(c"000002.sst", 2, SIZE_BYTES);
    // SAFETY: NUL-terminated paths.
    unsafe {
        libc::chmod(c"000001.sst".as_ptr(), 0o600);
        libc::chmod(c"000002.sst".as_ptr(), 0o600);
    }
    std::thread::sleep(REST);
    let first = open(c"000001.sst", libc::O_RDONLY);
    let second = open(c"000002.sst", libc::O_RDONLY);
    journal.line(&scan(first, 0, 4096, 20));
    const NOBODY: u32 = 65_534;
    // SAFETY: no memory is passed.
    journal.line(&result(|| unsafe {
        libc::setresuid(NOBODY, NOBODY, NOBODY).into()
    }));
    journal.line(&scan(first, 20 * 4096, 4096, 100));
    journal.line(&scan(second, 0, 4096, 100));
    journal.line(&result(|| open(c"000001.sst", libc::O_RDONLY).into()));
}

pub fn without_proc_everything_is_read(journal: &mut Journal) {
    if !is_root() {
        return journal.line(SKIPPED_WITHOUT_ROOT);
    }
    be_background();
    table(c"000001.sst", 1, SIZE_BYTES);
    let descriptor = open(c"000001.sst", libc::O_RDONLY);
    // SAFETY: a NUL-terminated path.
    journal.line(&result(|| unsafe { libc::chroot(c".".as_ptr()).into() }));
    journal.line(&scan(descriptor, 0, 4096, 100));
    let again = open(c"/000001.sst", libc::O_RDONLY);
    journal.line(&format!("{again} {}", scan(again, 0, 65_536, 20)));
}

static HANDLED: AtomicU64 = AtomicU64::new(0);
static WRONG: AtomicU64 = AtomicU64::new(0);
static HANDLERS_TABLE: AtomicI32 = AtomicI32::new(-1);

extern "C" fn on_alarm(_: libc::c_int) {
    let mut bytes = [0_u8; 4096];
    // SAFETY: libc returns the address of this thread's errno; the array has room.
    unsafe {
        let errno = *libc::__errno_location();
        let descriptor = HANDLERS_TABLE.load(Ordering::Relaxed);
        let offset = (HANDLED.load(Ordering::Relaxed) % 256 * 4096) as i64;
        let read = calls::pread64(descriptor, bytes.as_mut_ptr().cast(), 4096, offset);
        let duplicate = calls::dup(descriptor);
        calls::close(duplicate);
        let mut expected = [0_u8; 4096];
        files::fill(1, offset as u64, &mut expected);
        if read != 4096 || bytes != expected {
            WRONG.fetch_add(1, Ordering::Relaxed);
        }
        *libc::__errno_location() = errno;
    }
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

pub fn a_signal_handler_may_read_too(journal: &mut Journal) {
    be_background();
    table(c"000001.sst", 1, SIZE_BYTES);
    let descriptor = open(c"000001.sst", libc::O_RDONLY);
    HANDLERS_TABLE.store(descriptor, Ordering::Relaxed);
    // All symbols are looked up before the first signal.
    on_alarm(0);
    // SAFETY: the handler makes calls that are allowed in one.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_alarm as *const () as usize;
        libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
        let interval = libc::timeval {
            tv_sec: 0,
            tv_usec: 3000,
        };
        let timer = libc::itimerval {
            it_interval: interval,
            it_value: interval,
        };
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut());
    }
    for round in 0..20 {
        if round % 3 == 0 {
            raw::drop_pages(c"000001.sst");
        }
        journal.line(&scan(descriptor, 0, 4096, 300));
    }
    // On machines of any speed.
    while HANDLED.load(Ordering::Relaxed) <= 5 {
        scan(descriptor, 0, 4096, 300);
    }
    // SAFETY: stops the timer.
    unsafe {
        let never: libc::itimerval = std::mem::zeroed();
        libc::setitimer(libc::ITIMER_REAL, &raw const never, std::ptr::null_mut());
    }
    journal.line(&format!(
        "some handled: {}",
        HANDLED.load(Ordering::Relaxed) > 5
    ));
    journal.line(&format!("{} wrong", WRONG.load(Ordering::Relaxed)));
}

pub fn many_short_threads_leave_nothing_behind(journal: &mut Journal) {
    table(c"000001.sst", 1, SIZE_BYTES);
    let descriptor = open(c"000001.sst", libc::O_RDONLY);
    for round in 0..300_i64 {
        let text = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                be_background();
                scan(descriptor, round * 3001 % SIZE_BYTES as i64, 4096, 5)
            });
            thread.join().unwrap()
        });
        journal.line(&text);
        if round % 50 == 0 {
            raw::drop_pages(c"000001.sst");
        }
    }
}

pub fn a_child_of_a_child_reads(journal: &mut Journal) {
    be_background();
    table(c"000001.sst", 1, SIZE_BYTES);
    let descriptor = open(c"000001.sst", libc::O_RDONLY);
    journal.line(&scan(descriptor, 0, 4096, 20));
    // The pipe to the parent, if this process is a child.
    let mut parent = None;
    for generation in 0..4 {
        let [out, into] = raw::pipe();
        // SAFETY: the child goes on with this very code, alone.
        let child = unsafe { libc::fork() };
        if child != 0 {
            raw::close(into);
            let mut text = vec![0; 4096];
            let length = raw::read_all(out, &mut text);
            let mut status = 0;
            // SAFETY: waits for the child.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            let text = String::from_utf8_lossy(&text[..length]);
            match parent {
                None => return journal.line(&format!("{status:x} {text}")),
                Some(parent) => {
                    raw::write(parent, text.as_bytes());
                    raw::exit(status);
                }
            }
        }
        raw::close(out);
        parent = Some(into);
        let old = scan(descriptor, 20 * 4096, 4096, 20);
        let again = open(c"000001.sst", libc::O_RDONLY);
        let new = scan(again, 0, 65_536, 17);
        raw::write(
            into,
            format!("{generation}: {old} {again} {new} ").as_bytes(),
        );
    }
    raw::exit(0);
}
