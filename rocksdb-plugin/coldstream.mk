# Coldstream in RocksDB's own build: ln -s …/coldstream/rocksdb-plugin plugin/coldstream, then
# make ROCKSDB_PLUGINS=coldstream. `:=` and not `=`: CMake takes the sources from CMakeLists.txt.
COLDSTREAM_PLUGIN_DIR := $(dir $(realpath $(lastword $(MAKEFILE_LIST))))
COLDSTREAM_INCLUDE ?= $(COLDSTREAM_PLUGIN_DIR)../crates/capi/include
COLDSTREAM_IO_LIBRARY ?= $(COLDSTREAM_PLUGIN_DIR)../target/release/libcoldstream_io.a

coldstream_SOURCES := coldstream_fs.cc coldstream_c.cc engine.cc activity.cc direct_io.cc table_reader_file.cc \
    table_writer_file.cc
coldstream_HEADERS := coldstream_fs.h coldstream_c.h
coldstream_CXXFLAGS := -I$(COLDSTREAM_INCLUDE)
coldstream_LDFLAGS := $(COLDSTREAM_IO_LIBRARY) -lpthread -ldl -lm
coldstream_FUNC = RegisterColdstream
