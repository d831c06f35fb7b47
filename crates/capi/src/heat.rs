//! Foreground reads that the caller makes itself: their heat, and their latency.

use crate::file::coldstream_file;
use coldstream_engine::events::Sample;
use coldstream_io::sys::process;

/// The caller is about to read a file in the foreground. Notes the heat of the range.
///
/// It takes no lock, allocates nothing, and makes no system call. One read in 64 is timed, with pacing one in 16. After
/// a read from the device the next four are timed, too.
///
/// Returns 0, or a token: the read is to be timed. Then give the token to `coldstream_note_read_done`.
///
/// # Safety
/// The file is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldstream_note_read(
    file: *const coldstream_file,
    offset: u64,
    length: usize,
) -> u64 {
    // No guard: nothing here can panic or set `errno`. The engine's own part never does (`events/linked.rs`).
    // SAFETY: passed on.
    match unsafe { file.as_ref() } {
        Some(file) => file.note(offset, length as u64),
        None => 0,
    }
}

/// The read is done for which `coldstream_note_read` returned this token. Call it in the same thread at once.
///
/// # Safety
/// The file is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldstream_note_read_done(file: *const coldstream_file, token: u64) {
    // SAFETY: passed on.
    if let Some(file) = unsafe { file.as_ref() } {
        file.note_done(token);
    }
}

impl coldstream_file {
    /// Notes a foreground read. Returns its token: twice its start, plus one if it stands for all reads.
    #[inline]
    pub(crate) fn note(&self, offset: u64, length_bytes: u64) -> u64 {
        let (Some(runtime), Some(slot)) = (self.file.runtime, self.file.slot) else {
            return 0;
        };
        match runtime.note_foreground_read(slot, self.file.number, offset, length_bytes) {
            None => 0,
            Some(sample) => process::monotonic_ns() << 1 | u64::from(sample == Sample::OfAll),
        }
    }

    /// The read of this token is done.
    #[inline]
    pub(crate) fn note_done(&self, token: u64) {
        if token == 0 {
            return;
        }
        if let Some(runtime) = self.file.runtime {
            let sample = match token & 1 {
                1 => Sample::OfAll,
                _ => Sample::Other,
            };
            runtime.record_read_time(sample, token >> 1, process::monotonic_ns());
        }
    }
}
