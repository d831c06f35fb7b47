//! Reads the user keys of an uncompressed data block. It shares no code with the reader under test.

pub const TRAILER_BYTES: usize = 5;

/// The user keys of `stored`, a block with its trailer. `None` if it is compressed.
pub fn user_keys(stored: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (block, trailer) = stored.split_at(stored.len() - TRAILER_BYTES);
    if trailer[0] != 0 {
        return None;
    }
    let fixed32 = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().unwrap());
    let mut end = block.len() - 4;
    let packed = fixed32(end);
    assert_eq!(packed & 1 << 31, 0, "a data block with a hash index");
    let separate_values = packed & 1 << 28 != 0;
    let mut values = 0;
    if separate_values {
        end -= 4;
        values = fixed32(end) as usize;
    }
    let restarts_at = end - 4 * (packed & 0x0fff_ffff) as usize;
    let restarts: Vec<_> = (restarts_at..end)
        .step_by(4)
        .map(|at| fixed32(at) as usize)
        .collect();
    let entries_end = if separate_values { values } else { restarts_at };

    let mut keys = Vec::new();
    let mut key = Vec::new();
    let mut at = 0;
    while at < entries_end {
        let restarting = restarts.contains(&at);
        let mut varint = || {
            let mut value = 0usize;
            for shift in (0..).step_by(7) {
                let byte = block[at];
                at += 1;
                value |= usize::from(byte & 0x7f) << shift;
                if byte < 0x80 {
                    break;
                }
            }
            value
        };
        let (shared, unshared, value) = (varint(), varint(), varint());
        if separate_values && restarting {
            varint();
        }
        key.truncate(shared);
        key.extend(&block[at..at + unshared]);
        at += unshared + if separate_values { 0 } else { value };
        keys.push(key[..key.len() - 8].to_vec());
    }
    Some(keys)
}
