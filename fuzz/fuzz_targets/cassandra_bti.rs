//! BTI SSTables of Cassandra: the tries of `Partitions.db` and `Rows.db`.

#![no_main]

use coldstream_sstable::cassandra::{Components, Descriptor, SsTable};
use libfuzzer_sys::fuzz_target;

#[path = "support/statistics.rs"]
mod statistics;

fuzz_target!(|input: (Vec<u8>, Vec<u8>, Option<Vec<u8>>, u32)| {
    let (partitions, rows, compression_info, data_length) = input;
    let statistics = statistics::murmur3();
    let descriptor = Descriptor::parse("da-1-bti-Data.db").expect("a known version");
    let components = Components {
        keys: &partitions[..],
        rows: Some(&rows[..]),
        compression_info: compression_info.as_deref(),
        statistics: &statistics[..],
        data_length: data_length.into(),
    };
    let Ok(sstable) = SsTable::new(&descriptor, components) else {
        return;
    };
    statistics::read_all(&sstable);
});
