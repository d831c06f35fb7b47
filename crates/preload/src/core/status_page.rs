//! The file of the status page, which `coldstream ctl` and others of the same user read.

use super::text::Text;
use crate::settings::Settings;
use coldstream_control::{Header, PageName, PageView, PidNamespace, start_time_ticks};
use coldstream_io::shared::SharedPage;
use coldstream_io::sys::{file, process};
use std::io::Write;

/// Longest path of a status page.
type PagePath = Text<64>;

/// As `coldstream_control::page_path`, without allocating.
fn page_path(user: u32, process_id: i32, namespace: PidNamespace) -> (PagePath, PagePath) {
    let mut directory = PagePath::new();
    let mut path = PagePath::new();
    let _ = write!(directory, "/dev/shm/coldstream-{user}\0");
    let name = PageName {
        pid: process_id as u32,
        namespace,
    };
    let _ = write!(path, "/dev/shm/coldstream-{user}/{name}\0");
    (directory, path)
}

/// As `PidNamespace::own`, without allocating.
pub(crate) fn own_namespace() -> PidNamespace {
    let Ok(descriptor) = file::open(c"/proc/self/ns/pid", libc::O_RDONLY, 0) else {
        return PidNamespace::INITIAL;
    };
    let stamp = file::stamp(descriptor);
    let _ = file::close(descriptor);
    stamp.map_or(PidNamespace::INITIAL, |stamp| PidNamespace(stamp.inode))
}

/// Makes this process's status page; a private one if it cannot be shared.
pub(crate) fn create_page(
    settings: &Settings,
    namespace: PidNamespace,
) -> Option<PageView<'static>> {
    let process_id = process::process_id();
    let (directory, path) = page_path(process::effective_user(), process_id, namespace);
    let page = match (directory.as_c_str(), path.as_c_str()) {
        (Some(directory), Some(path)) => SharedPage::create(directory, path).ok(),
        _ => None,
    };
    let page = page.or_else(|| SharedPage::anonymous().ok())?;
    let view = PageView::new(page.words()).ok()?;
    let config = &settings.config;
    view.initialise(&Header {
        pid: process_id as u32,
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

/// Removes this process's status page.
pub(crate) fn remove_page(namespace: PidNamespace) {
    let (user, process_id) = (process::effective_user(), process::process_id());
    let (_, path) = page_path(user, process_id, namespace);
    if let Some(path) = path.as_c_str() {
        let _ = file::unlink(path);
    }
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
            let (directory, path) = page_path(u32::MAX, i32::MAX, namespace);
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
