//! Error numbers of the kernel (`errno(3)`).

use std::ffi::CStr;

/// An error number of the kernel, always in `1..=4095`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl Errno {
    /// Interprets a raw system-call result: negative values down to -4095 are errors.
    #[inline]
    pub fn check(result: isize) -> Result<usize, Errno> {
        if (-4095..0).contains(&result) {
            Err(Errno(-result as i32))
        } else {
            Ok(result as usize)
        }
    }
}

/// As [`std::io::Error`] shows it. That one allocates.
impl std::fmt::Display for Errno {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = [0_u8; 128];
        // SAFETY: the text is writable for its length.
        unsafe { libc::strerror_r(self.0, text.as_mut_ptr().cast(), text.len()) };
        let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
        let text = text.to_str().unwrap_or_default();
        write!(formatter, "{text} (os error {})", self.0)
    }
}

impl std::fmt::Debug for Errno {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Errno({}: {self})", self.0)
    }
}

impl std::error::Error for Errno {}

impl From<Errno> for std::io::Error {
    fn from(errno: Errno) -> Self {
        std::io::Error::from_raw_os_error(errno.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_shown_as_the_standard_library_shows_it() {
        for number in [1, libc::ENOMEM, libc::EHWPOISON, 4095] {
            let other = std::io::Error::from(Errno(number));
            assert_eq!(Errno(number).to_string(), other.to_string());
        }
    }
}
