//! BIG SSTables of Cassandra: `Index.db`, `CompressionInfo.db`, `Statistics.db`.

#![no_main]

use coldstream_sstable::cassandra::{Components, Descriptor, SsTable};
use libfuzzer_sys::fuzz_target;

#[path = "support/statistics.rs"]
mod statistics;

fuzz_target!(|input: (bool, Vec<u8>, Option<Vec<u8>>, Vec<u8>, u32)| {
    let (has_statistics, index, compression_info, statistics, data_length) = input;
    let statistics = if has_statistics {
        statistics::murmur3()
    } else {
        statistics
    };
    let descriptor = Descriptor::parse("nb-1-big-Data.db").expect("a known version");
    let components = Components {
        keys: &index[..],
        rows: None,
        compression_info: compression_info.as_deref(),
        statistics: &statistics[..],
        data_length: data_length.into(),
    };
    let Ok(sstable) = SsTable::new(&descriptor, components) else {
        return;
    };
    statistics::read_all(&sstable);
});
