//! What takes pages out of memory beside the kernel's own reclaim: DAMON and the balloon of a virtual machine.

use std::fs;
use std::path::{Path, PathBuf};

use crate::kernel_file::{number, text};

/// The reclaimers that are active, in words. `sys` is the mount point of sysfs.
#[must_use]
pub fn find(sys: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let damon_reclaim = text(sys.join("module/damon_reclaim/parameters/enabled"));
    if damon_reclaim.is_some_and(|enabled| enabled == "Y") {
        found.push("DAMON reclaim".to_owned());
    }
    found.extend(damon_schemes(sys));
    if entries(&sys.join("bus/virtio/drivers/virtio_balloon"))
        .iter()
        .any(|path| name_begins(path, "virtio"))
    {
        found.push("virtio balloon: the host may reclaim memory".to_owned());
    }
    found
}

/// DAMON schemes that page out (`Documentation/admin-guide/mm/damon/usage.rst`). DAMON samples one page of each
/// region, and has a thousand regions at most. Hot pages among cold ones are paged out with them.
fn damon_schemes(sys: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for thread in entries(&sys.join("kernel/mm/damon/admin/kdamonds")) {
        if text(thread.join("state")).is_none_or(|state| state != "on") {
            continue;
        }
        for context in entries(&thread.join("contexts")) {
            let interval = context.join("monitoring_attrs/intervals/aggr_us");
            for scheme in entries(&context.join("schemes")) {
                if text(scheme.join("action")).is_none_or(|action| action != "pageout") {
                    continue;
                }
                let age = number(scheme.join("access_pattern/age/min"));
                let seconds = age
                    .zip(number(&interval))
                    .map(|(age, interval_us)| age.saturating_mul(interval_us) / 1_000_000);
                found.push(match seconds {
                    Some(seconds) => format!(
                        "DAMON pages out regions that it finds idle for {seconds} s, hot pages among \
                         cold ones too"
                    ),
                    None => "DAMON pages out regions that it finds idle".to_owned(),
                });
            }
        }
    }
    found
}

/// The entries of a directory, sorted by name; empty if there is no such directory.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<_> = listed.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn name_begins(path: &Path, beginning: &str) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().starts_with(beginning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_any() {
        let sys = tempfile::tempdir().unwrap();
        assert!(find(sys.path()).is_empty());
    }

    #[test]
    fn all_of_them_are_named() {
        let sys = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = sys.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("module/damon_reclaim/parameters/enabled", "Y\n");
        put("bus/virtio/drivers/virtio_balloon/virtio2", "");
        let thread = "kernel/mm/damon/admin/kdamonds/0";
        put("kernel/mm/damon/admin/kdamonds/nr_kdamonds", "1\n");
        put(&format!("{thread}/state"), "on\n");
        let context = format!("{thread}/contexts/0");
        put(
            &format!("{context}/monitoring_attrs/intervals/aggr_us"),
            "5000000\n",
        );
        put(&format!("{context}/schemes/nr_schemes"), "2\n");
        put(&format!("{context}/schemes/0/action"), "stat\n");
        put(&format!("{context}/schemes/1/action"), "pageout\n");
        put(
            &format!("{context}/schemes/1/access_pattern/age/min"),
            "12\n",
        );
        let found = find(sys.path());
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[1].contains("60 s"), "{found:?}");
        put(&format!("{thread}/state"), "off\n");
        assert_eq!(find(sys.path()).len(), 2);
    }
}
