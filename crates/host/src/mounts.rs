//! `/proc/self/mountinfo`: the filesystem at each mount point.
//!
//! Read by hand. `procfs` (0.18) leaves escaped characters in paths as they are, and returns an error for the whole
//! table if one name is not UTF-8.

use std::fs;
use std::path::Path;

/// One mounted filesystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Device number, as `major:minor`.
    pub device: String,
    /// Part of the filesystem that is mounted here.
    pub root: String,
    /// Mount point.
    pub point: String,
    /// Filesystem type, as `mount` shows it.
    pub filesystem: String,
    /// What is mounted, usually a device.
    pub source: String,
    /// Options of the filesystem.
    pub options: String,
}

impl Mount {
    /// Whether the filesystem has this option, without a value.
    #[must_use]
    pub fn has_option(&self, name: &str) -> bool {
        self.options.split(',').any(|option| option == name)
    }
}

/// All mounts that this process sees.
#[must_use]
pub fn read() -> Vec<Mount> {
    parse(&fs::read("/proc/self/mountinfo").unwrap_or_default())
}

/// The mounts in the text of `mountinfo`. Names of directories may be any bytes: what is not UTF-8 is replaced.
#[must_use]
pub fn parse(table: &[u8]) -> Vec<Mount> {
    let table = String::from_utf8_lossy(table);
    table.lines().filter_map(parse_line).collect()
}

/// The mount that holds `path`: the deepest one, and the last one at that point. Device numbers do not identify it:
/// btrfs gives each subvolume its own.
#[must_use]
pub fn of_path<'a>(path: &Path, mounts: &'a [Mount]) -> Option<&'a Mount> {
    mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.point))
        .max_by_key(|mount| Path::new(&mount.point).components().count())
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
/// (proc_pid_mountinfo(5)). A dash ends the optional fields.
fn parse_line(line: &str) -> Option<Mount> {
    let (location, kind) = line.split_once(" - ")?;
    let mut location = location.split(' ').skip(2).map(unescape);
    let mut kind = kind.split(' ').map(unescape);
    Some(Mount {
        device: location.next()?,
        root: location.next()?,
        point: location.next()?,
        filesystem: kind.next()?,
        source: kind.next()?,
        options: kind.next()?,
    })
}

/// The kernel writes space, tab, newline and backslash in octal.
fn unescape(field: &str) -> String {
    [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ]
    .iter()
    .fold(field.to_owned(), |text, (code, character)| {
        text.replace(code, character)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_and_without_optional_fields() {
        let line = r"36 35 98:0 /mnt1 /a\040b rw,noatime shared:1 master:2 - ext3 /dev/root rw,x=y";
        let mount = parse_line(line).unwrap();
        assert_eq!(mount.device, "98:0");
        assert_eq!(mount.root, "/mnt1");
        assert_eq!(mount.point, "/a b");
        assert_eq!(mount.filesystem, "ext3");
        assert_eq!(mount.source, "/dev/root");
        assert_eq!(mount.options, "rw,x=y");
        assert!(mount.has_option("rw") && !mount.has_option("x"));
        assert!(parse_line("36 35 0:5 / /p rw - proc proc rw").is_some());
        assert!(parse_line("nonsense").is_none());
        assert!(!read().is_empty());
    }

    #[test]
    fn a_name_that_is_not_utf_8_hides_no_other_mount() {
        let table = b"1 0 0:1 / /\xff rw - proc proc rw\n2 0 0:2 / /b rw - proc proc rw\n";
        assert_eq!(parse(table).len(), 2);
    }

    fn mount(point: &str) -> Mount {
        Mount {
            device: "0:1".into(),
            root: "/".into(),
            point: point.into(),
            filesystem: "ext4".into(),
            source: "none".into(),
            options: "rw".into(),
        }
    }

    #[test]
    fn the_deepest_and_last_mount_holds_the_path() {
        let mut mounts = vec![mount("/"), mount("/data"), mount("/dat"), mount("/data")];
        mounts[3].source = "last".into();
        let found = of_path(Path::new("/data/db"), &mounts).unwrap();
        assert_eq!(found.source, "last");
        let found = of_path(Path::new("/database"), &mounts).unwrap();
        assert_eq!(found.point, "/");
    }
}
