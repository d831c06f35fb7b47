//! Sizes as people write and read them.

/// Parses a size: `65536`, `64KiB`, `1 MiB`, `1GiB`, `1TiB`. `None` for anything else, and if it does not
/// fit 64 bits.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// A size for people: in the largest unit that gives at least 1, with one decimal (`1.2 GiB`, `3 MiB`,
/// `0 B`). With `{:#}` it has no space, for `key=value`. Displaying it does not allocate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DisplayBytes(pub u64);

impl std::fmt::Display for DisplayBytes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let space = if formatter.alternate() { "" } else { " " };
        let (shift, unit) = match self.0 {
            0..=0x3FF => return write!(formatter, "{}{space}B", self.0),
            0x400..=0xF_FFFF => (10, "KiB"),
            0x10_0000..=0x3FFF_FFFF => (20, "MiB"),
            _ => (30, "GiB"),
        };
        let tenths = ((self.0 >> (shift - 10)) * 10) >> 10;
        if tenths.is_multiple_of(10) || tenths >= 1000 {
            write!(formatter, "{}{space}{unit}", tenths / 10)
        } else {
            write!(formatter, "{}.{}{space}{unit}", tenths / 10, tenths % 10)
        }
    }
}

/// [`DisplayBytes`] as a string.
pub fn display_bytes(bytes: u64) -> String {
    DisplayBytes(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        assert_eq!(parse_bytes("65536"), Some(65_536));
        assert_eq!(parse_bytes(" 64KiB "), Some(65_536));
        assert_eq!(parse_bytes("1 MiB"), Some(1 << 20));
        assert_eq!(parse_bytes("2TiB"), Some(2 << 40));
        for wrong in ["", "MiB", "1MB", "-1", "1.5MiB", "99999999999GiB"] {
            assert_eq!(parse_bytes(wrong), None, "{wrong}");
        }
        assert_eq!(display_bytes(0), "0 B");
        assert_eq!(display_bytes(1 << 20), "1 MiB");
        assert_eq!(display_bytes((1 << 30) + (1 << 28)), "1.2 GiB");
        assert_eq!(format!("{:#}", DisplayBytes(1536)), "1.5KiB");
        assert_eq!(format!("{:#}", DisplayBytes(7)), "7B");
        assert_eq!(display_bytes(1023), "1023 B");
        assert_eq!(display_bytes((500 << 20) + (1 << 19)), "500 MiB");
    }
}
