// Coldstream's FileSystem for RocksDB: compactions go around the page cache, and what was hot in their inputs is
// warm in their outputs before anybody reads them.

#pragma once

#include <memory>
#include <string>

#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "rocksdb/status.h"
#include "rocksdb/utilities/object_registry.h"

namespace ROCKSDB_NAMESPACE {

// The URI under which the filesystem and the environment are registered. Options follow it:
// "coldstream://reads=direct;pacing=off".
constexpr char kColdstreamUri[] = "coldstream://";

// Makes a FileSystem that passes everything on to `base`, but the tables of compactions.
//
// options: "name=value;name=value". The names are those of Coldstream's configuration ("reads", "writes", "handover",
// "pacing", "memory", …), and one of the plugin's own with two values:
//   mmap=error    (default) opening a database with allow_mmap_reads or allow_mmap_writes is an error;
//   mmap=plain    its tables are mapped, and Coldstream leaves them alone.
// A process has one engine. A second filesystem has the same options, or none.
Status NewColdstreamFileSystem(const std::string& options, const std::shared_ptr<FileSystem>& base,
                               std::shared_ptr<FileSystem>* result);

// Env::Default() with that filesystem. It lives as long as the process.
Status NewColdstreamEnv(const std::string& options, Env** result);

}  // namespace ROCKSDB_NAMESPACE

// What `coldstream_FUNC` in coldstream.mk names: RocksDB calls it before it looks for a filesystem. RocksDB declares it
// so, with C linkage (util/build_version.cc.in).
extern "C" int RegisterColdstream(ROCKSDB_NAMESPACE::ObjectLibrary& library, const std::string& argument);
