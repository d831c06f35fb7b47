//! The warning of a small limit of open files.

use coldstream_policy::descriptors::{is_small, share_of};

/// The limits of open files that a program is started with (`RLIMIT_NOFILE`).
#[derive(Clone, Copy)]
pub struct Limits {
    /// The one in force.
    pub soft: u64,
    /// The one up to which the program may raise it.
    pub hard: u64,
}

/// What to say before the start of a program that may open few files. Java (`MaxFDLimit`) and Go (since 1.19) raise the limit
/// themselves, before Coldstream looks at it: `raises_it` if the program is known to be such a one.
pub fn warning(limits: Limits, raises_it: bool) -> Option<String> {
    let limit = if raises_it { limits.hard } else { limits.soft };
    if !is_small(limit) {
        return None;
    }
    let unless = match is_small(limits.hard) {
        true => "",
        false => ", unless it raises that itself, as the JVM does",
    };
    let takes = match share_of(limit) {
        0 => "none of so few".to_owned(),
        share => format!("{share} of them at most"),
    };
    Some(format!(
        "the program may open {limit} files only{unless}. Coldstream takes {takes}. A compaction needs two for each SSTable \
         that it reads, and one for each that it writes. Without them these calls stay plain. Raise the limit with \
         `ulimit -n` (systemd: `LimitNOFILE=`). event=descriptor_limit limit={limit}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_limit_is_warned_of() {
        for (soft, words) in [
            (0, Some("takes none of so few")),
            (255, Some("takes none of so few")),
            (256, Some("takes 32 of them at most")),
            (1023, Some("takes 127 of them at most")),
            (1024, None),
            (u64::MAX, None),
        ] {
            let said = warning(Limits { soft, hard: soft }, false);
            assert_eq!(said.is_some(), words.is_some(), "{soft}");
            assert!(said.is_none_or(|said| said.contains(words.unwrap_or_default())));
        }
    }

    #[test]
    fn a_program_may_raise_the_limit_itself() {
        let said = |hard, raises_it| warning(Limits { soft: 512, hard }, raises_it);
        assert_eq!(said(1024, true), None);
        let unless = "may open 512 files only, unless it raises that itself, as the JVM does.";
        assert!(said(1024, false).is_some_and(|said| said.contains(unless)));
        for (raises_it, words) in [
            (true, "may open 1000 files only."),
            (false, "may open 512 files only."),
        ] {
            assert!(said(1000, raises_it).is_some_and(|said| said.contains(words)));
        }
    }
}
