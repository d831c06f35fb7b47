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
    match (service_of(&groups), starter) {
        (Some(unit), None) => {
            format!("`coldstream attach-config {unit}` makes its service load it")
        }
        (Some(unit), Some(starter)) => format!(
            "set LD_PRELOAD and COLDSTREAM_PROFILE where process {starter}, {}, starts it. \
             `coldstream attach-config {unit}` would make all programs of that service load it",
            process::short_name(starter)
        ),
        (None, _) => "start the program with `coldstream run -- …`".to_owned(),
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
