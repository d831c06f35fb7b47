//! Keys and values of the data set. A value is a function of its key, so that every read can be
//! checked.

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Clone, Copy, Debug)]
pub struct SplitMix(pub u64);

impl SplitMix {
    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// The value that an update gives a key: the update's number, which is not 0, then pseudo-random
/// bytes.
pub fn updated(key: u64, number: u64, value_bytes: u64) -> Vec<u8> {
    let mut stream = SplitMix(key ^ number.rotate_left(32));
    let mut value = number.to_le_bytes().to_vec();
    while (value.len() as u64) < value_bytes {
        value.extend(stream.next().to_le_bytes());
    }
    value.truncate(value_bytes as usize);
    value
}

/// Whether this is a value of that key: the one that `WriteSsTables.java` wrote, or one that an update
/// gave it.
pub fn is_value_of(key: u64, value: &[u8], value_bytes: u64) -> bool {
    let is = |mut stream: SplitMix, value: &[u8]| {
        value
            .chunks(8)
            .all(|chunk| stream.next().to_le_bytes().starts_with(chunk))
    };
    if value.len() as u64 != value_bytes {
        return false;
    }
    is(SplitMix(key), value)
        || value.split_first_chunk().is_some_and(|(number, rest)| {
            let number = u64::from_le_bytes(*number);
            is(SplitMix(key ^ number.rotate_left(32)), rest)
        })
}

/// The hot key with this index. The hot keys are spread evenly over the key numbers; their tokens
/// scatter them over the SSTables.
pub fn hot_key(index: u64, hot_keys: u64, keys: u64) -> u64 {
    index * keys / hot_keys.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_byte_is_noticed() {
        let mut stream = SplitMix(7);
        let mut value: Vec<u8> = (0..3).flat_map(|_| stream.next().to_le_bytes()).collect();
        value.truncate(20);
        assert!(is_value_of(7, &value, 20));
        assert!(!is_value_of(8, &value, 20));
        assert!(!is_value_of(7, &value[..19], 20));
        value[19] ^= 1;
        assert!(!is_value_of(7, &value, 20));
    }

    #[test]
    fn an_updated_value_is_of_its_key_too() {
        for bytes in [8, 20, 4096] {
            let mut value = updated(7, 99, bytes);
            assert_eq!(value.len() as u64, bytes);
            assert!(is_value_of(7, &value, bytes));
            if bytes > 8 {
                assert!(!is_value_of(8, &value, bytes));
                value[10] ^= 1;
                assert!(!is_value_of(7, &value, bytes));
            }
        }
    }

    #[test]
    fn hot_keys_are_apart_and_below_the_number_of_keys() {
        let keys: Vec<u64> = (0..300).map(|index| hot_key(index, 300, 1000)).collect();
        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(keys.last() < Some(&1000));
    }
}
