//! Nice values that Coldstream left alone, in words.

use coldstream_policy::Priorities;

use super::values::count;

/// Words behind the nice values: in how many threads they were left alone, and what to do. Empty where no value is above
/// 0: those need no permission, and the counter tells of former ones.
pub fn words(priorities: &Priorities, refused_threads: u64) -> String {
    if refused_threads == 0 || !priorities.has_nice() {
        return String::new();
    }
    let threads = count(refused_threads, "thread", "threads");
    format!(
        ", but refused for {threads}: set LimitNICE=+0 in the unit (in a container: --ulimit nice=20)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_said_where_a_value_could_be_refused() {
        let with = |nice: &str| Priorities::none().with_nice(nice).unwrap();
        assert!(words(&with("10"), 3).starts_with(", but refused for 3 threads: set LimitNICE=+0"));
        assert_eq!(words(&with("10"), 0), "");
        for without in ["none", "0"] {
            assert_eq!(words(&with(without), 3), "");
        }
    }
}
