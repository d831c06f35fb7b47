//! Nice values that Coldstream left alone, in words.

use super::values::count;

/// Words behind the nice values: in how many `threads` they were left alone (`Snapshot::nice_refused_threads`), and what to
/// do. Empty for none.
pub fn words(threads: u64) -> String {
    if threads == 0 {
        return String::new();
    }
    let threads = count(threads, "thread", "threads");
    format!(
        ", but refused for {threads}: set LimitNICE=+0 in the unit (in a container: --ulimit nice=20)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_said_of_threads_only() {
        assert!(words(3).starts_with(", but refused for 3 threads: set LimitNICE=+0"));
        assert_eq!(words(0), "");
    }
}
