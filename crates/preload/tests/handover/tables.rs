//! Kinds of SSTables: blocks, filters, versions, indexes.

use super::case::{Case, INGESTED, SCATTERED, SMALL, assert_handed_over, without_and_with};

#[test]
fn scattered_keys_of_two_interleaved_runs() {
    assert_handed_over(&SCATTERED);
}

/// Only the newest version of a key is read. Only its range of the output is warmed.
#[test]
fn keys_that_were_overwritten() {
    assert_handed_over(&Case {
        keys: 40_000,
        runs: 3,
        value_bytes: 400,
        overwrite: true,
        stride: 100,
        hot: 1,
        table_options: "block_size=4096;index_type=kTwoLevelIndexSearch;metadata_block_size=1024",
        options: "compression=kLZ4Compression;",
        ..SCATTERED
    });
}

#[test]
fn neighbouring_keys_of_many_runs_behind_filters() {
    assert_handed_over(&Case {
        keys: 200_000,
        runs: 5,
        value_bytes: 200,
        stride: 20_000,
        hot: 2_000,
        table_options: "block_size=16384;filter_policy=bloomfilter:10:false",
        ..SCATTERED
    });
}

/// Readers go to the partitions of filters and index in the file.
#[test]
fn partitioned_filters() {
    let case = Case {
        keys: 100_000,
        value_bytes: 800,
        stride: 100,
        table_options: "block_size=4096;filter_policy=bloomfilter:10:false;partition_filters=true;\
                        index_type=kTwoLevelIndexSearch;metadata_block_size=4096",
        ..SCATTERED
    };
    let Some([without, with]) = without_and_with(&case) else {
        return;
    };
    assert!(with.is_warm() && with.metadata_pages > 50, "{with:?}");
    assert!(
        without.warm_metadata_pages * 2 < without.metadata_pages,
        "{without:?}"
    );
    assert!(
        with.warm_metadata_pages * 100 >= with.metadata_pages * 99,
        "{with:?}"
    );
}

/// The inputs were written by the application, and their names are RocksDB's only since they were ingested.
#[test]
fn sstables_that_were_ingested() {
    assert_handed_over(&Case {
        written: INGESTED,
        ..SMALL
    });
}

/// What fills up the blocks is not read either, and tells nothing.
#[test]
fn aligned_blocks() {
    assert_handed_over(&Case {
        keys: 100_000,
        runs: 1,
        value_bytes: 400,
        stride: 200,
        table_options: "block_size=4096;block_align=true",
        options: "compression=kNoCompression;",
        ..SCATTERED
    });
}
