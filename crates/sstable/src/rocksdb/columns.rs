//! Blocks of columns, as Pebble writes them since its table format 5.
//!
//! Source: `sstable/colblk/` of Pebble 2.1: `block.go`, `uints.go`, `raw_bytes.go`, `prefix_bytes.go`.

use std::ops::Range;

use super::bytes::Bytes;
use crate::{Error, Result, memory, unsupported};

/// Version, number of columns and of rows.
const HEADER_BYTES: usize = 7;
/// Kind and offset.
const COLUMN_BYTES: usize = 5;
const VERSION: u8 = 1;
/// Flag of a number's width: the numbers are differences from a base.
const DIFFERENCES: u8 = 1 << 7;

/// The most rows for each byte of a block. Rows of which no column needs a bit take no bytes, and a damaged block could
/// have thousands of millions of them. A version of a key takes a byte at least.
const ROWS_OF_A_BYTE_MAX: usize = 8;
/// The largest logarithm of the rows that share a prefix. Pebble's is 4 (`prefix_bytes.go`).
const SHIFT_MAX: u32 = 8;

/// The kind of a column (`DataType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Numbers = 2,
    Strings = 3,
    PrefixedStrings = 4,
}

/// A decompressed block of columns.
#[derive(Debug)]
pub(super) struct Columns {
    contents: Vec<u8>,
    /// Where version and numbers begin.
    header_at: usize,
    rows: usize,
    columns: usize,
    /// Offset of the stored block in the file, for errors.
    offset: u64,
}

/// A column of numbers. Positions are those in the block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    base: u64,
    width: usize,
    at: usize,
    end: usize,
}

/// A column of strings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strings {
    ends: Numbers,
    at: usize,
}

/// A column of ascending strings. Neighbours share a prefix.
#[derive(Clone, Copy, Debug)]
pub(super) struct PrefixedStrings {
    /// Logarithm of the number of rows that share a prefix.
    shift: u32,
    parts: Strings,
}

