//! Writes SSTables with any keys, in any layout that the formats allow. Cassandra's own writer
//! chooses only some of these layouts.

use std::collections::BTreeMap;

use coldstream_sstable::cassandra::{Components, Descriptor, Format, Key, SsTable};
use coldstream_sstable::{ReadAt, Result};

const PAGE: usize = 4096;

/// Where random choices come from.
pub trait Choices {
    /// A number below `limit`.
    fn below(&mut self, limit: usize) -> usize;
}

/// A small random generator (xorshift64*). The choices must be the same on every machine.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        // The state must not be zero, and neighbouring seeds must differ in many bits.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
}

impl Choices for Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        bits as usize % limit
    }
}

/// The files of an SSTable.
#[derive(Clone, Debug)]
pub struct Files {
    pub format: Format,
    pub keys: Vec<u8>,
    pub rows: Option<Vec<u8>>,
    pub compression_info: Option<Vec<u8>>,
    pub statistics: Vec<u8>,
    pub data_length: u64,
}

impl Files {
    pub fn components(&self) -> Components<&[u8]> {
        Components {
            keys: &self.keys,
            rows: self.rows.as_deref(),
            compression_info: self.compression_info.as_deref(),
            statistics: &self.statistics,
            data_length: self.data_length,
        }
    }

    pub fn open(&self) -> Result<SsTable<&[u8]>> {
        SsTable::new(&descriptor(self.format), self.components())
    }
}

pub fn descriptor(format: Format) -> Descriptor {
    let name = match format {
        Format::Big => "oa-1-big-Data.db",
        Format::Bti => "da-1-bti-Data.db",
    };
    Descriptor::parse(name).expect("a valid name")
}

/// A partition to be written.
#[derive(Clone, Debug)]
pub struct Partition {
    pub partition_key: Vec<u8>,
    /// Bytes in the uncompressed data.
    pub length: u64,
    /// Whether it has an index of its rows.
    pub rows: bool,
}

/// Sorts partitions as an SSTable does.
pub fn sorted(mut partitions: Vec<Partition>) -> Vec<Partition> {
    let form = |partition: &Partition| {
        let key = Key::from_partition_key(&partition.partition_key);
        key.bytes().to_vec()
    };
    partitions.sort_by_cached_key(form);
    partitions.dedup_by_key(|partition| form(partition));
    partitions
}

/// Writes an SSTable without compression.
pub fn write(format: Format, partitions: &[Partition], choices: &mut impl Choices) -> Files {
    let (keys, rows) = match format {
        Format::Big => (big_index(partitions, choices), None),
        Format::Bti => {
            let (trie, rows) = bti_index(partitions, choices);
            (trie, Some(rows))
        }
    };
    Files {
        format,
        keys,
        rows,
        compression_info: None,
        statistics: statistics("org.apache.cassandra.dht.Murmur3Partitioner"),
        data_length: partitions.iter().map(|partition| partition.length).sum(),
    }
}

/// Compresses an SSTable in chunks of `chunk_length` bytes. Each gets a random compressed length.
pub fn compress(files: &mut Files, chunk_length: u32, choices: &mut impl Choices) -> Vec<u64> {
    let uncompressed = files.data_length;
    let count = uncompressed.div_ceil(chunk_length.into()) as u32;
    let mut bytes = Vec::new();
    with_length(&mut bytes, b"LZ4Compressor");
    bytes.extend(1_u32.to_be_bytes());
    with_length(&mut bytes, b"lz4_compressor_type");
    with_length(&mut bytes, b"fast");
    bytes.extend(chunk_length.to_be_bytes());
    bytes.extend(i32::MAX.to_be_bytes());
    bytes.extend(uncompressed.to_be_bytes());
    bytes.extend(count.to_be_bytes());
    let mut offsets = vec![0_u64];
    for chunk in 0..count as usize {
        bytes.extend(offsets[chunk].to_be_bytes());
        offsets.push(offsets[chunk] + 5 + choices.below(chunk_length as usize) as u64);
    }
    files.compression_info = Some(bytes);
    files.data_length = offsets[count as usize];
    offsets
}

