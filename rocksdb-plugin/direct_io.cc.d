plugin/coldstream/direct_io.cc.d plugin/coldstream/direct_io.o \
 plugin/coldstream/direct_io.o: plugin/coldstream/direct_io.cc \
 plugin/coldstream/direct_io.h include/rocksdb/rocksdb_namespace.h
