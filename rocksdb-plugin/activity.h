// For whom a call moves bytes. Decided at each call: compactions read through the readers that user reads opened.

#pragma once

#include "coldstream.h"
#include "rocksdb/file_system.h"

namespace ROCKSDB_NAMESPACE {
namespace coldstream_plugin {

// A read with these options by the calling thread.
coldstream_activity ActivityOfRead(const IOOptions& options);

// The first write to a table. file_priority: what SetIOPriority said of the file before.
coldstream_activity ActivityOfWrite(const IOOptions& options, Env::IOPriority file_priority);

}  // namespace coldstream_plugin
}  // namespace ROCKSDB_NAMESPACE
