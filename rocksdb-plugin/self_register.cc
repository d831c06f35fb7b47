// Registers Coldstream as soon as this file's object is loaded or linked: for the shared library, and for programs
// that link RocksDB without its list of plugins. Where RocksDB is built with the plugin, `coldstream_FUNC` does it.

#include "coldstream_fs.h"

extern "C" const int coldstream_filesystem_reg;
const int coldstream_filesystem_reg =
    RegisterColdstream(*ROCKSDB_NAMESPACE::ObjectLibrary::Default(), "");
