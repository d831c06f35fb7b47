//! Readahead of SSTables, and the mapped files of a process.

/// What Coldstream does about readahead of SSTables.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::VariantNames,
)]
#[strum(serialize_all = "kebab-case")]
pub enum Readahead {
    /// No readahead by the kernel; Coldstream reads ahead of range scans.
    #[default]
    Scans,
    /// The same, and mapped SSTables get no readahead at all.
    ScansAndMapped,
    /// The kernel's readahead as it is.
    Kernel,
}

impl Readahead {
    /// The name in configurations.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A file mapped into a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedFile<'l> {
    /// Address of its first byte.
    pub address: usize,
    /// Bytes of the mapping.
    pub length_bytes: usize,
    /// Offset of its first byte in the file.
    pub offset: u64,
    /// The device's major and minor number.
    pub device: (u32, u32),
    /// Number of the file's inode.
    pub inode: u64,
    /// The file's path at the time of the mapping. The kernel writes a newline in it as `\012`.
    pub path: &'l [u8],
}

/// The mapped file of a line of `/proc/PID/maps` (proc_pid_maps(5)); `None` if it maps no file.
pub fn mapped_file(line: &[u8]) -> Option<MappedFile<'_>> {
    let path = line.get(line.iter().position(|byte| *byte == b'/')?..)?;
    let mut fields = line.split(|byte| *byte == b' ');
    let mut next = || std::str::from_utf8(fields.next()?).ok();
    let (range, _, offset) = (next()?, next()?, next()?);
    let (device, inode) = (next()?, next()?);
    let (start, end) = range.split_once('-')?;
    let address = usize::from_str_radix(start, 16).ok()?;
    let length_bytes = usize::from_str_radix(end, 16).ok()?.checked_sub(address)?;
    let (major, minor) = device.split_once(':')?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    Some(MappedFile {
        address,
        length_bytes,
        offset: u64::from_str_radix(offset, 16).ok()?,
        device: (number(major)?, number(minor)?),
        inode: inode.parse().ok()?,
        path: path.strip_suffix(b" (deleted)").unwrap_or(path),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mappings_of_files_are_told_from_others() {
        let line = b"7f5c0a000000-7f5c0a600000 r--s 00002000 fe:01 1049  /data/my db/000001.sst";
        let sstable = MappedFile {
            address: 0x7f5c_0a00_0000,
            length_bytes: 6 << 20,
            offset: 0x2000,
            device: (0xfe, 1),
            inode: 1049,
            path: b"/data/my db/000001.sst",
        };
        assert_eq!(mapped_file(line), Some(sstable));
        let mut deleted = line.to_vec();
        deleted.extend(b" (deleted)");
        assert_eq!(mapped_file(&deleted), Some(sstable));
        for line in [
            "7ffd5e9f5000-7ffd5ea16000 rw-p 00000000 00:00 0          [stack]",
            "7f5c0a000000-7f5c0a600000 rw-p 00000000 00:00 0 ",
            "7f5c0a600000-7f5c0a000000 r--s 00000000 fe:00 1049  /behind",
            "nothing /of the kind",
            "",
        ] {
            assert_eq!(mapped_file(line.as_bytes()), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_line_panics(line in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = mapped_file(&line);
        }
    }
}
