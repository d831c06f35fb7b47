//! Sizes as people write them.

/// Parses `65536`, `64KiB`, `1 MiB`, `1GiB`; `None` if it is anything else or too large.
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
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// The size with the largest unit of which there is at least one: `1.2 GiB`, `3 MiB`, `0 B`.
pub fn display_bytes(bytes: u64) -> String {
    let (unit_bytes, unit) = match bytes {
        0..=0x3FF => return format!("{bytes} B"),
        0x400..=0xF_FFFF => (1_u64 << 10, "KiB"),
        0x10_0000..=0x3FFF_FFFF => (1 << 20, "MiB"),
        _ => (1 << 30, "GiB"),
    };
    if bytes.is_multiple_of(unit_bytes) || bytes >= 100 * unit_bytes {
        format!("{} {unit}", bytes / unit_bytes)
    } else {
        format!("{:.1} {unit}", bytes as f64 / unit_bytes as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        assert_eq!(parse_bytes("65536"), Some(65_536));
        assert_eq!(parse_bytes(" 64KiB "), Some(65_536));
        assert_eq!(parse_bytes("1 MiB"), Some(1 << 20));
        for wrong in ["", "MiB", "1MB", "-1", "1.5MiB", "99999999999GiB"] {
            assert_eq!(parse_bytes(wrong), None, "{wrong}");
        }
        assert_eq!(display_bytes(0), "0 B");
        assert_eq!(display_bytes(1 << 20), "1 MiB");
        assert_eq!(display_bytes((1 << 30) + (1 << 28)), "1.2 GiB");
    }
}
