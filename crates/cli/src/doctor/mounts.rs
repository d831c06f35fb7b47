//! `/proc/self/mountinfo`: which filesystem a device number belongs to.

use std::fs;

/// One mounted filesystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Major and minor number, as `major:minor`.
    pub device: String,
    /// Part of the filesystem that is mounted here.
    pub root: String,
    /// Where it is mounted.
    pub point: String,
    /// Its type, as `mount` shows it.
    pub filesystem: String,
    /// What is mounted: a device, as a rule.
    pub source: String,
    /// Options of the filesystem.
    pub options: String,
}

/// All mounts that this process sees.
pub fn read() -> Vec<Mount> {
    let table = fs::read("/proc/self/mountinfo").unwrap_or_default();
    // Names of directories may be any bytes.
    let table = String::from_utf8_lossy(&table);
    table.lines().filter_map(parse).collect()
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
/// (proc_pid_mountinfo(5)); the optional fields end at the dash.
fn parse(line: &str) -> Option<Mount> {
    let (place, kind) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(2).map(unescape);
    let mut kind = kind.split(' ').map(unescape);
    Some(Mount {
        device: place.next()?,
        root: place.next()?,
        point: place.next()?,
        filesystem: kind.next()?,
        source: kind.next()?,
        options: kind.next()?,
    })
}

/// Space, tab, newline and backslash are written in octal.
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
        let mount = parse(line).unwrap();
        assert_eq!(mount.device, "98:0");
        assert_eq!(mount.root, "/mnt1");
        assert_eq!(mount.point, "/a b");
        assert_eq!(mount.filesystem, "ext3");
        assert_eq!(mount.source, "/dev/root");
        assert_eq!(mount.options, "rw,x=y");
        assert!(parse("36 35 0:5 / /p rw - proc proc rw").is_some());
        assert!(parse("nonsense").is_none());
        assert!(!read().is_empty());
    }
}
