//! A small LZ4 and CRC-32, to check the data that an index points to.

/// Decompresses a chunk of `Data.db`, and asserts that its checksum matches.
///
/// `length` is that of the chunk before compression. A chunk that compression would not make
/// shorter is stored uncompressed (`CompressedSequentialWriter.java`, Cassandra 5.0.9).
pub fn chunk(bytes: &[u8], length: usize) -> Vec<u8> {
    let (chunk, checksum) = bytes.split_at(bytes.len() - 4);
    assert_eq!(crc32(chunk).to_be_bytes(), checksum, "not one whole chunk");
    if chunk.len() == length {
        return chunk.to_vec();
    }
    // `LZ4Compressor.java`: the length in little-endian order, then a block.
    let (stored_length, block) = chunk.split_at(4);
    let stored_length = u32::from_le_bytes(stored_length.try_into().expect("four bytes"));
    let data = lz4_block(block);
    assert_eq!((data.len(), data.len()), (stored_length as usize, length));
    data
}

fn lz4_block(block: &[u8]) -> Vec<u8> {
    let mut input = block.iter().copied();
    let mut output = Vec::new();
    while let Some(token) = input.next() {
        let more = |input: &mut dyn Iterator<Item = u8>, nibble: u8| {
            let mut length = usize::from(nibble);
            if nibble == 15 {
                for byte in input {
                    length += usize::from(byte);
                    if byte != 255 {
                        break;
                    }
                }
            }
            length
        };
        let literals = more(&mut input, token >> 4);
        output.extend(input.by_ref().take(literals));
        let (Some(low), Some(high)) = (input.next(), input.next()) else {
            break;
        };
        let back = usize::from(u16::from_le_bytes([low, high]));
        let length = 4 + more(&mut input, token & 15);
        let from = output.len() - back;
        for index in from..from + length {
            output.push(output[index]);
        }
    }
    output
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        let mut crc = crc ^ u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
        crc
    };
    !bytes.iter().fold(!0, step)
}
