//! The status page of this process: a file that `coldstream ctl` and others of the same user read.
//!
//! What stands on the page is untrusted: nothing but a request of `ctl` is ever read from it.

use super::text::Text;
use crate::settings::Settings;
use coldstream_control::{Header, PageName, PageView, PidNamespace, start_time_ticks};
use coldstream_io::lock::FutexLock;
use coldstream_io::shared::SharedPage;
use coldstream_io::sys::{file, process};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// The page of this process; all-zero memory has none.
#[repr(C)]
pub struct StatusPage {
    /// Null before the page is made; never changed afterwards.
    view: AtomicPtr<PageView<'static>>,
    memory: FutexLock<Option<PageView<'static>>>,
    /// The namespace of process ids, which the page's name contains.
    namespace: AtomicU64,
    /// The user that made the page. The process may have another one by now.
    user: AtomicU32,
    /// Whether no file could be made, so that no other process finds the page.
    has_no_file: AtomicBool,
}

impl StatusPage {
    /// Makes the page, once. Other threads do not see it before [`StatusPage::publish`].
    pub fn create(&self, settings: &Settings) -> bool {
        let (namespace, user) = (own_namespace(), process::effective_user());
        self.namespace.store(namespace.0, Ordering::Relaxed);
        self.user.store(user, Ordering::Relaxed);
        let mut memory = self.memory.lock();
        let address = self.address();
        let shared = create_shared(&address);
        self.has_no_file.store(shared.is_none(), Ordering::Relaxed);
        let page = shared.or_else(|| SharedPage::anonymous().ok());
        *memory = page.and_then(|page| initialise(page, settings));
        memory.is_some()
    }

    /// Whether no other process finds the page: no file could be made for it.
    pub fn has_no_file(&self) -> bool {
        self.has_no_file.load(Ordering::Relaxed)
    }

    /// Makes the page visible to all threads.
    pub fn publish(&self) {
        if let Some(view) = &*self.memory.lock() {
            // The view is never moved or changed again, so it may be read without the lock.
            self.view
                .store(std::ptr::from_ref(view).cast_mut(), Ordering::Release);
        }
    }

    /// The page; `None` before it is published.
    #[inline]
    pub fn page(&self) -> Option<&PageView<'static>> {
        // SAFETY: null, or a value within this struct that does not change any more.
        unsafe { self.view.load(Ordering::Acquire).as_ref() }
    }

    /// Removes the page's file, and the directory with the user's last one. A signal handler may call it.
    pub fn remove(&self) {
        let address = self.address();
        let (directory, own) = (
            address.directory(),
            address.page_of(process::process_id() as u32),
        );
        if let (Some(directory), Some(path)) = (directory.as_c_str(), own.as_c_str()) {
            SharedPage::remove(directory, path);
        }
    }

    /// The path of the page, for the program that has it.
    pub fn path(&self) -> PagePath {
        self.address().page_of(process::process_id() as u32)
    }

    pub(super) fn address(&self) -> PageAddress {
        PageAddress {
            user: self.user.load(Ordering::Relaxed),
            namespace: PidNamespace(self.namespace.load(Ordering::Relaxed)),
        }
    }
}

/// Longest path of a status page.
pub type PagePath = Text<64>;

/// Where the pages of a user's processes are. As `coldstream_control::page_path`, without allocating.
pub(super) struct PageAddress {
    pub(super) user: u32,
    pub(super) namespace: PidNamespace,
}

impl PageAddress {
    pub(super) fn directory(&self) -> PagePath {
        let mut directory = PagePath::new();
        let _ = write!(directory, "/dev/shm/coldstream-{}\0", self.user);
        directory
    }

    pub(super) fn page_of(&self, process_id: u32) -> PagePath {
        let mut path = PagePath::new();
        let name = PageName {
            pid: process_id,
            namespace: self.namespace,
        };
        let _ = write!(path, "/dev/shm/coldstream-{}/{name}\0", self.user);
        path
    }
}

/// As `PidNamespace::own`, without allocating.
fn own_namespace() -> PidNamespace {
    let Ok(descriptor) = file::open(c"/proc/self/ns/pid", libc::O_RDONLY, 0) else {
        return PidNamespace::INITIAL;
    };
    let stamp = file::stamp(descriptor);
    let _ = file::close(descriptor);
    stamp.map_or(PidNamespace::INITIAL, |stamp| PidNamespace(stamp.inode))
}

fn create_shared(address: &PageAddress) -> Option<SharedPage> {
    let process_id = process::process_id();
    let (directory, path) = (address.directory(), address.page_of(process_id as u32));
    SharedPage::create(directory.as_c_str()?, path.as_c_str()?).ok()
}

/// Writes what does not change on this process's page.
fn initialise(page: SharedPage, settings: &Settings) -> Option<PageView<'static>> {
    let view = PageView::new(page.words()).ok()?;
    let config = &settings.config;
    view.initialise(&Header {
        pid: process::process_id() as u32,
        // 0 is unknown (`control/snapshot.rs: snapshot_of`).
        start_time_ticks: own_start_time().unwrap_or(0),
        profile: config.profile,
        configured: config.reads,
        in_force: None,
        window_bytes: config.window_bytes as u64,
        windows_in_flight: config.windows_in_flight as u64,
        memory_bytes: config.memory_bytes as u64,
    });
    Some(view)
}

fn own_start_time() -> Option<u64> {
    let descriptor = file::open(c"/proc/self/stat", libc::O_RDONLY, 0).ok()?;
    let mut bytes = [0_u8; 1024];
    // SAFETY: the array is writable for its length.
    let read = unsafe { file::pread(descriptor, bytes.as_mut_ptr(), bytes.len(), 0) };
    let _ = file::close(descriptor);
    start_time_ticks(bytes.get(..read.ok()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_where_the_command_looks_for_it() {
        let text = |path: &PagePath| path.as_c_str().unwrap().to_str().unwrap().to_owned();
        let namespaces = [
            PidNamespace::INITIAL,
            PidNamespace(4_026_532_001),
            PidNamespace::own(),
        ];
        for namespace in namespaces {
            let address = PageAddress {
                user: u32::MAX,
                namespace,
            };
            let (directory, path) = (address.directory(), address.page_of(i32::MAX as u32));
            let expected = coldstream_control::page_path(u32::MAX, i32::MAX as u32, namespace);
            assert_eq!(text(&path), expected.to_str().unwrap());
            assert_eq!(
                text(&directory),
                coldstream_control::directory_path(u32::MAX)
                    .to_str()
                    .unwrap()
            );
        }
        assert_eq!(own_namespace(), PidNamespace::own());
    }
}
