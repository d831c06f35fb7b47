// The functions of an engine's C API, as pointers into a library that is loaded at run time. With
// DRIVER_LINKED they are those of a library that the driver is linked with.
//
// RocksDB's C API is LevelDB's with another prefix, and more. What both have is listed here; the rest is in
// the engine's own api.h, which a driver finds by its include path. The declarations are our own, so that
// building the driver needs a compiler and nothing else. Where the engine's header is installed
// (DRIVER_HAS_HEADER), the compiler compares them with it.

#pragma once

#include "api.h"
#include "fail.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

namespace driver {

// Name behind the prefix P, type of the result, types of the parameters.
#define COMMON_FUNCTIONS(F, P)                                                                   \
  F(options_create, P##_options_t*, (void))                                                      \
  F(options_destroy, void, (P##_options_t*))                                                     \
  F(open, P##_t*, (const P##_options_t*, const char* path, char** error))                        \
  F(close, void, (P##_t*))                                                                       \
  F(writeoptions_create, P##_writeoptions_t*, (void))                                            \
  F(writeoptions_destroy, void, (P##_writeoptions_t*))                                           \
  F(readoptions_create, P##_readoptions_t*, (void))                                              \
  F(readoptions_destroy, void, (P##_readoptions_t*))                                             \
  F(readoptions_set_fill_cache, void, (P##_readoptions_t*, unsigned char))                       \
  F(put, void,                                                                                   \
    (P##_t*, const P##_writeoptions_t*, const char* key, size_t key_bytes, const char* value,    \
     size_t value_bytes, char** error))                                                          \
  F(get, char*,                                                                                  \
    (P##_t*, const P##_readoptions_t*, const char* key, size_t key_bytes, size_t* value_bytes,   \
     char** error))                                                                              \
  F(compact_range, void,                                                                         \
    (P##_t*, const char* first, size_t first_bytes, const char* last, size_t last_bytes))        \
  F(property_value, char*, (P##_t*, const char* name))                                           \
  F(create_iterator, P##_iterator_t*, (P##_t*, const P##_readoptions_t*))                        \
  F(iter_destroy, void, (P##_iterator_t*))                                                       \
  F(iter_seek_to_first, void, (P##_iterator_t*))                                                 \
  F(iter_valid, unsigned char, (const P##_iterator_t*))                                          \
  F(iter_next, void, (P##_iterator_t*))                                                          \
  F(iter_key, const char*, (const P##_iterator_t*, size_t* key_bytes))                           \
  F(iter_value, const char*, (const P##_iterator_t*, size_t* value_bytes))                       \
  F(iter_get_error, void, (const P##_iterator_t*, char** error))                                 \
  F(free, void, (void*))

#define WITH_PREFIX(F, P) COMMON_FUNCTIONS(F, P)
#define ENGINE_FUNCTIONS(F) WITH_PREFIX(F, ENGINE_PREFIX) OWN_FUNCTIONS(F)
#define PASTE(prefix, name) prefix##_##name
#define SYMBOL_OF(prefix, name) PASTE(prefix, name)
#define SYMBOL(name) SYMBOL_OF(ENGINE_PREFIX, name)
#define TEXT_OF(symbol) #symbol
#define TEXT(symbol) TEXT_OF(symbol)

using EngineDatabase = SYMBOL(t);
using EngineOptions = SYMBOL(options_t);
using EngineWriteOptions = SYMBOL(writeoptions_t);
using EngineReadOptions = SYMBOL(readoptions_t);
using EngineIterator = SYMBOL(iterator_t);

struct Engine {
#define DECLARE(name, result, parameters) result(*name) parameters = nullptr;
  ENGINE_FUNCTIONS(DECLARE)
#undef DECLARE

#ifdef DRIVER_LINKED
  // The engine is linked into the driver, which may be static. The path is that of no library.
  explicit Engine(const std::string&) {
#define LINK(name, result, parameters) name = &::SYMBOL(name);
    ENGINE_FUNCTIONS(LINK)
#undef LINK
  }
#else
  // Loads the library at `path`, or one of this name where the dynamic loader finds it.
  explicit Engine(const std::string& path) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      Fail(kExitEngine,
           "cannot load %s: %s; install " ENGINE_NAME " (Debian: " ENGINE_PACKAGE
           "), or name it with --engine-library",
           path.c_str(), dlerror());
    }
#define RESOLVE(name, result, parameters)                                                  \
  name = reinterpret_cast<decltype(name)>(dlsym(library, TEXT(SYMBOL(name))));             \
  if (name == nullptr) {                                                                   \
    Fail(kExitEngine, "%s has no %s: a " ENGINE_NAME " with its C API is needed",          \
         path.c_str(), TEXT(SYMBOL(name)));                                                \
  }
    ENGINE_FUNCTIONS(RESOLVE)
#undef RESOLVE
  }
#endif
};

#ifdef DRIVER_HAS_HEADER
#define COMPARE(name, result, parameters)                                             \
  static_assert(std::is_same_v<decltype(Engine::name), decltype(&::SYMBOL(name))>,    \
                TEXT(SYMBOL(name)) " is declared otherwise in the header of " ENGINE_NAME);
ENGINE_FUNCTIONS(COMPARE)
#undef COMPARE
#endif

#undef COMMON_FUNCTIONS
#undef WITH_PREFIX
#undef ENGINE_FUNCTIONS
#undef PASTE
#undef SYMBOL_OF
#undef SYMBOL
#undef TEXT_OF
#undef TEXT

}  // namespace driver
