//! Cassandra's variant of the 128-bit MurmurHash 3, and the token of `Murmur3Partitioner`.
//!
//! Sources: `utils/MurmurHash.java` (`hash3_x64_128`) and `dht/Murmur3Partitioner.java`, the same
//! in Cassandra 4.1.10, 5.0.9 and 6.0-alpha2.

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// Both halves of the hash of a partition key.
///
/// One difference from the published MurmurHash 3: the bytes of the last, incomplete block are
/// sign-extended.
pub(super) fn hash(key: &[u8]) -> [u64; 2] {
    let (mut h1, mut h2) = (0_u64, 0_u64);
    let (blocks, tail) = key.as_chunks::<16>();
    for block in blocks {
        let block = u128::from_le_bytes(*block);
        h1 ^= mix_first(block as u64);
        h1 = h1.rotate_left(27).wrapping_add(h2);
        h1 = h1.wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= mix_second((block >> 64) as u64);
        h2 = h2.rotate_left(31).wrapping_add(h1);
        h2 = h2.wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let (first, second) = tail.split_at(tail.len().min(8));
    // An absent half is 0. Both mixing functions map 0 to 0.
    h2 ^= mix_second(sign_extended(second));
    h1 ^= mix_first(sign_extended(first));

    h1 ^= key.len() as u64;
    h2 ^= key.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = finish(h1);
    h2 = finish(h2);
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    [h1, h2]
}

/// The token of a partition key whose hash is `hash`.
///
/// The lowest token means "before every key". Only the empty key has it, and no SSTable contains
/// that key.
pub(super) fn token(key: &[u8], hash: [u64; 2]) -> i64 {
    let token = hash[0].cast_signed();
    if key.is_empty() {
        i64::MIN
    } else if token == i64::MIN {
        i64::MAX
    } else {
        token
    }
}

fn mix_first(k: u64) -> u64 {
    k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn mix_second(k: u64) -> u64 {
    k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

fn finish(mut k: u64) -> u64 {
    k ^= k >> 33;
    k = k.wrapping_mul(0xff51_afd7_ed55_8ccd);
    k ^= k >> 33;
    k = k.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ (k >> 33)
}

/// Little-endian combination of signed bytes: a byte of 0x80 or more flips all bits above its own.
fn sign_extended(bytes: &[u8]) -> u64 {
    bytes.iter().zip(0..).fold(0, |sum, (&byte, index)| {
        sum ^ (i64::from(byte.cast_signed()) << (8 * index)).cast_unsigned()
    })
}