pub fn statistics(partitioner: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    // The number of components (two), a checksum, their types and offsets, a checksum.
    for word in [2_u32, 0, 0, 28, 3, 1000, 0] {
        bytes.extend(word.to_be_bytes());
    }
    with_length(&mut bytes, partitioner.as_bytes());
    bytes.extend(0.01_f64.to_be_bytes());
    bytes.resize(1100, 0);
    bytes
}

fn with_length(into: &mut Vec<u8>, bytes: &[u8]) {
    let length = u16::try_from(bytes.len()).expect("at most 65535 bytes");
    into.extend(length.to_be_bytes());
    into.extend(bytes);
}

/// As `VIntCoding.writeUnsignedVInt` does: the shortest form.
fn variable_length(into: &mut Vec<u8>, value: u64) {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    let further = if bits > 56 { 8 } else { (bits - 1) / 7 };
    let bytes = value.to_be_bytes();
    let mut encoded = if further == 8 { vec![0] } else { Vec::new() };
    encoded.extend(&bytes[if further == 8 { 0 } else { 7 - further }..]);
    encoded[0] |= !(0xff_u32 >> further) as u8;
    into.extend(encoded);
}

fn big_index(partitions: &[Partition], choices: &mut impl Choices) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut position = 0;
    for partition in partitions {
        with_length(&mut bytes, &partition.partition_key);
        variable_length(&mut bytes, position);
        let row_index = if partition.rows {
            1 + choices.below(3000)
        } else {
            0
        };
        variable_length(&mut bytes, row_index as u64);
        bytes.extend(std::iter::repeat_n(0xaa, row_index));
        position += partition.length;
    }
    bytes
}

/// A node of a trie in memory.
#[derive(Default)]
struct Node {
    children: BTreeMap<u8, Node>,
    payload: Option<(u8, i64)>,
}

fn bti_index(partitions: &[Partition], choices: &mut impl Choices) -> (Vec<u8>, Vec<u8>) {
    let forms: Vec<Key> = partitions
        .iter()
        .map(|partition| Key::from_partition_key(&partition.partition_key))
        .collect();
    let common = |one: usize, another: usize| {
        let (Some(one), Some(another)) = (forms.get(one), forms.get(another)) else {
            return 0;
        };
        let pairs = one.bytes().iter().zip(another.bytes());
        pairs.take_while(|(one, another)| one == another).count()
    };
    let mut root = Node::default();
    let mut rows = Vec::new();
    let mut position = 0;
    for (index, partition) in partitions.iter().enumerate() {
        let target = if partition.rows {
            // Before its entry lies the index of the rows.
            rows.extend(std::iter::repeat_n(0xbb, choices.below(2000)));
            let entry = rows.len();
            with_length(&mut rows, &partition.partition_key);
            variable_length(&mut rows, position);
            rows.extend([0xcc; 14]);
            entry as i64
        } else {
            !position.cast_signed()
        };
        let before = common(index.wrapping_sub(1), index);
        let unique = before.max(common(index, index + 1)) + 1;
        let mut node = &mut root;
        for &byte in &forms[index].bytes()[..unique] {
            node = node.children.entry(byte).or_default();
        }
        node.payload = Some((forms[index].filter_hash().expect("complete"), target));
        position += partition.length;
    }
    let mut bytes = Vec::new();
    let root = write_node(&root, &mut bytes, choices);
    let keys_at = bytes.len() as u64;
    with_length(&mut bytes, &partitions[0].partition_key);
    with_length(&mut bytes, &partitions[partitions.len() - 1].partition_key);
    for number in [keys_at, partitions.len() as u64, root as u64] {
        bytes.extend(number.to_be_bytes());
    }
    (bytes, rows)
}

/// Writes a node after its children. Returns its position.
fn write_node(node: &Node, into: &mut Vec<u8>, choices: &mut impl Choices) -> usize {
    let mut children = Vec::new();
    for (&byte, child) in &node.children {
        children.push((byte, write_node(child, into, choices)));
    }
    loop {
        let encoded = encode_node(&children, node.payload, into.len(), choices);
        let left = PAGE - into.len() % PAGE;
        if encoded.len() <= left {
            let position = into.len();
            into.extend(encoded);
            return position;
        }
        into.resize(into.len() + left, 0);
    }
}

