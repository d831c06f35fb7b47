//! What makes a running process load the library at its next start.

use std::fs;

use coldstream_host::process;

use crate::processes;

/// The process that starts services: systemd.
const INIT: u32 = 1;

/// What to do for process `pid`, from how it was started.
pub fn how_to_load(pid: u32) -> String {
    if processes::id_in_container(pid).is_some() {
        return "set LD_PRELOAD and COLDSTREAM_PROFILE where its container is described".to_owned();
    }
    let groups = fs::read_to_string(process::proc_path(pid, "cgroup")).unwrap_or_default();
    let starter = process::parent(pid).filter(|parent| *parent > INIT);
    let starter = starter.map(|starter| (starter, process::short_name(starter)));
    ways(service_of(&groups), starter)
}

/// The ways for a process of this service, which this other process has started.
fn ways(service: Option<&str>, starter: Option<(u32, String)>) -> String {
    match (service, starter) {
        (Some(unit), None) => {
            format!("`coldstream attach-config {unit}` prints what makes its service load it")
        }
        (Some(unit), Some((starter, name))) => format!(
            "set LD_PRELOAD and COLDSTREAM_PROFILE where process {starter}, {name}, starts it. \
             `coldstream attach-config {unit}` prints what would make all programs of that service load it"
        ),
        (None, _) => "start the program with `coldstream run -- …`. Where systemd is to start it: \
                      `coldstream attach-config UNIT` prints what loads it"
            .to_owned(),
    }
}

/// The service of systemd in a process's `/proc/PID/cgroup`.
fn service_of(groups: &str) -> Option<&str> {
    let names = groups.lines().filter_map(|line| line.rsplit('/').next());
    names.into_iter().find(|name| name.ends_with(".service"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ways_to_load_the_library_fit_how_the_process_was_started() {
        let starter = || Some((7, "node-manager".to_owned()));
        for (service, starter, words, others) in [
            (
                None,
                None,
                &["`coldstream run", "`coldstream attach-config UNIT`"][..],
                "LD_PRELOAD",
            ),
            (
                None,
                starter(),
                &["`coldstream run", "`coldstream attach-config UNIT`"],
                "LD_PRELOAD",
            ),
            (
                Some("db.service"),
                None,
                &["`coldstream attach-config db.service`"],
                "coldstream run",
            ),
            (
                Some("yarn.service"),
                starter(),
                &["process 7, node-manager", "all programs of that service"],
                "coldstream run",
            ),
        ] {
            let said = ways(service, starter);
            for word in words {
                assert!(said.contains(word), "{word} is not in {said}");
            }
            assert!(!said.contains(others), "{said}");
        }
    }

    #[test]
    fn a_service_is_known_by_its_cgroup() {
        let service = service_of("0::/system.slice/mariadb.service\n");
        assert_eq!(service, Some("mariadb.service"));
        let groups = "2:memory:/\n1:name=systemd:/system.slice/cassandra.service\n";
        assert_eq!(service_of(groups), Some("cassandra.service"));
        for groups in ["", "0::/user.slice/session-1.scope\n", "0::/docker/1f\n"] {
            assert_eq!(service_of(groups), None, "{groups}");
        }
    }
}
