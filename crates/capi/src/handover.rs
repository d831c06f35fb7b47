//! The handover: what was hot in the inputs is warm in the output before readers see it.

use crate::context::coldstream;
use crate::file::coldstream_file;
use crate::guard::{count, handle};
use coldstream_engine::handover::{Bounds, Inputs, Mapped, Way};
use coldstream_engine::thread;
use coldstream_io::Errno;
use coldstream_io::sys::stat::stamp;
use coldstream_policy::{FileKind, Role};
use coldstream_sstable::memory::TryVec;

/// The most inputs of one handover.
const INPUTS_MAX: usize = 65_536;

/// Limits of one handover. 0 is none of its own. The configured ones hold in any case.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct coldstream_handover_limits {
    /// Bytes that are read into the page cache.
    pub bytes_max: u64,
    /// The time that it takes, in milliseconds.
    pub milliseconds_max: u64,
}

/// What a handover did.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct coldstream_handover_result {
    /// Pages of 4 KiB of the output whose content was hot in the inputs.
    pub hot_pages: u64,
    /// Pages of 4 KiB that were read into the page cache.
    pub warmed_pages: u64,
    /// How long it took.
    pub nanoseconds: u64,
}

/// A part of an input, and the part of the output that has its content.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct coldstream_mapping {
    /// Index of the input.
    pub input: u32,
    /// 0.
    pub reserved: u32,
    /// Where the part begins in the input.
    pub input_offset: u64,
    /// Its length there.
    pub input_length: u64,
    /// Where it begins in the output.
    pub output_offset: u64,
    /// Its length there.
    pub output_length: u64,
}

/// Hands over to an output by the indexes of the files. Call it when the output is closed, before readers see it, in the
/// thread of the compaction. It waits for the device.
///
/// - `inputs`: the files of the compaction. NULL and 0: those that the calling thread has read in the background.
/// - `limits`, `result`: may be NULL.
///
/// An SSTable of Cassandra is the `Data.db`, by its own name. All its components are beside it, and the names of its last
/// two directories, keyspace and CQL table, are those of its inputs.
///
/// Returns the warmed pages. It is 0 too if the handover is off, nothing was hot, or something in a file is not
/// known. The counters tell which. Errors: `-EINVAL` (an argument, or an opaque format), `-ENOMEM`, those of `fstat(2)`,
/// and `-EAGAIN` in a signal handler that interrupted this library.
///
/// # Safety
/// All pointers are valid, and the inputs are as many as `input_count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldstream_handover(
    context: *const coldstream,
    inputs: *const *mut coldstream_file,
    input_count: usize,
    output: *const coldstream_file,
    limits: *const coldstream_handover_limits,
    result: *mut coldstream_handover_result,
) -> i64 {
    // SAFETY: passed on.
    count(|| unsafe {
        let output = handle(output)?;
        let all = Numbers::of(inputs, input_count)?;
        if output.kind == FileKind::Untracked || all.kinds_differ_from(output.kind) {
            return Err(Errno(libc::EINVAL));
        }
        let inputs = match inputs.is_null() {
            true => Inputs::OfThread,
            false => Inputs::Given(&all.numbers),
        };
        let no_mapping = Way::<std::iter::Empty<Mapped>>::Indexes;
        hand_over(context, output, inputs, no_mapping, limits, result)
    })
}

/// Hands over to an output by the caller's mapping, for any format. As `coldstream_handover` otherwise.
///
/// The ranges are sorted by input, then by offset in the input. They do not overlap there, and lie within the files. Their
/// `reserved` is 0.
///
/// Returns the warmed pages, or `-EINVAL` (an argument, or a range that is otherwise), or another error of
/// `coldstream_handover`.
///
/// # Safety
/// All pointers are valid, and inputs and ranges are as many as their counts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldstream_handover_mapped(
    context: *const coldstream,
    inputs: *const *mut coldstream_file,
    input_count: usize,
    output: *const coldstream_file,
    ranges: *const coldstream_mapping,
    range_count: usize,
    limits: *const coldstream_handover_limits,
    result: *mut coldstream_handover_result,
) -> i64 {
    // SAFETY: passed on.
    count(|| unsafe {
        let output = handle(output)?;
        let all = Numbers::of(inputs, input_count)?;
        let ranges = match (ranges.is_null(), range_count) {
            (_, 0) => &[][..],
            (true, _) => return Err(Errno(libc::EINVAL)),
            (false, _) => std::slice::from_raw_parts(ranges, range_count),
        };
        if !is_sorted(ranges, input_count) || !lie_within(ranges, &all.numbers, output)? {
            return Err(Errno(libc::EINVAL));
        }
        let mapping = Way::Mapping(ranges.iter().map(|range| Mapped {
            input: range.input as usize,
            input_offset: range.input_offset,
            input_bytes: range.input_length,
            output_offset: range.output_offset,
            output_bytes: range.output_length,
        }));
        let inputs = Inputs::Given(&all.numbers);
        hand_over(context, output, inputs, mapping, limits, result)
    })
}

