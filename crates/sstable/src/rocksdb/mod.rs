//! RocksDB's block-based table and LevelDB's table.
