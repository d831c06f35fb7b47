plugin/coldstream/table_reader_file.cc.d \
 plugin/coldstream/table_reader_file.o \
 plugin/coldstream/table_reader_file.o: \
 plugin/coldstream/table_reader_file.cc \
 plugin/coldstream/table_reader_file.h plugin/coldstream/engine.h \
 /tmp/coldstream-contract/coldstream.h include/rocksdb/io_status.h \
 include/rocksdb/slice.h include/rocksdb/cleanable.h \
 include/rocksdb/rocksdb_namespace.h include/rocksdb/status.h \
 include/rocksdb/file_system.h include/rocksdb/customizable.h \
 include/rocksdb/configurable.h include/rocksdb/env.h \
 include/rocksdb/functor_wrapper.h include/rocksdb/port_defs.h \
 include/rocksdb/thread_status.h include/rocksdb/types.h \
 include/rocksdb/options.h include/rocksdb/advanced_options.h \
 include/rocksdb/blob_file_partition_strategy.h \
 include/rocksdb/wide_columns.h include/rocksdb/cache.h \
 include/rocksdb/compression_type.h include/rocksdb/data_structure.h \
 include/rocksdb/comparator.h include/rocksdb/memory_allocator.h \
 include/rocksdb/memtablerep.h include/rocksdb/universal_compaction.h \
 include/rocksdb/file_checksum.h include/rocksdb/listener.h \
 include/rocksdb/compaction_job_stats.h \
 include/rocksdb/table_properties.h include/rocksdb/sst_partitioner.h \
 include/rocksdb/version.h include/rocksdb/write_buffer_manager.h \
 include/rocksdb/table.h plugin/coldstream/activity.h
