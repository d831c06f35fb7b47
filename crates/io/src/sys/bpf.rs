//! BPF maps and raw tracepoints: [`bpf(2)`](https://man7.org/linux/man-pages/man2/bpf.2.html).
//!
//! The kernel verifies every program before it accepts it. So a wrong program is an error, and never a crash.

use super::Errno;
use super::raw::syscall;
use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const MAP_CREATE: usize = 0;
const MAP_LOOKUP_ELEMENT: usize = 1;
const MAP_UPDATE_ELEMENT: usize = 2;
const MAP_DELETE_ELEMENT: usize = 3;
const PROGRAM_LOAD: usize = 5;
const RAW_TRACEPOINT_OPEN: usize = 17;
/// `BPF_PROG_TYPE_RAW_TRACEPOINT`.
const TYPE_RAW_TRACEPOINT: u32 = 17;
/// The helper that reads kernel memory asks for a licence that the GPL is compatible with. It is that of the
/// instructions alone.
const LICENCE: &CStr = c"Dual MIT/GPL";

/// The kind of a map (`enum bpf_map_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MapKind {
    /// `BPF_MAP_TYPE_HASH`.
    Hash = 1,
    /// `BPF_MAP_TYPE_ARRAY`.
    Array = 2,
    /// `BPF_MAP_TYPE_LRU_HASH`: the entry with the longest rest makes room for a new one.
    RecentHash = 9,
    /// `BPF_MAP_TYPE_RINGBUF`.
    Ring = 27,
}

/// The longest key or value of a [`Map`].
const ELEMENT_BYTES_MAX: u32 = 32;

/// A map of the kernel's.
#[derive(Debug)]
pub struct Map(OwnedFd);

impl Map {
    /// Creates a map. Keys and values have these sizes in bytes, 32 at most.
    ///
    /// # Errors
    /// `EPERM` without `CAP_BPF`; `EINVAL` for a longer key or value; the kernel's.
    pub fn new(
        kind: MapKind,
        key_bytes: u32,
        value_bytes: u32,
        entries: u32,
    ) -> Result<Self, Errno> {
        if key_bytes.max(value_bytes) > ELEMENT_BYTES_MAX {
            return Err(Errno(libc::EINVAL));
        }
        let attributes = [kind as u32, key_bytes, value_bytes, entries];
        // SAFETY: the kernel reads four numbers.
        let result = unsafe { bpf(MAP_CREATE, &attributes) }?;
        Ok(Self(owned(result)))
    }

    /// Its descriptor's number, as instructions name it.
    #[must_use]
    pub fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Stores `value` under `key`. What is shorter than in the map has zeros behind it.
    ///
    /// # Errors
    /// `E2BIG` if the map is full; the kernel's.
    pub fn store(&self, key: u64, value: u64) -> Result<(), Errno> {
        let (key, value) = ([key, 0, 0, 0], [value, 0, 0, 0]);
        let attributes = [
            self.number() as u64,
            key.as_ptr() as u64,
            value.as_ptr() as u64,
            0,
        ];
        // SAFETY: the kernel reads at most 32 bytes of each.
        unsafe { bpf(MAP_UPDATE_ELEMENT, &attributes) }.map(drop)
    }

    /// Removes `key`.
    ///
    /// # Errors
    /// `ENOENT` if it is absent.
    pub fn remove(&self, key: u64) -> Result<(), Errno> {
        let key = [key, 0, 0, 0];
        let attributes = [self.number() as u64, key.as_ptr() as u64, 0, 0];
        // SAFETY: the kernel reads at most 32 bytes.
        unsafe { bpf(MAP_DELETE_ELEMENT, &attributes) }.map(drop)
    }

    /// The first eight bytes of the value under `key`.
    ///
    /// # Errors
    /// `ENOENT` if it is absent.
    pub fn find(&self, key: u64) -> Result<u64, Errno> {
        let (key, mut value) = ([key, 0, 0, 0], [0_u64; 4]);
        let attributes = [
            self.number() as u64,
            key.as_ptr() as u64,
            value.as_mut_ptr() as u64,
            0,
        ];
        // SAFETY: the kernel reads and writes at most 32 bytes.
        unsafe { bpf(MAP_LOOKUP_ELEMENT, &attributes) }?;
        Ok(value[0])
    }
}

/// Loads a program for a raw tracepoint. The verifier's words go into `log`.
///
/// # Errors
/// `EPERM` without `CAP_BPF` and `CAP_PERFMON`; `EACCES` or `EINVAL` if the verifier refuses it.
pub fn load_raw_tracepoint(instructions: &[u64], log: &mut [u8]) -> Result<OwnedFd, Errno> {
    let attributes = [
        u64::from(TYPE_RAW_TRACEPOINT) | (instructions.len() as u64) << 32,
        instructions.as_ptr() as u64,
        LICENCE.as_ptr() as u64,
        // Level 1, and the size of the log.
        u64::from(!log.is_empty()) | (log.len() as u64) << 32,
        if log.is_empty() {
            0
        } else {
            log.as_ptr() as u64
        },
        0,
    ];
    // SAFETY: the kernel reads the instructions and the licence, and writes within the log.
    let result = unsafe { bpf(PROGRAM_LOAD, &attributes) }?;
    Ok(owned(result))
}

/// Attaches a program to the tracepoint `name`, until the descriptor is closed.
///
/// # Errors
/// `ENOENT` if this kernel has no such tracepoint.
pub fn open_raw_tracepoint(name: &CStr, program: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let attributes = [name.as_ptr() as u64, program.as_raw_fd() as u64];
    // SAFETY: the kernel reads the name.
    let result = unsafe { bpf(RAW_TRACEPOINT_OPEN, &attributes) }?;
    Ok(owned(result))
}

/// # Safety
/// The addresses in the attributes must be valid for this command.
unsafe fn bpf<T, const N: usize>(command: usize, attributes: &[T; N]) -> Result<usize, Errno> {
    // SAFETY: the caller vouches for the attributes; the kernel reads them.
    let result = unsafe {
        syscall(
            libc::SYS_bpf,
            [
                command,
                attributes.as_ptr() as usize,
                size_of_val(attributes),
            ],
        )
    };
    Errno::check(result)
}

fn owned(number: usize) -> OwnedFd {
    // SAFETY: the kernel has just made this descriptor, and nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(number as i32) }
}
