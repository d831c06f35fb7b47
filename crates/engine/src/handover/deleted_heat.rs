//! Heat that a new file does not inherit: it is kept under the number of its inode, and belongs to a deleted file.

use crate::core::inode_map;
use crate::heat::HeatMap;
use crate::thread;
use coldstream_io::sys::file;
use coldstream_policy::Role;

/// The application is about to close an SSTable of Cassandra that it has written. If it is no output of a compaction,
/// heat under its inode number belongs to a deleted file, and is forgotten.
pub(super) fn forget_heat_of_others(heat: &HeatMap, descriptor: i32) {
    // Not for outputs of compactions: they have the heat of their parts, or get it when they are opened. What another
    // node sends is none.
    let may_be_output = thread::is_background_reader() && thread::role() != Role::Streaming;
    if !may_be_output {
        forget_heat(heat, descriptor);
    }
}

/// Forgets the heat that is kept under the number of a new file.
pub(super) fn forget_heat(heat: &HeatMap, descriptor: i32) {
    if let Some(present) = heat.present()
        && let Ok(stamp) = file::stamp(descriptor)
    {
        let bytes = 0..stamp.size_bytes;
        present.heat.forget(inode_map::key_of(&stamp), bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heat::Present;
    use coldstream_policy::heat::Origin;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_file_that_no_compaction_wrote_has_no_heat_of_a_deleted_one() {
        // SAFETY: all-zero memory is an empty one.
        let heat: HeatMap = unsafe { std::mem::zeroed() };
        heat.open(1 << 20, 1 << 30);
        let present = heat.present().unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [7; 8192]).unwrap();
        let descriptor = file.as_file().as_raw_fd();
        let key = inode_map::key_of(&file::stamp(descriptor).unwrap());
        let is_hot_after_close_by = |role| {
            let Present {
                heat: sketch,
                epoch,
            } = present;
            sketch.set(key, 4096, 200, Origin::Estimated, epoch);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    thread::declare_role(role);
                    forget_heat_of_others(&heat, descriptor);
                });
            });
            present.of_hot(key, 4096, 1) > 0
        };
        assert!(
            is_hot_after_close_by(Role::Compaction),
            "it has the heat of its parts"
        );
        assert!(!is_hot_after_close_by(Role::Streaming));
        assert!(!is_hot_after_close_by(Role::Foreground));
    }
}
