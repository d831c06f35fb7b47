//! Options of Pebble, in the format of its own OPTIONS file.

/// Options of every mode: incompressible values, small blocks, filters, and a small block cache, so
/// that reads depend on the page cache. Tables have 16 MiB, so that compactions of all levels come
/// within a phase. Two files in level 0 start a compaction, as in CockroachDB (`DefaultPebbleOptions`).
pub fn of_every_mode(further: &str) -> String {
    let mut text = "[Options]\n\
         cache_size=8388608\n\
         mem_table_size=8388608\n\
         l0_compaction_threshold=2\n\
         lbase_max_bytes=67108864\n\
         max_open_files=10000\n"
        .to_owned();
    for level in 0..LEVELS {
        text.push_str(&format!(
            "[Level \"{level}\"]\n\
             block_size=4096\n\
             compression=NoCompression\n\
             filter_policy=rocksdb.BuiltinBloomFilter\n\
             target_file_size=16777216\n"
        ));
    }
    let further = further.split(';').filter_map(|it| it.split_once('='));
    text + &section("Options", further)
}

/// Levels of a Pebble.
const LEVELS: usize = 7;

/// A section. A value that Pebble has read before is replaced.
pub fn section<'a>(name: &str, settings: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let lines = settings.map(|(key, value)| format!("{}={}\n", key.trim(), value.trim()));
    format!("[{name}]\n{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_options_come_last() {
        let text = of_every_mode("cache_size=1; max_concurrent_compactions=3");
        assert!(text.ends_with("[Options]\ncache_size=1\nmax_concurrent_compactions=3\n"));
        assert_eq!(text.matches("[Level ").count(), LEVELS);
    }
}
