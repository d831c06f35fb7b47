//! The names of users in `/etc/passwd`. Users of a directory service have none there: they keep their number.

use std::fs;

/// A user in a message: its name, or else its number.
#[must_use]
pub fn shown(user: u32) -> String {
    of(user).unwrap_or_else(|| user.to_string())
}

/// A user as `sudo -u` takes it in a shell.
#[must_use]
pub fn for_sudo(user: u32) -> String {
    of(user).unwrap_or_else(|| format!("'#{user}'"))
}

fn of(user: u32) -> Option<String> {
    // One line that is no text must not hide the others.
    let lines = fs::read("/etc/passwd").ok()?;
    in_lines(&String::from_utf8_lossy(&lines), user)
}

/// The first name with this number. A name that a shell or `sudo` could take for something else counts as none.
fn in_lines(lines: &str, user: u32) -> Option<String> {
    let mut entries = lines.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let (name, _password, number) = (fields.next()?, fields.next()?, fields.next()?);
        (number.parse() == Ok(user)).then_some(name)
    });
    entries
        .next()
        .filter(|name| is_plain(name))
        .map(str::to_owned)
}

fn is_plain(name: &str) -> bool {
    let begins_well = name.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_');
    let is_known = |it: char| it.is_ascii_alphanumeric() || "_.-".contains(it);
    begins_well && name.chars().all(is_known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_name_is_found_by_its_number() {
        let lines = "# users\nroot:x:0:0::/:/bin/sh\nbad line\n\u{fffd}:x:3:3\ncassandra:x:112:1::/:\nsecond:x:112:1\n\
                     $(reboot):x:5:5\n-u:x:6:6\n17:x:7:7\n+::::::\n";
        for (user, name) in [
            (0, Some("root")),
            (112, Some("cassandra")),
            (1, None),
            (3, None),
            (5, None),
            (6, None),
            (7, None),
        ] {
            assert_eq!(in_lines(lines, user).as_deref(), name, "{user}");
        }
    }

    #[test]
    fn a_user_without_a_name_keeps_its_number() {
        assert_eq!(shown(u32::MAX), u32::MAX.to_string());
        assert_eq!(for_sudo(u32::MAX), format!("'#{}'", u32::MAX));
    }
}
