//! What takes pages away without being asked by the kernel's own watermarks.

use crate::machine::read;
use std::fs;
use std::path::{Path, PathBuf};

/// Those that are found below `sys`, which is where sysfs is mounted, in words.
pub fn find(sys: &Path) -> Vec<String> {
    let mut found = Vec::new();
    if read(sys.join("module/damon_reclaim/parameters/enabled")).is_some_and(|text| text == "Y") {
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

/// Schemes of DAMON's that page out (`Documentation/admin-guide/mm/damon/usage.rst`). What rests is judged by
/// one page of each region, of which there are a thousand at most: hot pages that lie among cold ones go
/// with them.
fn damon_schemes(sys: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for thread in entries(&sys.join("kernel/mm/damon/admin/kdamonds")) {
        if read(thread.join("state")).is_none_or(|state| state != "on") {
            continue;
        }
        for context in entries(&thread.join("contexts")) {
            let interval = context.join("monitoring_attrs/intervals/aggr_us");
            for scheme in entries(&context.join("schemes")) {
                if read(scheme.join("action")).is_none_or(|action| action != "pageout") {
                    continue;
                }
                let age = number(scheme.join("access_pattern/age/min"));
                let seconds = age
                    .zip(number(&interval))
                    .map(|(age, interval_us)| age.saturating_mul(interval_us) / 1_000_000);
                found.push(match seconds {
                    Some(seconds) => format!(
                        "DAMON pages out what it takes to have rested for {seconds} s, hot pages among \
                         cold ones too"
                    ),
                    None => "DAMON pages out what it takes to rest".to_owned(),
                });
            }
        }
    }
    found
}

/// What a directory has, in the order of its names; nothing where there is none.
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

fn number(path: impl AsRef<Path>) -> Option<u64> {
    read(path)?.parse().ok()
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
