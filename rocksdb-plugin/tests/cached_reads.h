// A FileSystem below the plugin that counts which reads of the foreground the page cache could answer.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "rocksdb/file_system.h"

struct ReadCounts {
  std::atomic<uint64_t> cached{0};
  std::atomic<uint64_t> missed{0};
};

std::shared_ptr<rocksdb::FileSystem> NewCachedReadsFileSystem(const std::shared_ptr<rocksdb::FileSystem>& base,
                                                              ReadCounts* counts);
