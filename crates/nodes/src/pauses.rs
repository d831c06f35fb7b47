//! The pauses of a node's virtual machine: its safepoints, mostly for garbage collection. No request is served during
//! a pause.

/// A time in which no thread of the virtual machine ran Java code. Monotonic clock, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// When the threads were asked to stop.
    pub begin_ns: u64,
    /// When they continued.
    pub end_ns: u64,
}

impl Pause {
    /// Its duration.
    pub fn duration_ns(self) -> u64 {
        self.end_ns - self.begin_ns
    }
}

/// The argument that makes the virtual machine write its safepoints to a file. Their times are those of
/// `System.nanoTime()`, the monotonic clock (`os_linux.cpp: os::javaTimeNanos`).
pub(crate) fn java_argument(file: &str) -> String {
    format!("-Xlog:safepoint=info:file={file}:timenanos:filecount=0")
}

/// The pauses in such a file. The virtual machine writes a line when a safepoint ends
/// (`safepoint.cpp: SafepointTracing::end`, JDK 17):
/// `[123456789ns] Safepoint "Cleanup", Time since last: …, Total: 1234 ns`. Other lines are skipped.
pub(crate) fn of_log(text: &str) -> Vec<Pause> {
    text.lines().filter_map(of_line).collect()
}

fn of_line(line: &str) -> Option<Pause> {
    let (time, rest) = line.strip_prefix('[')?.split_once("ns]")?;
    let (_, total) = rest.rsplit_once(" Total: ")?;
    let end_ns: u64 = time.parse().ok()?;
    let total_ns: u64 = total.strip_suffix(" ns")?.trim_start().parse().ok()?;
    Some(Pause {
        begin_ns: end_ns.checked_sub(total_ns)?,
        end_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_read_from_its_line_and_other_lines_are_skipped() {
        let log = "[70000ns] Safepoint \"G1CollectForAllocation\", Time since last: 9 ns, \
                   Reaching safepoint: 10 ns, At safepoint: 20000 ns, Total: 20010 ns\n\
                   [80000ns] Entering safepoint region: Cleanup\n\
                   [1ns] Safepoint \"Cleanup\", Total:      2 ns\n\
                   [90000ns] Safepoint \"Cleanup\", Total:      5 ns\n\
                   [9000";
        let pauses = of_log(log);
        let pause = |begin_ns, end_ns| Pause { begin_ns, end_ns };
        assert_eq!(pauses, [pause(49_990, 70_000), pause(89_995, 90_000)]);
        assert_eq!(pauses[0].duration_ns(), 20_010);
    }
}
