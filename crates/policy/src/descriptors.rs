//! How many of a process's descriptors Coldstream takes. The engine keeps to it, and the command line tells of it.

/// Coldstream takes at most one in so many of those that a process may open (`RLIMIT_NOFILE`).
const SHARE: u64 = 8;
/// It takes no more than these.
pub const MAX: u64 = 8192;
/// In a process that may open fewer it takes none: the application would miss them.
const LIMIT_MIN: u64 = 256;
/// The limit of most shells and services. A database with a smaller one has fewer than somebody means it to have.
const LIMIT_USUAL: u64 = 1024;

/// Whether a limit is to be warned of.
#[must_use]
pub const fn is_small(limit: u64) -> bool {
    limit < LIMIT_USUAL
}

/// How many Coldstream takes at most where a process may open `limit`.
#[must_use]
pub const fn share_of(limit: u64) -> u64 {
    if limit < LIMIT_MIN {
        return 0;
    }
    let share = limit / SHARE;
    if share < MAX { share } else { MAX }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eighth_but_none_of_few() {
        for (limit, share) in [
            (0, 0),
            (255, 0),
            (256, 32),
            (1023, 127),
            (65_536, MAX),
            (u64::MAX, MAX),
        ] {
            assert_eq!(share_of(limit), share, "{limit}");
        }
    }
}
