//! Versions of the library and of its interface.

use std::ffi::c_char;

/// Version of this header. A function is never changed or removed within a version. The shared library's name for the
/// dynamic loader ends with it.
pub const COLDSTREAM_INTERFACE_VERSION: u32 = 1;

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");

/// The version of the library, such as `0.1.0`. The text is static.
#[unsafe(no_mangle)]
pub extern "C" fn coldstream_version() -> *const c_char {
    VERSION.as_ptr().cast()
}

/// The version of the library's interface: its `COLDSTREAM_INTERFACE_VERSION`.
#[unsafe(no_mangle)]
pub extern "C" fn coldstream_interface_version() -> u32 {
    COLDSTREAM_INTERFACE_VERSION
}