impl Columns {
    /// Reads the header, behind `own_bytes` of the block's user. `offset` is that of the stored block in the file.
    pub(super) fn parse(contents: Vec<u8>, own_bytes: usize, offset: u64) -> Result<Self> {
        let mut bytes = Bytes::from(&contents, own_bytes);
        let header = bytes.byte().zip(bytes.take(2)).zip(bytes.fixed32());
        let Some(((version, columns), rows)) = header else {
            return Err(Error::Malformed {
                what: "a block of columns without a header",
                offset,
            });
        };
        if version != VERSION {
            return Err(unsupported(format_args!(
                "version {version} of a block of columns"
            )));
        }
        let rows = rows as usize;
        if rows / ROWS_OF_A_BYTE_MAX > contents.len() {
            return Err(Error::Malformed {
                what: "a block with more rows than fit",
                offset,
            });
        }
        Ok(Self {
            columns: usize::from(u16::from_le_bytes([columns[0], columns[1]])),
            rows,
            header_at: own_bytes,
            contents,
            offset,
        })
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn contents(&self) -> &[u8] {
        &self.contents
    }

    pub(super) fn malformed(&self, what: &'static str) -> Error {
        Error::Malformed {
            what,
            offset: self.offset,
        }
    }

    /// Where a column begins.
    fn column(&self, number: usize, kind: Kind) -> Option<usize> {
        if number >= self.columns {
            return None;
        }
        let header = self.header_at + HEADER_BYTES + COLUMN_BYTES * number;
        let mut bytes = Bytes::from(&self.contents, header);
        let is_it = bytes.byte()? == kind as u8;
        let at = bytes.fixed32()? as usize;
        (is_it && at <= self.contents.len()).then_some(at)
    }

    pub(super) fn numbers(&self, column: usize) -> Result<Numbers> {
        let found = self.column(column, Kind::Numbers);
        found
            .and_then(|at| self.numbers_at(at, self.rows))
            .ok_or_else(|| self.malformed("a column of numbers that does not fit its block"))
    }

    pub(super) fn strings(&self, column: usize) -> Result<Strings> {
        let found = self.column(column, Kind::Strings);
        found
            .and_then(|at| self.strings_at(at, self.rows))
            .ok_or_else(|| self.malformed("a column of strings that does not fit its block"))
    }

    pub(super) fn prefixed_strings(&self, column: usize) -> Result<PrefixedStrings> {
        let found = self.column(column, Kind::PrefixedStrings).and_then(|at| {
            let shift = u32::from(*self.contents.get(at)?);
            if shift > SHIFT_MAX {
                return None;
            }
            let bundles = 1 + self.rows.checked_sub(1)?.checked_shr(shift)?;
            let parts = self.strings_at(at + 1, self.rows.checked_add(bundles)?)?;
            Some(PrefixedStrings { shift, parts })
        });
        found.ok_or_else(|| self.malformed("a column of keys that does not fit its block"))
    }

    fn numbers_at(&self, at: usize, rows: usize) -> Option<Numbers> {
        if rows == 0 {
            return Some(Numbers {
                base: 0,
                width: 0,
                at,
                end: at,
            });
        }
        let mut bytes = Bytes::from(&self.contents, at);
        let encoding = bytes.byte()?;
        let base = if encoding & DIFFERENCES == 0 {
            0
        } else {
            bytes.fixed64()?
        };
        let width = usize::from(encoding & !DIFFERENCES);
        if !matches!(width, 0 | 1 | 2 | 4 | 8) {
            return None;
        }
        let at = bytes.position().next_multiple_of(width.max(1));
        let end = at.checked_add(rows.checked_mul(width)?)?;
        (end <= self.contents.len()).then_some(Numbers {
            base,
            width,
            at,
            end,
        })
    }

    /// A column of `count` strings: the ends of all, and a beginning in front of them.
    fn strings_at(&self, at: usize, count: usize) -> Option<Strings> {
        let rows = if count == 0 { 0 } else { count.checked_add(1)? };
        let ends = self.numbers_at(at, rows)?;
        Some(Strings { ends, at: ends.end })
    }

    pub(super) fn number(&self, column: Numbers, row: usize) -> Option<u64> {
        let width = column.width;
        let at = column.at + row.checked_mul(width)?;
        if at + width > column.end {
            return None;
        }
        let mut number = [0; 8];
        number[..width].copy_from_slice(self.contents.get(at..at + width)?);
        column.base.checked_add(u64::from_le_bytes(number))
    }

    /// Where a string lies in the block.
    pub(super) fn string_range(&self, column: Strings, row: usize) -> Option<Range<usize>> {
        let start = usize::try_from(self.number(column.ends, row)?).ok()?;
        let end = usize::try_from(self.number(column.ends, row + 1)?).ok()?;
        let range = column.at.checked_add(start)?..column.at.checked_add(end)?;
        self.contents.get(range.clone()).map(|_| range)
    }

    pub(super) fn string(&self, column: Strings, row: usize) -> Option<&[u8]> {
        self.contents.get(self.string_range(column, row)?)
    }

    /// Appends a string to `key`.
    pub(super) fn append_prefixed(
        &self,
        column: PrefixedStrings,
        row: usize,
        key: &mut Vec<u8>,
    ) -> Result<()> {
        let parts = self.parts(column, row);
        let parts = parts.ok_or_else(|| self.malformed("a key that does not fit its block"))?;
        for part in parts {
            memory::append(part, key)?;
        }
        Ok(())
    }

    /// The prefix of all rows, the one of some rows, and the rest.
    fn parts(&self, column: PrefixedStrings, row: usize) -> Option<[&[u8]; 3]> {
        let PrefixedStrings { shift, parts } = column;
        if row >= self.rows {
            return None;
        }
        let shared_end = usize::try_from(self.number(parts.ends, 0)?).ok()?;
        let shared = self
            .contents
            .get(parts.at..parts.at.checked_add(shared_end)?)?;
        let bundle = row.checked_shr(shift)?;
        let first = bundle.checked_shl(shift)?;
        let prefix = self.string(parts, bundle + first)?;
        // An empty rest: the key is that of the row before.
        let mut at = row;
        let mut rest = self.string(parts, 1 + bundle + at)?;
        while rest.is_empty() && at > first {
            at -= 1;
            rest = self.string(parts, 1 + bundle + at)?;
        }
        Some([shared, prefix, rest])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(columns: &[(u8, &[u8])], rows: u32) -> Vec<u8> {
        let mut block = vec![VERSION];
        block.extend((columns.len() as u16).to_le_bytes());
        block.extend(rows.to_le_bytes());
        let mut at = HEADER_BYTES + COLUMN_BYTES * columns.len();
        for (kind, bytes) in columns {
            block.push(*kind);
            block.extend((at as u32).to_le_bytes());
            at += bytes.len();
        }
        columns.iter().for_each(|(_, bytes)| block.extend(*bytes));
        block.push(0);
        block
    }

    #[test]
    fn numbers_and_strings() {
        // Differences of one byte from 1000; then two strings.
        let mut numbers = vec![0x81];
        numbers.extend(1000_u64.to_le_bytes());
        numbers.extend([1, 7]);
        let strings = [1, 0, 2, 5, b'a', b'b', b'c', b'd', b'e'];
        let contents = block(&[(2, &numbers), (3, &strings), (2, &[0])], 2);
        let columns = Columns::parse(contents, 0, 9).unwrap();
        let column = columns.numbers(0).unwrap();
        let found = [0, 1, 2].map(|row| columns.number(column, row));
        assert_eq!(found, [Some(1001), Some(1007), None]);
        let column = columns.strings(1).unwrap();
        assert_eq!(columns.string(column, 0), Some(&b"ab"[..]));
        assert_eq!(columns.string(column, 1), Some(&b"cde"[..]));
        assert_eq!(columns.string(column, 2), None);
        let zeros = columns.numbers(2).unwrap();
        assert_eq!(columns.number(zeros, 1), Some(0));
        assert!(columns.strings(0).is_err() && columns.numbers(3).is_err());
    }

    /// The first eight keys of the example in `prefix_bytes.go`, in bundles of four.
    #[test]
    fn keys_share_two_prefixes() {
        let mut keys = vec![2, 1];
        keys.extend([6, 7, 7, 8, 10, 11, 11, 14, 14, 14, 17]);
        keys.extend(b"aaabbbccdeedeeeff");
        let columns = Columns::parse(block(&[(4, &keys)], 8), 0, 0).unwrap();
        let column = columns.prefixed_strings(0).unwrap();
        let key = |row| {
            let mut key = Vec::new();
            columns.append_prefixed(column, row, &mut key).unwrap();
            String::from_utf8(key).unwrap()
        };
        assert_eq!(key(0), "aaabbbc");
        assert_eq!(key(1), "aaabbbcc");
        assert_eq!(key(3), "aaabbbce");
        assert_eq!(key(4), "aaabbbdee");
        assert_eq!(key(6), "aaabbbdee");
        assert_eq!(key(7), "aaabbbeff");
        let mut nothing = Vec::new();
        assert!(columns.append_prefixed(column, 8, &mut nothing).is_err());
    }

    #[test]
    fn what_does_not_fit_is_malformed() {
        for columns in [
            (2, &[3, 1, 1, 1, 1][..]),
            (2, &[8, 0]),
            (3, &[1, 0, 200]),
            (4, &[]),
        ] {
            let columns = Columns::parse(block(&[columns], 1), 0, 0).unwrap();
            let string = columns.strings(0).ok().and_then(|it| columns.string(it, 0));
            assert_eq!(string, None);
            assert!(columns.numbers(0).is_err() && columns.prefixed_strings(0).is_err());
        }
        assert!(Columns::parse(vec![1, 0], 0, 0).is_err());
        // Neither takes time beyond its bytes.
        assert!(Columns::parse(block(&[(2, &[0])], u32::MAX), 0, 0).is_err());
        let long_bundle = block(&[(4, &[31, 1, 0, 0, 0, 0])], 8);
        let columns = Columns::parse(long_bundle, 0, 0).unwrap();
        assert!(columns.prefixed_strings(0).is_err());
        assert!(matches!(
            Columns::parse(block(&[], 0), 1, 0),
            Err(Error::Unsupported(_))
        ));
    }
}
