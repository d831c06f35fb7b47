// Whether a directory's filesystem has direct I/O.

#pragma once

#include <string>

#include "rocksdb/rocksdb_namespace.h"

namespace ROCKSDB_NAMESPACE {
namespace coldstream_plugin {

// False only if the filesystem says so; a directory that cannot be asked counts as one with direct I/O.
bool HasDirectIo(const std::string& directory);

}  // namespace coldstream_plugin
}  // namespace ROCKSDB_NAMESPACE
