//! The warning of a small limit of open files.

use coldstream_policy::descriptors::share_of;

/// The limit of most shells and services. A database with a smaller one has fewer than somebody means it to have.
const LIMIT_USUAL: u64 = 1024;

/// What to say before the start of a program that may open few files.
pub fn warning(limit: u64) -> Option<String> {
    let takes = match share_of(limit) {
        _ if limit >= LIMIT_USUAL => return None,
        0 => "none of so few".to_owned(),
        share => format!("{share} of them at most"),
    };
    Some(format!(
        "the program may open {limit} files only, and Coldstream takes {takes}: it needs two for each SSTable that a \
         compaction reads, and one for each that it writes. Without them these calls stay plain. Raise the limit with \
         `ulimit -n` (systemd: `LimitNOFILE=`). event=descriptor_limit limit={limit}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_limit_is_warned_of() {
        for (limit, words) in [
            (0, Some("takes none of so few")),
            (255, Some("takes none of so few")),
            (256, Some("takes 32 of them at most")),
            (1023, Some("takes 127 of them at most")),
            (1024, None),
            (u64::MAX, None),
        ] {
            let said = warning(limit);
            assert_eq!(said.is_some(), words.is_some(), "{limit}");
            assert!(said.is_none_or(|said| said.contains(words.unwrap_or_default())));
        }
    }
}
