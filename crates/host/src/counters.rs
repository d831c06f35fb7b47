//! Counters of the kernel and of a disk.

use procfs::DiskStat;

/// Time of all processors together: the first line of `/proc/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// Time in all states, ticks.
    pub all_ticks: u64,
    /// Time in which there was work and the hypervisor ran other machines, ticks.
    pub stolen_ticks: u64,
}

impl ProcessorTime {
    /// Out of the text of `/proc/stat`: `cpu`, then user, nice, system, idle, iowait, irq, softirq and steal. User
    /// and nice include the time of guests (proc_stat(5)). By hand: `procfs` parses the lines of all processors too.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let states: Vec<u64> = line
            .split_whitespace()
            .take(8)
            .map_while(|state| state.parse().ok())
            .collect();
        Some(Self {
            all_ticks: states.iter().sum(),
            stolen_ticks: *states.get(7)?,
        })
    }
}

/// The counters of a device, `major:minor`, out of the text of `/proc/diskstats`
/// (`Documentation/admin-guide/iostats.rst`).
#[must_use]
pub fn disk(text: &str, number: &str) -> Option<DiskStat> {
    let (major, minor) = number.split_once(':')?;
    let (major, minor) = (major.parse().ok()?, minor.parse().ok()?);
    text.lines()
        .filter_map(|line| DiskStat::from_line(line).ok())
        .find(|disk| (disk.major, disk.minor) == (major, minor))
}

/// The value of a line `name value`, as in `/proc/vmstat` and in `memory.stat` of both cgroup versions.
#[must_use]
pub fn value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(' ')?;
        (key == name).then(|| value.trim().parse().ok())?
    })
}

/// Time in which some task was stalled, µs: the total of the line `some` of a pressure file
/// (`Documentation/accounting/psi.rst`).
#[must_use]
pub fn stall_us(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.rsplit_once("total=")?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_stat_of_both_versions() {
        let text = "cache 12\nworkingset_refault_file 7\nactive_file 4096\ntotal_active_file 1\n";
        assert_eq!(value(text, "workingset_refault_file"), Some(7));
        assert_eq!(value(text, "active_file"), Some(4096));
        assert_eq!(value(text, "missing"), None);
    }

    #[test]
    fn pressure_and_disk_lines_are_read() {
        let text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=123\nfull avg10=0.00 total=9\n";
        assert_eq!(stall_us(text), Some(123));
        let disks = " 254 0 vda 10 1 80 5 20 2 160 8 0 30 13 0 0 0 0\n 254 1 vda1 1 2\n";
        let device = disk(disks, "254:0").unwrap();
        assert_eq!(
            (device.reads, device.sectors_read, device.time_reading),
            (10, 80, 5)
        );
        assert_eq!(
            (
                device.writes,
                device.time_in_progress,
                device.weighted_time_in_progress
            ),
            (20, 30, 13)
        );
        assert!(disk(disks, "254:1").is_none());
    }

    #[test]
    fn stolen_time_is_read() {
        let text = "cpu  10 1 5 70 4 1 1 8 3 0\ncpu0 5 1 2 35 2 0 0 4 1 0\nintr 1\n";
        let processors = ProcessorTime::parse(text).unwrap();
        assert_eq!((processors.all_ticks, processors.stolen_ticks), (100, 8));
        assert_eq!(ProcessorTime::parse("cpu  1 2 3\n"), None);
    }
}
