//! How many descriptors Coldstream may take of those that a process may open. `engine/core/private_descriptors.rs`
//! decides it.

/// The part of a limit that Coldstream may take: one in so many.
const SHARE: u64 = 8;
/// It takes no more than these.
pub const SHARE_MAX: u64 = 8192;
/// Of fewer it takes none.
const LIMIT_MIN: u64 = 256;
/// The limit of most shells and services. A database with a smaller one has fewer than somebody means it to have.
const LIMIT_USUAL: u64 = 1024;

/// How many Coldstream takes at most.
pub fn share_of(limit: u64) -> u64 {
    match limit < LIMIT_MIN {
        true => 0,
        false => (limit / SHARE).min(SHARE_MAX),
    }
}

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
    fn an_eighth_is_taken_and_a_small_limit_is_warned_of() {
        for (limit, share, words) in [
            (0, 0, Some("takes none of so few")),
            (255, 0, Some("takes none of so few")),
            (256, 32, Some("takes 32 of them at most")),
            (1023, 127, Some("takes 127 of them at most")),
            (1024, 128, None),
            (65_536, SHARE_MAX, None),
            (u64::MAX, SHARE_MAX, None),
        ] {
            assert_eq!(share_of(limit), share, "{limit}");
            let said = warning(limit);
            assert_eq!(said.is_some(), words.is_some(), "{limit}");
            assert!(said.is_none_or(|said| said.contains(words.unwrap_or_default())));
        }
    }
}
