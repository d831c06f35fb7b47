//! Error numbers of the kernel (`errno(3)`).

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

impl std::fmt::Display for Errno {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::io::Error::from_raw_os_error(self.0).fmt(formatter)
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
