//! Buffers of reads, and small stacks.

use super::*;

const SIZE_BYTES: usize = (1 << 20) + 100;

fn scanned(path: &CStr) -> i32 {
    be_background();
    table(path, 1, SIZE_BYTES);
    open(path, libc::O_RDONLY)
}

fn read_to(descriptor: i32, address: *mut u8, length: usize, offset: i64) -> String {
    result(|| execute::reads::positional("pread64", descriptor, address, length, offset, 0) as i64)
}

pub fn buffers_that_cannot_be_written_fail_as_the_kernel_says(journal: &mut Journal) {
    let descriptor = scanned(c"000001.sst");
    let pages = raw::map_anonymous(16 * 4096, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: pages of the mapping just made.
    unsafe {
        libc::mprotect(pages.add(4 * 4096).cast(), 4096, libc::PROT_NONE);
        libc::mprotect(pages.add(8 * 4096).cast(), 4096, libc::PROT_READ);
    }
    // No hole: the next mapping, also one for the library, could be placed there.
    for page in [4_usize, 8] {
        for (back, length) in [
            (0, 100),
            (0, 4096),
            (10, 20),
            (4, 8),
            (4096, 4097),
            (4096, 9000),
            (9000, 9001),
        ] {
            let address = pages.wrapping_add(page * 4096 - back);
            for offset in [0, 12_345] {
                journal.line(&read_to(descriptor, address, length, offset));
            }
        }
    }
    for address in [0_usize, 8, usize::MAX, usize::MAX - 4095, 1 << 63, 1 << 47] {
        journal.line(&read_to(descriptor, address as *mut u8, 4096, 0));
    }
    // Memory behind the end of the file is not needed.
    for offset in [
        SIZE_BYTES as i64,
        SIZE_BYTES as i64 - 8,
        SIZE_BYTES as i64 - 100,
    ] {
        journal.line(&read_to(
            descriptor,
            pages.wrapping_add(4 * 4096 - 8),
            4096,
            offset,
        ));
        journal.line(&read_to(descriptor, std::ptr::null_mut(), 4096, offset));
    }
}

pub fn lengths_and_offsets_without_sense_fail_as_the_kernel_says(journal: &mut Journal) {
    read_without_sense(scanned(c"000001.sst"), journal);
}

/// The requested ranges count as hot.
pub fn so_they_do_in_the_foreground(journal: &mut Journal) {
    table(c"000001.sst", 1, SIZE_BYTES);
    read_without_sense(open(c"000001.sst", libc::O_RDONLY), journal);
}

fn read_without_sense(descriptor: i32, journal: &mut Journal) {
    // In the middle of the address space, so that it does not depend on chance (ASLR) which of these
    // lengths reach over its end.
    // SAFETY: a new mapping; the address is a wish.
    let room = unsafe {
        libc::mmap(
            (1_usize << 45) as *mut libc::c_void,
            4 << 20,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    assert_eq!(room as usize, 1 << 45, "taken");
    let room = room.cast();
    for length in [
        usize::MAX,
        isize::MAX as usize,
        isize::MAX as usize + 1,
        1 << 47,
        1 << 40,
        1 << 31,
        (1 << 31) - 4096,
        (1 << 30) + 1,
        2 << 20,
        0,
    ] {
        for offset in [
            0,
            5,
            SIZE_BYTES as i64 - 10,
            SIZE_BYTES as i64,
            1 << 50,
            i64::MAX,
            i64::MIN,
            -1,
        ] {
            journal.line(&format!(
                "{length:x} {offset:x}: {}",
                read_to(descriptor, room, length, offset)
            ));
        }
    }
}

pub fn a_mapping_of_the_same_file_can_be_the_buffer(journal: &mut Journal) {
    let descriptor = scanned(c"000001.sst");
    let writer = open(c"000001.sst", libc::O_RDWR);
    for flags in [libc::MAP_PRIVATE, libc::MAP_SHARED] {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping; the last pages lie behind the end of the file.
        let mapped = unsafe {
            calls::mmap64(
                std::ptr::null_mut(),
                SIZE_BYTES + 65_536,
                protection,
                flags,
                writer,
                0,
            )
        };
        assert_ne!(mapped, libc::MAP_FAILED);
        let mapped = mapped.cast::<u8>();
        for (place, offset) in [
            (0, 500_000),
            (100, 0),
            (500_000, 499_000),
            (SIZE_BYTES + 4096, 0),
        ] {
            journal.line(&read_to(
                descriptor,
                mapped.wrapping_add(place),
                10_000,
                offset,
            ));
            journal.line(&read(descriptor, 65_536, (place & !4095) as i64));
        }
    }
    close(writer);
}

/// The task of a thread with the smallest stack, and its result.
struct Errand {
    descriptor: i32,
    buffer: *mut u8,
    read: i64,
    errno: i32,
}

extern "C" fn scan_all(errand: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: the thread that made this one waits for it, and gave it an errand.
    let errand = unsafe { &mut *errand.cast::<Errand>() };
    be_background();
    set_errno(0);
    loop {
        let offset = errand.read;
        // SAFETY: the buffer has room for the whole file.
        let read = unsafe {
            let place = errand.buffer.add(offset as usize);
            calls::pread64(errand.descriptor, place.cast(), 4096, offset)
        };
        if read <= 0 {
            // SAFETY: libc returns the address of this thread's errno.
            errand.errno = unsafe { *libc::__errno_location() };
            return std::ptr::null_mut();
        }
        errand.read += read as i64;
    }
}

pub fn the_smallest_stack_is_enough(journal: &mut Journal) {
    let descriptor = scanned(c"000001.sst");
    // The first call looks the symbol up, which would use the stack.
    journal.line(&read(descriptor, 0, 0));
    for _ in 0..3 {
        raw::drop_pages(c"000001.sst");
        let buffer = raw::map_anonymous(2 << 20, libc::PROT_READ | libc::PROT_WRITE);
        let mut errand = Errand {
            descriptor,
            buffer,
            read: 0,
            errno: 0,
        };
        // SAFETY: the errand outlives the thread, which is waited for.
        unsafe {
            let mut attributes = std::mem::MaybeUninit::uninit();
            libc::pthread_attr_init(attributes.as_mut_ptr());
            let mut attributes = attributes.assume_init();
            assert_eq!(
                libc::pthread_attr_setstacksize(&raw mut attributes, libc::PTHREAD_STACK_MIN),
                0
            );
            let mut thread = 0;
            let pointer = (&raw mut errand).cast();
            assert_eq!(
                libc::pthread_create(&raw mut thread, &raw const attributes, scan_all, pointer),
                0
            );
            libc::pthread_join(thread, std::ptr::null_mut());
        }
        // SAFETY: so much has been read.
        let bytes = unsafe { std::slice::from_raw_parts(buffer, errand.read as usize) };
        journal.line(&format!(
            "{} errno {} {}",
            errand.read,
            errand.errno,
            Hash::of(bytes)
        ));
    }
}
