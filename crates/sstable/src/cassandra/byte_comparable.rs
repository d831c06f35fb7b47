//! The byte-comparable form of partition keys: byte strings whose order is that of the partitions.
//!
//! The version is `OSS50`, that of the tries on disk (`io/tries/Walker.java`).
//!
//! Source, the same in Cassandra 5.0.9 and 6.0-alpha2: `db/DecoratedKey.java` (`asComparableBytes`),
//! `utils/bytecomparable/ByteSource.java` (`Multi`, `Number`, `AbstractEscaper`).

use super::token::token;
use crate::memory::{TryVec, append};
use std::collections::TryReserveError;

/// Longest partition key in bytes: its length is written in two bytes.
const LONGEST_KEY: usize = u16::MAX as usize;

/// Longest byte-comparable form in bytes. It is that of a key with every other byte escaped.
///
/// The terms: token, key, escapes, end of the key, two separators, terminator.
pub(super) const LONGEST: usize = 8 + LONGEST_KEY + LONGEST_KEY.div_ceil(2) + 1 + 2 + 1;

const NEXT_COMPONENT: u8 = 0x40;
const TERMINATOR: u8 = 0x38;
const ESCAPE: u8 = 0x00;
const ESCAPED_ZERO_GOES_ON: u8 = 0xfe;
const ESCAPED_ZERO_DONE: u8 = 0xff;

/// Appends the byte-comparable form of a partition key whose hash is `hash`.
pub(super) fn encode(
    key: &[u8],
    hash: [u64; 2],
    into: &mut Vec<u8>,
) -> Result<(), TryReserveError> {
    append(&encoded_token(key, hash), into)?;
    into.try_push(NEXT_COMPONENT)?;
    escape(key, into)?;
    into.try_push(TERMINATOR)
}

/// The beginning of the byte-comparable form: a separator and the token.
pub(super) fn encoded_token(key: &[u8], hash: [u64; 2]) -> [u8; 9] {
    // The inverted sign bit makes the order of unsigned bytes that of signed tokens.
    let ordered = token(key, hash) ^ i64::MIN;
    let mut encoded = [NEXT_COMPONENT; 9];
    encoded[1..].copy_from_slice(&ordered.to_be_bytes());
    encoded
}

/// Escapes zero bytes, so that the 00 behind the key sorts before all longer keys.
///
/// - A run of n zeroes becomes 00, then n - 1 times FE, then FF.
/// - A run at the end of the key becomes 00, then n times FE. No further 00 ends such a key.
fn escape(key: &[u8], into: &mut Vec<u8>) -> Result<(), TryReserveError> {
    into.try_reserve(key.len() + 1)?;
    let mut in_zeroes = false;
    for &byte in key {
        match (byte, in_zeroes) {
            (0, false) => into.try_push(ESCAPE)?,
            (0, true) => into.try_push(ESCAPED_ZERO_GOES_ON)?,
            (_, false) => into.try_push(byte)?,
            (_, true) => append(&[ESCAPED_ZERO_DONE, byte], into)?,
        }
        in_zeroes = byte == 0;
    }
    into.try_push(if in_zeroes {
        ESCAPED_ZERO_GOES_ON
    } else {
        ESCAPE
    })
}
