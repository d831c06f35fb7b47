// The part of RocksDB's C API that the driver uses, as function pointers of a library that is loaded
// at run time. With DRIVER_LINKED they are those of a library that the driver is linked with.
//
// The declarations are our own, so that building the driver needs a compiler and nothing else. Where
// RocksDB's header is installed, the compiler compares them with it.

#pragma once

#include "fail.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <string>

#if __has_include(<rocksdb/c.h>)
#include <rocksdb/c.h>
#define DRIVER_HAS_HEADER 1
#include <type_traits>
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

namespace driver {

// Name, type of the result, types of the parameters: as in <rocksdb/c.h>.
#define ENGINE_FUNCTIONS(F)                                                                       \
  F(rocksdb_options_create, rocksdb_options_t*, (void))                                           \
  F(rocksdb_options_destroy, void, (rocksdb_options_t*))                                          \
  F(rocksdb_get_options_from_string, void,                                                        \
    (const rocksdb_options_t* base, const char* text, rocksdb_options_t* result, char** error))   \
  F(rocksdb_options_enable_statistics, void, (rocksdb_options_t*))                                \
  F(rocksdb_options_statistics_get_string, char*, (rocksdb_options_t*))                           \
  F(rocksdb_options_set_ratelimiter, void, (rocksdb_options_t*, rocksdb_ratelimiter_t*))          \
  F(rocksdb_ratelimiter_create, rocksdb_ratelimiter_t*,                                           \
    (int64_t bytes_per_second, int64_t refill_us, int32_t fairness))                              \
  F(rocksdb_ratelimiter_destroy, void, (rocksdb_ratelimiter_t*))                                  \
  F(rocksdb_open, rocksdb_t*, (const rocksdb_options_t*, const char* path, char** error))         \
  F(rocksdb_close, void, (rocksdb_t*))                                                            \
  F(rocksdb_writeoptions_create, rocksdb_writeoptions_t*, (void))                                 \
  F(rocksdb_writeoptions_destroy, void, (rocksdb_writeoptions_t*))                                \
  F(rocksdb_writeoptions_disable_WAL, void, (rocksdb_writeoptions_t*, int))                       \
  F(rocksdb_readoptions_create, rocksdb_readoptions_t*, (void))                                   \
  F(rocksdb_readoptions_destroy, void, (rocksdb_readoptions_t*))                                  \
  F(rocksdb_readoptions_set_fill_cache, void, (rocksdb_readoptions_t*, unsigned char))            \
  F(rocksdb_flushoptions_create, rocksdb_flushoptions_t*, (void))                                 \
  F(rocksdb_flushoptions_destroy, void, (rocksdb_flushoptions_t*))                                \
  F(rocksdb_put, void,                                                                            \
    (rocksdb_t*, const rocksdb_writeoptions_t*, const char* key, size_t key_bytes,                \
     const char* value, size_t value_bytes, char** error))                                        \
  F(rocksdb_get, char*,                                                                           \
    (rocksdb_t*, const rocksdb_readoptions_t*, const char* key, size_t key_bytes,                 \
     size_t* value_bytes, char** error))                                                          \
  F(rocksdb_flush, void, (rocksdb_t*, const rocksdb_flushoptions_t*, char** error))               \
  F(rocksdb_compact_range, void,                                                                  \
    (rocksdb_t*, const char* first, size_t first_bytes, const char* last, size_t last_bytes))     \
  F(rocksdb_property_value, char*, (rocksdb_t*, const char* name))                                \
  F(rocksdb_property_int, int, (rocksdb_t*, const char* name, uint64_t* value))                   \
  F(rocksdb_create_iterator, rocksdb_iterator_t*, (rocksdb_t*, const rocksdb_readoptions_t*))     \
  F(rocksdb_iter_destroy, void, (rocksdb_iterator_t*))                                            \
  F(rocksdb_iter_seek_to_first, void, (rocksdb_iterator_t*))                                      \
  F(rocksdb_iter_valid, unsigned char, (const rocksdb_iterator_t*))                               \
  F(rocksdb_iter_next, void, (rocksdb_iterator_t*))                                               \
  F(rocksdb_iter_key, const char*, (const rocksdb_iterator_t*, size_t* key_bytes))                \
  F(rocksdb_iter_value, const char*, (const rocksdb_iterator_t*, size_t* value_bytes))            \
  F(rocksdb_iter_get_error, void, (const rocksdb_iterator_t*, char** error))                      \
  F(rocksdb_free, void, (void*))

struct Engine {
#define DECLARE(name, result, parameters) result(*name) parameters = nullptr;
  ENGINE_FUNCTIONS(DECLARE)
#undef DECLARE

#ifdef DRIVER_LINKED
  // The engine is linked into the driver, which may be static. The path is that of no library.
  explicit Engine(const std::string&) {
#define LINK(name, result, parameters) name = &::name;
    ENGINE_FUNCTIONS(LINK)
#undef LINK
  }
#else
  // Loads the library at `path`, or one of this name where the dynamic loader finds it.
  explicit Engine(const std::string& path) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      Fail(kExitEngine, "cannot load %s: %s", path.c_str(), dlerror());
    }
#define RESOLVE(name, result, parameters)                                                  \
  name = reinterpret_cast<decltype(name)>(dlsym(library, #name));                          \
  if (name == nullptr) {                                                                   \
    Fail(kExitEngine, "%s has no %s: a RocksDB with its C API is needed", path.c_str(), #name); \
  }
    ENGINE_FUNCTIONS(RESOLVE)
#undef RESOLVE
  }
#endif
};

#ifdef DRIVER_HAS_HEADER
#define COMPARE(name, result, parameters)                             \
  static_assert(std::is_same_v<decltype(Engine::name), decltype(&::name)>, \
                #name " is declared otherwise in <rocksdb/c.h>");
ENGINE_FUNCTIONS(COMPARE)
#undef COMPARE
#endif

#undef ENGINE_FUNCTIONS

}  // namespace driver
