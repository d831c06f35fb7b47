//! Credentials of helper threads: few from their start, and those of the process later.
//!
//! Libc does not know these threads ([`crate::sys::thread`]). When the process drops its privileges, libc changes
//! the threads that it knows. So the helpers follow by themselves.
//!
//! A helper keeps `CAP_SYS_NICE` in force, with which it takes nice values back. It keeps permitted what it needs
//! to follow. What the process has dropped goes when it follows. Nothing here needs thread-local storage or a
//! lock, and a signal handler may call it.

use crate::sys::credentials::{
    CAP_SETGID, CAP_SETUID, CAP_SYS_NICE, Capabilities, Ids, capabilities, groups,
    keep_capabilities, set_capabilities, set_groups, set_supplementary_groups, set_users, users,
};
use dumpable::kept_dumpable;
pub use dumpable::{said_dumpable, will_say_dumpable};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

mod dumpable;

/// The credentials of the process, once they have changed.
struct Told {
    /// How often they have changed; 0 is never. It grows before the rest changes.
    changes: AtomicU32,
    /// How many threads change the rest now.
    tellers: AtomicU32,
    users: [AtomicU32; 3],
    groups: [AtomicU32; 3],
    /// The capabilities that are permitted, and those in force.
    permitted: AtomicU64,
    effective: AtomicU64,
}

static TOLD: Told = Told {
    changes: AtomicU32::new(0),
    tellers: AtomicU32::new(0),
    users: [const { AtomicU32::new(0) }; 3],
    groups: [const { AtomicU32::new(0) }; 3],
    permitted: AtomicU64::new(0),
    effective: AtomicU64::new(0),
};

/// The calling process has no helper yet, which will have the credentials of the thread that starts it. A forked
/// child inherits what its parent told.
pub fn forget() {
    TOLD.changes.store(0, Ordering::Relaxed);
    TOLD.tellers.store(0, Ordering::Relaxed);
    dumpable::forget();
}

/// The calling thread has changed the credentials of the process. Wake the helpers afterwards.
pub fn tell() {
    TOLD.tellers.fetch_add(1, Ordering::AcqRel);
    TOLD.changes.fetch_add(1, Ordering::AcqRel);
    loop {
        let changes = TOLD.changes.load(Ordering::Acquire);
        fence(Ordering::Release);
        let store = |to: &[AtomicU32; 3], ids: Ids| {
            for (place, id) in to.iter().zip(ids) {
                place.store(id, Ordering::Relaxed);
            }
        };
        store(&TOLD.users, users());
        store(&TOLD.groups, groups());
        let found = capabilities().unwrap_or_default();
        TOLD.permitted.store(found.permitted, Ordering::Relaxed);
        TOLD.effective.store(found.effective, Ordering::Relaxed);
        // Else another thread has changed them meanwhile, and this one may have told old ones.
        if TOLD.changes.load(Ordering::Acquire) == changes {
            break;
        }
    }
    TOLD.tellers.fetch_sub(1, Ordering::AcqRel);
}

/// The credentials of the process.
struct Credentials {
    users: Ids,
    groups: Ids,
    permitted: u64,
    effective: u64,
}

/// The told credentials, if they have changed so often; `None` while a thread tells more. That thread wakes the helpers.
fn told(changes: u32) -> Option<Credentials> {
    let is_settled = || {
        TOLD.tellers.load(Ordering::Acquire) == 0 && TOLD.changes.load(Ordering::Acquire) == changes
    };
    if !is_settled() {
        return None;
    }
    let load = |from: &[AtomicU32; 3]| from.each_ref().map(|id| id.load(Ordering::Relaxed));
    let told = Credentials {
        users: load(&TOLD.users),
        groups: load(&TOLD.groups),
        permitted: TOLD.permitted.load(Ordering::Relaxed),
        effective: TOLD.effective.load(Ordering::Relaxed),
    };
    fence(Ordering::Acquire);
    is_settled().then_some(told)
}

/// A helper starts: drops the capabilities that it does not need.
pub fn begin() {
    keep(|_| CAP_SYS_NICE | CAP_SETUID | CAP_SETGID);
}

/// As [`begin`], of a helper that sets priorities of the application's threads. Without `CAP_SYS_NICE` the kernel
/// demands that all capabilities of such a thread are permitted to the helper (`cap_safe_nice` in
/// `security/commoncap.c`). They stay permitted then, and none is in force.
pub fn begin_for_priorities() {
    keep(|found| {
        if found.effective & CAP_SYS_NICE != 0 {
            CAP_SYS_NICE | CAP_SETUID | CAP_SETGID
        } else {
            found.permitted
        }
    });
}

fn keep(kept: impl FnOnce(&Capabilities) -> u64) {
    if let Ok(found) = capabilities()
        && found != Capabilities::default()
    {
        let permitted = found.permitted & kept(&found);
        let _ = set_capabilities(&Capabilities {
            effective: found.effective & permitted & CAP_SYS_NICE,
            permitted,
            inheritable: 0,
        });
    }
}

/// How far one helper has followed. All-zero memory is valid: it has not yet.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Follower {
    changes: AtomicU32,
}

impl Follower {
    /// Whether the credentials of the process have changed since this helper followed. One load if they never
    /// have.
    #[inline]
    pub fn is_behind(&self) -> bool {
        let changes = TOLD.changes.load(Ordering::Acquire);
        changes != 0 && changes != self.changes.load(Ordering::Relaxed)
    }

    /// To be called by the helper whenever it is about to sleep: takes the credentials of the process if these
    /// have changed.
    #[inline]
    pub fn follow(&self) {
        if self.is_behind() {
            self.take();
        }
    }

    #[cold]
    fn take(&self) {
        let changes = TOLD.changes.load(Ordering::Acquire);
        if let Some(wanted) = told(changes) {
            take(&wanted);
            self.changes.store(changes, Ordering::Relaxed);
        }
    }
}

fn take(wanted: &Credentials) {
    let Ok(found) = capabilities() else {
        return;
    };
    let permitted = found.permitted & wanted.permitted;
    let effective = permitted & wanted.effective & CAP_SYS_NICE;
    if users() != wanted.users || groups() != wanted.groups {
        kept_dumpable(|| {
            let _ = set_capabilities(&Capabilities {
                effective: found.permitted,
                ..found
            });
            // The process may have kept some: they are known.
            keep_capabilities(true);
            let _ = set_supplementary_groups(&[]);
            let _ = set_groups(wanted.groups);
            let _ = set_users(wanted.users);
            keep_capabilities(false);
        });
    }
    let wanted = Capabilities {
        effective,
        permitted,
        inheritable: 0,
    };
    if capabilities() != Ok(wanted) {
        let _ = set_capabilities(&wanted);
    }
}
