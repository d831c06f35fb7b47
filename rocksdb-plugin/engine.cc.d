plugin/coldstream/engine.cc.d plugin/coldstream/engine.o \
 plugin/coldstream/engine.o: plugin/coldstream/engine.cc \
 plugin/coldstream/engine.h /tmp/coldstream-contract/coldstream.h \
 include/rocksdb/io_status.h include/rocksdb/slice.h \
 include/rocksdb/cleanable.h include/rocksdb/rocksdb_namespace.h \
 include/rocksdb/status.h
