// The engine of this process, and the errors of its C interface as RocksDB's.

#pragma once

#include <memory>
#include <string>

#include "coldstream.h"
#include "rocksdb/io_status.h"
#include "rocksdb/status.h"

namespace ROCKSDB_NAMESPACE {
namespace coldstream_plugin {

// A reference to the engine. Files and writers hold one: the engine outlives them.
class Engine {
 public:
  // options: what is behind coldstream://.
  static Status Create(const std::string& options, std::shared_ptr<Engine>* result);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  coldstream* context() const { return context_; }
  // Whether mapped tables are left alone, instead of refused.
  bool allows_mmap() const { return allows_mmap_; }
  // Whether the user demands direct I/O by name, so that a filesystem without it is an error.
  bool demands_direct() const { return demands_direct_; }

 private:
  Engine() = default;

  coldstream* context_ = nullptr;
  bool allows_mmap_ = false;
  bool demands_direct_ = false;
};

// The error of a call on `path`. error: a negative errno.
IOStatus ErrorOf(int64_t error, const std::string& call, const std::string& path);

}  // namespace coldstream_plugin
}  // namespace ROCKSDB_NAMESPACE