/// # Safety
/// The pointers are null or valid.
unsafe fn hand_over<I: Iterator<Item = Mapped>>(
    context: *const coldstream,
    output: &coldstream_file,
    inputs: Inputs<'_>,
    way: Way<I>,
    limits: *const coldstream_handover_limits,
    result: *mut coldstream_handover_result,
) -> Result<u64, Errno> {
    // SAFETY: passed on.
    let (context, limits) = unsafe { (handle(context)?, limits.as_ref()) };
    thread::declare_role(Role::Compaction);
    let bounds = limits.map_or_else(Bounds::default, |limits| Bounds {
        bytes_max: limits.bytes_max,
        milliseconds_max: limits.milliseconds_max,
    });
    let done = match context.runtime() {
        Some(runtime) => runtime.hand_over_linked(output.file.number, inputs, way, bounds)?,
        None => Default::default(),
    };
    // SAFETY: passed on.
    if let Some(result) = unsafe { result.as_mut() } {
        *result = coldstream_handover_result {
            hot_pages: done.hot_pages,
            warmed_pages: done.warmed_pages,
            nanoseconds: done.ns,
        };
    }
    Ok(done.warmed_pages)
}

/// The descriptors of inputs.
struct Numbers {
    numbers: Vec<i32>,
    kinds: Vec<FileKind>,
}

impl Numbers {
    /// # Safety
    /// Null, or as many handles as `count`.
    unsafe fn of(files: *const *mut coldstream_file, count: usize) -> Result<Self, Errno> {
        if files.is_null() != (count == 0) || count > INPUTS_MAX {
            return Err(Errno(libc::EINVAL));
        }
        let mut all = Self {
            numbers: Vec::new(),
            kinds: Vec::new(),
        };
        for index in 0..count {
            // SAFETY: passed on.
            let file = unsafe { handle((*files.add(index)).cast_const()) }?;
            let full = |_| Errno(libc::ENOMEM);
            all.numbers.try_push(file.file.number).map_err(full)?;
            all.kinds.try_push(file.kind).map_err(full)?;
        }
        Ok(all)
    }

    fn kinds_differ_from(&self, kind: FileKind) -> bool {
        self.kinds.iter().any(|of| *of != kind)
    }
}

/// Whether ranges that are sorted lie within their inputs and the output. One call to the kernel for each file.
fn lie_within(
    ranges: &[coldstream_mapping],
    inputs: &[i32],
    output: &coldstream_file,
) -> Result<bool, Errno> {
    let output_bytes = stamp(output.file.number)?.size_bytes;
    for of_input in ranges.chunk_by(|one, next| one.input == next.input) {
        let (Some(last), Some(number)) = (
            of_input.last(),
            of_input
                .first()
                .and_then(|it| inputs.get(it.input as usize)),
        ) else {
            return Ok(false);
        };
        let is_within = last.input_offset + last.input_length <= stamp(*number)?.size_bytes
            && of_input
                .iter()
                .all(|range| range.output_offset + range.output_length <= output_bytes);
        if !is_within {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether ranges are in order, without overlaps, and of inputs that exist.
fn is_sorted(ranges: &[coldstream_mapping], input_count: usize) -> bool {
    let end_of = |range: &coldstream_mapping| range.input_offset.checked_add(range.input_length);
    let mut before: Option<(u32, u64)> = None;
    ranges.iter().all(|range| {
        let is_known = (range.input as usize) < input_count && range.reserved == 0;
        let (Some(end), true) = (end_of(range), is_known) else {
            return false;
        };
        let place = (range.input, range.input_offset);
        let follows = before.is_none_or(|before| before <= place);
        before = Some((range.input, end));
        follows
            && range
                .output_offset
                .checked_add(range.output_length)
                .is_some()
    })
}
