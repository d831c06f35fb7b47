//! Names in a directory: [`getdents64(2)`](https://man7.org/linux/man-pages/man2/getdents.2.html).

use super::raw::syscall;
use super::{Descriptor, Errno};

/// Bytes of `struct linux_dirent64` before the name: inode, position, length, type.
const NAME_OFFSET: usize = 19;
/// Where its length is.
const LENGTH_OFFSET: usize = 16;

/// Calls `visit` with the next names of an open directory, as many as fit into `room`. Returns whether there
/// may be more.
///
/// # Errors
/// The kernel's, such as `ENOTDIR`.
pub fn next_names(
    directory: impl Into<Descriptor>,
    room: &mut [u8],
    mut visit: impl FnMut(&[u8]),
) -> Result<bool, Errno> {
    // SAFETY: the kernel writes within `room`.
    let filled = Errno::check(unsafe {
        syscall(
            libc::SYS_getdents64,
            [
                directory.into().argument(),
                room.as_mut_ptr() as usize,
                room.len(),
            ],
        )
    })?;
    let mut rest = room.get(..filled).unwrap_or_default();
    while let Some(&[low, high]) = rest.get(LENGTH_OFFSET..LENGTH_OFFSET + 2) {
        let length = usize::from(u16::from_ne_bytes([low, high]));
        let padded = rest.get(NAME_OFFSET..length).unwrap_or_default();
        if let Some(name) = padded.split(|byte| *byte == 0).next() {
            visit(name);
        }
        rest = rest.get(length.max(NAME_OFFSET)..).unwrap_or_default();
    }
    Ok(filled > 0)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::os::fd::AsFd;

    #[test]
    fn every_name_comes_once() {
        let directory = tempfile::tempdir().unwrap();
        let mut expected = BTreeSet::from([".".to_owned(), "..".to_owned()]);
        for number in 0..100 {
            let name = format!("{number:0width$}", width = 1 + number);
            std::fs::write(directory.path().join(&name), "").unwrap();
            assert!(expected.insert(name));
        }
        let open = std::fs::File::open(directory.path()).unwrap();
        let mut found = Vec::new();
        let visit = |name: &[u8]| found.push(String::from_utf8(name.to_vec()).unwrap());
        let mut visit = visit;
        while next_names(open.as_fd(), &mut [0; 512], &mut visit).unwrap() {}
        assert_eq!(found.len(), expected.len());
        assert_eq!(BTreeSet::from_iter(found), expected);
    }
}
