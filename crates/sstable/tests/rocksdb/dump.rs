//! Parses the output of `sst_dump --command=raw`.

use std::collections::HashMap;

/// A data block as the engine sees it.
#[derive(Debug)]
pub struct DumpedBlock {
    pub offset: u64,
    /// Without the trailer.
    pub size: u64,
    pub separator: Vec<u8>,
    pub keys: Vec<Vec<u8>>,
}

#[derive(Debug)]
pub struct Dump {
    pub blocks: Vec<DumpedBlock>,
    pub entries: u64,
    pub data_blocks: u64,
    pub data_bytes: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Section {
    Head,
    Index,
    Data,
}

/// Keys are user keys in hexadecimal. Behind ": " comes a value or an encoded handle.
pub fn parse(dump: &[u8]) -> Dump {
    let mut section = Section::Head;
    let mut index = Vec::new();
    let mut keys: Vec<Vec<Vec<u8>>> = Vec::new();
    let mut numbers = HashMap::new();
    for line in dump.split(|&byte| byte == b'\n') {
        let line = String::from_utf8_lossy(line);
        let line = line.trim();
        if line.starts_with("Index Details") {
            section = Section::Index;
        } else if line.starts_with("Data Block #") {
            section = Section::Data;
            keys.push(Vec::new());
        } else if line.starts_with("Data Block Summary") || line.starts_with("Range deletions") {
            section = Section::Head;
        } else if let Some(entry) = line.strip_prefix("HEX") {
            let entry = entry.trim_start().split_once(':');
            match (section, entry) {
                (Section::Index, Some((key, value))) => {
                    index.push((unhex(key), unhex(value.trim())));
                }
                (Section::Data, Some((key, _))) => keys.last_mut().unwrap().push(unhex(key)),
                // A dictionary for compression.
                _ => {}
            }
        } else if let Some((name, number)) = line.split_once(": ") {
            numbers
                .entry(name.to_string())
                .or_insert(number.parse::<u64>().ok());
        }
    }
    assert_eq!(index.len(), keys.len());
    let blocks = index
        .into_iter()
        .zip(keys)
        .map(|((separator, handle), keys)| {
            let mut handle = handle.into_iter();
            DumpedBlock {
                offset: varint(&mut handle),
                size: varint(&mut handle),
                separator,
                keys,
            }
        });
    let number = |name: &str| numbers[name].unwrap();
    Dump {
        blocks: blocks.collect(),
        entries: number("# entries"),
        data_blocks: number("# data blocks"),
        data_bytes: number("data block size"),
    }
}

/// Offset and size, without the trailer, of the index block that the footer names.
pub fn index_handle(dump: &[u8]) -> (u64, u64) {
    let dump = String::from_utf8_lossy(dump);
    let handle = dump
        .lines()
        .find_map(|line| line.trim().strip_prefix("index handle: "))
        .unwrap();
    let mut handle = unhex(handle).into_iter();
    (varint(&mut handle), varint(&mut handle))
}

fn unhex(digits: &str) -> Vec<u8> {
    let digits: Vec<_> = digits
        .chars()
        .filter(|digit| !digit.is_whitespace())
        .collect();
    let pair = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

fn varint(bytes: &mut impl Iterator<Item = u8>) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = bytes.next().unwrap();
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}
