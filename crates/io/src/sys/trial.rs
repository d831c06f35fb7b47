//! Trials of the calls that can be avoided: whether a filter kills for one shows only when it is made.

use super::avoid;
use super::raw::syscall;

/// Makes the call with this place in [`avoid::names`] with arguments that the kernel refuses, or that change nothing.
/// A filter that looks at the number only decides as for a real one. For a process that may end by it.
pub fn make_in_vain(place: usize) {
    if let Some(number) = avoid::numbers().nth(place) {
        // SAFETY: no descriptor, thread or flag has this number, no memory is at this address, and no user or
        // group changes: -1 keeps the present one.
        unsafe { syscall(number, [usize::MAX; 6]) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_in_vain_change_nothing() {
        let before = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        (0..avoid::names().count()).for_each(make_in_vain);
        let after = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let credentials = |status: &str| {
            let is_one = |line: &&str| {
                ["Uid:", "Gid:", "Groups:", "Cap"]
                    .iter()
                    .any(|it| line.starts_with(it))
            };
            status
                .lines()
                .filter(is_one)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(credentials(&before), credentials(&after));
    }
}
