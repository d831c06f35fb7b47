//! The start time of a process. Process ids are reused: only id and start time together name one.

/// The start of a process in clock ticks since boot. `stat` is the content of `/proc/PID/stat`.
#[must_use]
pub fn start_time_ticks(stat: &[u8]) -> Option<u64> {
    stat_field(stat, 22)
}

/// A numeric field of `/proc/PID/stat`, from the fourth on, with its number in `proc_pid_stat(5)`.
/// The second field is the command in parentheses. It may have spaces and parentheses itself, so fields
/// are counted from the last parenthesis.
#[must_use]
pub fn stat_field(stat: &[u8], number: usize) -> Option<u64> {
    let after_command = stat.rsplit(|&byte| byte == b')').next()?;
    if after_command.len() == stat.len() {
        return None;
    }
    // The first field here is the third of the line.
    let field = after_command
        .split(|byte| byte.is_ascii_whitespace())
        .filter(|field| !field.is_empty())
        .nth(number.checked_sub(3)?)?;
    std::str::from_utf8(field).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_from_the_end_of_the_command() {
        let fields = "S 1 2 2 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2 3\n";
        for command in ["(java)", "(a b)", "(:) 1 2 3)", "()"] {
            let stat = format!("42 {command} {fields}");
            assert_eq!(start_time_ticks(stat.as_bytes()), Some(987_654));
            assert_eq!(stat_field(stat.as_bytes(), 15), Some(6));
            assert_eq!(stat_field(stat.as_bytes(), 2), None);
        }
    }

    #[test]
    fn anything_else_is_none() {
        for stat in ["", "42 (java) S 1 2", "42 java S", ")", "1 2 3"] {
            assert_eq!(start_time_ticks(stat.as_bytes()), None, "{stat:?}");
        }
    }
}
