// The functions that RocksDB's C API has and LevelDB's has not (see ../loaded_engine.h).

#pragma once

#include <cstdint>

#if __has_include(<rocksdb/c.h>)
#include <rocksdb/c.h>
#define DRIVER_HAS_HEADER 1
#endif

extern "C" {
struct rocksdb_t;
struct rocksdb_options_t;
struct rocksdb_writeoptions_t;
struct rocksdb_readoptions_t;
struct rocksdb_flushoptions_t;
struct rocksdb_iterator_t;
struct rocksdb_ratelimiter_t;
}

#define ENGINE_NAME "RocksDB"
#define ENGINE_PACKAGE "librocksdb-dev"
#define ENGINE_PREFIX rocksdb

// Name behind the prefix, type of the result, types of the parameters: as in <rocksdb/c.h>.
#define OWN_FUNCTIONS(F)                                                                         \
  F(get_options_from_string, void,                                                               \
    (const rocksdb_options_t* base, const char* text, rocksdb_options_t* result, char** error))  \
  F(options_enable_statistics, void, (rocksdb_options_t*))                                       \
  F(options_statistics_get_string, char*, (rocksdb_options_t*))                                  \
  F(options_set_ratelimiter, void, (rocksdb_options_t*, rocksdb_ratelimiter_t*))                 \
  F(ratelimiter_create, rocksdb_ratelimiter_t*,                                                  \
    (int64_t bytes_per_second, int64_t refill_us, int32_t fairness))                             \
  F(ratelimiter_destroy, void, (rocksdb_ratelimiter_t*))                                         \
  F(writeoptions_disable_WAL, void, (rocksdb_writeoptions_t*, int))                              \
  F(flushoptions_create, rocksdb_flushoptions_t*, (void))                                        \
  F(flushoptions_destroy, void, (rocksdb_flushoptions_t*))                                       \
  F(flush, void, (rocksdb_t*, const rocksdb_flushoptions_t*, char** error))                      \
  F(property_int, int, (rocksdb_t*, const char* name, uint64_t* value))