/// A node at `position`, of any of the types that can hold it.
fn encode_node(
    children: &[(u8, usize)],
    payload: Option<(u8, i64)>,
    position: usize,
    choices: &mut impl Choices,
) -> Vec<u8> {
    let distances: Vec<u64> = children
        .iter()
        .map(|&(_, child)| (position - child) as u64)
        .collect();
    let farthest = distances.iter().copied().max().unwrap_or(0);
    let fits = |bits: u32| bits == 64 || farthest < 1 << bits;
    // Types by their number: shape, bits of a pointer.
    let singles = [(1, 4), (2, 8), (3, 12), (4, 16)];
    let sparse = [(5, 8), (6, 12), (7, 16), (8, 24), (9, 40)];
    let dense = [(10, 12), (11, 16), (12, 24), (13, 32), (14, 40), (15, 64)];
    let mut types: Vec<(u8, u32)> = Vec::new();
    match children.len() {
        0 => types.push((0, 0)),
        1 => types.extend(singles.iter().chain(&sparse).chain(&dense)),
        2..=255 => types.extend(sparse.iter().chain(&dense)),
        _ => types.extend(&dense),
    }
    types.retain(|&(_, bits)| fits(bits));
    let (kind, bits) = types[choices.below(types.len())];
    let mut bytes = vec![kind << 4];
    match kind {
        1 => {
            bytes[0] |= distances[0] as u8;
            bytes.push(children[0].0);
        }
        3 => {
            bytes[0] |= (distances[0] >> 8) as u8;
            bytes.extend([distances[0] as u8, children[0].0]);
        }
        2 | 4 => {
            bytes.push(children[0].0);
            bytes.extend(pointers(&distances, bits));
        }
        5..=9 => {
            bytes.push(children.len() as u8);
            bytes.extend(children.iter().map(|child| child.0));
            bytes.extend(pointers(&distances, bits));
        }
        10.. => {
            let (first, last) = (children[0].0, children[children.len() - 1].0);
            let mut slots = vec![0; usize::from(last - first) + 1];
            for (child, &distance) in children.iter().zip(&distances) {
                slots[usize::from(child.0 - first)] = distance;
            }
            bytes.extend([first, last - first]);
            bytes.extend(pointers(&slots, bits));
        }
        0 => {}
    }
    if let Some((hash, target)) = payload {
        let significant = 65 - (target ^ (target >> 63)).leading_zeros() as usize;
        let needed = significant.div_ceil(8);
        let with_hash = needed == 8 || choices.below(4) > 0;
        if with_hash {
            bytes[0] |= 8 + (needed - 1) as u8;
            bytes.push(hash);
        } else {
            bytes[0] |= needed as u8;
        }
        bytes.extend(&target.to_be_bytes()[8 - needed..]);
    }
    bytes
}

fn pointers(distances: &[u64], bits: u32) -> Vec<u8> {
    if bits != 12 {
        let length = bits as usize / 8;
        let bytes = distances.iter().map(|distance| distance.to_be_bytes());
        return bytes
            .flat_map(|bytes| bytes[8 - length..].to_vec())
            .collect();
    }
    let mut bytes = Vec::new();
    for pair in distances.chunks(2) {
        let both = pair[0] << 12 | pair.get(1).copied().unwrap_or(0);
        let length = if pair.len() == 2 { 3 } else { 2 };
        bytes.extend(&both.to_be_bytes()[5..5 + length]);
    }
    bytes
}

/// All partitions of an SSTable.
pub fn walk<R: ReadAt>(sstable: &SsTable<R>) -> Result<Vec<(Key, std::ops::Range<u64>)>> {
    let mut partitions = sstable.partitions()?;
    let mut walked = Vec::new();
    while let Some(partition) = partitions.next_partition()? {
        walked.push((partition.key.clone(), partition.uncompressed));
    }
    Ok(walked)
}
