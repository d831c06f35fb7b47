// What the driver says on its standard output.

#pragma once

#include "fail.h"

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <vector>

namespace driver {

// A record of standard output, 32 bytes, in the machine's byte order.
struct Record {
  enum Kind : uint32_t {
    kRead = 0,             // intended, start, end of one read
    kPhase = 1,            // phase number begins at start_ns; CPU time until then of the process
                           // (intended_ns) and of the threads that make the load (end_ns)
    kCompacted = 2,        // bytes that compaction has read (intended_ns) and written (start_ns)
    kUpdated = 4,          // (3 is free) updates that were made (intended_ns), how late the latest of them began
                           // (start_ns), and bytes that compaction is behind then (end_ns)
  };
  uint32_t kind;
  uint32_t phase;
  uint64_t intended_ns;
  uint64_t start_ns;
  uint64_t end_ns;
};
static_assert(sizeof(Record) == 32, "the laboratory reads 32 bytes");

// Collects records of all threads and writes them in large pieces from one of its own.
class Output {
 public:
  void Add(const std::vector<Record>& records) {
    std::lock_guard<std::mutex> lock(mutex_);
    pending_.insert(pending_.end(), records.begin(), records.end());
  }

  void Add(const Record& record) { Add(std::vector<Record>{record}); }

  void Flush() {
    std::vector<Record> records;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      records.swap(pending_);
    }
    const char* bytes = reinterpret_cast<const char*>(records.data());
    size_t left = records.size() * sizeof(Record);
    while (left > 0) {
      ssize_t written = ::write(STDOUT_FILENO, bytes, left);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) Fail(kExitEngine, "standard output: %s", std::strerror(errno));
      bytes += written;
      left -= static_cast<size_t>(written);
    }
  }

 private:
  std::mutex mutex_;
  std::vector<Record> pending_;
};

}  // namespace driver
