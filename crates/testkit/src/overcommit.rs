//! A machine that promises no more memory than it has: `vm.overcommit_memory=2`, for the time of a test.
//!
//! The setting is the machine's. So processes with `CAP_SYS_ADMIN` are promised more than they can use, and the limit
//! is one for all others: the kernel keeps `vm.admin_reserve_kbytes` from them.

use std::fs;
use std::path::PathBuf;

use crate::{long, skip, tools};

/// What administrators are promised, and what is kept from others. Both are more than any machine has: no process meets
/// a limit before a program takes everything.
const PROMISED_KIBIBYTES: u64 = 1 << 32;
const KEPT_KIBIBYTES: u64 = 1 << 31;
/// The limit of all processes.
const LIMIT: &str = "overcommit_kbytes";
/// The same, as a share of the memory. The kernel keeps the one that was written last.
const SHARE: &str = "overcommit_ratio";
const RESERVE: &str = "admin_reserve_kbytes";
const MODE: &str = "overcommit_memory";
const STRICT: &str = "2";

/// The setting. Dropping it restores the former one.
#[derive(Debug)]
pub struct NoOvercommit {
    /// Settings and their former values, in the order in which they are restored.
    before: [(&'static str, String); 3],
}

impl NoOvercommit {
    /// Sets it. Where that must not or cannot be, [`skip`]s with the reason.
    ///
    /// # Panics
    /// A setting cannot be read or written.
    #[must_use]
    pub fn begin() -> Option<Self> {
        if !long() {
            skip("sets vm.overcommit_memory of the machine: COLDSTREAM_LONG=1");
            return None;
        }
        if !tools::is_root() || fs::write(path(MODE), read(MODE)).is_err() {
            skip("vm.overcommit_memory cannot be set here");
            return None;
        }
        let limit = match read(LIMIT) {
            unset if unset == "0" => (SHARE, read(SHARE)),
            limit => (LIMIT, limit),
        };
        let guard = Self {
            before: [(MODE, read(MODE)), (RESERVE, read(RESERVE)), limit],
        };
        write(LIMIT, &PROMISED_KIBIBYTES.to_string());
        write(RESERVE, &KEPT_KIBIBYTES.to_string());
        write(MODE, STRICT);
        Some(guard)
    }
}

impl Drop for NoOvercommit {
    fn drop(&mut self) {
        for (name, value) in &self.before {
            write(name, value);
        }
    }
}

fn path(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys/vm").join(name)
}

fn read(name: &str) -> String {
    let value = fs::read_to_string(path(name)).expect(name);
    value.trim().to_owned()
}

fn write(name: &str, value: &str) {
    fs::write(path(name), value).expect(name);
}
