// The functions that LevelDB's C API has and RocksDB's has not (see ../loaded_engine.h).

#pragma once

#include <cstddef>
#include <cstdint>

#if __has_include(<leveldb/c.h>)
#include <leveldb/c.h>
#define DRIVER_HAS_HEADER 1
#endif

extern "C" {
struct leveldb_t;
struct leveldb_options_t;
struct leveldb_writeoptions_t;
struct leveldb_readoptions_t;
struct leveldb_iterator_t;
struct leveldb_cache_t;
struct leveldb_filterpolicy_t;
}

#define ENGINE_NAME "LevelDB"
#define ENGINE_PACKAGE "libleveldb-dev"
#define ENGINE_PREFIX leveldb

// Name behind the prefix, type of the result, types of the parameters: as in <leveldb/c.h>.
#define OWN_FUNCTIONS(F)                                                                   \
  F(options_set_create_if_missing, void, (leveldb_options_t*, uint8_t))                    \
  F(options_set_write_buffer_size, void, (leveldb_options_t*, size_t bytes))               \
  F(options_set_max_file_size, void, (leveldb_options_t*, size_t bytes))                   \
  F(options_set_max_open_files, void, (leveldb_options_t*, int))                           \
  F(options_set_block_size, void, (leveldb_options_t*, size_t bytes))                      \
  F(options_set_compression, void, (leveldb_options_t*, int))                              \
  F(options_set_cache, void, (leveldb_options_t*, leveldb_cache_t*))                       \
  F(options_set_filter_policy, void, (leveldb_options_t*, leveldb_filterpolicy_t*))        \
  F(cache_create_lru, leveldb_cache_t*, (size_t bytes))                                    \
  F(cache_destroy, void, (leveldb_cache_t*))                                               \
  F(filterpolicy_create_bloom, leveldb_filterpolicy_t*, (int bits_per_key))                \
  F(filterpolicy_destroy, void, (leveldb_filterpolicy_t*))                                 \
  F(major_version, int, (void))                                                            \
  F(minor_version, int, (void))
